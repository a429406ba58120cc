import postgres from 'postgres';
import { expect, onTestFinished } from 'vitest';
import { systemClock } from '../../src/server/clock.ts';
import { Pool } from '../../src/storage/postgres/connections.ts';
import { openPostgresStorage } from '../../src/storage/postgres/storage.ts';
import { longTest as test } from '../support/effort.ts';
import { postgresServer } from '../support/postgres.ts';
import { sampleConversation, storedAccount } from '../support/samples.ts';
import { startTestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';
import { TcpRelay } from '../support/tcp-relay.ts';
import { eventually, until } from '../support/wait.ts';

const { database } = postgresServer();

test('an account whose reads hang leaves connections for the reads of others', async () => {
  const url = await database();
  const storage = await openPostgresStorage(url, { clock: systemClock });
  onTestFinished(() => storage.close());
  const [mine, theirs] = [await storedAccount(storage), await storedAccount(storage)];
  const conversation = sampleConversation();
  await storage.write(async (tx) => tx.conversations.insert(mine.id, conversation), mine.id);
  const operator = postgres(url, { max: 1, fetch_types: false });
  onTestFinished(() => operator.end());
  let answered = 0;
  const reading = await operator.begin(async (transaction) => {
    await transaction`LOCK TABLE conversations IN ACCESS EXCLUSIVE MODE`;
    const hanging = Array.from({ length: 50 }, async () => {
      const found = await storage.read.conversations.find(mine.id, conversation.id);
      answered++;
      return found;
    });
    const all = Promise.allSettled(hanging);
    for (let count = 0; count < 20; count++) await storage.read.accounts.totals(theirs.id);
    expect(answered).toBe(0);
    return { all };
  });
  const found = await reading.all;
  expect(found).toEqual(Array.from({ length: 50 }, () => ({ status: 'fulfilled', value: conversation })));
});

test.for([4, 2])(
  'reports of many accounts leave connections for other reads, where there are %i',
  async (maxReaders) => {
    const url = await database();
    const storage = await openPostgresStorage(url, { clock: systemClock, maxReaders });
    onTestFinished(() => storage.close());
    const other = await storedAccount(storage);
    const operator = postgres(url, { max: 1, fetch_types: false });
    onTestFinished(() => operator.end());
    let ended = 0;
    const report = async (accountId: string) => {
      try {
        const [sums] = await storage.read.analytics.sums(accountId, [{ from: 0, to: 96 }]);
        return sums?.conversationsStarted;
      } finally {
        ended++;
      }
    };
    const { reports } = await operator.begin(async (transaction) => {
      await transaction`LOCK TABLE analytics_counters IN ACCESS EXCLUSIVE MODE`;
      const reports = Promise.allSettled(Array.from({ length: 8 }, (_, index) => report(`acct_${index}`)));
      for (let count = 0; count < 20; count++) await storage.read.accounts.totals(other.id);
      expect(ended).toBe(0);
      return { reports };
    });
    expect(await reports).toEqual(Array.from({ length: 8 }, () => ({ status: 'fulfilled', value: 0 })));
  },
);

test('what an account’s subscriptions read for events is asked for four at a time, and all is answered', async () => {
  const url = await database();
  const asked: string[] = [];
  const server = await startTestServer({
    config: { postgres: { url, directUrl: undefined } },
    onStatement: (text) => {
      if (text.includes('JOIN messages')) asked.push(text);
    },
  });
  onTestFinished(() => server.close());
  const [mine, theirs] = [await server.account(), await server.account()];
  const after = (await mine.graphql('{ eventCursor }')).data.eventCursor;
  await mine.rest('POST', '/conversations', { body: { message: { content: 'Hello?', sender: 'visitor' } } });
  const operator = postgres(url, { max: 1, fetch_types: false });
  onTestFinished(() => operator.end());
  const socket = await new RawSocket(server.url).init(mine.secret);
  const count = 20;
  await operator.begin(async (transaction) => {
    await transaction`LOCK TABLE messages IN ACCESS EXCLUSIVE MODE`;
    for (let index = 0; index < count; index++) {
      const current = 'conversation { current { messages(first: 1) { nodes { content } } } }';
      // Each is another: those that are the same share an answer.
      const query = `subscription ($after: String) { n${index}: conversationStarted(after: $after) { ${current} } }`;
      socket.send({ id: `s${index}`, type: 'subscribe', payload: { query, variables: { after } } });
    }
    await until(() => asked.length > 0);
    for (let times = 0; times < 10; times++) expect((await theirs.rest('GET', '/conversations')).status).toBe(200);
    expect(asked.length).toBeLessThanOrEqual(4); // some wait on the same connections for the conversation first
  });
  await until(() => socket.messages.filter(({ type }) => type === 'next').length === count);
  socket.socket.close();
});

test('reads that wait in a line are each asked once, however long the line takes, while their connection answers', async () => {
  const sent: string[] = [];
  const pool = new Pool(await database(), 1, {
    statementTimeoutMs: 1_000,
    onStatement: (text) => void sent.push(text),
  });
  onTestFinished(() => pool.close());
  const numbers = Array.from({ length: 10 }, (_, number) => number);
  // Together they take longer than the 4 s after which a connection without an answer is given up.
  const read = (number: number) => pool.query('SELECT $1::integer AS number, pg_sleep(0.5)', [number]);
  const answers = await Promise.all(numbers.map(read));
  expect(answers.map(([row]) => row?.['number'])).toEqual(numbers);
  expect({ sent: sent.length, losses: pool.losses }).toEqual({ sent: 10, losses: 0 });
});

test('a connection that answers no more is given up, however much it is asked meanwhile, and the reads on it are asked again', async () => {
  const url = await database();
  const relay = await TcpRelay.open(url);
  const pool = new Pool(relay.through(url), 1, { statementTimeoutMs: 100 });
  onTestFinished(() => pool.close());
  await pool.query('SELECT 1', []);
  relay.stall();
  const reads: Promise<unknown>[] = [];
  await eventually(
    async () => {
      reads.push(pool.query('SELECT 1', []));
      return pool.losses;
    },
    (losses) => losses === 1,
    100,
  );
  await Promise.all(reads);
  expect(pool.losses).toBe(1);
});
