import type { Duplex } from 'node:stream';
import { MessageType, type WebSocket as ProtocolSocket } from 'graphql-ws';
import type { WebSocket } from 'ws';
import type { Arrival } from '../../access/admission.ts';
import { memoryOwner } from '../../access/memory-owner.ts';
import type { EndReason, Session } from '../../access/sessions.ts';
import type { Caller } from '../../domain/caller.ts';
import type { Clock } from '../../domain/ports.ts';
import { codePoints } from '../../domain/text.ts';
import { parseJson } from '../../http/json.ts';
import { discard } from '../../http/linger.ts';
import { PullWatch } from '../../http/pull-watch.ts';
import { parsedBytes } from '../../http/request-memory.ts';
import type { ConnectionTimings } from '../../http/timings.ts';
import type { UnsentResponses } from '../../http/unsent-responses.ts';
import type { HeldMemory, Owner } from '../../runtime/held-memory.ts';
import { Inbox, type InboxSocket, type Message, type OperationKind } from './inbox.ts';

/** The codes that the service closes sockets with; graphql-ws and ws close them with others too. */
export const closeCodes = {
  goingAway: 1012,
  tryAgain: 1013,
  slowReader: 4290,
  badRequest: 4400,
  forbidden: 4403,
  silent: 4408,
  tooMany: 4429,
  internal: 4500,
} as const;

/** With more than this unsent, reading pauses: a client that does not read responses cannot send requests. */
const maxUnsentBytes = 1024 * 1024;
const maxUnsentMessages = 256;
/** How often it is looked, within the time in which a client has to take something, whether it has taken a part. */
const looks = 6;
/** RFC 6455, section 5.5: a control frame has at most 125 bytes, two of which are the code. */
const maxReasonBytes = 123;

/** How many messages that cost no unit a client may send within a time, the control frames of WebSockets included. */
const maxFree = 1_000;
const freeMs = 10_000;

/** No operation comes near: parsed, as many as fit into the largest message take twenty times as much as its text. */
const maxValues = 1_000;

/** The longest id of an operation, in characters: it is retained, and sent with each response. */
const maxIdLength = 256;

/** What all sockets of a server share. */
export interface ClientSocketOptions {
  readonly timings: ConnectionTimings;
  readonly clock: Clock;
  readonly unsentResponses: UnsentResponses;
  readonly heldMessages: HeldMemory;
  /** Called when either side has ended the socket. It may still have to be closed. */
  readonly onEnd: (socket: ClientSocket) => void;
  /** Called when the connection has closed. */
  readonly onClose: (socket: ClientSocket) => void;
  /** Called with what handling a message has failed with. */
  readonly onError: (error: unknown) => void;
}

const serverTypes: readonly unknown[] = [MessageType.ConnectionAck, MessageType.Next, MessageType.Error];

/** Whether a message is one that only a server sends. graphql-ws throws at such a message as at a defect of ours. */
function isOfServer(message: unknown): boolean {
  return serverTypes.includes((message as { type?: unknown }).type);
}

/**
 * One client's WebSocket as graphql-ws uses it. Whatever the client does, the socket uses bounded memory, and it is
 * ended if the client no longer answers pings or no longer reads. There may be ten thousand, so it holds few closures.
 */
export class ClientSocket implements ProtocolSocket, InboxSocket, Session {
  readonly #webSocket: WebSocket;
  readonly #connection: Duplex;
  readonly #watch: PullWatch;
  readonly #pinging: NodeJS.Timeout;
  readonly #inbox: Inbox;
  readonly #options: ClientSocketOptions;
  /** Of graphql-ws. It also takes parsed messages, though its type says otherwise. */
  #protocolHandler: (message: string) => Promise<void> = async () => {};
  /** The address of the client, in whose name its messages wait until it is authenticated. */
  readonly address: string;
  /** Whose socket it is, once it is authenticated. */
  caller: Caller | undefined;
  /** Whether either side has ended the socket: nothing more is to be computed for it. */
  isEnded = false;
  #unsent = 0;
  /** How often in a row nothing had been taken, and what was left of what is being sent, in bytes. */
  #idleLooks = 0;
  #left = 0;
  /** Resolvers of the `drained` promises. */
  #waiting: (() => void)[] = [];
  #isReleasing = false;
  #answersPings = true;
  /** How many messages that cost no unit have come since then, on the monotonic clock. */
  #free = 0;
  #freeSinceMs = Number.NEGATIVE_INFINITY;

  /** @param connection the stream under the socket */
  constructor(webSocket: WebSocket, connection: Duplex, address: string, options: ClientSocketOptions) {
    const { pingMs, slowReaderMs } = options.timings;
    this.#options = options;
    this.#webSocket = webSocket;
    this.#connection = connection;
    this.address = address;
    this.#watch = new PullWatch(slowReaderMs / looks, () => this.#look());
    this.#inbox = new Inbox(this, options.heldMessages);
    this.#pinging = setInterval(() => this.#ping(), pingMs).unref();
    webSocket.on('ping', () => this.countFree());
    webSocket.on('pong', () => {
      this.#answersPings = true;
      this.countFree();
    });
    // Emitted for an invalid frame: ws closes the socket with the matching code.
    webSocket.on('error', () => this.#end());
    webSocket.on('close', () => {
      clearInterval(this.#pinging);
      this.#end();
      options.onClose(this);
    });
  }

  get protocol(): string {
    return this.#webSocket.protocol;
  }

  /** Passes on what the client sends until the socket is ended; what arrives while it closes is ignored. */
  onMessage(handle: (message: string) => Promise<void>): void {
    this.#protocolHandler = handle;
    this.#webSocket.on('message', (data) => {
      if (!this.isEnded && !this.#inbox.take(String(data))) this.refuse();
    });
  }

  /** No async function, which would take memory for as long as a subscription lasts. */
  handle(content: unknown): Promise<void> {
    if (isOfServer(content)) {
      this.close(closeCodes.badRequest, 'Invalid message received');
      return Promise.resolve();
    }
    return this.#protocolHandler(content as string).catch((error: unknown) => {
      this.#options.onError(error);
      this.close(closeCodes.internal, 'Internal server error');
    });
  }

  refuse(): void {
    this.close(closeCodes.tooMany, 'Too many messages are waiting');
  }

  get turns(): string {
    return this.caller?.account.id ?? this.address;
  }

  get owner(): Owner {
    return this.caller === undefined ? { name: this.address } : memoryOwner(this.caller);
  }

  read(text: string): Message | undefined {
    const message = messageOf(text);
    if (codePoints(message.id) <= maxIdLength) return message;
    this.close(closeCodes.badRequest, 'Invalid message received');
    return undefined;
  }

  /** Counts a message that costs no unit of the account's budget, and ends a socket on which there are too many. */
  countFree(): void {
    if (this.isEnded) return;
    const nowMs = this.#options.clock.uptimeMs();
    if (nowMs - this.#freeSinceMs >= freeMs) {
      this.#freeSinceMs = nowMs;
      this.#free = 0;
    }
    if (++this.#free > maxFree) this.close(closeCodes.tooMany, 'Too many messages');
  }

  /** See `Inbox.makeRoom`. */
  makeRoom(id: string, kind: OperationKind): boolean {
    return this.#inbox.makeRoom(id, kind);
  }

  /** Resolves once the messages are with the operating system, or the socket is no longer open. */
  send(...messages: readonly string[]): Promise<void> {
    const webSocket = this.#webSocket;
    if (this.isEnded || webSocket.readyState !== webSocket.OPEN || messages.length === 0) return Promise.resolve();
    return new Promise((resolve) => {
      if (this.#unsent === 0) this.#startLooking();
      this.#unsent += messages.length;
      const last = messages.length - 1;
      this.#connection.cork(); // so that they are sent in one write
      for (const [index, message] of messages.entries()) {
        webSocket.send(message, (error) => {
          this.#sent();
          if (error != null) this.#end(); // the client has gone, and `close` will be emitted
          if (index === last) resolve();
        });
      }
      this.#connection.uncork();
      this.#options.unsentResponses.note(this.#connection, this.caller);
      this.regulate();
    });
  }

  /** Whether the client has taken enough to be sent more. While not, events wait in the log and queries do not begin. */
  get isWritable(): boolean {
    return this.#unsent <= maxUnsentMessages && this.#webSocket.bufferedAmount <= maxUnsentBytes;
  }

  /** Resolves when `isWritable` holds, or the socket has ended. */
  async drained(): Promise<void> {
    while (!this.isWritable && !this.isEnded) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
  }

  close(code: number = closeCodes.internal, reason = ''): void {
    this.#webSocket.close(code, withinBytes(reason, maxReasonBytes));
    this.#end();
    // The client's close frame would come after all that it has sent, and each message would be unmasked.
    this.#connection.end();
    discard(this.#connection);
  }

  /** Closes a socket whose credential or server has come to its end. */
  endSession(reason: EndReason): void {
    if (reason === 'shutdown') this.close(closeCodes.goingAway, 'Service restart');
    else this.close(closeCodes.forbidden, 'Forbidden');
  }

  /** Drops the connection without a close frame. */
  terminate(): void {
    this.#webSocket.terminate();
  }

  #end(): void {
    if (this.isEnded) return;
    this.#watch.taken();
    this.#inbox.clear();
    this.isEnded = true;
    for (const resolve of this.#waiting.splice(0)) resolve();
    this.#options.onEnd(this);
  }

  /** A message has been sent: the reader makes progress, so the time for the others starts again. */
  #sent(): void {
    this.#unsent--;
    if (this.isEnded) return;
    if (this.#unsent === 0) this.#watch.taken();
    else this.#startLooking();
    this.regulate();
    if (!this.#isReleasing) this.#release();
  }

  #startLooking(): void {
    this.#idleLooks = 0;
    this.#left = 0;
    this.#watch.given();
  }

  /** A long message can take a client on a slow line minutes: it makes progress as long as less of it is left each time. */
  #look(): void {
    const left = bytesBeingSent(this.#connection);
    this.#idleLooks = left < this.#left ? 0 : this.#idleLooks + 1;
    this.#left = left;
    if (this.#idleLooks < looks) this.#watch.given();
    else this.close(closeCodes.slowReader, 'Slow reader');
  }

  /** Resolves one `drained` promise per turn of the loop: what the first sends may leave no room for the next. */
  #release(): void {
    this.#isReleasing = this.#waiting.length > 0 && this.isWritable;
    if (!this.#isReleasing) return;
    this.#waiting.shift()?.();
    setImmediate(() => this.#release());
  }

  regulate(): void {
    const webSocket = this.#webSocket;
    if (this.isEnded) return;
    if (!this.isWritable || this.#inbox.pauses) webSocket.pause();
    else if (webSocket.isPaused) webSocket.resume();
  }

  #ping(): void {
    const webSocket = this.#webSocket;
    // A ping would wait behind unsent data, or its pong would not be read. A dead client is then detected as a slow
    // reader instead.
    if (webSocket.bufferedAmount > 0 || webSocket.isPaused) return;
    if (!this.#answersPings) {
      webSocket.terminate();
      return;
    }
    this.#answersPings = false;
    webSocket.ping();
  }
}

/** One socket as the hooks of graphql-ws see it. There may be ten thousand, open for days, so it holds little. */
export interface SocketState {
  readonly socket: ClientSocket;
  /** What admission checks; dropped once it has. */
  arrival: Arrival | undefined;
  /** That of the upgrade request, which names the socket in errors and logs. */
  readonly requestId: string;
  /** To be called when `connection_init` has arrived. graphql-ws would retain its own timer until the socket closes. */
  greeted: (() => void) | undefined;
  caller: Caller | undefined;
  /** Has graphql-ws end the subscriptions of the socket, and answer nothing more. */
  endOperations: (() => Promise<void>) | undefined;
}

/**
 * How many bytes the system has not taken yet of what is being written to a connection. Node itself looks at this, which is
 * not documented, and tells of a write only when all of it is done.
 */
function bytesBeingSent(connection: Duplex): number {
  const { _handle: handle } = connection as { _handle?: { readonly writeQueueSize: number } | null };
  return handle?.writeQueueSize ?? 0;
}

function messageOf(text: string): Message {
  const none = { type: '', id: '', content: text, size: text.length };
  let size = text.length;
  try {
    const value = parseJson(text, (values) => {
      if (values > maxValues) throw new Error('Too many values');
      size = parsedBytes(text.length, values);
    });
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return none;
    const { type, id, payload } = value as Record<string, unknown>;
    const content = { type, id, payload };
    return typeof type === 'string' && typeof id === 'string' ? { type, id, content, size } : { ...none, content };
  } catch {
    return { ...none, content: '' }; // graphql-ws rejects it, where it would parse what only holds too much
  }
}

/** The longest prefix of a text that fits, without a truncated character. */
function withinBytes(text: string, bytes: number): string {
  const buffer = Buffer.from(text);
  return buffer.length <= bytes ? text : new TextDecoder().decode(buffer.subarray(0, bytes), { stream: true });
}
