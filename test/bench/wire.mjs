import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';

// WebSockets by hand, so that thousands of them in one process cost it next to nothing.

/** Ends the process: what is measured would not be what is meant. */
export function fail(error) {
  console.error(error);
  process.exit(1);
}

/** Opens a TCP connection and asks for an upgrade on it. */
export function openSocket(url) {
  const { hostname, port, pathname } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on('error', fail).on('close', () => fail(new Error('A socket was closed')));
  socket.write(
    `GET ${pathname} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
      `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\nSec-WebSocket-Version: 13\r\n` +
      'Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n',
  );
  return socket;
}

/** A text frame of a client: masked, as it has to be, with zeros. */
export function frameOf(text) {
  const payload = Buffer.from(text);
  const isLong = payload.length > 125;
  const header = Buffer.alloc(isLong ? 8 : 6);
  header[0] = 0x81;
  header[1] = 0x80 | (isLong ? 126 : payload.length);
  if (isLong) header.writeUInt16BE(payload.length, 2);
  return Buffer.concat([header, payload]);
}

/** The answer to a ping: a server ends a socket that does not give it. */
export const pong = Buffer.from([0x8a, 0x80, 0, 0, 0, 0]);
export const isPing = (firstByte) => (firstByte & 0x0f) === 9;
