import postgres from 'postgres';
import { expect, onTestFinished } from 'vitest';
import { systemClock } from '../../src/server/clock.ts';
import { openPostgresStorage } from '../../src/storage/postgres/storage.ts';
import { longTest as test } from '../support/effort.ts';
import { postgresServer } from '../support/postgres.ts';
import { storedAccount } from '../support/samples.ts';

const { database } = postgresServer();

const days = 200;
const buckets = 500;

/** An account that has answered in many different times, every day. */
async function busyAccount() {
  const url = await database();
  const storage = await openPostgresStorage(url, { clock: systemClock });
  onTestFinished(() => storage.close());
  const { id } = await storedAccount(storage);
  const client = postgres(url, { max: 1, fetch_types: false });
  await storage.write(async (tx) => {
    for (let day = 0; day < days; day++) await tx.analytics.add(id, day * 96, { conversationsStarted: 1 });
  }, id);
  await client`UPDATE analytics_counters SET first_responses = ${buckets}, first_response_ms = 1`;
  await client`INSERT INTO analytics_histograms (account_id, name, width, quarter, bucket, count)
    SELECT ${id}, 'firstResponses', 96, day * 96, bucket, 1
      FROM generate_series(0, ${days}::integer - 1) AS day, generate_series(1, ${buckets}::integer) AS bucket`;
  await client.unsafe('ANALYZE');
  onTestFinished(() => client.end());
  return { id, analytics: storage.read.analytics, client };
}

/** The shortest of three times, since other programs run beside it. */
async function timeOf(read: () => unknown) {
  const times: number[] = [];
  for (let round = 0; round < 3; round++) {
    const start = performance.now();
    await read();
    times.push(performance.now() - start);
  }
  return Math.min(...times);
}

test('a report of many days has the durations of each of them, and is read in one pass', async () => {
  const { id, analytics, client } = await busyAccount();
  const ranges = Array.from({ length: days }, (_, day) => ({ from: day * 96, to: (day + 1) * 96 }));
  const sums = await analytics.sums(id, ranges);
  const each = Array.from({ length: buckets }, (_, index) => [index + 1, 1]).flat();
  for (const { firstResponses, resolutions } of sums) {
    expect(firstResponses).toEqual({ count: buckets, sumMs: 1, buckets: each });
    expect(resolutions).toEqual({ count: 0, sumMs: 0, buckets: [] });
  }
  const [all] = await analytics.sums(id, [{ from: 0, to: 96 * days }]);
  const together = Array.from({ length: buckets }, (_, index) => [index + 1, days]).flat();
  expect(all?.firstResponses).toEqual({ count: buckets * days, sumMs: days, buckets: together });

  // If each day looked for its durations among those of all days, the report would take thirty times as long as this.
  const inOnePass = () => client`SELECT quarter, json_agg(json_build_array(bucket, count) ORDER BY bucket)
    FROM analytics_histograms GROUP BY quarter`;
  expect(await timeOf(() => analytics.sums(id, ranges))).toBeLessThan(10 * (await timeOf(inOnePass)));
});
