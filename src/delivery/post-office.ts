import { type ResourceLimits, Worker } from 'node:worker_threads';
import { maxResponseBytes } from '../domain/delivery.ts';
import { threadModule } from '../layout.ts';
import type { AddressPolicy } from './address-guard.ts';
import type { Letter, Outcome } from './letter.ts';
import type { Reply, Request } from './posting.ts';

export interface PostOptions {
  readonly policy: AddressPolicy;
  /** How long a connection may take to be there, TLS included. */
  readonly connectMs: number;
  /** How long an attempt may take, connecting and the answer included. */
  readonly totalMs: number;
  /** Other name servers than the system's, as `dns.Resolver` takes them. */
  readonly nameServers?: readonly string[] | undefined;
}

/** What the thread is told at its start. It is told of all: what it imported of the domain would be in memory twice. */
export interface ThreadOptions extends PostOptions {
  /** Bytes of an answer's body that are read. */
  readonly maxResponseBytes: number;
}

/** Who has sent a letter: is told what became of it. */
type Sender = (outcome: Outcome) => void;

/** What is in flight is bounded: see lanes.ts. */
const memory: ResourceLimits = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 48 };
const program = threadModule('delivery/posting');

/**
 * Has letters sent by a thread of its own, which is begun with the first of them: so requests do not wait for
 * signatures and handshakes, and the storage and the network are worked at beside each other.
 */
export class PostOffice {
  readonly #options: PostOptions;
  /** Who waits for the letters that the thread has, by their numbers. */
  readonly #waiting = new Map<number, Sender>();
  /** What no thread has yet: when one ends, that is for the next. */
  #outbox: { readonly letter: Letter; readonly sender: Sender }[] = [];
  #thread: Worker | undefined;
  #count = 0;
  #isGivenUp = false;

  constructor(options: PostOptions) {
    this.#options = options;
  }

  /** Never rejects. */
  send(letter: Letter): Promise<Outcome> {
    return new Promise((sender) => {
      // Those of one turn of the event loop go together.
      if (this.#outbox.push({ letter, sender }) === 1) setImmediate(() => this.#dispatch());
    });
  }

  /** Waits for no answer any more, as at the end of a shutdown: neither of what is underway nor of what is still sent. */
  giveUp(): void {
    this.#isGivenUp = true;
    this.#thread?.postMessage('give up' satisfies Request);
  }

  /** Ends the thread. What is still underway has failed for want of it. */
  async close(): Promise<void> {
    await this.#thread?.terminate();
  }

  #dispatch(): void {
    const letters = this.#outbox.map(({ letter, sender }) => {
      const number = this.#count++;
      this.#waiting.set(number, sender);
      return [number, letter] as const;
    });
    this.#outbox = [];
    try {
      this.#thread ??= this.#start();
      this.#thread.postMessage(letters satisfies Request);
    } catch (error) {
      const numbers = letters.map(([number]) => number);
      this.#fail(numbers, error); // the system has no thread to give
    }
  }

  #start(): Worker {
    const workerData: ThreadOptions = { ...this.#options, maxResponseBytes };
    const thread = new Worker(program, { workerData, resourceLimits: memory });
    thread.on('message', (reply: Reply) => {
      for (const [number, outcome] of reply) this.#resolve(number, outcome);
    });
    let failure: unknown;
    thread.on('error', (error) => {
      failure = error; // its exit comes next
    });
    thread.on('exit', () => {
      this.#thread = undefined; // only now: so all that waits was for this one
      this.#fail([...this.#waiting.keys()], failure);
    });
    if (this.#isGivenUp) thread.postMessage('give up' satisfies Request);
    return thread;
  }

  #resolve(number: number, outcome: Outcome): void {
    const sender = this.#waiting.get(number);
    this.#waiting.delete(number);
    sender?.(outcome);
  }

  /** Without its thread nothing is known of what it had. */
  #fail(numbers: readonly number[], reason: unknown): void {
    const error = `The thread that sends has ended: ${String(reason)}`;
    const outcome = { status: null, body: null, error, durationMs: 0, isOurs: true };
    for (const number of numbers) this.#resolve(number, outcome);
  }
}
