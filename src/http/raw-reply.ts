import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Reply } from './respond.ts';

/** A small response with its complete body. */
export interface WholeReply extends Reply {
  readonly body: string;
}

/**
 * Writes a response to a connection for which Node has no ServerResponse: after an upgrade, or when the request could
 * not be parsed. Ends the connection.
 */
export function writeRawReply(socket: Duplex, requestId: string, { status, headers, body }: WholeReply): void {
  const lines = Object.entries({
    ...headers,
    Connection: 'close',
    'X-Request-Id': requestId,
    'X-Content-Type-Options': 'nosniff',
    'Content-Length': String(Buffer.byteLength(body)),
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.on('error', () => {}); // it has no other error handler
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`);
}
