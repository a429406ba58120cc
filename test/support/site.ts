import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

export interface Answer {
  /** By default 200. */
  readonly status?: number;
  readonly type: string;
  readonly body: string | Uint8Array;
}

/** What a site answers, by path. */
export type Answers = Readonly<Record<string, Answer | (() => Promise<Answer>)>>;

/** Starts the server of a customer's site, another origin than the service. It is ended with the test. */
export async function startSite(answers: Answers): Promise<{ readonly origin: string }> {
  const server = createServer((req, res) => {
    const found = answers[new URL(req.url ?? '/', 'http://site').pathname];
    const answer = async () => (typeof found === 'function' ? await found() : found);
    answer().then(
      (given = { status: 404, type: 'text/plain', body: '' }) =>
        res.writeHead(given.status ?? 200, { 'content-type': given.type }).end(given.body),
      () => res.writeHead(503).end(),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}
