import { connect } from 'node:net';
import { onTestFinished } from 'vitest';

export interface WireResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A connection on which a test writes whatever bytes it likes, and reads what comes back. */
export interface Wire {
  /** Resolves when the bytes are on their way, or when the server has ended the connection. */
  send(bytes: string | Uint8Array): Promise<void>;
  /**
   * The next response. An interim one (100 Continue) is a response too.
   * @param toHead whether it answers a HEAD request, so that it has no body whatever its headers say
   */
  response(toHead?: boolean): Promise<WireResponse>;
  /** Resolves when the server has ended the connection. */
  readonly ended: Promise<void>;
  /** Resolves when so many bytes have come that were not read as responses, or nothing comes any more. */
  received(bytes: number): Promise<void>;
  /** Reads nothing more until it is told to go on. */
  pause(): void;
  goOn(): void;
  /** Cuts the connection off. */
  cut(): void;
}

/** HTTP/1.1 as a hostile or a broken client may speak it: no library stands between the test and the socket. */
export function openWire(url: string, localAddress?: string): Wire {
  const { hostname, port } = new URL(url);
  const socket = connect({
    host: hostname,
    port: Number(port),
    noDelay: true,
    ...(localAddress !== undefined && { localAddress }),
  });
  let received: Buffer[] = [];
  let open = true;
  let wake = (): void => {};
  const ended = new Promise<void>((resolve) => {
    const end = (): void => {
      open = false;
      resolve();
      wake();
    };
    // What the server has written before it hung up is still to be read, so an error is an end like another.
    socket.on('end', end).on('close', end).on('error', end);
  });
  socket.on('data', (chunk: Buffer) => {
    received.push(chunk);
    wake();
  });
  onTestFinished(() => void socket.destroy());
  const receivedAtLeast = async (length: number): Promise<void> => {
    while (open && lengthOf(received) < length) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };

  return {
    ended,
    received: receivedAtLeast,
    pause: () => void socket.pause(),
    goOn: () => void socket.resume(),
    cut: () => void socket.destroy(),
    send: (bytes) =>
      new Promise((resolve) => {
        if (!open) resolve();
        else socket.write(bytes, () => resolve());
      }),
    async response(toHead = false) {
      for (;;) {
        const atEnd = !open;
        const bytes = Buffer.concat(received);
        const parsed = parseResponse(bytes, toHead, atEnd);
        if ('response' in parsed) {
          received = [bytes.subarray(parsed.length)];
          return parsed.response;
        }
        if (atEnd) throw new Error(`The connection ended after ${JSON.stringify(bytes.toString('latin1'))}`);
        await receivedAtLeast(parsed.atLeast);
      }
    },
  };
}

function lengthOf(chunks: readonly Buffer[]): number {
  return chunks.reduce((sum, chunk) => sum + chunk.length, 0);
}

/** The response at the start of the bytes, or how many bytes there must be at least before it is complete. */
type Parsed = { response: WireResponse; length: number } | { atLeast: number };

function parseResponse(bytes: Buffer, toHead: boolean, atEnd: boolean): Parsed {
  const more = { atLeast: bytes.length + 1 };
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd === -1) return more;
  const [statusLine = '', ...lines] = bytes.subarray(0, headEnd).toString('latin1').split('\r\n');
  const status = Number(statusLine.split(' ')[1]);
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + 1).trim();
    headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
  }
  const start = headEnd + 4;
  const whole = (body: Buffer, length: number): Parsed => ({
    response: { status, headers, body: body.toString() },
    length,
  });
  if (toHead || status < 200 || status === 204) return whole(Buffer.alloc(0), start);
  if (headers['content-length'] !== undefined) {
    const end = start + Number(headers['content-length']);
    return bytes.length < end ? { atLeast: end } : whole(bytes.subarray(start, end), end);
  }
  if (headers['transfer-encoding'] !== undefined) return unchunk(bytes, start, whole) ?? more;
  return atEnd ? whole(bytes.subarray(start), bytes.length) : more;
}

function unchunk(bytes: Buffer, start: number, whole: (body: Buffer, length: number) => Parsed): Parsed | undefined {
  const chunks: Buffer[] = [];
  for (let at = start; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd === -1) return undefined;
    const size = Number.parseInt(bytes.subarray(at, lineEnd).toString(), 16);
    const next = lineEnd + 2 + size + 2;
    if (bytes.length < next) return undefined;
    if (size === 0) return whole(Buffer.concat(chunks), next);
    chunks.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = next;
  }
}

/** A request as text, with a Content-Length if it has a body. */
export function requestText(
  method: string,
  target: string,
  { headers = {}, body = '' }: { headers?: Record<string, string>; body?: string } = {},
): string {
  const all = {
    Host: 'localhost',
    ...(body === '' ? {} : { 'Content-Type': 'application/json', 'Content-Length': String(Buffer.byteLength(body)) }),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n${body}`;
}
