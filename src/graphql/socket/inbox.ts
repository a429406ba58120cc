import type { HeldMemory, Owner } from '../../runtime/held-memory.ts';
import { scheduler } from '../../runtime/scheduler.ts';

/** The kind of an operation: a subscription, which lasts until it is ended, or one that is answered once. */
export type OperationKind = 'subscription' | 'answer';

/** How many of each a socket can have at once. */
export const maxAtOnce = 100;
/** With more messages that wait, or more text in UTF-16 code units, reading pauses. */
const maxWaiting = 32;
const maxWaitingText = 64 * 1024;
/**
 * Of what was read already, up to 64 KiB, messages are still taken, since nothing can give them back. More of them than
 * this fit only if they are shorter than any that asks for an operation.
 */
const maxRead = 1_000;
/**
 * How much the text of messages that wait, and what was parsed of operations under way, may hold for the sockets of one
 * account, or of one address before authentication, and for all sockets. In UTF-16 code units, or bytes.
 */
export const heldByMessages = { ofOne: 16 * 1024 * 1024, ofAll: 64 * 1024 * 1024 };
/** What is parsed of an ordinary message is not counted: an operation takes more than that itself. */
const ordinaryBytes = 2 * 1024;

export interface Message {
  /** The type of the message and the id of its operation; both are empty unless it has both. */
  readonly type: string;
  readonly id: string;
  /** The parsed message reduced to fields of the protocol, or its text if it is not JSON. */
  readonly content: unknown;
  /** About how many bytes that holds. */
  readonly size: number;
}

/** The socket of an inbox. */
export interface InboxSocket {
  /** In whose name its messages have their turns. */
  readonly turns: string;
  /** Whose memory its messages take. */
  readonly owner: Owner;
  /** Reads a message. @returns undefined if it is not to be handled */
  read(text: string): Message | undefined;
  /** Handles the content of a message, which is kept for the operation's lifetime. It never rejects. */
  handle(content: unknown): Promise<void>;
  /** Called when `pauses` may have changed. */
  regulate(): void;
  /** Called when there is no room for what a message holds: the socket has to be closed. */
  refuse(): void;
  /** Called with each message that costs no unit of the account's budget. */
  countFree(): void;
}

interface Waiting {
  readonly text: string;
  readonly owner: Owner;
}

interface Running {
  readonly id: string;
  readonly handled: Promise<void>;
  readonly owner: Owner;
  /** What its message holds, for as long as that is counted. */
  held: number;
  isCompleted: boolean;
  /** Set once the operation has been admitted. */
  kind: OperationKind | undefined;
}

/**
 * The messages that a socket has received. They are handled in order, each in a turn of the account, and wait while many
 * operations of the socket are not admitted yet.
 */
export class Inbox {
  readonly #socket: InboxSocket;
  readonly #inAll: HeldMemory;
  #waiting: Waiting[] = [];
  /** The length of what waits, in UTF-16 code units. */
  #waitingText = 0;
  #isWorking = false;
  /** The operations that have not ended. Most sockets have only one. */
  #running: readonly Running[] = [];
  #unadmitted = 0;
  /** Called when an operation has been admitted or refused. */
  #onAdmission: (() => void) | undefined;

  /** @param inAll counts what is held for all sockets */
  constructor(socket: InboxSocket, inAll: HeldMemory) {
    this.#socket = socket;
    this.#inAll = inAll;
  }

  /** Whether no more should be read for now. */
  get pauses(): boolean {
    return this.#waiting.length + this.#unadmitted > maxWaiting || this.#waitingText > maxWaitingText;
  }

  /** @returns false if there is no room for the message */
  take(text: string): boolean {
    const { owner } = this.#socket;
    if (this.#waiting.length >= maxRead || !this.#inAll.add(owner, text.length)) return false;
    this.#waiting.push({ text, owner });
    this.#waitingText += text.length;
    if (!this.#isWorking) void this.#work();
    this.#socket.regulate();
    return true;
  }

  /**
   * Whether there is room for one more operation. It then counts until it has ended, or, if it is a subscription, until
   * its client has completed it.
   */
  makeRoom(id: string, kind: OperationKind): boolean {
    // A query or mutation continues to run when its client no longer waits for it.
    const counts = ({ isCompleted }: Running): boolean => kind === 'answer' || !isCompleted;
    const alike = this.#running.filter((each) => each.kind === kind && counts(each));
    if (alike.length >= maxAtOnce) return false;
    const running = this.#running.findLast((each) => each.id === id);
    if (running !== undefined) {
      if (running.kind === undefined) this.#countUnadmitted(-1);
      running.kind = kind;
      if (kind === 'subscription') this.#release(running); // what it keeps is counted with its document
    }
    return true;
  }

  /** Drops what waits. */
  clear(): void {
    while (this.#next() !== undefined);
  }

  async #work(): Promise<void> {
    this.#isWorking = true;
    while (this.#waiting.length > 0) {
      await scheduler.step(this.#socket.turns);
      const next = this.#next();
      if (next === undefined) break;
      const message = this.#socket.read(next.text);
      if (message !== undefined) await this.#handle(message, next.owner);
      while (this.#unadmitted >= maxWaiting) {
        await new Promise<void>((resolve) => {
          this.#onAdmission = resolve;
        });
      }
      this.#socket.regulate();
    }
    this.#isWorking = false;
  }

  #next(): Waiting | undefined {
    const next = this.#waiting.shift();
    if (next === undefined) return undefined;
    this.#waitingText -= next.text.length;
    this.#inAll.remove(next.owner, next.text.length);
    return next;
  }

  async #handle({ type, id, content, size }: Message, owner: Owner): Promise<void> {
    let running = this.#running.find((each) => each.id === id);
    if (type === 'subscribe' && running?.isCompleted === true) {
      // A client may use an id again as soon as it has completed the subscription. graphql-ws would lose track of the
      // new one when the old one finishes, and could never end it.
      await running.handled;
      running = undefined;
    }
    const endsOne = type === 'complete' && running?.isCompleted === false;
    if (type !== 'subscribe' && !endsOne) this.#socket.countFree();
    const begins = type === 'subscribe' && running === undefined;
    const held = size > ordinaryBytes ? size : 0;
    if (begins && !this.#inAll.add(owner, held)) {
      this.#socket.refuse();
      return;
    }
    const handled = this.#socket.handle(content);
    if (running !== undefined && type === 'complete') running.isCompleted = true;
    if (begins) this.#begin({ id, handled, owner, held, isCompleted: false, kind: undefined });
  }

  #begin(begun: Running): void {
    this.#running = [...this.#running, begun];
    this.#countUnadmitted(1);
    void begun.handled.then(() => {
      this.#running = this.#running.filter((each) => each !== begun);
      this.#release(begun);
      if (begun.kind === undefined) this.#countUnadmitted(-1);
    });
  }

  #release(running: Running): void {
    this.#inAll.remove(running.owner, running.held);
    running.held = 0;
  }

  #countUnadmitted(change: 1 | -1): void {
    this.#unadmitted += change;
    this.#onAdmission?.();
    this.#socket.regulate();
  }
}
