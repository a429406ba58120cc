import { createServer } from 'node:http';
import { WebSocketServer } from 'ws';

// What fan-out costs at least: each message that is posted goes to every socket as it is, by plain ws.

const server = createServer((req, res) => {
  const chunks = [];
  req.on('data', (chunk) => chunks.push(chunk));
  req.on('end', () => {
    const text = Buffer.concat(chunks).toString();
    for (const client of sockets.clients) client.send(text);
    res.end();
  });
});
const sockets = new WebSocketServer({ server, perMessageDeflate: false });
server.listen(Number(process.env.PORT), '127.0.0.1', () => console.log('listening'));
