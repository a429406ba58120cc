import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';

/** So many connections the system may take in a server's name before that accepts them: Node asks it for no more. */
const backlog = 511;
/** How often a server that stops looks for connections that nobody needs any more. */
const lookMs = 50;

/** So many requests may wait on a connection for the one before them; then no more is read from it. */
const maxWaiting = 16;

/** A request that was read and whose answer has not been taken yet. */
interface Unanswered {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  isBegun: boolean;
}

interface Connection {
  /** In the order in which they came. Only the first is being worked for. */
  readonly unanswered: Unanswered[];
  /** How many bytes it had sent when its last request was done with. */
  doneBytes: number;
}

/**
 * The connections of a server.
 *
 * Each is worked for one request at a time. A client may send many at once (pipelining, RFC 9112, 9.3.2); Node reads and
 * hands on all of them, and keeps every answer in memory until the client has taken those before it.
 *
 * And it can stop without breaking what is on its way. `server.close` would: it ends each connection at once that Node
 * holds idle, be there a request on it that was not read yet, or an answer that its client has not taken yet.
 */
export class Connections {
  readonly #server: Server;
  readonly #handle: RequestListener;
  readonly #open = new Map<Socket, Connection>();
  #accepted = 0;
  #refused: Promise<void> | undefined;
  #ended = Promise.resolve();

  /** @param server before it listens */
  constructor(server: Server, handle: RequestListener) {
    this.#server = server;
    this.#handle = handle;
    server.on('connection', (socket: Socket) => {
      this.#accepted++;
      this.#open.set(socket, { unanswered: [], doneBytes: 0 });
      socket.once('close', () => this.#open.delete(socket));
    });
    server.on('upgrade', (_, socket: Socket) => void this.#open.delete(socket));
    server.on('request', (req, res) => this.#take({ req, res, isBegun: false }));
  }

  /** Whether a request is being answered on a connection. */
  isWorkedFor(socket: Socket): boolean {
    return this.answersOn(socket).length > 0;
  }

  /** What is still to be answered on a connection, in the order in which it came. */
  answersOn(socket: Socket): readonly ServerResponse[] {
    return this.#open.get(socket)?.unanswered.map(({ res }) => res) ?? [];
  }

  /**
   * From here on no connection is taken, and every answer says that it is its connection's last, so that a client
   * does not send its next request into the end. Resolves when nobody can connect any more.
   */
  refuse(): Promise<void> {
    this.#refused ??= this.#refuse();
    return this.#refused;
  }

  /** Resolves when every request has been answered, or when the grace time is over and the rest are cut off. */
  async drain(graceMs: number): Promise<void> {
    const cutOff = setTimeout(() => this.#server.closeAllConnections(), graceMs);
    await this.refuse();
    await twoTurns();
    this.#endIdle();
    const looking = setInterval(() => this.#endIdle(), lookMs);
    await this.#ended;
    clearInterval(looking);
    clearTimeout(cutOff);
    this.#server.close(); // no connection is left to be broken, only a timer of Node's
  }

  async #refuse(): Promise<void> {
    for (const { unanswered } of this.#open.values()) {
      const last = unanswered.at(-1)?.res; // those before it are still to be answered, too
      if (last?.headersSent === false) last.setHeader('Connection', 'close');
    }
    // What the system has taken in its name already is let in, of which Node accepts one a turn.
    for (let before = -1, turn = 0; before < this.#accepted && turn < backlog; turn++) {
      before = this.#accepted;
      await twoTurns();
    }
    this.#ended = new Promise((resolve) => {
      NetServer.prototype.close.call(this.#server, () => resolve());
    });
  }

  #take(request: Unanswered): void {
    const { req, res } = request;
    const { socket } = req;
    const connection = this.#open.get(socket);
    if (connection === undefined) return; // it has ended
    const { unanswered } = connection;
    if (this.#refused !== undefined) {
      const before = unanswered.at(-1)?.res;
      if (before?.headersSent === false) before.removeHeader('Connection');
      res.setHeader('Connection', 'close');
    }
    const end = (): void => {
      unanswered.splice(unanswered.indexOf(request), 1);
      connection.doneBytes = socket.bytesRead;
      const [next] = unanswered;
      if (next === undefined) return;
      if (unanswered.length < maxWaiting) socket.resume();
      setImmediate(() => this.#begin(next)); // others come in between
    };
    // An answer can come before all of its request has.
    res.once('close', () => {
      if (req.complete || req.closed) end();
      else req.once('close', end);
    });
    unanswered.push(request);
    if (unanswered.length === 1) this.#begin(request);
    else if (unanswered.length >= maxWaiting) socket.pause();
  }

  #begin(request: Unanswered): void {
    const { req, res, isBegun } = request;
    // The answer before it may have been the connection's last.
    if (isBegun || req.socket.destroyed || req.socket.writableEnded) return;
    request.isBegun = true;
    this.#handle(req, res);
  }

  /** Ends the connections on which there is neither a request nor the beginning of one. */
  #endIdle(): void {
    for (const [socket, { unanswered, doneBytes }] of this.#open) {
      if (unanswered.length === 0 && socket.bytesRead === doneBytes) socket.destroy();
    }
  }
}

/** In the first a connection is accepted, and in the second it is read from. */
async function twoTurns(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
}
