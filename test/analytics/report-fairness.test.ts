import { afterAll, beforeAll, expect, test } from 'vitest';
import { Calendar } from '../../src/domain/calendar.ts';
import type { Json } from '../support/client.ts';
import { cpuMsOf, longestTurnMs } from '../support/cpu-time.ts';
import { longTest } from '../support/effort.ts';
import { isOnPostgres } from '../support/postgres.ts';
import { analytics } from '../support/selections.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

let server: TestServer;
let client: TestAccount;
/** The reads of counters, as SQL with their values. */
const reads: string[] = [];

beforeAll(async () => {
  server = await startTestServer({
    onStatement: (sql) => {
      if (/SELECT .* FROM analytics_counters/s.test(sql)) reads.push(sql);
    },
  });
  client = await server.account();
});
afterAll(() => server.close());

const reports = (count: number): string =>
  `{ ${Array.from({ length: count }, (_, index) => `r${index}: analytics(from: "2026-11-20T00:00:00Z", to: "2026-11-21T00:00:00Z") { period { from } }`).join(' ')} }`;

const codesOf = ({ errors = [] }: Json): string[] => errors.map((error: Json) => error.extensions.code);

test('a report waits for one step of each other account, however many reports that account has asked for', async () => {
  const other = await server.account();
  const { analytics } = server.storage.read;
  const range = { from: 1_000, to: 1_100 };
  const done: string[] = [];
  const report = async ({ account: { id } }: TestAccount): Promise<void> => {
    await analytics.sums(id, [range]);
    done.push(id);
  };
  // PostgreSQL's connections are made, and prepare a statement, at their first use.
  for (let count = 0; count < 3; count++) await Promise.all([report(client), report(other)]);
  done.length = 0;
  await Promise.all([...Array.from({ length: 30 }, () => report(client)), report(other)]);
  // PostgreSQL's processes run at the same time: the machine decides whose answer comes first.
  expect(done.indexOf(other.account.id)).toBeLessThanOrEqual(isOnPostgres ? 10 : 2);
});

test('a report of years is read in steps, between which others have their turn', async () => {
  reads.length = 0;
  const period = 'from=2024-01-01T00:00:00Z&to=2026-01-01T00:00:00Z&interval=month';
  expect((await client.rest('GET', `/analytics?${period}`)).status).toBe(200);
  if (isOnPostgres) {
    expect(reads.length, 'of a hundred days at most').toBeGreaterThanOrEqual((731 + 730) / 100);
    return;
  }
  const lengths = reads.map((sql) => {
    const [, from, to] = /quarter >= \(SELECT (\d+).*quarter < \(SELECT (\d+)/s.exec(sql) ?? [];
    return Number(to) - Number(from);
  });
  expect(
    lengths.reduce((sum, length) => sum + length, 0),
    'the period and the one before it',
  ).toBe((731 + 730) * 96);
  expect(Math.max(...lengths)).toBeLessThanOrEqual(10 * 96);
});

longTest(
  'dividing periods into a thousand weeks lets others in between, however many reports a batch asks for',
  async () => {
    const [from, to] = ['1990-01-01T00:00:00Z', '2029-01-01T00:00:00Z'];
    const report = (index: number) =>
      `r${index}: analytics(from: "${from}", to: "${to}", interval: WEEK) { period { to } }`;
    const query = `{ ${Array.from({ length: 5 }, (_, index) => report(index)).join(' ')} }`;
    const batch = Array.from({ length: 10 }, () => ({ query }));
    // That there are too many points is known when a thousand are made. Nothing is read then.
    const { body } = await client.post(batch);
    expect(body.flatMap(codesOf)).toEqual(Array.from({ length: 50 }, () => 'VALIDATION_FAILED'));
    const allMs = 50 * cpuMsOf(() => new Calendar('UTC').cut(Date.parse(from), Date.parse(to), 'week', 1_000));
    let leastMs = Number.POSITIVE_INFINITY;
    // One attempt may meet a collection of garbage.
    for (let attempt = 0; attempt < 3; attempt++) {
      leastMs = Math.min(leastMs, await longestTurnMs(() => client.post(batch)));
    }
    expect(leastMs).toBeLessThan(allMs / 4);
  },
);

test('an operation can ask for five reports, and so can each of a batch', async () => {
  expect(codesOf((await client.post({ query: reports(5) })).body)).toEqual([]);
  expect(codesOf((await client.post({ query: reports(6) })).body)).toEqual(['QUERY_TOO_COMPLEX']);
  const batch = await client.post([{ query: reports(5) }, { query: reports(5) }]);
  expect(batch.body.map(codesOf)).toEqual([[], []]);
});

test('a batch can ask for two reports whole', async () => {
  const { body } = await client.post(Array.from({ length: 2 }, () => ({ query: `{ analytics { ${analytics} } }` })));
  expect(body.map(codesOf)).toEqual([[], []]);
});
