import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { serve, start } from '../cli/program.ts';
import { clientOf, type Json } from '../support/client.ts';
import { effort, longTest as test } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { brokenDisk, cannotBreak } from './broken-disk.ts';
import { avoidEndOfMinute, expectAcknowledgedWrites, expectReads } from './fault-checks.ts';
import { makeBusyAccount, Writers } from './writers.ts';

// A disk that takes what it is given and then says that it could not keep it, and one that the system has made
// read-only in the midst of it all. After a failed fsync nobody knows what is on the disk: what was written may be found
// there later, or not. So what was refused may have happened after a crash, but what was acknowledged must have.

const name = `a disk${cannotBreak === undefined ? '' : ` (skipped: ${cannotBreak})`}`;

describe.skipIf(cannotBreak !== undefined)(name, () => {
  test('whose syncs fail, or that cannot be written, has nothing acknowledged that could be lost, and all go on when it is well', {
    timeout: effort(30_000, 300_000),
  }, async () => {
    const disk = brokenDisk();
    const path = join(temporaryFolder(), 'test.db');
    const secret = await makeBusyAccount(path);
    const first = await serve(path, disk.environment);
    const client = clientOf(first.url, secret);
    const writers = await Writers.start(first.url, secret, 4, 500);
    for (let round = 0; round < effort(2, 10); round++) {
      const { done, refused } = writers;
      await avoidEndOfMinute(client, 5_000);
      disk.break(round % 2 === 0 ? 'fsync' : 'write');
      await writers.until(() => writers.refused >= refused + 5);
      await expectReads(first.url, client);
      disk.mend();
      await writers.until(() => writers.done >= done + effort(20, 200));
    }
    const { refused } = writers;
    await avoidEndOfMinute(client, 5_000);
    disk.break('fsync');
    await writers.until(() => writers.refused > refused);
    await writers.stop();
    await expectAcknowledgedWrites(client, writers);

    const headers = { 'idempotency-key': 'once' };
    const body = { externalId: 'refused', message: { sender: 'visitor', content: 'Is this kept?' } };
    expect((await client.rest('POST', '/conversations', { body, headers })).status).toBe(503);
    first.signal('SIGKILL');
    await first.ended;
    disk.mend();

    const second = await serve(path, disk.environment);
    const again = clientOf(second.url, secret);
    for (const [id, acknowledged] of writers.acknowledged) {
      const { messages } = (await again.rest('GET', `/conversations/${id}`)).body;
      const found = new Map(messages.map(({ id, sequence, content }: Json) => [id, { sequence, content }]));
      for (const [id, message] of acknowledged) expect(found.get(id)).toEqual(message);
      expect(messages.map(({ sequence }: Json) => sequence)).toEqual(
        messages.map((_: Json, index: number) => index + 1),
      );
    }
    // Whether it was kept or not, it is done once.
    expect((await again.rest('POST', '/conversations', { body, headers })).status).toBe(201);
    const list = await again.rest('GET', '/conversations?externalId=refused');
    expect(list.body.pagination.total).toBe(1);
    await logIsWhole(again);
  });

  test('whose syncs fail is given no backup, and what could not be kept replaces nothing', async () => {
    const disk = brokenDisk();
    const [path, early, late] = ['test.db', 'early.db', 'late.db'].map((file) => join(temporaryFolder(), file)) as [
      string,
      string,
      string,
    ];
    await makeBusyAccount(path);
    const environment = { ...disk.environment, DATABASE_URL: `file:${path}` };
    const run = async (...args: string[]) => (await start(args, { environment }).ended).code;
    expect(await run('backup', early)).toBe(0);
    const before = readFileSync(path);
    disk.break('fsync');
    expect([await run('backup', late), await run('restore', early), await run('compact')]).toEqual([1, 1, 1]);
    expect(existsSync(late)).toBe(false);
    expect(readFileSync(path)).toEqual(before);
    disk.mend();
    expect([await run('backup', late), await run('restore', early)]).toEqual([0, 0]);
  });
});

/** Its sequence has no gap, and nothing is in it twice. */
async function logIsWhole(client: ReturnType<typeof clientOf>): Promise<void> {
  const events: Json[] = [];
  for (let after = ''; ; ) {
    const { body } = await client.rest('GET', `/events?limit=100${after}`);
    events.push(...body.data);
    if (!body.pagination.hasMore) break;
    after = `&after=${encodeURIComponent(body.pagination.nextCursor)}`;
  }
  expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1));
  expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
  const received = events.filter(({ type }) => type === 'message.received');
  expect(new Set(received.map(({ data }) => data.message.id)).size).toBe(received.length);
}
