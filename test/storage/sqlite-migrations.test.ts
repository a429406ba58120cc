import { execFile } from 'node:child_process';
import { cpSync, existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import Database from 'better-sqlite3';
import { is } from 'drizzle-orm';
import { getTableConfig, SQLiteTable } from 'drizzle-orm/sqlite-core';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import * as declared from '../../src/storage/sqlite/tables.ts';
import { commandLine, serve } from '../cli/program.ts';
import { type Client, clientOf } from '../support/client.ts';
import { TestClock } from '../support/clock.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { putMigrated } from '../support/migrated-file.ts';
import { migrations, OlderFile } from '../support/older-file.ts';
import { Receiver } from '../support/receiver.ts';
import { storedAccount } from '../support/samples.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { eventually } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';

const repository = join(import.meta.dirname, '../..');

/** A file that was migrated and let go of. */
async function migratedFile(): Promise<string> {
  return await putMigrated(join(temporaryFolder(), 'test.db'));
}

function query<Row>(path: string, sql: string): Row[] {
  const connection = new Database(path, { readonly: true });
  const rows = connection.prepare<[], Row>(sql).all();
  connection.close();
  return rows;
}

async function migrateInAProcess(path: string, cwd = repository): Promise<{ applied: number; total: number }> {
  const { stdout } = await promisify(execFile)(process.execPath, ['dist/main.js', 'migrate', '--json'], {
    cwd,
    env: { ...process.env, DATABASE_URL: `file:${path}` },
  });
  return JSON.parse(stdout);
}

describe('opening', () => {
  test('creates a missing file with its folder, and migrates it', async () => {
    const path = join(temporaryFolder(), 'some', 'where', 'new.db');
    const storage = openSqliteStorage(path);
    onTestFinished(() => storage.close());
    expect(storage.migrations.total).toBeGreaterThan(0);
    expect(storage.migrations.applied).toBe(storage.migrations.total);
    const account = await storedAccount(storage);
    expect(await storage.read.accounts.list()).toEqual([account]);
  });

  test('migrates an empty file as if it were new', () => {
    const path = join(temporaryFolder(), 'empty.db');
    new Database(path).close();
    const storage = openSqliteStorage(path);
    onTestFinished(() => storage.close());
    expect(storage.migrations.applied).toBe(storage.migrations.total);
  });

  test('applies and changes nothing the second time', async () => {
    const path = await migratedFile();
    const schema = 'SELECT type, name, sql FROM sqlite_schema ORDER BY name';
    const before = [
      query(path, schema),
      query(path, 'SELECT * FROM __drizzle_migrations'),
      query(path, 'SELECT * FROM meta'),
    ];
    const storage = openSqliteStorage(path);
    expect(storage.migrations).toEqual({ applied: 0, total: storage.migrations.total });
    await storage.close();
    expect([
      query(path, schema),
      query(path, 'SELECT * FROM __drizzle_migrations'),
      query(path, 'SELECT * FROM meta'),
    ]).toEqual(before);
  });

  longTest('in two processes at the same time migrates once, and both succeed', async () => {
    const path = join(temporaryFolder(), 'new.db');
    const reports = await Promise.all([migrateInAProcess(path), migrateInAProcess(path)]);
    const total = reports[0].total;
    expect(total).toBeGreaterThan(0);
    expect(reports.map(({ applied }) => applied).sort()).toEqual([0, total].sort());
    expect(query(path, 'SELECT * FROM __drizzle_migrations')).toHaveLength(total);
  });

  test('refuses a file that a newer version has migrated, says so, and leaves it as it is', async () => {
    const path = await migratedFile();
    const newer = new Database(path);
    newer.exec(`INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('of the future', 9e12)`);
    newer.close();
    const before = readFileSync(path);
    expect(() => openSqliteStorage(path)).toThrow(/migrated by a newer version .* restore a backup/);
    expect(readFileSync(path).equals(before)).toBe(true);
    expect([existsSync(`${path}-wal`), existsSync(`${path}-shm`)], 'it has let go of the file').toEqual([false, false]);
  });

  test('refuses a file that a version before the first release has made, says so, and leaves it as it is', async () => {
    const path = await migratedFile();
    const older = new Database(path);
    older.exec('DELETE FROM __drizzle_migrations');
    const made = (migrations[0]?.when ?? 0) - 1;
    older.prepare(`INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('', ?)`).run(made);
    older.close();
    const before = readFileSync(path);
    expect(() => openSqliteStorage(path)).toThrow(
      /^it was made by a version before 1\.0\.0, and can be used with that one/,
    );
    expect(readFileSync(path).equals(before)).toBe(true);
    expect([existsSync(`${path}-wal`), existsSync(`${path}-shm`)], 'it has let go of the file').toEqual([false, false]);
  });

  test('refuses a file that is not a database, and leaves it as it is', () => {
    const path = join(temporaryFolder(), 'notes.txt');
    const text = 'Not a database, but somebody needs it. '.repeat(100);
    writeFileSync(path, text);
    expect(() => openSqliteStorage(path)).toThrow(/not a database/);
    expect(readFileSync(path, 'utf8')).toBe(text);
  });

  test('rolls back a migration that fails halfway, and the next attempt starts afresh', async () => {
    const path = join(temporaryFolder(), 'test.db');
    const other = new Database(path);
    other.exec('CREATE TABLE rate_windows (mine TEXT)'); // in the way of a late statement of the first migration
    expect(() => openSqliteStorage(path)).toThrow(/rate_windows/);
    expect(query<{ name: string }>(path, 'SELECT name FROM sqlite_schema')).toEqual([{ name: 'rate_windows' }]);
    other.exec('DROP TABLE rate_windows');
    other.close();
    const storage = openSqliteStorage(path);
    onTestFinished(() => storage.close());
    expect(storage.migrations.applied).toBe(storage.migrations.total);
  });
});

describe('the migrated tables', () => {
  const tables = Object.values(declared)
    .filter((value) => is(value, SQLiteTable))
    .map((table) => getTableConfig(table));

  test('are those that are declared and two virtual ones, and no others', async () => {
    const path = await migratedFile();
    const names = (type: string) =>
      query<{ name: string }>(
        path,
        `SELECT name FROM pragma_table_list WHERE type = '${type}' AND name NOT LIKE 'sqlite_%'
          AND name <> '__drizzle_migrations' ORDER BY name`,
      ).map(({ name }) => name);
    expect(names('table')).toEqual(tables.map(({ name }) => name).sort());
    expect(names('virtual')).toEqual(['search_vocabulary', 'search_words']);
  });

  test('have the columns, keys and indexes that are declared', async () => {
    const path = await migratedFile();
    for (const table of tables) {
      expect({ name: table.name, ...storedForm(path, table.name) }).toEqual({
        name: table.name,
        ...declaredForm(table),
      });
    }
  });

  test('that are read in the order of their keys have no row ids', async () => {
    const path = await migratedFile();
    const withoutRowIds = query<{ name: string }>(
      path,
      `SELECT name FROM pragma_table_list WHERE wr = 1 AND type = 'table' ORDER BY name`,
    );
    expect(withoutRowIds.map(({ name }) => name)).toEqual([
      'analytics_counters',
      'analytics_histograms',
      'conversation_tags',
      'messages',
      'rate_windows',
      'read_positions',
      'search_partitions',
      'search_texts',
      'unread_conversations',
    ]);
  });

  test('pass the integrity checks of SQLite', async () => {
    const path = await migratedFile();
    expect(query(path, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    expect(query(path, 'PRAGMA foreign_key_check')).toEqual([]);
  });
});

// A past of everything that there is, on a server of this version.
const clock = new TestClock();
let server: TestServer;
let client: TestAccount;

beforeAll(async () => {
  server = await startTestServer({ clock, config: { webhookPolicy: anywhere } });
  client = await server.account();
  const receiver = await Receiver.start(clock);
  const { id: webhookId } = (await client.rest('POST', '/webhooks', { body: { url: receiver.url } })).body;
  const hello = { content: 'Where is my order?', sender: 'visitor' };
  const ids: string[] = [];
  for (let index = 0; index < 5; index++) {
    const body = { subject: `order ${index}`, externalId: `order-${index}`, metadata: { index }, message: hello };
    const headers = { 'idempotency-key': `order-${index}` };
    ids.push((await client.rest('POST', '/conversations', { body, headers })).body.id);
    clock.advance(60_000);
  }
  const [first, second, third] = ids;
  await client.rest('POST', `/conversations/${first}/messages`, { body: { content: 'On its way.', sender: 'agent' } });
  await client.rest('POST', '/leads', { body: { conversationId: first, email: 'ada@example.com' } });
  await client.rest('PATCH', `/conversations/${second}`, { body: { status: 'closed' } });
  await client.rest('DELETE', `/conversations/${third}`);
  await client.rest('POST', '/tokens', { body: { scopes: ['conversations:read'], expiresInSeconds: 600 } });
  await eventually(
    async () => (await client.rest('GET', `/webhooks/${webhookId}/deliveries?limit=1`)).body.data[0],
    (newest) => newest?.attemptCount > 0,
  );
  await server.app.close(); // from here on nothing is written by itself
  receiver.close();
});
afterAll(() => server.close());

describe('a file of an earlier version', () => {
  const paths = ['/conversations', '/conversations?sort=lastActivityAt', '/leads', '/events', '/api-keys'];
  const shown = async (client: Client) =>
    await Promise.all(paths.map(async (path) => (await client.rest('GET', path)).body));

  test.each(migrations.slice(0, -1).map(({ tag }, index) => ({ tag, count: index + 1 })))(
    'whose last migration is $tag is migrated with all its data, and served',
    async ({ count }) => {
      const older = new OlderFile(count, server.databasePath);
      const tables = older.tables;
      for (const table of tables) older.copy(table);
      const queries = tables
        .filter((table) => table !== 'meta')
        .map((table) => `SELECT ${older.columnsOf(table)} FROM ${table} ORDER BY 1, 2`);
      const rows = (path: string) => queries.map((sql) => query(path, sql));
      const before = [rows(older.path), await shown(client)];
      expect(query(older.path, 'SELECT * FROM conversations')).toHaveLength(4);

      const upgraded = await startTestServer({ databasePath: older.path, clock });
      onTestFinished(() => upgraded.close());
      const { applied, total } = upgraded.storage.migrations;
      expect(applied).toBe(total - count);
      const same = upgraded.clientFor(client.secret);
      expect([rows(older.path), await shown(same)]).toEqual(before);
      older.close();
      expect(query(older.path, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
      expect(query(older.path, 'PRAGMA foreign_key_check')).toEqual([]);
      const fresh = await migratedFile();
      for (const { name } of query<{ name: string }>(fresh, `SELECT name FROM sqlite_schema WHERE type = 'table'`)) {
        expect(storedForm(older.path, name)).toEqual(storedForm(fresh, name));
      }

      const { id } = (await same.rest('GET', '/conversations?limit=1')).body.data[0];
      const sent = await same.rest('POST', `/conversations/${id}/messages`, {
        body: { content: 'Hi', sender: 'visitor' },
      });
      expect(sent.body).toMatchObject({ sequence: 2 });
      expect((await same.rest('DELETE', `/conversations/${id}`)).status).toBe(204);
    },
  );
});

test('conversations and leads are found by addresses beyond ASCII that they had before these were folded', async () => {
  const before = migrations.findIndex(({ tag }) => tag === '0024_folded_emails');
  const older = new OlderFile(before, server.databasePath);
  for (const table of older.tables) older.copy(table);
  older.run(
    `UPDATE conversations SET visitor = '{"id":null,"name":"Ädå","email":"ÄDA@Straße.de"}' WHERE subject = 'order 0'`,
  );
  older.run(
    `UPDATE conversations SET visitor = '{"id":null,"name":"Ädå","email":"Ada@Example.com"}' WHERE subject = 'order 3'`,
  );
  older.run(`UPDATE conversations SET visitor = '{"id":null,"name":"Ädå","email":null}' WHERE subject = 'order 4'`);
  older.run(`INSERT INTO leads (id, account_id, email, metadata, created_at)
    SELECT id || 'x', account_id, 'ÄDA@Straße.de', metadata, created_at FROM leads`);
  older.close();
  const storage = openSqliteStorage(older.path);
  onTestFinished(() => storage.close());
  const { conversations, leads } = storage.read;
  const found = async (email: string) => {
    const query = { limit: 9, offset: 0 };
    const filter = { visitorEmail: email };
    const { items } = await conversations.page(client.account.id, { ...query, filter, sort: 'createdAt' });
    const captured = await leads.page(client.account.id, { ...query, filter: { email } });
    return [...items.map(({ subject }) => subject), ...captured.items.map((lead) => lead.email)];
  };
  expect(await found('äda@straße.de')).toEqual(['order 0', 'ÄDA@Straße.de']);
  expect(await found('ada@example.com')).toEqual(['order 3', 'ada@example.com']);
  expect(await found('ada@straße.de')).toEqual([]);
});

describe('a file that release 1.0.0 has written', () => {
  const release = join(import.meta.dirname, 'releases/1.0.0');
  const { secret, time, answers } = JSON.parse(readFileSync(`${release}.json`, 'utf8'));
  function written(): string {
    const path = join(temporaryFolder(), 'test.db');
    writeFileSync(path, gunzipSync(readFileSync(`${release}.db.gz`)));
    return path;
  }

  test('is served to the keys of then with all that it was', async () => {
    const upgraded = await startTestServer({ databasePath: written(), clock: new TestClock(time) });
    onTestFinished(() => upgraded.close());
    const { length: total } = migrations;
    expect(upgraded.storage.migrations).toEqual({ applied: total - 1, total });
    const client = upgraded.clientFor(secret);
    for (const [path, answer] of Object.entries<object>(answers)) {
      expect((await client.rest('GET', path)).body, path).toMatchObject(answer);
    }
  });

  test('has the schema of a new one once it is migrated, to the letter', async () => {
    const path = written();
    await openSqliteStorage(path).close();
    const fresh = await migratedFile();
    for (const sql of [
      'SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid',
      'SELECT name, length(value) AS length FROM meta ORDER BY rowid',
      'SELECT k, v FROM search_words_config',
    ]) {
      expect(query(path, sql)).toEqual(query(fresh, sql));
    }
  });
});

/** As a newer version would. */
function migrateFurther(path: string): void {
  const newer = new Database(path);
  newer.exec(`BEGIN IMMEDIATE;
    ALTER TABLE accounts ADD COLUMN colour TEXT;
    ALTER TABLE rate_windows RENAME COLUMN count TO spent;
    INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('of the future', 9e12);
    COMMIT`);
  newer.close();
}

describe('a file that a newer version migrates while this one serves it', () => {
  test('is no longer written by this one, which reports that on both faces and to probes, and still reads', async () => {
    const server = await startTestServer();
    onTestFinished(() => server.close());
    const client = await server.account();
    const { id } = (await client.rest('POST', '/conversations', { body: {} })).body;
    const poor = await server.account({ requestsPerHour: 60 }); // for each request there has to be something written
    expect((await poor.rest('GET', '/account')).status).toBe(200);
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200);

    migrateFurther(server.databasePath);

    const detail = 'The database was migrated by a newer version of the service, which is to take over.';
    for (let again = 0; again < 2; again++) {
      const refused = await client.rest('POST', `/conversations/${id}/messages`, {
        body: { content: 'Hi', sender: 'agent' },
      });
      expect(refused).toMatchObject({ status: 503, body: { code: 'UNAVAILABLE', detail } });
      expect(refused.headers['retry-after']).toBe('1');
      const { errors } = await client.graphql('mutation { createConversation(input: {}) { conversation { id } } }');
      expect(errors).toMatchObject([{ message: detail, extensions: { code: 'UNAVAILABLE' } }]);
      expect((await client.rest('GET', `/conversations/${id}`)).body).toMatchObject({ id, messages: [] });
      expect(await poor.rest('GET', '/account')).toMatchObject({ status: 503, body: { code: 'UNAVAILABLE', detail } });
      expect((await fetch(`${server.url}/readyz`)).status).toBe(503);
    }
  });

  longTest('is no longer written by this one either if the newer one has replaced its files', async () => {
    const folder = temporaryFolder();
    for (const name of ['dist', 'drizzle', 'esbuild.config.ts', 'package.json', 'src']) {
      cpSync(join(repository, name), join(folder, name), { recursive: true });
    }
    symlinkSync(join(repository, 'node_modules'), join(folder, 'node_modules'));
    const path = join(folder, 'test.db');
    const { url } = await serve(path, {}, { main: join(folder, 'dist/main.js') });
    const { apiKey } = await commandLine(path).json<{ apiKey: { secret: string } }>(
      ...['account', 'create', '--name', 'x', '--plan', 'pro'],
    );
    const client = clientOf(url, apiKey.secret);
    const start = async () => (await client.rest('POST', '/conversations', { body: {} })).status;

    const journal = join(folder, 'drizzle/meta/_journal.json');
    const { entries, ...rest } = JSON.parse(readFileSync(journal, 'utf8'));
    entries.push({ ...entries.at(-1), idx: entries.length, when: 9e12, tag: 'of_the_future' });
    writeFileSync(journal, JSON.stringify({ entries, ...rest }));
    writeFileSync(join(folder, 'drizzle/of_the_future.sql'), 'ALTER TABLE accounts ADD COLUMN colour TEXT;');
    expect(await migrateInAProcess(path, folder), 'by what was built before').toMatchObject({ applied: 0 });
    expect(await start()).toBe(201);

    await promisify(execFile)(process.execPath, ['esbuild.config.ts'], { cwd: folder });
    expect(await migrateInAProcess(path, folder)).toMatchObject({ applied: 1 });
    expect(await start()).toBe(503);
    expect((await fetch(`${url}/readyz`)).status).toBe(503);
  });

  test('is not written even if it was migrated just as it was opened', async () => {
    const path = await migratedFile();
    let isMigrated = false;
    const storage = openSqliteStorage(path, {
      onStatement(sql) {
        if (isMigrated || !sql.includes('wal_checkpoint')) return; // it is past its own look at the migrations
        isMigrated = true;
        migrateFurther(path);
      },
    });
    onTestFinished(() => storage.close());
    expect(isMigrated).toBe(true);
    await expect(storedAccount(storage)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(query(path, 'SELECT id FROM accounts')).toEqual([]);
  });

  test('is still written when its schema was changed by anything but a migration', async () => {
    const server = await startTestServer();
    onTestFinished(() => server.close());
    const client = await server.account();
    const beside = new Database(server.databasePath);
    beside.exec('CREATE INDEX of_an_operator ON leads (created_at)');
    beside.close();
    expect((await client.rest('POST', '/conversations', { body: {} })).status).toBe(201);
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200);
  });
});

interface Form {
  readonly columns: readonly { name: string; type: string; notNull: boolean; default: string | null }[];
  readonly primaryKey: readonly string[];
  readonly foreignKeys: readonly string[];
  readonly indexes: readonly { name: string; unique: boolean; partial: boolean; columns: string[] }[];
}

const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);

/** A default as SQL writes it. */
function defaultOf(value: unknown): string {
  return typeof value === 'string' ? `'${value}'` : String(value);
}

function declaredForm(table: ReturnType<typeof getTableConfig>): Form {
  const keyOfColumn = table.columns.filter((column) => column.primary).map((column) => column.name);
  const [key] = table.primaryKeys;
  return {
    columns: table.columns
      .map((column) => ({
        name: column.name,
        type: column.getSQLType(),
        notNull: column.notNull || column.primary,
        default: column.default === undefined ? null : defaultOf(column.default),
      }))
      .sort(byName),
    primaryKey: key === undefined ? keyOfColumn : key.columns.map((column) => column.name),
    foreignKeys: table.foreignKeys
      .map((foreignKey) => foreignKey.reference())
      .map(
        ({ columns, foreignColumns, foreignTable }) =>
          `${columns.map(({ name }) => name)} → ${getTableConfig(foreignTable).name}.${foreignColumns.map(({ name }) => name)}`,
      )
      .sort(),
    indexes: table.indexes
      .map(({ config }) => ({
        name: config.name,
        unique: config.unique,
        partial: config.where !== undefined,
        columns: config.columns.map((column) => ('name' in column ? column.name : 'an expression')),
      }))
      .sort(byName),
  };
}

function storedForm(path: string, table: string): Form {
  const columns = query<{ name: string; type: string; notnull: number; dflt_value: string | null; pk: number }>(
    path,
    `PRAGMA table_xinfo(${table})`,
  );
  const indexes = query<{ name: string; unique: number; origin: string; partial: number }>(
    path,
    `PRAGMA index_list(${table})`,
  );
  return {
    columns: columns
      .map((column) => ({
        name: column.name,
        type: column.type.toLowerCase(),
        notNull: column.notnull === 1,
        default: column.dflt_value,
      }))
      .sort(byName),
    primaryKey: columns
      .filter((column) => column.pk > 0)
      .sort((a, b) => a.pk - b.pk)
      .map((column) => column.name),
    foreignKeys: query<{ from: string; table: string; to: string }>(path, `PRAGMA foreign_key_list(${table})`)
      .map((foreignKey) => `${foreignKey.from} → ${foreignKey.table}.${foreignKey.to}`)
      .sort(),
    indexes: indexes
      .filter((index) => index.origin === 'c') // not those that a key made by itself
      .map((index) => ({
        name: index.name,
        unique: index.unique === 1,
        partial: index.partial === 1,
        columns: query<{ name: string }>(path, `PRAGMA index_info(${index.name})`).map(({ name }) => name),
      }))
      .sort(byName),
  };
}
