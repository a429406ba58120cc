import { createServer } from 'node:http';
import { listBody, one, send } from './store.mjs';

// The physical limit: nothing but Node's own server around the queries.

function answer(res, status, body) {
  const text = JSON.stringify(body);
  res.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
  });
  res.end(text);
}

/** The two GraphQL documents of the benchmark, answered as if there were no GraphQL. */
function graphql(query, variables) {
  if (query.includes('conversations(')) {
    const nodes = listBody({ limit: 20 }).data.map(({ id, status, subject, lastActivityAt }) => ({
      id,
      status: status.toUpperCase(),
      subject,
      lastActivityAt,
    }));
    return { data: { conversations: { nodes } } };
  }
  const { id, status, subject, messages } = one(variables.id, 10);
  const nodes = messages.map(({ id, sender, content, createdAt }) => ({
    id,
    sender: sender.toUpperCase(),
    content,
    createdAt,
  }));
  return { data: { conversation: { id, status: status.toUpperCase(), subject, messages: { nodes } } } };
}

createServer((req, res) => {
  if (req.method === 'GET') {
    const [path, query] = req.url.split('?');
    if (path === '/v1/conversations')
      answer(res, 200, listBody({ limit: Number(new URLSearchParams(query).get('limit')) }));
    else answer(res, 200, one(path.split('/')[3]));
    return;
  }
  const chunks = [];
  req.on('data', (chunk) => chunks.push(chunk));
  req.on('end', () => {
    const body = JSON.parse(Buffer.concat(chunks));
    if (req.url === '/graphql') answer(res, 200, graphql(body.query, body.variables));
    else answer(res, 201, send(req.url.split('/')[3], body));
  });
}).listen(Number(process.env.PORT), '127.0.0.1', () => console.log('listening'));
