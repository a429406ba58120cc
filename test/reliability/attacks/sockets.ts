import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { unfinished } from './outcomes.ts';

// A WebSocket by hand: the floods are made of frames that were built before. The mask is zero, so that they need none.

/** The bytes of a frame. @param first the opcode, with 0x80 for the last frame of a message */
export function frame(text: string, first = 0x81): Buffer {
  const payload = Buffer.from(text);
  const head =
    payload.length < 126
      ? Buffer.from([first, 0x80 | payload.length])
      : payload.length < 65_536
        ? Buffer.from([first, 0x80 | 126, payload.length >> 8, payload.length & 0xff])
        : Buffer.concat([Buffer.from([first, 0x80 | 127, 0, 0, 0, 0]), uint32(payload.length)]);
  return Buffer.concat([head, Buffer.alloc(4), payload]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** As many copies as there is room for. */
export function copiesOf(bytes: Buffer, roomBytes = 64 * 1024): Buffer {
  const count = Math.max(1, Math.floor(roomBytes / bytes.length));
  return Buffer.concat(Array.from({ length: count }, () => bytes));
}

/** A socket on `/graphql` that has said hello. What it receives is read, and thrown away but for the end. */
export class FloodSocket {
  readonly #socket: Socket;
  readonly #ended: Promise<void>;
  #tail = Buffer.alloc(0);
  #onData: () => void = () => {};
  /** How it has ended. */
  ending: string | undefined;

  private constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.#socket = connect({ host: hostname, port: Number(port), noDelay: true });
    let reset = false;
    this.#socket.on('data', (chunk: Buffer) => {
      this.#tail = Buffer.concat([this.#tail, chunk]).subarray(-4_096);
      this.ending = closeCodeOf(this.#tail) ?? this.ending;
      this.#onData();
    });
    this.#socket.on('error', () => {
      reset = true;
    });
    this.#ended = new Promise((resolve) => {
      this.#socket.once('close', () => {
        this.ending ??= reset ? 'connection reset' : 'connection closed without an answer';
        this.#onData();
        resolve();
      });
    });
  }

  /** @param secret without one, it says no hello */
  static async open(url: string, secret?: string): Promise<FloodSocket> {
    const socket = new FloodSocket(url);
    socket.#socket.write(
      [
        'GET /graphql HTTP/1.1',
        'Host: localhost',
        'Connection: Upgrade',
        'Upgrade: websocket',
        'Sec-WebSocket-Version: 13',
        `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}`,
        'Sec-WebSocket-Protocol: graphql-transport-ws',
        '',
        '',
      ].join('\r\n'),
    );
    await socket.#received(/HTTP\/1\.1 \d\d\d /);
    if (secret === undefined) return socket;
    const hello = { type: 'connection_init', payload: { authorization: `Bearer ${secret}` } };
    await socket.write(frame(JSON.stringify(hello)));
    await socket.#received(/connection_ack/);
    return socket;
  }

  get isOpen(): boolean {
    return this.ending === undefined;
  }

  /** Waits until the server takes more. @returns whether the socket is still open */
  async write(bytes: Uint8Array): Promise<boolean> {
    if (!this.isOpen || this.#socket.destroyed) return false;
    if (!this.#socket.write(bytes)) {
      await Promise.race([new Promise((resolve) => this.#socket.once('drain', resolve)), this.#ended]);
    }
    return this.isOpen;
  }

  close(): void {
    this.ending ??= unfinished;
    this.#socket.destroy();
  }

  async #received(what: RegExp): Promise<void> {
    while (this.isOpen && !what.test(this.#tail.toString('latin1'))) {
      await new Promise<void>((resolve) => {
        this.#onData = resolve;
      });
    }
  }
}

/** The code of the frame that closes a socket, if that is what stands at the end. */
function closeCodeOf(tail: Buffer): string | undefined {
  for (let at = tail.lastIndexOf(0x88); at !== -1; at = at === 0 ? -1 : tail.lastIndexOf(0x88, at - 1)) {
    const length = tail[at + 1];
    if (length !== undefined && length >= 2 && length < 126 && at + 2 + length === tail.length) {
      return `closed with ${tail.readUInt16BE(at + 2)}`;
    }
  }
  return undefined;
}
