import { connect, createServer } from 'node:net';
import { afterAll, beforeAll, expect } from 'vitest';
import { longTest } from '../support/effort.ts';
import { postgresServer } from '../support/postgres.ts';
import { startTestServer, type TestServer } from '../support/server.ts';

// How often a request waits for PostgreSQL: across a network, that is most of its time. What is sent without waiting for an
// answer counts once.

const { database } = postgresServer();

/** Until what is asked first is over, such as preparing statements. */
const repetitions = 20;
/** Answers take so long that whatever is sent without waiting for them is there by then. */
const delayMs = 10;
/** What the service asks by itself: the notification of a commit, and which transactions are to be seen. */
const own = /pg_notify|pg_current_snapshot|LISTEN/;

const message = { content: 'Hello', sender: 'agent', author: { id: 'agent-1' } };

/** A proxy that counts in rounds: what is sent after an answer of a round belongs to the next one. */
async function countingProxy(target: URL) {
  let answered = 0;
  /** In which each connection has asked last. */
  const asked = new Map<unknown, number>();
  const server = createServer((client) => {
    const database = connect(Number(target.port), target.hostname);
    client.on('data', (bytes) => {
      if (!own.test(bytes.toString('latin1'))) asked.set(client, answered + 1);
      database.write(bytes);
    });
    database.on('data', (bytes) => {
      const ofRound = asked.get(client) ?? 0;
      setTimeout(() => {
        answered = Math.max(answered, ofRound);
        client.write(bytes);
      }, delayMs);
    });
    const end = (): void => {
      client.destroy();
      database.destroy();
    };
    for (const socket of [client, database]) socket.on('error', end).on('close', end);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The proxy does not listen');
  const url = new URL(target);
  url.host = `127.0.0.1:${address.port}`;
  return {
    url: url.href,
    close: () => void server.close(),
    rounds: () => answered,
    reset: () => {
      answered = 0;
      asked.clear();
    },
  };
}

let proxy: Awaited<ReturnType<typeof countingProxy>>;
let server: TestServer;
beforeAll(async () => {
  proxy = await countingProxy(new URL(await database()));
  server = await startTestServer({ config: { postgres: { url: proxy.url, directUrl: undefined, poolSize: 2 } } });
});
afterAll(async () => {
  await server.close();
  proxy.close();
});

longTest('a request waits for the database as few times as it can', { timeout: 60_000 }, async () => {
  const client = await server.account();
  const { body: conversation } = await client.rest('POST', '/conversations', { body: {} });
  const { eventCursor: cursor } = (await client.rest('GET', '/account')).body;
  const path = `/conversations/${conversation.id}`;
  const roundsOf = async (expected: number, method: string, path: string, bodyOf?: (count: number) => object) => {
    let fewest = Number.POSITIVE_INFINITY;
    for (let count = 0; count < repetitions && fewest > expected; count++) {
      proxy.reset();
      const { status } = await client.rest(method, path, bodyOf === undefined ? {} : { body: bodyOf(count) });
      expect(status).toBeLessThan(300);
      fewest = Math.min(fewest, proxy.rounds());
    }
    expect(fewest, `${method} ${path}`).toBe(expected);
  };
  // Each has to ask for the key first.
  await roundsOf(3, 'POST', `${path}/messages`, () => message);
  await roundsOf(3, 'POST', '/conversations', () => ({ message }));
  await roundsOf(3, 'PATCH', path, (count) => ({ tags: [`tag ${count}`] }));
  await roundsOf(2, 'GET', path);
  await roundsOf(2, 'GET', `${path}?messages=last:5`);
  await roundsOf(2, 'GET', `${path}/messages`);
  await roundsOf(2, 'GET', `${path}/messages?sort=-sequence`);
  await roundsOf(2, 'GET', '/conversations');
  await roundsOf(2, 'GET', '/conversations?tags=urgent&sort=-lastActivityAt'); // which has to be counted
  await roundsOf(2, 'GET', '/leads');
  await roundsOf(2, 'GET', '/events');
  await roundsOf(2, 'GET', `/events?after=${cursor}&types=message.sent`);
  await roundsOf(2, 'GET', '/account');
  await roundsOf(2, 'GET', '/search?q=hello');
  await roundsOf(2, 'GET', '/search?q=hello&total=none&tags=urgent');
  const bodyOf = async (...request: Parameters<typeof client.rest>) => (await client.rest(...request)).body;
  const lead = await bodyOf('POST', '/leads', { body: { name: 'Ada', email: 'ada@example.com' } });
  const webhook = await bodyOf('POST', '/webhooks', {
    body: { url: 'https://example.com/', events: ['lead.captured'] },
  });
  const [sent] = (await bodyOf('GET', `${path}/messages`)).data;
  await roundsOf(2, 'GET', `/messages/${sent.id}`);
  await roundsOf(2, 'GET', `/leads/${lead.id}`);
  await roundsOf(2, 'GET', '/webhooks');
  await roundsOf(2, 'GET', `/webhooks/${webhook.id}`);
  await roundsOf(2, 'GET', `/webhooks/${webhook.id}/deliveries`);
  await roundsOf(2, 'GET', '/api-keys');
  await roundsOf(2, 'GET', '/analytics?from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z');
  await client.rest('POST', '/documents', { body: { documents: [{ id: 'account', text: '{ account { name } }' }] } });
  await roundsOf(2, 'GET', '/documents');
  // What may be more than a megabyte is read once it is known how much it is.
  const long = Array.from({ length: 9 }, (_, index) => ({
    id: `long-${index}`,
    text: `#${' '.repeat(8_000)}{ __typename }`,
  }));
  await client.rest('POST', '/documents', { body: { documents: long } });
  await roundsOf(3, 'GET', '/documents');
  const delivery = await bodyOf('POST', `/webhooks/${webhook.id}/test`);
  await roundsOf(2, 'GET', `/webhooks/${webhook.id}/deliveries/${delivery.id}`);
});

longTest(
  'a list over GraphQL waits for the database as often as over REST, whatever is selected of it',
  {
    timeout: 60_000,
  },
  async () => {
    const client = await server.account();
    for (const content of ['Hello', 'Hello again']) {
      await client.rest('POST', '/conversations', { body: { message: { ...message, content } } });
    }
    await client.rest('POST', '/documents', { body: { documents: [{ id: 'typename', text: '{ __typename }' }] } });
    for (const query of [
      '{ conversations { nodes { id } } }',
      '{ conversations(tags: ["urgent"]) { totalCount nodes { id readPositions { reader } unreadCount(reader: "visitor") } } }',
      '{ leads { edges { cursor node { conversation { id } } } ... { totalCount } } }',
      '{ search(q: "hello", first: 1) { totalCount totalIsMore nodes { excerpt { text } } } }',
      '{ documents { totalCount nodes { text } } }',
      '{ webhooks { totalCount } apiKeys { totalCount } documents { totalCount } account { name } }',
    ]) {
      let fewest = Number.POSITIVE_INFINITY;
      for (let count = 0; count < repetitions && fewest > 2; count++) {
        proxy.reset();
        expect((await client.graphql(query)).errors).toBeUndefined();
        fewest = Math.min(fewest, proxy.rounds());
      }
      expect(fewest, query).toBe(2);
    }
  },
);

longTest('what one account does to several conversations at once does not wait for each other', async () => {
  const client = await server.account();
  const ids: string[] = [];
  for (let count = 0; count < 12; count++) {
    ids.push((await client.rest('POST', '/conversations', { body: {} })).body.id);
  }
  const lead = { name: 'Ada', email: 'ada@example.com' };
  /** What is asked for about each conversation at each repetition. */
  const works: [method: string, path: (id: string, count: number) => string, body: (count: number) => object][] = [
    ['POST', (id) => `/conversations/${id}/messages`, () => message],
    ['POST', () => '/conversations', () => ({ message })],
    ['PATCH', (id) => `/conversations/${id}`, (count) => ({ tags: [`tag ${count}`] })],
    ['POST', () => '/leads', () => lead],
    ['PUT', (id, count) => `/conversations/${id}/read-positions/reader-${count}`, () => ({ sequence: 1 })],
  ];
  // One after the other takes each of the twelve two or three.
  const bound = 8;
  for (const [method, path, body] of works) {
    let fewest = Number.POSITIVE_INFINITY;
    for (let count = 0; count < repetitions && fewest > bound; count++) {
      proxy.reset();
      // Half of what takes an idempotency key has one, as our own clients send it.
      const headersOf = (id: string, index: number): Record<string, string> =>
        method === 'POST' && index % 2 === 0 ? { 'idempotency-key': `${path(id, count)}-${id}-${count}` } : {};
      const answers = await Promise.all(
        ids.map((id, index) =>
          client.rest(method, path(id, count), { body: body(count), headers: headersOf(id, index) }),
        ),
      );
      expect(answers.filter(({ status }) => status >= 300)).toEqual([]);
      fewest = Math.min(fewest, proxy.rounds());
    }
    expect(fewest, `${method} ${path('…', 0)}`).toBeLessThanOrEqual(bound);
  }
});
