import { connect, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { postgresServer } from '../support/postgres.ts';
import { startTestServer, type TestAccount } from '../support/server.ts';

// How often a request waits for PostgreSQL: across a network, that is most of its time. What is sent without waiting for an
// answer counts once.

const { database } = postgresServer();

/** There are eight connections for reads. */
const repetitions = 15;
/** Answers take so long that whatever is sent without waiting for them is there by then. */
const delayMs = 10;
/** What the service asks by itself: the notification of a commit, and the end of the write-ahead log. */
const own = /pg_notify|pg_current_wal|LISTEN/;

/** A proxy that counts in rounds: what is sent after an answer of a round belongs to the next one. */
async function countingProxy(target: URL): Promise<{ url: string; rounds: () => number; reset: () => void }> {
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
  onTestFinished(() => void server.close());
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The proxy does not listen');
  const url = new URL(target);
  url.host = `127.0.0.1:${address.port}`;
  return {
    url: url.href,
    rounds: () => answered,
    reset: () => {
      answered = 0;
      asked.clear();
    },
  };
}

test('a request waits for the database as few times as it can', { timeout: 60_000 }, async () => {
  const proxy = await countingProxy(new URL(await database()));
  const server = await startTestServer({ config: { postgres: { url: proxy.url, directUrl: undefined } } });
  onTestFinished(() => server.close());
  const client: TestAccount = await server.account();
  const { body: conversation } = await client.rest('POST', '/conversations', { body: {} });
  const message = { content: 'Hello', sender: 'agent', author: { id: 'agent-1' } };
  const path = `/conversations/${conversation.id}`;
  const roundsOf = async (method: string, path: string, body?: object): Promise<number> => {
    let fewest = Number.POSITIVE_INFINITY;
    // Each connection prepares a statement at its first use.
    for (let count = 0; count < repetitions; count++) {
      proxy.reset();
      const { status } = await client.rest(method, path, body === undefined ? {} : { body });
      expect(status).toBeLessThan(300);
      fewest = Math.min(fewest, proxy.rounds());
    }
    return fewest;
  };
  const found = {
    'a send': await roundsOf('POST', `${path}/messages`, message),
    'a conversation that is created': await roundsOf('POST', '/conversations', {}),
    'a conversation with its messages': await roundsOf('GET', path),
    messages: await roundsOf('GET', `${path}/messages`),
    'a list': await roundsOf('GET', '/conversations'),
    events: await roundsOf('GET', '/events'),
    account: await roundsOf('GET', '/account'),
  };
  expect(found).toEqual({
    'a send': 3,
    'a conversation that is created': 4,
    'a conversation with its messages': 4,
    messages: 3,
    'a list': 3,
    events: 4,
    account: 2,
  });
});
