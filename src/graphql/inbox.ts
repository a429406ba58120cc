/** The kind of an operation: a subscription, which lasts until it is ended, or one that is answered once. */
export type OperationKind = 'subscription' | 'answer';

/** How many of each a socket can have at once. */
export const maxAtOnce = 100;
/** With so many that are not admitted yet, reading pauses: until then none of them counts. */
const maxUnadmitted = 100;

/**
 * Gets the parsed message reduced to protocol fields (it is kept for the operation's lifetime), or the raw text if it
 * is not JSON. Must not reject.
 */
export type MessageHandler = (message: unknown) => Promise<void>;

export interface Message {
  /** The type of the message and the id of its operation; both are empty unless it has both. */
  readonly type: string;
  readonly id: string;
  /** What the handler gets. */
  readonly content: unknown;
}

interface Running {
  readonly id: string;
  readonly handled: Promise<void>;
  isCompleted: boolean;
  /** Set once the operation has been admitted. */
  kind: OperationKind | undefined;
}

/**
 * Passes messages on in order.
 *
 * A client may use an id again as soon as it has completed the subscription. graphql-ws would lose track of the new
 * subscription when the old one finishes, and could never end it. So such a message, and all behind it, waits for that.
 */
export class Inbox {
  readonly #onPause: () => void;
  /** The operations that have not ended. Most sockets have only one. */
  #running: readonly Running[] = [];
  #waiting: (() => void)[] = [];
  #holds = false;
  #unadmitted = 0;

  /** @param onPause called when `pauses` may have changed */
  constructor(onPause: () => void) {
    this.#onPause = onPause;
  }

  /** Whether no more should be read for now. */
  get pauses(): boolean {
    return this.#holds || this.#unadmitted >= maxUnadmitted;
  }

  take(message: Message, handler: MessageHandler): void {
    if (this.#holds) {
      this.#waiting.push(() => this.take(message, handler));
      return;
    }
    const { type, id, content } = message;
    const running = this.#running.find((each) => each.id === id);
    if (type === 'subscribe' && running?.isCompleted === true) {
      this.#waiting.push(() => this.take(message, handler));
      this.#hold(running.handled);
      return;
    }
    const handled = handler(content);
    if (running !== undefined) {
      if (type === 'complete') running.isCompleted = true;
    } else if (type === 'subscribe') {
      const begun: Running = { id, handled, isCompleted: false, kind: undefined };
      this.#running = [...this.#running, begun];
      this.#countUnadmitted(1);
      void handled.finally(() => {
        this.#running = this.#running.filter((each) => each !== begun);
        if (begun.kind === undefined) this.#countUnadmitted(-1);
      });
    }
  }

  makeRoom(id: string, kind: OperationKind): boolean {
    // A query or mutation continues to run when its client no longer waits for it.
    const counts = ({ isCompleted }: Running): boolean => kind === 'answer' || !isCompleted;
    const alike = this.#running.filter((each) => each.kind === kind && counts(each));
    if (alike.length >= maxAtOnce) return false;
    const running = this.#running.findLast((each) => each.id === id);
    if (running !== undefined) {
      if (running.kind === undefined) this.#countUnadmitted(-1);
      running.kind = kind;
    }
    return true;
  }

  clear(): void {
    this.#waiting = [];
  }

  #countUnadmitted(change: 1 | -1): void {
    this.#unadmitted += change;
    this.#onPause();
  }

  #hold(until: Promise<void>): void {
    this.#holds = true;
    this.#onPause();
    void until.finally(() => {
      this.#holds = false;
      for (const take of this.#waiting.splice(0)) take();
      this.#onPause();
    });
  }
}
