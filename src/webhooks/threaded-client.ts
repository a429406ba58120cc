import { type ResourceLimits, Worker } from 'node:worker_threads';
import { maxResponseBytes } from '../domain/delivery-record.ts';
import { threadModule } from '../layout.ts';
import type { AddressPolicy } from './address-guard.ts';
import type { FromThread, ToThread } from './client-thread.ts';

/** The request of one delivery attempt. It is passed to a worker thread, so it is plain data. */
export interface WebhookRequest {
  readonly url: string;
  /** The event's id, by which a receiver recognises a repeat. */
  readonly id: string;
  /** The time of the attempt, in epoch milliseconds. */
  readonly sentMs: number;
  /** JSON. */
  readonly body: string;
  /** The signing secrets: `whsec_` and the key in base64, newest first. */
  readonly secrets: readonly string[];
  /** The trace that the attempt belongs to (W3C Trace Context). */
  readonly traceparent?: string | undefined;
}

/** The result of one attempt. */
export interface Outcome {
  /** The response status; null if there was no response. */
  readonly status: number | null;
  /** The beginning of the response body as text; null if there was no response. */
  readonly body: string | null;
  /** A description of the failure; null if there is nothing to add to the status. */
  readonly error: string | null;
  readonly durationMs: number;
  /** The delay that the receiver asked for. */
  readonly retryAfterMs?: number | undefined;
  /** Whether the cause was on this machine, such as a lack of file descriptors: this says nothing about the receiver. */
  readonly isLocalFailure?: boolean;
}

export interface WebhookClientOptions {
  readonly policy: AddressPolicy;
  /** Timeout of establishing a connection, TLS included. */
  readonly connectMs: number;
  /** Timeout of a whole attempt, from connecting to the end of the response. */
  readonly totalMs: number;
  /** Name servers to use instead of the system's, as `dns.Resolver` takes them. */
  readonly nameServers?: readonly string[] | undefined;
}

/** The thread's `workerData`. It holds every setting: a domain module that the thread imports is in memory twice. */
export interface ThreadOptions extends WebhookClientOptions {
  /** How many bytes of a response body are read. */
  readonly maxResponseBytes: number;
}

type OnOutcome = (outcome: Outcome) => void;

/** The requests in flight are bounded: see delivery-queue.ts. */
const memory: ResourceLimits = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 48 };
const program = threadModule('webhooks/client-thread');

/**
 * Sends webhook requests from a worker thread, which is started for the first of them: API requests need not wait for
 * signatures and handshakes, and storage and network are used in parallel.
 */
export class ThreadedWebhookClient {
  readonly #options: WebhookClientOptions;
  /** By the numbers of the requests that the thread has. */
  readonly #waiting = new Map<number, OnOutcome>();
  /** Not passed to a thread yet, so these survive the end of one. */
  #outbox: { readonly request: WebhookRequest; readonly onOutcome: OnOutcome }[] = [];
  #thread: Worker | undefined;
  #count = 0;
  #isGivenUp = false;

  constructor(options: WebhookClientOptions) {
    this.#options = options;
  }

  /** Never rejects. */
  send(request: WebhookRequest): Promise<Outcome> {
    return new Promise((onOutcome) => {
      // Requests of the same turn of the event loop are passed on together.
      if (this.#outbox.push({ request, onOutcome }) === 1) setImmediate(() => this.#dispatch());
    });
  }

  /** Stops waiting for responses, as at the end of a shutdown: to requests in flight and to those sent from now on. */
  giveUp(): void {
    this.#isGivenUp = true;
    this.#thread?.postMessage('give up' satisfies ToThread);
  }

  /** Terminates the thread. Requests that are still in flight fail. */
  async close(): Promise<void> {
    await this.#thread?.terminate();
  }

  #dispatch(): void {
    const requests = this.#outbox.map(({ request, onOutcome }) => {
      const number = this.#count++;
      this.#waiting.set(number, onOutcome);
      return [number, request] as const;
    });
    this.#outbox = [];
    try {
      this.#thread ??= this.#start();
      this.#thread.postMessage(requests satisfies ToThread);
    } catch (error) {
      const numbers = requests.map(([number]) => number);
      this.#fail(numbers, error); // the system cannot create a thread
    }
  }

  #start(): Worker {
    const workerData: ThreadOptions = { ...this.#options, maxResponseBytes };
    const thread = new Worker(program, { workerData, resourceLimits: memory });
    thread.on('message', (outcomes: FromThread) => {
      for (const [number, outcome] of outcomes) this.#resolve(number, outcome);
    });
    let failure: unknown;
    thread.on('error', (error) => {
      failure = error; // its exit comes next
    });
    thread.on('exit', () => {
      this.#thread = undefined; // not before, so everything that is waiting was passed to this thread
      this.#fail([...this.#waiting.keys()], failure);
    });
    if (this.#isGivenUp) thread.postMessage('give up' satisfies ToThread);
    return thread;
  }

  #resolve(number: number, outcome: Outcome): void {
    const onOutcome = this.#waiting.get(number);
    this.#waiting.delete(number);
    onOutcome?.(outcome);
  }

  /** The thread has ended, so the outcome of these requests is unknown. */
  #fail(numbers: readonly number[], reason: unknown): void {
    const error = `The thread that sends webhooks has ended: ${String(reason)}`;
    const outcome = { status: null, body: null, error, durationMs: 0, isLocalFailure: true };
    for (const number of numbers) this.#resolve(number, outcome);
  }
}
