import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { effort } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { Chronicle, histories, type Step } from './histories.ts';

// A file of before the counters were kept is made from one in which they were: the same rows in the tables
// of then. After the migration it has to hold the same counters.

const drizzle = join(import.meta.dirname, '../../drizzle');
const { entries } = JSON.parse(readFileSync(join(drizzle, 'meta/_journal.json'), 'utf8')) as {
  entries: { tag: string; when: number }[];
};
const before = entries.slice(
  0,
  entries.findIndex(({ tag }) => tag.endsWith('_analytics')),
);

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

/** A copy of an account's rows in a file as an older version has left it. */
function olderFile(accountId: string): string {
  const path = join(temporaryFolder(), 'older.db');
  const older = new Database(path);
  older.exec(
    'CREATE TABLE __drizzle_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, hash text NOT NULL, created_at numeric)',
  );
  for (const { tag, when } of before) {
    older.exec(readFileSync(join(drizzle, `${tag}.sql`), 'utf8'));
    older.prepare('INSERT INTO __drizzle_migrations (hash, created_at) VALUES (?, ?)').run(tag, when);
  }
  older.prepare('ATTACH ? AS newer').run(server.databasePath);
  const keys = 'SELECT key FROM newer.conversations WHERE account_id = ?';
  for (const [table, condition] of [
    ['accounts', 'id = ?'],
    ['account_totals', 'account_id = ?'],
    ['conversations', 'account_id = ?'],
    ['messages', `conversation_key IN (${keys})`],
    ['leads', 'account_id = ?'],
    ['events', 'account_id = ?'],
  ] as const) {
    const columns = older
      .prepare<[], { name: string }>(`PRAGMA table_info(${table})`)
      .all()
      .map(({ name }) => name)
      .join();
    older
      .prepare(`INSERT INTO ${table} (${columns}) SELECT ${columns} FROM newer.${table} WHERE ${condition}`)
      .run(accountId);
  }
  older.close();
  return path;
}

async function migrated(path: string): Promise<void> {
  const storage = openSqliteStorage(path);
  expect(storage.migrations.applied).toBe(storage.migrations.total - before.length);
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
async function countedTwice(steps: readonly Step[], lose?: (older: Database.Database) => void) {
  const account = await server.account();
  const chronicle = new Chronicle(server, account);
  await chronicle.play(steps);
  const path = olderFile(account.account.id);
  if (lose !== undefined) {
    const older = new Database(path);
    lose(older);
    older.close();
  }
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
      { numRuns: effort(12, 150) },
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
    const { live, filled } = await countedTwice([create, reply, status('closed')], (older) =>
      older.exec('DELETE FROM events'),
    );
    expect(filled).toEqual(live);
  });

  test('may be empty', async () => {
    expect((await countedTwice([])).filled).toEqual({ counters: [], histograms: [], conversations: [] });
  });
});
