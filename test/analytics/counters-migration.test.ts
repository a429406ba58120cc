import Database from 'better-sqlite3';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { effort } from '../support/effort.ts';
import { migrations, OlderFile } from '../support/older-file.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { HistoryPlayer, histories, type Step } from './histories.ts';

// A file of before the counters were kept is made from one in which they were: the same rows in the tables
// of then. After the migration it has to hold the same counters.

const before = migrations.findIndex(({ tag }) => tag.endsWith('_analytics'));

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

/** A copy of an account's rows in a file as an older version has left it. */
function olderFile(accountId: string, change: string | undefined): string {
  const older = new OlderFile(before, server.databasePath);
  older.copy('accounts', 'id = ?', accountId);
  for (const table of ['account_totals', 'conversations', 'leads', 'events']) {
    older.copy(table, 'account_id = ?', accountId);
  }
  const keys = 'SELECT key FROM newer.conversations WHERE account_id = ?';
  older.copy('messages', `conversation_key IN (${keys})`, accountId);
  if (change !== undefined) older.run(change);
  older.close();
  return older.path;
}

async function migrated(path: string): Promise<void> {
  const storage = openSqliteStorage(path);
  expect(storage.migrations.applied).toBe(storage.migrations.total - before);
  await storage.close();
}

/** All that is counted of an account, and what its conversations are counted by. */
function counted(path: string, accountId: string) {
  const database = new Database(path, { readonly: true });
  const all = (sql: string) => database.prepare(sql).all(accountId);
  const found = {
    counters: all('SELECT * FROM analytics_counters WHERE account_id = ? ORDER BY quarter'),
    histograms: all(
      'SELECT name, width, quarter, hex(counts) FROM analytics_histograms WHERE account_id = ? ORDER BY name, width, quarter',
    ),
    conversations: all('SELECT id, reopened_at, converted FROM conversations WHERE account_id = ? ORDER BY id'),
  };
  database.close();
  return found;
}

/** Plays a history, and gives what is counted of it as it happened, and after the fact. */
async function countedTwice(steps: readonly Step[], change?: string) {
  const account = await server.account();
  const player = new HistoryPlayer(server, account);
  await player.play(steps);
  const path = olderFile(account.account.id, change);
  await migrated(path);
  return { live: counted(server.databasePath, account.account.id), filled: counted(path, account.account.id) };
}

const isReopening = ({ command }: Step) => command.kind === 'status' && command.to === 'active';

describe('a file of before', () => {
  test('is counted exactly as it would have been, where conversations were reopened by their visitors', async () => {
    await fc.assert(
      fc.asyncProperty(histories({ clockGoesBack: false }), async (steps) => {
        // At one time nothing is before or after anything else.
        const apart = steps
          .filter((step) => !isReopening(step))
          .map(({ laterMs, command }) => ({ laterMs: laterMs + 1, command }));
        const { live, filled } = await countedTwice(apart);
        expect(filled).toEqual(live);
      }),
      { numRuns: effort(5, 150) },
    );
  }, 600_000);

  const hourMs = 3_600_000;
  const create: Step = { laterMs: 0, command: { kind: 'create', first: 'visitor' } };
  const status = (to: 'active' | 'closed'): Step => ({ laterMs: hourMs, command: { kind: 'status', which: 0, to } });
  const reply: Step = { laterMs: hourMs, command: { kind: 'message', which: 0, sender: 'agent' } };
  const sumOf = (counters: unknown[], column: string) =>
    (counters as Record<string, number>[]).reduce((sum, row) => sum + (row[column] ?? 0), 0);

  test('has a reopening by request counted at the next message, and what follows from there', async () => {
    const { live, filled } = await countedTwice([create, status('closed'), status('active'), reply, status('closed')]);
    for (const column of ['conversations_closed', 'conversations_reopened', 'first_responses']) {
      expect(sumOf(filled.counters, column)).toBe(sumOf(live.counters, column));
    }
    // Open for an hour, then for two, of which one can be known.
    expect(sumOf(live.counters, 'resolution_ms')).toBe(3 * hourMs);
    expect(sumOf(filled.counters, 'resolution_ms')).toBe(2 * hourMs);
  });

  test('has a reopening that nothing followed counted at the last change', async () => {
    const { live, filled } = await countedTwice([create, reply, status('closed'), status('active')]);
    expect(filled).toEqual(live);
  });

  test('has the last closing counted, though the log no longer reaches back to it', async () => {
    const { live, filled } = await countedTwice([create, reply, status('closed')], 'DELETE FROM events');
    expect(filled).toEqual(live);
  });

  test('may be empty', async () => {
    expect((await countedTwice([])).filled).toEqual({ counters: [], histograms: [], conversations: [] });
  });
});
