import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { systemClock } from '../../src/server/clock.ts';
import type { Copied } from '../../src/storage/copy.ts';
import { openPostgresStorage } from '../../src/storage/postgres/storage.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { start } from '../cli/program.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { postgresServer } from '../support/postgres.ts';
import { Random } from '../support/random.ts';
import { storedAccount, storedConversation } from '../support/samples.ts';
import { seed, withHint } from '../support/seed.ts';

const { database } = postgresServer();

const conversations = 300;
const kills = 40;

function storageOf(url: string) {
  return url.startsWith('file:')
    ? openSqliteStorage(url.slice('file:'.length))
    : openPostgresStorage(url, { clock: systemClock });
}

longTest('a copy that is killed at any instant, again and again, is the same in the end', async () => {
  const folder = temporaryFolder();
  const first = `file:${join(folder, 'a.db')}`;
  const storage = await storageOf(first);
  for (let account = 0; account < 3; account++) {
    const { id } = await storedAccount(storage);
    for (let count = 0; count < conversations; count++) {
      const texts = Array.from({ length: 20 }, (_, index) => `parcel ${account} ${count} ${index}`);
      await storedConversation(storage, id, texts);
    }
  }
  await storage.close();
  const random = new Random(seed, 0);
  try {
    // There, to another server's database, and back: what is lost or doubled on the way is missing or too much at the end.
    const ways = [
      first,
      await database(),
      await database(),
      `file:${join(folder, 'b.db')}`,
      `file:${join(folder, 'c.db')}`,
    ];
    let whole: unknown;
    let continued = 0;
    for (const [index, to] of ways.entries()) {
      if (index === 0) continue;
      const args = ['copy', '--from', ways[index - 1] ?? '', '--to', to];
      const copied = await copyWithKills(args, random);
      if (copied?.continued) continued++;
      whole ??= copied?.tables;
      if (copied !== undefined) expect(copied.tables).toEqual(whole);
    }
    expect(whole).toMatchObject({
      accounts: 3,
      messages: 3 * 20 * conversations,
      search_texts: 3 * 21 * conversations,
    });
    // Of so many kills, some come between two batches.
    expect(continued).toBeGreaterThan(0);
    const last = await storageOf(ways.at(-1) ?? '');
    expect(await last.read.accounts.list()).toHaveLength(3);
    await last.close();
  } catch (error) {
    throw withHint(error, `TEST_SEED=${seed}`);
  }
});

/** Kills a copy at instants that come later and later, until one of them comes too late. Returns what was verified. */
async function copyWithKills(args: readonly string[], random: Random): Promise<Copied | undefined> {
  for (let kill = 0; ; kill++) {
    const running = start([...args, '--json']);
    if (kill < kills) await Promise.race([running.ended, sleep(random.below(200 + 30 * kill))]);
    if (kill < kills) running.signal('SIGKILL');
    const { code, stdout, stderr } = await running.ended;
    if (code === 0) return JSON.parse(stdout) as Copied;
    // The last kill can have come right after the end.
    if (code !== null && stderr.includes('it holds accounts already')) return undefined;
    expect({ code, stderr }).toEqual({ code: null, stderr: '' });
  }
}
