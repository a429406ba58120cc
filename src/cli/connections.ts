import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';

/** So many connections the system may take in a server's name before that accepts them: Node asks it for no more. */
const backlog = 511;
/** How often a server that stops looks for connections that nobody needs any more. */
const lookMs = 50;

/**
 * The connections of a server, so that it can stop without breaking what is on its way. `server.close` would: it
 * ends each connection at once that Node holds idle, be there a request on it that was not read yet, or an answer
 * that its client has not taken yet.
 */
export class Connections {
  readonly #server: Server;
  /** How many bytes each had sent when its last request was done with. */
  readonly #done = new Map<Socket, number>();
  readonly #unanswered = new Map<ServerResponse, Socket>();
  #accepted = 0;
  #refused: Promise<void> | undefined;
  #ended = Promise.resolve();

  /** @param server before it listens */
  constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket: Socket) => {
      this.#accepted++;
      this.#done.set(socket, 0);
      socket.once('close', () => this.#done.delete(socket));
    });
    server.on('upgrade', (_, socket: Socket) => void this.#done.delete(socket));
    server.prependListener('request', (req, res) => this.#begin(req, res));
  }

  /** Whether a request is being answered on a connection. */
  isWorkedFor(socket: Socket): boolean {
    return this.#unanswered.values().some((busy) => busy === socket);
  }

  /** What is still to be answered on a connection, in the order in which it came. */
  answersOn(socket: Socket): readonly ServerResponse[] {
    return [...this.#unanswered].flatMap(([res, busy]) => (busy === socket ? [res] : []));
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
    for (const res of this.#unanswered.keys()) if (!res.headersSent) res.setHeader('Connection', 'close');
    // What the system has taken in its name already is let in, of which Node accepts one a turn.
    for (let before = -1, turn = 0; before < this.#accepted && turn < backlog; turn++) {
      before = this.#accepted;
      await twoTurns();
    }
    this.#ended = new Promise((resolve) => {
      NetServer.prototype.close.call(this.#server, () => resolve());
    });
  }

  #begin(req: IncomingMessage, res: ServerResponse): void {
    const { socket } = req;
    if (this.#refused !== undefined) res.setHeader('Connection', 'close');
    this.#unanswered.set(res, socket);
    const end = (): void => {
      this.#unanswered.delete(res);
      if (this.#done.has(socket)) this.#done.set(socket, socket.bytesRead);
    };
    // An answer can come before all of its request has.
    res.once('close', () => {
      if (req.complete || req.closed) end();
      else req.once('close', end);
    });
  }

  /** Ends the connections on which there is neither a request nor the beginning of one. */
  #endIdle(): void {
    const busy = new Set(this.#unanswered.values());
    for (const [socket, done] of this.#done) if (!busy.has(socket) && socket.bytesRead === done) socket.destroy();
  }
}

/** In the first a connection is accepted, and in the second it is read from. */
async function twoTurns(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve));
}
