import postgres from 'postgres';
import { expect, onTestFinished } from 'vitest';
import { systemClock } from '../../src/server/clock.ts';
import { openPostgresStorage } from '../../src/storage/postgres/storage.ts';
import { longTest as test } from '../support/effort.ts';
import { postgresServer } from '../support/postgres.ts';
import { storedAccount } from '../support/samples.ts';

const { database } = postgresServer();

const days = 200;
const buckets = 150;

/** An account that has answered in many different times, every day. */
async function busyAccount() {
  const url = await database();
  const storage = await openPostgresStorage(url, { clock: systemClock, statementTimeoutMs: 300 });
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
  await client.end();
  return { id, analytics: storage.read.analytics };
}

test('a report of many days is read in time, however many durations each of them has', async () => {
  const { id, analytics } = await busyAccount();
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
});
