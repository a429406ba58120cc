import { expect, onTestFinished, type TestContext } from 'vitest';
import { Pool } from '../../src/storage/postgres/connections.ts';
import { isUseless } from '../../src/storage/postgres/errors.ts';
import { serve } from '../cli/program.ts';
import { clientOf, type Json } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { readLog } from '../support/log.ts';
import { canPrepare, needPgbouncer, Pgbouncer } from '../support/pgbouncer.ts';
import { postgresServer } from '../support/postgres.ts';
import { startTestServer } from '../support/server.ts';
import { SseReader } from '../support/sse.ts';
import { eventually } from '../support/wait.ts';

// Two nodes whose database is behind pgbouncer in transaction mode, which has fewer connections than they have.

const { database } = postgresServer();
const poolSize = 3;
const senders = 12;
const messages = 10;

async function serveBehindProxy(prepares: boolean): Promise<void> {
  const url = await database();
  const before = await startTestServer({ config: { postgres: { url, directUrl: undefined } } });
  const { secret } = await before.account();
  await before.close();
  const proxy = await Pgbouncer.start(url, poolSize);
  const environment = {
    DATABASE_URL: proxy.url,
    DATABASE_DIRECT_URL: url,
    DATABASE_PREPARE: `${prepares}`,
    DATABASE_POOL_SIZE: '10',
  };
  const nodes = await Promise.all([serve('', environment), serve('', environment)]);
  const clients = nodes.map((node) => clientOf(node.url, secret));
  const streams = await Promise.all(
    nodes.map((node) => SseReader.open(`${node.url}/v1/events/stream`, { authorization: `Bearer ${secret}` })),
  );
  const [client = expect.fail()] = clients;
  const { body: conversation } = await client.rest('POST', '/conversations', { body: { subject: 'Parcel' } });
  const path = `/conversations/${conversation.id}/messages`;
  const send = async (sender: number, number: number): Promise<Json> => {
    const asked = {
      body: { content: `message ${sender} ${number}`, sender: 'visitor' },
      headers: { 'idempotency-key': `key-${sender}-${number}` },
    };
    const answers = await Promise.all(clients.map((each) => each.rest('POST', path, asked)));
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    expect(answers[1]?.body).toEqual(answers[0]?.body);
    return answers[0]?.body;
  };
  await Promise.all(
    Array.from({ length: senders }, async (_, sender) => {
      for (let number = 0; number < messages; number++) {
        const { sequence } = await send(sender, number);
        const { status, body } = await (clients[sender % 2] ?? client).rest('GET', `${path}?limit=100`);
        expect(status).toBe(200);
        expect(body.pagination.total).toBeGreaterThanOrEqual(sequence);
        await (clients[number % 2] ?? client).graphql('{ conversations { totalCount nodes { id subject } } }');
      }
    }),
  );

  // What waits while the proxy is away goes on when it is back.
  await proxy.stop();
  expect((await client.rest('POST', path, { body: { content: 'lost', sender: 'visitor' } })).status).toBe(503);
  await proxy.run();
  await eventually(
    () => client.rest('POST', path, { body: { content: 'the last', sender: 'visitor' } }),
    ({ status }) => status === 201,
  );
  const log = await readLog(client);
  const received = log.filter(({ type }) => type === 'message.received').map(({ data }) => data.message.sequence);
  expect(received).toEqual(Array.from({ length: senders * messages + 1 }, (_, index) => index + 1));
  for (const stream of streams) {
    await stream.until(({ events }) => events.length >= log.length);
    expect(stream.events).toEqual(log);
    stream.close();
  }
  for (const node of nodes) {
    node.signal('SIGTERM');
    const { code, stdout } = await node.ended;
    const unexpected = stdout.split('\n').filter((line) => /"level":"error"/.test(line) && !/ECONN|CONNECT/.test(line));
    expect({ code, unexpected }).toEqual({ code: 0, unexpected: [] });
  }
}

longTest(
  'behind pgbouncer in transaction mode, nodes that prepare nothing keep every promise',
  {
    timeout: 120_000,
  },
  async (context: TestContext) => {
    needPgbouncer(context);
    await serveBehindProxy(false);
  },
);

longTest.for([false, true])(
  'behind pgbouncer no read has the answer of another one, whether they prepare: %s',
  {
    timeout: 120_000,
  },
  async (prepares, context) => {
    needPgbouncer(context);
    const url = await database();
    const proxy = await Pgbouncer.start(url, poolSize);
    const pools = Array.from({ length: 4 }, () => new Pool(proxy.url, 2, { prepares, isProxied: true }));
    onTestFinished(() => Promise.all(pools.map((pool) => pool.close())).then(() => {}));
    const read = async (pool: Pool, number: number): Promise<void> => {
      // Without parameters a statement is sent at once, with some after it was described.
      const [text, values] =
        number % 2 === 0
          ? [`SELECT 'one' AS one_${number % 20}`, []]
          : [`SELECT 'two' AS two_${number % 30}, $1::integer AS number`, [number]];
      const found = await pool.query(text, values, number % 7 !== 0).catch((error: Error) => {
        // An older one cannot hand on what is prepared, which is then an error, and nothing else.
        if (prepares && !canPrepare() && isUseless(error)) return undefined;
        throw error;
      });
      const wanted = number % 2 === 0 ? { [`one${number % 20}`]: 'one' } : { [`two${number % 30}`]: 'two', number };
      if (found !== undefined) expect([...found]).toEqual([wanted]);
    };
    for (let round = 0; round < 20; round++) {
      const all = pools.flatMap((pool) => Array.from({ length: 30 }, (_, index) => read(pool, round * 30 + index)));
      await Promise.all(all);
    }
  },
);

longTest(
  'behind a pgbouncer that hands on prepared statements, nodes may prepare them',
  {
    timeout: 120_000,
  },
  async (context: TestContext) => {
    needPgbouncer(context);
    if (!canPrepare()) context.skip('This pgbouncer is older than 1.21, and hands on no prepared statements.');
    await serveBehindProxy(true);
  },
);
