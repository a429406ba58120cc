import { connect, type Socket } from 'node:net';

/** An answer, of which only the beginning and the end are kept. */
export interface Answer {
  readonly status: number;
  readonly head: string;
  readonly start: string;
  readonly end: string;
}

/** Why there was no answer. */
export type Cut = 'connection reset' | 'connection closed without an answer';

const keptBytes = 4_096;

/** A keep-alive connection that speaks HTTP by hand, because a client library costs more than the server. */
export class HttpConnection {
  readonly socket: Socket;
  readonly #ended: Promise<void>;
  #received: Buffer = Buffer.alloc(0);
  /** Of the answer that is being read: its head, how much of its body has come, and how long it will be. */
  #head: string | undefined;
  #bytes = 0;
  #length: number | undefined;
  #start: Buffer = Buffer.alloc(0);
  #end: Buffer = Buffer.alloc(0);
  #answered: ((answer: Answer | Cut) => void) | undefined;
  #cut: Cut = 'connection closed without an answer';
  isOpen = true;

  constructor(url: string) {
    const { hostname, port } = new URL(url);
    this.socket = connect({ host: hostname, port: Number(port), noDelay: true });
    this.socket.on('data', (chunk: Buffer) => this.#take(chunk));
    this.socket.on('error', () => {
      this.#cut = 'connection reset';
    });
    this.#ended = new Promise((resolve) => {
      this.socket.once('close', () => {
        this.isOpen = false;
        this.#settle(this.#cut);
        resolve();
      });
    });
  }

  /** Sends a request, or the rest of one. One at a time. */
  ask(bytes: string | Uint8Array): Promise<Answer | Cut> {
    const answer = this.answer();
    if (this.isOpen) this.socket.write(bytes);
    return answer;
  }

  /** The next answer to what is sent directly on the socket. */
  answer(): Promise<Answer | Cut> {
    return new Promise((resolve) => {
      this.#answered = resolve;
      if (!this.isOpen) this.#settle(this.#cut);
    });
  }

  /** Writes, and waits until the server takes more. @returns whether the connection is still there */
  async write(bytes: Uint8Array): Promise<boolean> {
    if (!this.isOpen) return false;
    if (!this.socket.write(bytes)) {
      await Promise.race([new Promise((resolve) => this.socket.once('drain', resolve)), this.#ended]);
    }
    return this.isOpen;
  }

  close(): void {
    this.socket.destroy();
  }

  #take(chunk: Buffer): void {
    let body = chunk;
    if (this.#head === undefined) {
      this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
      const headEnd = this.#received.indexOf('\r\n\r\n');
      if (headEnd === -1) return;
      this.#head = this.#received.toString('latin1', 0, headEnd);
      body = this.#received.subarray(headEnd + 4);
      this.#received = Buffer.alloc(0);
      const length = /\r\ncontent-length: *(\d+)/i.exec(this.#head)?.[1];
      const isChunked = /\r\ntransfer-encoding: *chunked/i.test(this.#head);
      this.#length = length !== undefined ? Number(length) : isChunked ? undefined : 0;
      this.#bytes = 0;
      this.#start = Buffer.alloc(0);
      this.#end = Buffer.alloc(0);
    }
    this.#bytes += body.length;
    if (this.#start.length < keptBytes) this.#start = Buffer.concat([this.#start, body.subarray(0, keptBytes)]);
    this.#end =
      body.length >= keptBytes ? body.subarray(-keptBytes) : Buffer.concat([this.#end, body]).subarray(-keptBytes);
    const isWhole =
      this.#length === undefined ? this.#end.toString('latin1').endsWith('\r\n0\r\n\r\n') : this.#bytes >= this.#length;
    if (!isWhole) return;
    const [head, start, end] = [this.#head, this.#start.toString(), this.#end.toString()];
    this.#head = undefined;
    const status = Number(head.slice(9, 12));
    if (status === 100) return;
    if (/\r\nconnection: *close/i.test(head)) {
      this.isOpen = false;
      this.socket.end();
    }
    this.#settle({ status, head, start, end });
  }

  #settle(answer: Answer | Cut): void {
    const answered = this.#answered;
    this.#answered = undefined;
    answered?.(answer);
  }
}

/** The bytes of a request with a credential. */
export function requestBytes(
  method: string,
  path: string,
  {
    secret,
    body,
    headers = {},
  }: { secret?: string | undefined; body?: unknown; headers?: Record<string, string> } = {},
): Buffer {
  const text = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
  const all: Record<string, string> = {
    Host: 'localhost',
    ...(secret !== undefined && { Authorization: `Bearer ${secret}` }),
    ...(text !== undefined && { 'Content-Type': 'application/json', 'Content-Length': `${Buffer.byteLength(text)}` }),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${text ?? ''}`);
}
