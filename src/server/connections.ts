import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import { network } from '../access/failed-attempts.ts';
import { ownerOf } from '../http/request-context.ts';
import { scheduler } from '../runtime/scheduler.ts';
import { ReadingTurns } from './reading-turns.ts';

/** The code of the error of a client whose request was cut off because too many arrived at once. */
export const tooManyRequests = 'TOO_MANY_REQUESTS';

/** For how long a stopping server takes those who had connected before, while others go on connecting. */
const stillAcceptingMs = 1_000;
/** How often a stopping server looks for idle connections. */
const sweepMs = 50;

/**
 * With so many unanswered requests on a connection (pipelining), reading from it pauses. What Node has read by then, up to
 * 64 KiB, is still parsed.
 */
const maxPipelined = 16;

/** What clients may have of a server together, whether they have a credential or not. */
export interface ConnectionLimits {
  /** Connections, sockets among them. One that is idle takes 11 KiB. */
  readonly connections: number;
  /** Requests that have not arrived completely. Each takes up to 50 KiB. */
  readonly unfinished: number;
  /** Requests that have been read, and wait for others on their connection. Each takes 3 KiB. */
  readonly waiting: number;
}

/** So many may wait on every connection, however many do in all. Only a client that sends many at once has more. */
const alwaysTaken = 2;

/** The share of the connections that is closed at a time, if they wait for their clients, to make room for new ones. */
const closedAtOnce = 0.01;
/** How often, and after how many new connections, the unfinished requests are counted. */
const checkMs = 250;
const checkConnections = 250;
/** How often it is told at most that there are too many connections. */
const crowdedEveryMs = 10_000;

/** A request that has been read, and whose response is not complete yet. */
interface Unanswered {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  isBegun: boolean;
}

interface Connection {
  readonly address: string;
  /** When a request began or ended on it last. */
  usedAtMs: number;
  /** In the order of their arrival. Only the first is being handled. */
  readonly unanswered: Unanswered[];
  /** Whether a body in chunks waits to be read. */
  isHeld: boolean;
  /** Whether nothing more is taken from it, because too many requests wait in all: its last response closes it. */
  isEnding: boolean;
  readonly onResume: () => void;
}

interface ConnectionsOptions {
  readonly handle: RequestListener;
  readonly limits: ConnectionLimits;
  readonly onCrowded: (closed: number) => void;
}

/**
 * The connections of a server. There is a limit to them, and one to the unfinished requests on them: beyond, those are
 * closed that have been idle for longest or began first, of the address that has the most of them. So a client that opens
 * many closes its own, and behind a proxy, which all come from, those go first that nobody has used for long.
 *
 * It handles the requests of a connection one at a time. A client may send many at once (pipelining, RFC 9112, section
 * 9.3.2); Node would read and dispatch all of them, and buffer each response until those before it have been sent.
 *
 * It also lets the server stop without losing requests or responses. `server.close` would: it immediately destroys each
 * connection that Node considers idle, even if a request on it has not been read yet or its client has not received all
 * of a response.
 */
export class Connections {
  readonly #server: Server;
  readonly #handle: RequestListener;
  readonly #limits: ConnectionLimits;
  readonly #onCrowded: (closed: number) => void;
  #count = 0;
  #waiting = 0;
  #acceptedSinceCheck = 0;
  #check: NodeJS.Timeout | undefined;
  readonly #crowded = { closed: 0, toldAtMs: Number.NEGATIVE_INFINITY };
  /** All but the sockets. */
  readonly #open = new Map<Socket, Connection>();
  readonly #turns: ReadingTurns;
  #accepted = 0;
  #refused: Promise<void> | undefined;
  #ended = Promise.resolve();

  /**
   * @param server must not be listening yet
   * @param options.handle answers a request
   * @param options.onCrowded called when connections were closed to make room, at most every ten seconds
   */
  constructor(server: Server, { handle, limits, onCrowded }: ConnectionsOptions) {
    this.#server = server;
    this.#handle = handle;
    this.#limits = limits;
    this.#onCrowded = onCrowded;
    this.#turns = new ReadingTurns(
      () => this.#open.keys(),
      (socket) => ownerOf(socket) ?? this.#open.get(socket)?.address ?? '',
    );
    server.on('connection', (socket: Socket) => {
      this.#accepted++;
      scheduler.accepted();
      this.#count++;
      if (this.#count > this.#limits.connections && !this.#makeRoom()) socket.destroy();
      this.#enter(socket);
      socket.on('close', () => {
        this.#count--;
        this.#leave(socket);
      });
    });
    server.on('upgrade', (_, socket: Socket) => this.#leave(socket));
    server.on('request', (req, res) => this.#take({ req, res, isBegun: false }));
  }

  /** Whether a request on the connection is unanswered. */
  isBusy(socket: Socket): boolean {
    return this.answersOn(socket).length > 0;
  }

  /** The outstanding responses of a connection, in the order of their requests. */
  answersOn(socket: Socket): readonly ServerResponse[] {
    return this.#open.get(socket)?.unanswered.map(({ res }) => res) ?? [];
  }

  /**
   * Stops accepting connections. From here on the last response of each carries `Connection: close`, so that a client
   * does not send its next request on a connection that is about to end. Resolves when nobody can connect any more.
   */
  refuse(): Promise<void> {
    this.#refused ??= this.#refuse();
    return this.#refused;
  }

  /** Resolves when every request has been answered, or after the grace time, when the rest have been cut off. */
  async drain(graceMs: number): Promise<void> {
    const cutOff = setTimeout(() => this.#server.closeAllConnections(), graceMs);
    await this.refuse();
    await twoTurns();
    this.#endIdle();
    const sweeping = setInterval(() => this.#endIdle(), sweepMs);
    await this.#ended;
    clearInterval(sweeping);
    clearTimeout(cutOff);
    this.#server.close(); // no connections are left; this only stops a timer of Node's
  }

  async #refuse(): Promise<void> {
    for (const { unanswered } of this.#open.values()) {
      const last = unanswered.at(-1)?.res; // the ones before it must not close the connection
      if (last?.headersSent === false) last.setHeader('Connection', 'close');
    }
    // Connections that the kernel has already accepted are served. Node takes one of them per turn of the event loop.
    const endMs = performance.now() + stillAcceptingMs;
    for (let before = -1; before < this.#accepted && performance.now() < endMs; ) {
      before = this.#accepted;
      await twoTurns();
    }
    this.#ended = new Promise((resolve) => {
      NetServer.prototype.close.call(this.#server, () => resolve());
    });
  }

  #enter(socket: Socket): void {
    const connection: Connection = {
      address: network(socket.remoteAddress ?? ''),
      usedAtMs: performance.now(),
      unanswered: [],
      isHeld: false,
      isEnding: false,
      // Node resumes reading at the end of each request, and to fill its buffer of a body.
      onResume: () => {
        const isFull = connection.unanswered.length >= maxPipelined;
        if (connection.isHeld || connection.isEnding || isFull || this.#turns.isWaiting(socket)) keepPaused(socket);
      },
    };
    this.#open.set(socket, connection);
    if (this.#open.size > this.#limits.unfinished) this.#watchUnfinished();
    socket.on('resume', connection.onResume);
    this.#turns.accepted(socket);
  }

  #take(request: Unanswered): void {
    const { req, res } = request;
    const { socket } = req;
    const connection = this.#open.get(socket);
    if (connection === undefined || connection.isEnding) return;
    this.#turns.readHead(socket);
    const { unanswered } = connection;
    if (this.#refused !== undefined) {
      const before = unanswered.at(-1)?.res;
      if (before?.headersSent === false) before.removeHeader('Connection');
      res.setHeader('Connection', 'close');
    }
    const end = (): void => {
      if (!this.#open.has(socket)) return;
      unanswered.splice(unanswered.indexOf(request), 1);
      if (unanswered.length > 0) this.#waiting--;
      const [next] = unanswered;
      if (next === undefined) {
        connection.usedAtMs = performance.now();
        return;
      }
      if (unanswered.length < maxPipelined) socket.resume();
      setImmediate(() => this.#begin(next)); // other connections get their turn first
    };
    // A response may be complete before all of its request has been received.
    res.once('close', () => {
      if (req.complete || req.closed) end();
      else req.once('close', end);
    });
    // Node keeps a buffer for each chunk of a body that nobody reads yet, and a chunk can be a single byte.
    if (req.headers['transfer-encoding'] !== undefined && !req.complete) {
      connection.isHeld = true;
      this.#turns.readChunks(socket);
      req.once('resume', () => {
        connection.isHeld = false;
        if (!this.#turns.isWaiting(socket)) socket.resume();
        // Otherwise two megabytes would be read before anything else, as long as that much is there.
        req.on('data', () => this.#turns.readChunks(socket));
      });
      socket.pause();
    }
    unanswered.push(request);
    connection.usedAtMs = performance.now();
    if (unanswered.length === 1) {
      this.#begin(request);
      return;
    }
    this.#waiting++;
    if (this.#waiting > this.#limits.waiting && unanswered.length - 1 > alwaysTaken) {
      connection.isEnding = true;
      res.setHeader('Connection', 'close');
      stopParsing(socket);
    }
    if (connection.isEnding || unanswered.length >= maxPipelined) socket.pause();
  }

  /**
   * From here on, nothing is taken from the connection, and nothing is held for it: if it has become a WebSocket, it may stay
   * open for days, as one of ten thousand.
   */
  #leave(socket: Socket): void {
    const connection = this.#open.get(socket);
    if (connection === undefined) return;
    this.#waiting -= Math.max(0, connection.unanswered.length - 1);
    this.#open.delete(socket);
    socket.off('resume', connection.onResume);
  }

  #begin(request: Unanswered): void {
    const { req, res, isBegun } = request;
    // The previous response may have ended the connection.
    if (isBegun || req.socket.destroyed || req.socket.writableEnded) return;
    request.isBegun = true;
    const turn = scheduler.arrival(ownerOf(req.socket) ?? this.#open.get(req.socket)?.address ?? '');
    if (turn === undefined) this.#handle(req, res);
    else void turn.then(() => this.#handle(req, res));
  }

  /** Ends the connections on which there is no request, not even the start of one. */
  #endIdle(): void {
    const begun = begunOn(this.#server);
    for (const entry of this.#open) {
      const [socket] = entry;
      if (isIdle(entry) && !begun.has(socket) && !this.#turns.mayHaveMore(socket)) socket.destroy();
    }
  }

  /** @returns whether any connection could be closed for another */
  #makeRoom(): boolean {
    const entries = mostCrowded(
      this.#open.entries().filter((entry) => isIdle(entry) || isArriving(entry)),
      Math.ceil(closedAtOnce * this.#limits.connections),
    );
    this.#close(entries);
    this.#crowded.closed += Math.max(entries.length, 1);
    const nowMs = performance.now();
    if (nowMs - this.#crowded.toldAtMs > crowdedEveryMs) {
      this.#onCrowded(this.#crowded.closed);
      this.#crowded.closed = 0;
      this.#crowded.toldAtMs = nowMs;
    }
    return entries.length > 0;
  }

  /** Node does not say when a head begins to arrive, so they are looked for while there are enough connections for it. */
  #watchUnfinished(): void {
    this.#check ??= setTimeout(() => {
      this.#check = undefined;
      this.#limitUnfinished();
      if (this.#open.size > this.#limits.unfinished) this.#watchUnfinished();
    }, checkMs).unref();
    if (++this.#acceptedSinceCheck >= checkConnections) this.#limitUnfinished();
  }

  #limitUnfinished(): void {
    this.#acceptedSinceCheck = 0;
    const begun = begunOn(this.#server);
    const all = [...this.#open];
    const unfinished = all.filter((entry) => (isIdle(entry) ? begun.has(entry[0]) : isArriving(entry)));
    const behindOthers = all.filter(isArrivingBehind);
    const excess = unfinished.length + behindOthers.length - this.#limits.unfinished;
    this.#close(mostCrowded(unfinished, excess));
    // Without a word: it would be taken for the answer to the request that is being done.
    for (const [socket] of mostCrowded(behindOthers, excess - unfinished.length)) socket.destroy();
  }

  /** Whoever has begun a request is told why it is not answered. */
  #close(entries: readonly Entry[]): void {
    if (entries.length === 0) return;
    const begun = begunOn(this.#server);
    for (const [socket, { unanswered }] of entries) {
      const isAnswered = unanswered.some(({ res }) => res.headersSent);
      if (!begun.has(socket) || isAnswered) socket.destroy();
      else
        this.#server.emit(
          'clientError',
          Object.assign(new Error('Too many requests'), { code: tooManyRequests }),
          socket,
        );
      this.#leave(socket); // only now: the answer has the id of the request
    }
  }
}

/**
 * Skips the rest of what Node has read from a connection and parses just now, and whatever comes. There can be thousands
 * of requests in it: each would be kept until the connection ends, and then be given an error. Node has no function for
 * this: its parser stops where the head of an upgrade ends, for which it takes this number.
 */
function stopParsing(socket: Socket & { parser?: { onIncoming?: () => number } | null }): void {
  if (socket.parser != null) socket.parser.onIncoming = () => 2;
}

/**
 * Pauses a connection that Node begins to read just now. Where it was paused after Node had asked to resume it, it counts
 * as paused, although it is read: then the event stops that, and nothing else does.
 */
function keepPaused(socket: Socket): void {
  if (socket.isPaused()) socket.emit('pause');
  else socket.pause();
}

type Entry = readonly [Socket, Connection];

/** Whether no request on a connection is unanswered. The head of one may be on its way. */
function isIdle([, { unanswered }]: Entry): boolean {
  return unanswered.length === 0;
}

/** Whether the last request on a connection has not arrived completely, and none before it is being done. */
function isArriving(entry: Entry): boolean {
  const [, { unanswered }] = entry;
  return unanswered.at(-1)?.req.complete === false && !isArrivingBehind(entry);
}

/**
 * Whether the last request on a connection has not arrived completely, while one before it is being done. So the connection
 * does not only wait for its client, who would take a refusal for the answer to that one.
 */
function isArrivingBehind([, { unanswered }]: Entry): boolean {
  const [first] = unanswered;
  return unanswered.at(-1)?.req.complete === false && first?.req.complete === true && !first.res.headersSent;
}

/**
 * The connections on which a request has begun to arrive, and is not complete. Only Node's parser knows: it may have read
 * the beginning together with the request before it. Node lists them for its timeouts, under a symbol, and those on which
 * nothing has arrived yet.
 */
function begunOn(server: Server): ReadonlySet<Socket> {
  const symbols = Object.getOwnPropertySymbols(server);
  const listed = symbols.find(({ description }) => description === 'http.server.connections') as symbol;
  const list = Reflect.get(server, listed) as { active(): readonly { readonly socket: Socket | null }[] };
  return new Set(list.active().flatMap(({ socket }) => (socket !== null && socket.bytesRead > 0 ? socket : [])));
}

/** Some of the connections: those of the address that has the most first, and of these those that were not used for longest. */
function mostCrowded(entries: Iterable<Entry>, count: number): Entry[] {
  if (count <= 0) return [];
  const byAddress = Map.groupBy(entries, ([, { address }]) => address);
  const groups = [...byAddress.values()].sort((one, other) => other.length - one.length);
  const chosen: Entry[] = [];
  for (const group of groups) {
    if (chosen.length >= count) break;
    const oldest = group.sort(([, one], [, other]) => one.usedAtMs - other.usedAtMs);
    chosen.push(...oldest.slice(0, count - chosen.length));
  }
  return chosen;
}

/** Two turns of the event loop: one to accept a connection, and one to read from it. */
async function twoTurns(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
}
