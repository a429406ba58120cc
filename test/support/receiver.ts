import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { expect, onTestFinished } from 'vitest';
import type { Clock } from '../../src/domain/ports.ts';
import type { Json } from './client.ts';

type Time = Pick<Clock, 'now'>;

/** Those of the receivers so far: to one that has been closed, a server of the same file may still send. */
const portsUsed = new Set<number>();

/** A request to a receiver. */
export interface ReceivedWebhook {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** As it came. */
  readonly body: string;
  readonly event: Json;
  /** Those of the secrets known for its path that verify it. */
  readonly verifiedBy: readonly string[];
  /** Its place among the deliveries to its path, from 1. */
  readonly number: number;
}

/** How a delivery is answered; without anything by an empty 204. */
export interface Reply {
  readonly status?: number;
  readonly headers?: Record<string, string | string[]>;
  readonly body?: string | Uint8Array;
  /** Waited for before the answer begins. */
  readonly after?: Promise<unknown>;
  /**
   * Instead of a whole answer: none ever, the connection's end before it, the end half way through its body,
   * a body that goes on without end, or one that stops without an end.
   */
  readonly instead?: 'hang' | 'close' | 'cut' | 'endless' | 'stall';
}

export type Replies = (delivery: ReceivedWebhook) => Reply;

/** A server that webhooks are sent to. It verifies each delivery as a user would, and answers by a script. */
export class Receiver {
  readonly deliveries: ReceivedWebhook[] = [];
  /** How many deliveries are being answered, and the most that ever were. */
  open = 0;
  mostOpen = 0;
  /** How many connections there were in all. */
  connections = 0;
  /** How many bytes of endless bodies were written. */
  written = 0;
  replies: Replies = () => ({});
  url = '';
  readonly #clock: Time;
  readonly #secrets = new Map<string, string[]>();
  readonly #byPath = new Map<string, ReceivedWebhook[]>();
  readonly #server = createServer((req, res) => void this.#receive(req, res));
  readonly #sockets = new Set<Socket>();

  private constructor(clock: Time) {
    this.#clock = clock;
    this.#server.on('connection', (socket) => {
      this.connections++;
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  /**
   * Starts one that the caller closes.
   * @param clock the sender's
   */
  static async start(clock: Time, replies?: Replies): Promise<Receiver> {
    const receiver = new Receiver(clock);
    if (replies !== undefined) receiver.replies = replies;
    do {
      receiver.#server.close();
      receiver.#server.listen(0, '127.0.0.1');
      await once(receiver.#server, 'listening');
    } while (portsUsed.has(receiver.port));
    portsUsed.add(receiver.port);
    receiver.url = `http://127.0.0.1:${receiver.port}`;
    return receiver;
  }

  /** Starts one that is closed when the test has finished. Every delivery must have been verified by then. */
  static async open(clock: Time, replies?: Replies): Promise<Receiver> {
    const receiver = await Receiver.start(clock, replies);
    onTestFinished(() => {
      receiver.close();
      expect(receiver.deliveries.filter(({ verifiedBy }) => verifiedBy.length === 0)).toEqual([]);
    });
    return receiver;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Makes a secret known, by which deliveries to a path are verified. */
  trust(path: string, secret: string): void {
    this.#secrets.set(path, [...(this.#secrets.get(path) ?? []), secret]);
  }

  to(path: string): readonly ReceivedWebhook[] {
    return this.#byPath.get(path) ?? [];
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  async #receive(req: IncomingMessage, res: ServerResponse): Promise<void> {
    this.open++;
    this.mostOpen = Math.max(this.mostOpen, this.open);
    res.once('close', () => this.open--);
    res.on('error', () => {});
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    const path = req.url ?? '';
    const headers = req.headers as Record<string, string>;
    const verifiedBy = (this.#secrets.get(path) ?? []).filter((secret) => this.#verifies(secret, body, headers));
    const number = this.to(path).length + 1;
    const delivery = { method: req.method ?? '', path, headers, body, event: JSON.parse(body), verifiedBy, number };
    this.deliveries.push(delivery);
    const toPath = this.#byPath.get(path);
    if (toPath === undefined) this.#byPath.set(path, [delivery]);
    else toPath.push(delivery);
    await this.#answer(res, this.replies(delivery));
  }

  /** By the package that receivers use. It looks at the system's clock, which for this moment is the sender's. */
  #verifies(secret: string, body: string, headers: Record<string, string>): boolean {
    const systemNow = Date.now;
    Date.now = () => this.#clock.now();
    try {
      new Webhook(secret).verify(body, headers);
      return true;
    } catch {
      return false;
    } finally {
      Date.now = systemNow;
    }
  }

  async #answer(res: ServerResponse, { status = 204, headers = {}, body, after, instead }: Reply): Promise<void> {
    if (after !== undefined) await after;
    switch (instead) {
      case 'hang':
        return;
      case 'close':
        res.socket?.destroy();
        return;
      case 'cut':
        res.writeHead(status, { ...headers, 'content-length': '1000' });
        res.write(body ?? 'half', () => res.socket?.destroy());
        return;
      case 'stall':
        res.writeHead(status, headers);
        res.write(body ?? 'slowly');
        return;
      case 'endless':
        res.writeHead(status, headers);
        this.#writeOn(res);
        return;
      default:
        res.writeHead(status, headers).end(body);
    }
  }

  #writeOn(res: ServerResponse): void {
    const chunk = Buffer.alloc(16 * 1024, 'x');
    const more = (): void => {
      while (!res.destroyed) {
        this.written += chunk.length;
        if (!res.write(chunk)) {
          res.once('drain', more);
          return;
        }
      }
    };
    more();
  }
}
