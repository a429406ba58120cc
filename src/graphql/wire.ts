import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { PullWatch, type StreamTimings } from '../access/timings.ts';
import type { UnsentAnswers } from '../access/unsent.ts';
import { codePoints } from '../domain/text.ts';
import { type Asked, Inbox, type Message, type MessageHandler } from './inbox.ts';

/** The close codes that the service uses beside those of graphql-transport-ws and of RFC 6455. */
export const closeCodes = {
  goingAway: 1012,
  tryAgain: 1013,
  slowReader: 4290,
  badRequest: 4400,
  forbidden: 4403,
  silent: 4408,
  tooManySockets: 4429,
  internal: 4500,
} as const;

/** What may wait to be sent before nothing more is read: a client that takes no answers asks no questions. */
const maxUnsentBytes = 1024 * 1024;
const maxUnsentMessages = 256;
/** RFC 6455, section 5.5: a control frame holds 125 bytes, and two of them are the code. */
const maxReasonBytes = 123;

/** The longest name that a client may give to what it asks for, in characters: it is kept, and sent with each answer. */
const maxIdLength = 256;

/**
 * One client's WebSocket as the protocol uses it. Whatever the client does, it costs a bounded amount
 * of memory and ends: by its silence, by leaving what it was sent lying, or by being closed.
 */
export class Wire {
  readonly #socket: WebSocket;
  readonly #connection: Duplex;
  readonly #watch: PullWatch;
  readonly #pinging: NodeJS.Timeout;
  readonly #ended = new AbortController();
  readonly #inbox: Inbox;
  readonly #unsentAnswers: UnsentAnswers;
  /** Whose socket it is, once that is known. */
  accountId: string | undefined;
  #unsent = 0;
  /** Who waits for room. */
  #waiting: (() => void)[] = [];
  #answersPings = true;

  /** @param connection what the socket speaks on */
  constructor(
    socket: WebSocket,
    connection: Duplex,
    { pingMs, slowReaderMs }: StreamTimings,
    unsentAnswers: UnsentAnswers,
  ) {
    this.#unsentAnswers = unsentAnswers;
    this.#socket = socket;
    this.#connection = connection;
    this.#watch = new PullWatch(slowReaderMs, () => this.close(closeCodes.slowReader, 'Slow reader'));
    this.#inbox = new Inbox(() => this.#regulate());
    this.#pinging = setInterval(() => this.#ping(), pingMs).unref();
    socket.on('pong', () => {
      this.#answersPings = true;
    });
    // A frame that breaks the rules: ws closes the socket by the code that fits.
    socket.on('error', () => {});
    socket.once('close', () => {
      clearInterval(this.#pinging);
      this.#end();
    });
  }

  /** Aborts when either side has ended it: nothing more is to be made for it. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Hands on what the client sends, until the end: a socket that is closing does nothing more. */
  listen(handler: MessageHandler): void {
    this.#socket.on('message', (data) => {
      if (this.ended.aborted) return;
      const message = read(String(data));
      if (codePoints(message.id) > maxIdLength) this.close(closeCodes.badRequest, 'Invalid message received');
      else this.#inbox.take(message, handler);
    });
  }

  /** Whether there is room for what a `subscribe` asks for, which then counts until it ends; a subscription until its client ends it. */
  makeRoom(id: string, asked: Asked): boolean {
    return this.#inbox.makeRoom(id, asked);
  }

  /** Resolves once the messages are with the operating system, or nobody waits for them any more. */
  send(...messages: readonly string[]): Promise<void> {
    const socket = this.#socket;
    if (this.ended.aborted || socket.readyState !== socket.OPEN || messages.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      if (this.#unsent === 0) this.#watch.given();
      this.#unsent += messages.length;
      const last = messages.length - 1;
      this.#connection.cork(); // they leave together
      for (const [index, message] of messages.entries()) {
        socket.send(message, (error) => {
          this.#sent();
          if (error != null) this.#end(); // the client has gone, and `close` is on its way
          if (index === last) resolve();
        });
      }
      this.#connection.uncork();
      this.#unsentAnswers.note(this.#connection, this.accountId);
      this.#regulate();
    });
  }

  /** Whether more is to be made for it. Else it is to wait in the log, or not to be begun: see `room`. */
  get hasRoom(): boolean {
    return this.#unsent <= maxUnsentMessages && this.#socket.bufferedAmount <= maxUnsentBytes;
  }

  /** Resolves when there is room for more, or nobody waits for it any more. */
  async room(): Promise<void> {
    while (!this.hasRoom && !this.ended.aborted) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
  }

  close(code: number, reason: string): void {
    this.#socket.close(code, withinBytes(reason, maxReasonBytes));
    this.#end();
    this.#socket.resume(); // the client's answer is to be seen
  }

  /** Cuts it off without a word. */
  terminate(): void {
    this.#socket.terminate();
  }

  #end(): void {
    this.#watch.taken();
    this.#inbox.clear();
    this.#ended.abort();
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** A message was taken: the others have their time anew, since the reader makes progress. */
  #sent(): void {
    this.#unsent--;
    if (this.ended.aborted) return;
    if (this.#unsent === 0) this.#watch.taken();
    else this.#watch.given();
    this.#regulate();
    this.#admit();
  }

  /** Lets those in who wait for room, one after the other: what the first makes may leave none. */
  #admit(): void {
    if (this.#waiting.length === 0 || !this.hasRoom) return;
    this.#waiting.shift()?.();
    setImmediate(() => this.#admit());
  }

  #regulate(): void {
    const socket = this.#socket;
    if (this.ended.aborted) return;
    if (!this.hasRoom || this.#inbox.holds) socket.pause();
    else if (socket.isPaused) socket.resume();
  }

  #ping(): void {
    const socket = this.#socket;
    // A ping would wait behind what the reader has not taken, or its pong would not be read. Then it is
    // the reader's pace that counts, and a dead one is found by that.
    if (socket.bufferedAmount > 0 || socket.isPaused) return;
    if (!this.#answersPings) {
      socket.terminate();
      return;
    }
    this.#answersPings = false;
    socket.ping();
  }
}

function read(text: string): Message {
  const none = { type: '', id: '', content: text };
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return none;
    const { type, id, payload } = value as Record<string, unknown>;
    const content = { type, id, payload };
    return typeof type === 'string' && typeof id === 'string' ? { type, id, content } : { ...none, content };
  } catch {
    return none; // the protocol has its own answer to it
  }
}

/** The beginning of a text that fits, without a broken character at its end. */
function withinBytes(text: string, bytes: number): string {
  const buffer = Buffer.from(text);
  return buffer.length <= bytes ? text : new TextDecoder().decode(buffer.subarray(0, bytes), { stream: true });
}
