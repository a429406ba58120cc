import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';

// Many sockets that are opened, say what they are told to say, and then are silent until this process is ended.

const { url, sockets, messages } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const { hostname, port, pathname } = new URL(url);

/** A text frame of a client: masked, as it has to be, with zeros. */
function frameOf(text) {
  const payload = Buffer.from(text);
  const header = Buffer.alloc(payload.length > 125 ? 8 : 6);
  header[0] = 0x81;
  header[1] = 0x80 | Math.min(126, payload.length);
  if (payload.length > 125) header.writeUInt16BE(payload.length, 2);
  return Buffer.concat([header, payload]);
}

function fail(error) {
  console.error(error);
  process.exit(1);
}

function open(index) {
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    const said = messages[index % Math.max(1, messages.length)] ?? [];
    let received = 0;
    socket.on('error', fail).on('close', () => fail(new Error('A socket was closed')));
    socket.write(
      `GET ${pathname} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
        `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\nSec-WebSocket-Version: 13\r\n` +
        'Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n',
    );
    // First the answer to the upgrade, then, if something is to be said, the acknowledgement.
    socket.on('data', () => {
      received++;
      if (received === 1) for (const message of said.slice(0, 1)) socket.write(frameOf(message));
      if (received === 2) for (const message of said.slice(1)) socket.write(frameOf(message));
      if (received === Math.min(2, 1 + said.length)) resolve();
    });
  });
}

for (let opened = 0; opened < sockets; opened += 50) {
  await Promise.all(Array.from({ length: Math.min(50, sockets - opened) }, (_, index) => open(opened + index)));
}
console.log('open');
