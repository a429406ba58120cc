import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Reply } from './respond.ts';

/** An answer that is small and whole. */
export interface WholeReply extends Reply {
  readonly body: string;
}

/**
 * Writes an answer on a connection on which Node keeps no response: one that it has let go of for another protocol, or
 * on which it could not read a request. The answer is its last.
 */
export function answerBare(socket: Duplex, requestId: string, { status, headers, body }: WholeReply): void {
  const lines = Object.entries({
    ...headers,
    Connection: 'close',
    'X-Request-Id': requestId,
    'X-Content-Type-Options': 'nosniff',
    'Content-Length': String(Buffer.byteLength(body)),
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.on('error', () => {}); // nobody else looks after its errors
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`);
}
