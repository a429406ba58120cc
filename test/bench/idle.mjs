import { readFileSync } from 'node:fs';
import { frameOf, isPing, openSocket, pong } from './wire.mjs';

// Many sockets that are opened, say what they are told to say, and then are silent until this process is ended.

const { url, sockets, messages } = JSON.parse(readFileSync(process.argv[2], 'utf8'));

function open(index) {
  return new Promise((resolve) => {
    const socket = openSocket(url);
    const said = messages[index % Math.max(1, messages.length)] ?? [];
    let received = 0;
    // First the answer to the upgrade, then, if something is to be said, the acknowledgement.
    socket.on('data', (chunk) => {
      if (isPing(chunk[0])) {
        socket.write(pong);
        return;
      }
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
