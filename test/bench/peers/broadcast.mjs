import { createServer } from 'node:http';
import { WebSocketServer } from 'ws';
import { accountOf, limitHeaders, log, requestIdOf } from './duties.mjs';

// What fan-out costs at least: each message that is posted goes to every socket as it is, by plain ws.

const server = createServer((req, res) => {
  const requestId = requestIdOf(req);
  const accountId = accountOf(req.headers.authorization);
  const status = accountId === undefined ? 401 : 200;
  const chunks = [];
  req.on('data', (chunk) => chunks.push(chunk));
  req.on('end', () => {
    const text = Buffer.concat(chunks).toString();
    if (accountId !== undefined) for (const client of sockets.clients) client.send(text);
    res.writeHead(status, { 'X-Request-Id': requestId, ...(accountId !== undefined && limitHeaders(accountId)) });
    res.end();
    log.info({ requestId, method: req.method, path: req.url, status, accountId }, 'request');
  });
});
const sockets = new WebSocketServer({ server, perMessageDeflate: false });
server.listen(Number(process.env.PORT), '127.0.0.1');
