import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';

/** The listen backlog: connections the kernel may have accepted for us. Node's default. */
const backlog = 511;
/** How often a stopping server looks for idle connections. */
const sweepMs = 50;

/**
 * With so many unanswered requests on a connection (pipelining), reading from it pauses. What Node has read by then, up to
 * 64 KiB, is still parsed.
 */
const maxPipelined = 16;

/** A request that has been read, and whose response is not complete yet. */
interface Unanswered {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  isBegun: boolean;
}

interface Connection {
  /** In the order of their arrival. Only the first is being handled. */
  readonly unanswered: Unanswered[];
  /** How many bytes had been read from it when its last request was finished. */
  doneBytes: number;
}

/**
 * The connections of a server.
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
  readonly #open = new Map<Socket, Connection>();
  #accepted = 0;
  #refused: Promise<void> | undefined;
  #ended = Promise.resolve();

  /**
   * @param server must not be listening yet
   * @param handle answers a request
   */
  constructor(server: Server, handle: RequestListener) {
    this.#server = server;
    this.#handle = handle;
    server.on('connection', (socket: Socket) => {
      this.#accepted++;
      const connection: Connection = { unanswered: [], doneBytes: 0 };
      this.#open.set(socket, connection);
      // Node resumes reading at the end of each request.
      socket.on('resume', () => {
        if (connection.unanswered.length >= maxPipelined) socket.pause();
      });
      socket.once('close', () => this.#open.delete(socket));
    });
    server.on('upgrade', (_, socket: Socket) => void this.#open.delete(socket));
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
    if (connection === undefined) return; // the connection has ended
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
      if (unanswered.length < maxPipelined) socket.resume();
      setImmediate(() => this.#begin(next)); // other connections get their turn first
    };
    // A response may be complete before all of its request has been received.
    res.once('close', () => {
      if (req.complete || req.closed) end();
      else req.once('close', end);
    });
    unanswered.push(request);
    if (unanswered.length === 1) this.#begin(request);
    else if (unanswered.length >= maxPipelined) socket.pause();
  }

  #begin(request: Unanswered): void {
    const { req, res, isBegun } = request;
    // The previous response may have ended the connection.
    if (isBegun || req.socket.destroyed || req.socket.writableEnded) return;
    request.isBegun = true;
    this.#handle(req, res);
  }

  /** Ends the connections on which there is no request, not even the start of one. */
  #endIdle(): void {
    for (const [socket, { unanswered, doneBytes }] of this.#open) {
      if (unanswered.length === 0 && socket.bytesRead === doneBytes) socket.destroy();
    }
  }
}

/** Two turns of the event loop: one to accept a connection, and one to read from it. */
async function twoTurns(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
}
