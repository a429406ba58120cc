import { existsSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { finishErasures } from '../../src/domain/conversations.ts';
import type { Storage } from '../../src/domain/storage-port.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { effort, longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { sampleHash, startMs, storedAccount, storedConversation } from '../support/samples.ts';
import { leastOf, until } from '../support/wait.ts';

const pageBytes = 4_096 + 24;
/** More than the log has while the thread is at work; if that fails, commits fold the log in from here on. */
const pagesAtMost = 8_000;
const together = 64;
/** Fifteen kilobytes, which are four pages and some more. */
const result = JSON.stringify('x'.repeat(15_000));

/** Commits so many groups, each of some three hundred pages. */
async function commit(storage: Storage, accountId: string, { from, to }: { from: number; to: number }): Promise<void> {
  for (let group = from; group < to; group++) {
    const kept = { fingerprint: sampleHash(), result, conversationId: null, createdAtMs: startMs };
    const put = (index: number) =>
      storage.write(async (tx) => tx.idempotencyRecords.put(accountId, `${group}-${index}`, kept));
    await Promise.all(Array.from({ length: together }, (_, index) => put(index)));
  }
}

/** The most pages that the log has had: its file is written anew from its beginning, and never shorter. */
function mostPages(path: string): number {
  return statSync(`${path}-wal`).size / pageBytes;
}

/** How many pages are in the log, and how many of them the file has. */
function stateOf(path: string): { log: number; checkpointed: number } {
  const connection = new Database(path);
  const [state] = connection.pragma('wal_checkpoint(NOOP)') as [{ log: number; checkpointed: number }];
  connection.close();
  return state;
}

/** Whether the file has what is in the log, or so little is in it that nobody takes care of that yet. */
function isFolded(path: string): boolean {
  const { log, checkpointed } = stateOf(path);
  return checkpointed === log || log < pagesAtMost / 4;
}

/** Waits until it is. What was committed while the thread was at it, it comes to with the next commit. */
async function folded(path: string, commitMore: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      await until(() => isFolded(path), 200);
      return;
    } catch {
      await commitMore();
    }
  }
}

function keptIn(path: string): unknown {
  const connection = new Database(path, { readonly: true });
  onTestFinished(() => void connection.close());
  expect(connection.pragma('integrity_check', { simple: true })).toBe('ok');
  return connection.prepare('SELECT count(*), min(length(result)) FROM kept_results').raw().get();
}

describe('the write-ahead log', () => {
  test('is checkpointed during writes, and not by the commits', async () => {
    const path = join(temporaryFolder(), 'test.db');
    const storage = openSqliteStorage(path);
    const { id } = await storedAccount(storage);
    await commit(storage, id, { from: 60, to: 61 });
    const rounds = effort(4, 6);
    for (let round = 0; round < rounds; round++) {
      await commit(storage, id, { from: 8 * round, to: 8 * (round + 1) });
      await folded(path, () => commit(storage, id, { from: 60, to: 61 }));
    }
    const pages = mostPages(path);
    await storage.close();
    expect(statSync(path).size / 4_096, 'so much was written').toBeGreaterThan(effort(1, 1.5) * pagesAtMost);
    expect(pages, 'it began anew').toBeLessThan(pagesAtMost);
    expect(keptIn(path)).toEqual([(8 * rounds + 1) * together, result.length]);
  });

  test('is not checkpointed by commits after a long read has ended, either', async () => {
    const path = join(temporaryFolder(), 'test.db');
    const storage = openSqliteStorage(path);
    const { id } = await storedAccount(storage);
    const commitAfterRead = async (): Promise<number> => {
      const reader = new Database(path, { readonly: true });
      reader.exec('BEGIN');
      reader.prepare('SELECT count(*) FROM accounts').get();
      await commit(storage, id, { from: 0, to: 32 });
      reader.close();
      await storage.write(async (tx) => tx.rateWindows.add(id, 1, 1));
      const { log, checkpointed } = stateOf(path);
      expect(log).toBeGreaterThan(pagesAtMost);
      await folded(path, () => commit(storage, id, { from: 41, to: 42 }));
      return checkpointed;
    };
    // Right after the commit. On a busy machine the thread may have done its work by then, but not every time.
    expect(await leastOf(commitAfterRead, pagesAtMost / 4)).toBeLessThan(pagesAtMost / 4);
    await storage.close();
    expect(keptIn(path)).toEqual([expect.any(Number), result.length]);
  });

  longTest('is emptied after erasures by the thread, and not by the event loop, whatever else goes on', async () => {
    const path = join(temporaryFolder(), 'test.db');
    const checkpoints = new Set<string>();
    const onStatement = (sql: string) => void (/wal_\w*checkpoint/i.test(sql) && checkpoints.add(sql));
    const storage = openSqliteStorage(path, { onStatement });
    onTestFinished(() => storage.close());
    onTestFinished(storage.watch(() => {})); // as a server does all the time
    const { id } = await storedAccount(storage);
    const other = openSqliteStorage(path, { onStatement });
    onTestFinished(() => other.close());
    const reader = new Database(path, { readonly: true });
    onTestFinished(() => void reader.close());
    const isEmpty = () => statSync(`${path}-wal`).size === 0;
    const texts = Array.from({ length: 150 }, () => 'x'.repeat(1_000));
    const erase = async (by: Storage): Promise<void> => {
      const conversation = await storedConversation(storage, id, texts); // takes several transactions
      await by.write(async (tx) => tx.conversations.erase(id, conversation));
      await finishErasures(by);
    };
    checkpoints.clear(); // at the start nobody is served yet

    await erase(storage);
    await until(isEmpty);

    await commit(storage, id, { from: 0, to: 8 }); // the thread is at a checkpoint
    await erase(storage);
    await until(isEmpty);

    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM accounts').get();
    await erase(storage);
    // Others write until the thread has given up and is asked again.
    for (const startedMs = performance.now(); performance.now() - startedMs < 300; ) {
      await commit(storage, id, { from: 10, to: 11 });
    }
    expect(isEmpty()).toBe(false);
    reader.exec('COMMIT');
    await until(isEmpty);

    await erase(other); // another process, for which this one looks, too
    await until(isEmpty);

    // This one only asks how large the log is.
    expect([...checkpoints]).toEqual(['PRAGMA wal_checkpoint(NOOP)']);
  });

  test('is released by the thread when the storage is closed, even during a checkpoint', async () => {
    for (const groups of effort([13, 16], [10, 12, 14, 16, 18, 20])) {
      const path = join(temporaryFolder(), 'test.db');
      const storage = openSqliteStorage(path);
      const { id } = await storedAccount(storage);
      await commit(storage, id, { from: 0, to: groups });
      await storage.close();
      expect(existsSync(`${path}-wal`), 'the last to close it has folded all of it').toBe(false);
      expect(keptIn(path)).toEqual([groups * together, result.length]);
    }
  });

  test('is checkpointed by commits when the thread cannot do it, which is reported once', async () => {
    const folder = temporaryFolder();
    const path = join(folder, 'test.db');
    const failures: unknown[] = [];
    const storage = openSqliteStorage(path, { onThreadFailure: (error) => failures.push(error) });
    const { id } = await storedAccount(storage);
    // Who has it open goes on; who opens it now finds nothing.
    const moved = join(folder, 'moved.db');
    for (const suffix of ['', '-wal', '-shm']) renameSync(path + suffix, moved + suffix);
    await commit(storage, id, { from: 0, to: 10 }); // enough to start the thread, which takes a while to fail
    await until(() => failures.length > 0);
    await commit(storage, id, { from: 10, to: 40 });
    const pages = mostPages(moved);
    await storage.close();
    expect(pages).toBeGreaterThan(pagesAtMost);
    expect(pages, 'it began anew').toBeLessThan(1.2 * pagesAtMost);
    expect(keptIn(moved)).toEqual([40 * together, result.length]);
    expect(failures).toEqual([expect.objectContaining({ code: 'SQLITE_CANTOPEN' })]);
  });
});
