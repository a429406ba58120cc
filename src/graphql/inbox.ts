/** What a client can ask for. A subscription is there until it is ended; the others are answered and over. */
export type Asked = 'subscription' | 'answer';

/** How many of each a socket can have at once. */
export const maxAtOnce = 100;

/**
 * The other side's messages, as they come: read, and with nothing in them but what the protocol knows, since who
 * handles them keeps them until the end of what they ask for; or the text, if there is no message in it. It must not
 * reject.
 */
export type MessageHandler = (message: unknown) => Promise<void>;

export interface Message {
  /** What kind of message it is, and of which subscription; both are empty when it does not say both. */
  readonly type: string;
  readonly id: string;
  /** What is handed on. */
  readonly content: unknown;
}

interface Running {
  readonly id: string;
  readonly handled: Promise<void>;
  isCompleted: boolean;
  /** Set once it has been let in. */
  asked: Asked | undefined;
}

/**
 * Hands messages on in their order.
 *
 * An id may be used again as soon as its subscription was completed by the client. graphql-ws would
 * lose the new one when the old one has wound up, and could never end it: so such a message waits until
 * then, and what comes behind it with it.
 */
export class Inbox {
  readonly #onHold: () => void;
  /** What handles a `subscribe` that has not ended. Most sockets have but one. */
  #running: readonly Running[] = [];
  #waiting: (() => void)[] = [];
  #holds = false;

  /** @param onHold called when it begins and when it ends to hold messages back */
  constructor(onHold: () => void) {
    this.#onHold = onHold;
  }

  get holds(): boolean {
    return this.#holds;
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
      const begun: Running = { id, handled, isCompleted: false, asked: undefined };
      this.#running = [...this.#running, begun];
      void handled.finally(() => {
        this.#running = this.#running.filter((each) => each !== begun);
      });
    }
  }

  makeRoom(id: string, asked: Asked): boolean {
    // What is to be answered goes on being made when its client waits for it no more.
    const counts = ({ isCompleted }: Running): boolean => asked === 'answer' || !isCompleted;
    const alike = this.#running.filter((each) => each.asked === asked && counts(each));
    if (alike.length >= maxAtOnce) return false;
    const running = this.#running.findLast((each) => each.id === id);
    if (running !== undefined) running.asked = asked;
    return true;
  }

  clear(): void {
    this.#waiting = [];
  }

  #hold(until: Promise<void>): void {
    this.#holds = true;
    this.#onHold();
    void until.finally(() => {
      this.#holds = false;
      for (const take of this.#waiting.splice(0)) take();
      this.#onHold();
    });
  }
}
