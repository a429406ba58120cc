import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { backUp } from '../../src/storage/sqlite/backup.ts';
import { addMigrationFunctions, takeOpenLock } from '../../src/storage/sqlite/open.ts';
import { type Restored, restore } from '../../src/storage/sqlite/restore.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { clientOf, type Json } from '../support/client.ts';
import { hourMs, minuteMs, TestClock } from '../support/clock.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { putMigrated } from '../support/migrated-file.ts';
import { migrations } from '../support/older-file.ts';
import { storedAccount } from '../support/samples.ts';
import { startTestServer, type TestAccount, type TestServer, type TestServerOptions } from '../support/server.ts';
import { until } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';
import { sceneOf, startConversation } from '../support/webhooks.ts';
import { commandLine, secretPattern, serve } from './program.ts';

const drizzle = join(import.meta.dirname, '../../drizzle');
const clock = new TestClock();

function restored(path: string, backup: string, force = false): Promise<Restored> {
  return restore(path, backup, { clock, force });
}

async function start(databasePath: string, options: TestServerOptions = {}): Promise<TestServer> {
  const server = await startTestServer({ clock, databasePath, ...options });
  onTestFinished(() => server.close());
  return server;
}

/** A database of one account, which nobody has open. */
async function madeDatabase(path = join(temporaryFolder(), 'a.db')): Promise<string> {
  const storage = openSqliteStorage(await putMigrated(path));
  await storedAccount(storage);
  await storage.close();
  return path;
}

let backupBytes: Buffer | undefined;

/** The backup of such a database, which is made once. */
async function madeBackup(): Promise<string> {
  const file = join(temporaryFolder(), 'b.db');
  if (backupBytes === undefined) await backUp(await madeDatabase(), file);
  else writeFileSync(file, backupBytes, { mode: 0o600 });
  backupBytes ??= readFileSync(file);
  return file;
}

/** A database of an earlier version, which had so many migrations. */
function olderDatabase(file: string, migrationCount: number): Database.Database {
  const old = new Database(file);
  addMigrationFunctions(old);
  old.exec('CREATE TABLE __drizzle_migrations (id INTEGER PRIMARY KEY, hash text NOT NULL, created_at numeric)');
  for (const { tag, when } of migrations.slice(0, migrationCount)) {
    old.exec(readFileSync(join(drizzle, `${tag}.sql`), 'utf8'));
    old.prepare('INSERT INTO __drizzle_migrations (hash, created_at) VALUES (?, ?)').run(tag, when);
  }
  return old;
}

/** Copies a database in use as a backup does, without its threads. */
function snapshot(path: string, file: string): void {
  const database = new Database(path);
  database.prepare('VACUUM INTO ?').run(file);
  database.close();
}

function query(path: string, sql: string): unknown {
  const database = new Database(path, { readonly: true });
  try {
    return database.prepare(sql).pluck().get();
  } finally {
    database.close();
  }
}

describe('restore', () => {
  test('puts what was back in place of what is, and moves that aside', async () => {
    const path = join(temporaryFolder(), 'a.db');
    const file = join(temporaryFolder(), 'b.db');
    const first = await startTestServer({ databasePath: await putMigrated(path) });
    const client = await first.account();
    const { body: kept } = await client.rest('POST', '/conversations', { body: { subject: 'before' } });
    await backUp(path, file);
    await client.rest('POST', '/conversations', { body: { subject: 'after' } });
    await first.close();
    const before = readFileSync(file);

    const { code, stdout, stderr } = await commandLine(path).run('restore', file);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const previous = /is now (\S+)\.$/m.exec(stdout)?.[1] ?? '';
    expect(previous.startsWith(`${path}.before-20`)).toBe(true);
    expect(stdout).toBe(`Restored ${file} to ${path}.\nThe previous database is now ${previous}.\n`);
    expect(readFileSync(file).equals(before), 'the backup is only read').toBe(true);
    expect(statSync(path).mode).toBe(statSync(previous).mode);
    expect(query(previous, 'SELECT count(*) FROM conversations')).toBe(2);

    const second = await start(path);
    const { body } = await second.clientFor(client.secret).rest('GET', '/conversations');
    expect(body.data.map(({ id, subject }: Json) => ({ id, subject }))).toEqual([{ id: kept.id, subject: 'before' }]);
  });

  test('makes every cursor of before expire, on every face', async () => {
    const path = join(temporaryFolder(), 'a.db');
    const file = join(temporaryFolder(), 'b.db');
    const first = await startTestServer({ databasePath: await putMigrated(path) });
    const client = await first.account();
    await client.rest('POST', '/conversations', { body: {} });
    await backUp(path, file);
    const [{ cursor }] = (await client.rest('GET', '/events')).body.data;
    expect((await client.rest('GET', `/events?after=${cursor}`)).status).toBe(200);
    await first.close();
    await restored(path, file);

    const second = await start(path);
    const again = second.clientFor(client.secret);
    for (const at of [`/events?after=${cursor}`, `/events/stream?after=${cursor}`]) {
      expect((await again.rest('GET', at)).body).toMatchObject({ status: 410, code: 'CURSOR_EXPIRED' });
    }
    const { errors } = await again.graphql(`{ events(after: "${cursor}") { nodes { id } } }`);
    expect(errors?.[0]?.extensions).toMatchObject({ code: 'CURSOR_EXPIRED', oldestCursor: expect.any(String) });
    const { oldestCursor } = errors?.[0]?.extensions ?? {};
    const { status, body } = await again.rest('GET', `/events?after=${oldestCursor}`);
    expect({ status, count: body.data.length }).toEqual({ status: 200, count: 1 });
  });

  test('ends the sessions of the console: none that was signed out of since the backup is back', async () => {
    const path = join(temporaryFolder(), 'a.db');
    const file = join(temporaryFolder(), 'b.db');
    const first = await startTestServer({ clock, databasePath: await putMigrated(path) });
    const { secret } = await first.account();
    const send = async (server: TestServer, method: string, path: string, given: Record<string, string>) =>
      await fetch(`${server.url}/console/session${path}`, { method, headers: { origin: server.url, ...given } });
    const signedIn = await send(first, 'POST', '', { authorization: `Bearer ${secret}` });
    const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect((await send(first, 'POST', '/token', { cookie })).status).toBe(201);
    snapshot(path, file);
    expect((await send(first, 'DELETE', '', { cookie })).status).toBe(204);
    await first.close();
    await restored(path, file);

    const second = await start(path);
    expect((await send(second, 'POST', '/token', { cookie })).status).toBe(401);
  });

  longTest('gives each restoration an epoch of its own', async () => {
    const [path, file] = [await madeDatabase(), await madeBackup()];
    const epochOf = () => query(path, `SELECT value FROM meta WHERE name = 'epoch'`);
    const epochs = [query(file, `SELECT value FROM meta WHERE name = 'epoch'`), epochOf()];
    for (let count = 0; count < 2; count++) {
      await restored(path, file);
      clock.advance(1);
      epochs.push(epochOf());
    }
    expect(new Set(epochs).size).toBe(4);
    for (const epoch of epochs) expect(epoch).toMatch(/^[0-9a-f]{16}$/);
  });

  test('brings a backup of an older version up to date', async () => {
    const file = join(temporaryFolder(), 'old.db');
    olderDatabase(file, 1).close();
    const path = await madeDatabase();
    const total = migrations.length;
    expect(await restored(path, file)).toMatchObject({ migrations: { applied: total - 1, total } });
    const storage = openSqliteStorage(path);
    expect(storage.migrations.applied).toBe(0);
    await storage.close();
  });

  test('leaves no remnants of rows that a migration of the backup rewrote, which no erasure would find', async () => {
    const file = join(temporaryFolder(), 'old.db');
    const old = olderDatabase(
      file,
      migrations.findIndex(({ tag }) => tag === '0026_events_by_row'),
    );
    const text = 'what was said';
    old.exec(`INSERT INTO accounts (id, name, plan, created_at) VALUES ('acct_1', 'Shop', 'pro', 1)`);
    old
      .prepare(
        `INSERT INTO events (account_id, sequence, id, type, timestamp, data) VALUES ('acct_1', 1, 'evt_1', 't', 1, ?)`,
      )
      .run(text.repeat(9_000));
    old.close();
    const path = await madeDatabase();
    await restored(path, file);
    const erasing = new Database(path);
    erasing.pragma('secure_delete = ON');
    erasing.exec(`UPDATE events SET data = ''`);
    erasing.close();
    expect(readFileSync(path).includes(text)).toBe(false);
  });

  test('makes the database where there is none', async () => {
    const path = join(temporaryFolder(), 'new', 'a.db');
    expect(await restored(path, await madeBackup())).toMatchObject({ previous: null, carriedOver: false });
    expect(query(path, 'SELECT count(*) FROM accounts')).toBe(1);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });
});

describe('restore is refused while anybody has the database open, and leaves it alone', () => {
  longTest('a server that does nothing at the moment', async () => {
    const path = join(temporaryFolder(), 'a.db');
    const server = await serve(path);
    const file = await madeBackup();
    expect(await commandLine(path).runHere('restore', file)).toEqual({
      code: 1,
      stdout: '',
      stderr: `${path} is in use: stop the server, and whatever else has it open.\n`,
    });
    const forced = await commandLine(path).runHere('restore', file, '--force');
    expect(forced, 'whatever is asked for').toMatchObject({ code: 1, stderr: expect.stringContaining('is in use') });
    const [secret] = server.greeting.match(secretPattern) ?? [];
    expect((await clientOf(server.url, secret).rest('POST', '/conversations', { body: {} })).status).toBe(201);

    server.signal('SIGKILL'); // which it is not kept from telling
    await server.ended;
    const { previous } = await restored(path, file);
    expect(query(path, 'SELECT count(*) FROM conversations')).toBe(0);
    expect(query(previous ?? '', 'SELECT count(*) FROM conversations'), 'with what lay in its log').toBe(1);
    for (const suffix of ['-wal', '-shm', '-journal']) expect(existsSync(path + suffix), suffix).toBe(false);
  });

  test('somebody who only reads', async () => {
    const path = await madeDatabase();
    const reader = new Database(path, { readonly: true });
    reader.prepare('SELECT * FROM meta').all();
    await expect(restored(path, await madeBackup())).rejects.toThrow('is in use');
    reader.close();
    await restored(path, await madeBackup());
  });

  longTest('somebody who restores a backup into it', async () => {
    const path = await madeDatabase();
    const lock = takeOpenLock(path, 0);
    expect(await commandLine(path).runHere('restore', await madeBackup())).toEqual({
      code: 1,
      stdout: '',
      stderr: 'Another process is opening the database, copying it or restoring a backup into it; try again later.\n',
    });
    lock.close();
    expect(await commandLine(path).runHere('restore', await madeBackup())).toMatchObject({ code: 0 });
  });

  longTest('and nobody opens it while it goes on: a server that starts waits, and gets what was restored', async () => {
    const path = await madeDatabase();
    const lock = takeOpenLock(path, 0); // as a restoration holds it
    let listens = false;
    const serving = serve(path).then((server) => {
      listens = true;
      return server;
    });
    const startedMs = performance.now();
    while (performance.now() - startedMs < 2_000) await new Promise((resolve) => setTimeout(resolve, 50));
    expect(listens).toBe(false);
    lock.close();
    const server = await serving;
    server.signal('SIGTERM');
    expect((await server.ended).code).toBe(0);
  });
});

describe('a file that is no sound backup is refused before anything is touched', () => {
  test.each([
    ['none', () => {}, /^There is no file \S+\.$/],
    ['a folder', (file: string) => mkdirSync(file), /^\S+ is not a file\.$/],
    ['a text', (file: string) => writeFileSync(file, 'x'.repeat(9_999)), /^\S+ is damaged: file is not a database\.$/],
    ['nothing at all', (file: string) => writeFileSync(file, ''), /^\S+ is not a database of this program\.$/],
    ['a database of another program', makeOther, /^\S+ is not a database of this program\.$/],
    ['a backup of a newer version', makeNewer, /^\S+ was made by a newer version of this program: restore it with /],
    [
      'a backup of a version before the first release',
      makeUnreleased,
      /^\S+ was made by a version before 1\.0\.0, and /,
    ],
    ['a backup that was cut off', cutOff, /^\S+ is damaged: /],
    ['a backup with a page of rubbish', spoil, /^\S+ is damaged: /],
    ['a backup with a row that points at nothing', orphan, /^\S+ is damaged: a row of messages points at none of /],
    ['a database that is in use', makeInUse, /^\S+ is not a backup but a database in use: \S+-wal belongs to it\.$/],
  ])('%s', async (_, make, expected) => {
    const path = await madeDatabase();
    const before = readFileSync(path);
    const folder = temporaryFolder();
    const file = join(folder, 'b.db');
    await make(file);
    const there = readdirSync(folder);
    await expect(restored(path, file)).rejects.toThrow(expected);
    expect(readFileSync(path).equals(before)).toBe(true);
    expect(readdirSync(join(path, '..')).sort()).toEqual(['a.db', 'a.db-lock']);
    expect(readdirSync(folder)).toEqual(there);
  });

  test('the database itself', async () => {
    const path = await madeDatabase();
    await expect(restored(path, path)).rejects.toThrow('is the database itself.');
  });
});

describe('a present database that cannot be read', () => {
  test('is replaced only if that is asked for, and moved aside as it is', async () => {
    const path = join(temporaryFolder(), 'a.db');
    const rubbish = 'rubbish'.repeat(2_000);
    writeFileSync(path, rubbish);
    writeFileSync(`${path}-wal`, 'the log of something else');
    const file = await madeBackup();
    await expect(restored(path, file)).rejects.toThrow(/cannot be read .* repeat this with --force/);
    expect(readFileSync(path, 'utf8')).toBe(rubbish);
    const { previous, carriedOver } = await restored(path, file, true);
    expect(carriedOver).toBe(false);
    expect(readFileSync(previous ?? '', 'utf8')).toBe(rubbish);
    expect(readFileSync(`${previous}-wal`, 'utf8')).toBe('the log of something else');
    expect(existsSync(`${path}-wal`)).toBe(false);
    expect(query(path, 'SELECT count(*) FROM accounts')).toBe(1);
  });

  test('and a log without its database is not taken for that of the backup', async () => {
    const path = join(temporaryFolder(), 'a.db');
    const storage = openSqliteStorage(await putMigrated(path));
    await storedAccount(storage);
    const log = readFileSync(`${path}-wal`);
    expect(log.length).toBeGreaterThan(0);
    await storage.close();
    const alone = join(temporaryFolder(), 'a.db');
    writeFileSync(`${alone}-wal`, log);
    await restored(alone, await madeBackup());
    expect(existsSync(`${alone}-wal`)).toBe(false);
    expect(query(alone, 'SELECT count(*) FROM accounts')).toBe(1);
  });
});

describe('what must not be forgotten is taken over from the database that was there', () => {
  test.each([
    { of: 'the same time', aheadMs: 0 },
    { of: 'a machine whose clock is ahead', aheadMs: 5 * hourMs + 1_234 },
  ])('requests that were spent within the hour, into a backup of $of', async ({ aheadMs }) => {
    const path = join(temporaryFolder(), 'a.db');
    const file = join(temporaryFolder(), 'b.db');
    const first = await startTestServer({ clock, databasePath: await putMigrated(path) });
    const client = await first.account({ requestsPerHour: 20 });
    snapshot(path, file);
    for (let count = 0; count < 15; count++) await client.rest('GET', '/account');
    await first.close();
    if (aheadMs > 0) {
      const { nowMs } = clock;
      const backup = new Database(file);
      const setClock = backup.prepare(`INSERT OR REPLACE INTO rate_clock VALUES (1, ?, ?, 0, 'of another')`);
      setClock.run(nowMs + aheadMs, nowMs);
      backup
        .prepare('INSERT INTO rate_windows (account_id, minute, count) VALUES (?, ?, 9)')
        .run(client.account.id, Math.floor((nowMs + aheadMs) / 60_000));
      backup.close();
    }
    expect(await restored(path, file)).toMatchObject({ carriedOver: true });
    const second = await start(path);
    const { headers } = await second.clientFor(client.secret).rest('GET', '/account');
    expect(headers['x-ratelimit-remaining']).toBe('4');
    expect(Number(headers['x-ratelimit-reset']) - clock.nowMs / 1_000).toBeGreaterThan(60 * 60);
  });

  test('each once, also when the clock that the backup has kept is a moment behind', async () => {
    const path = join(temporaryFolder(), 'a.db');
    const file = join(temporaryFolder(), 'b.db');
    const first = await startTestServer({ clock, databasePath: await putMigrated(path) });
    const client = await first.account({ requestsPerHour: 20 });
    for (let count = 0; count < 5; count++) await client.rest('GET', '/account');
    snapshot(path, file);
    await first.close();
    const backup = new Database(file);
    backup.exec('UPDATE rate_clock SET at = at - 1');
    backup.close();
    clock.advance(5 * minuteMs);
    expect(await restored(path, file)).toMatchObject({ carriedOver: true });
    const second = await start(path);
    const { headers } = await second.clientFor(client.secret).rest('GET', '/account');
    expect(headers['x-ratelimit-remaining']).toBe('14');
  });

  test.each(['an empty one', 'an older copy'])(
    'and what the backup knows of is not forgotten for %s',
    async (present) => {
      const path = join(temporaryFolder(), 'a.db');
      const [early, file] = [join(temporaryFolder(), 'b.db'), join(temporaryFolder(), 'c.db')];
      const first = await startTestServer({ clock, databasePath: await putMigrated(path) });
      const client = await first.account({ requestsPerHour: 20 });
      snapshot(path, early);
      for (let count = 0; count < 15; count++) await client.rest('GET', '/account');
      snapshot(path, file);
      await first.close();
      const place = present === 'an empty one' ? join(temporaryFolder(), 'd.db') : early;
      await (await startTestServer({ clock, databasePath: place })).close();
      clock.advance(40 * minuteMs);
      expect(await restored(place, file)).toMatchObject({ carriedOver: true });
      const second = await start(place);
      const remaining = async () =>
        (await second.clientFor(client.secret).rest('GET', '/account')).headers['x-ratelimit-remaining'];
      expect(await remaining()).toBe('4');
      clock.advance(19 * minuteMs);
      expect(await remaining()).toBe('3');
      clock.advance(3 * minuteMs);
      expect(await remaining()).toBe('17');
    },
  );

  test.each([
    ['', 1, async () => {}],
    [
      ', of which the database knows no more, since a thousand others have ended',
      0,
      async (server: TestServer, client: TestAccount) => {
        await client.rest('POST', '/api-keys', { body: { name: 'later' } });
        const ended = { kept: 0, limit: 1_000 };
        await server.storage.write(async (tx) => tx.apiKeys.removeEnded(client.account.id, clock.nowMs, ended));
      },
    ],
  ])('keys that were revoked%s', async (_, count, after) => {
    const path = join(temporaryFolder(), 'a.db');
    const file = join(temporaryFolder(), 'b.db');
    const first = await startTestServer({ clock, databasePath: await putMigrated(path) });
    const client = await first.account();
    const { body: leaked } = await client.rest('POST', '/api-keys', { body: { name: 'leaked' } });
    snapshot(path, file);
    await client.rest('DELETE', `/api-keys/${leaked.id}`);
    await after(first, client);
    await first.close();
    expect(query(path, `SELECT count(*) FROM api_keys WHERE name = 'leaked'`)).toBe(count);
    await restored(path, file);
    const second = await start(path);
    expect((await second.clientFor(leaked.secret).rest('GET', '/account')).status).toBe(401);
    expect((await second.clientFor(client.secret).rest('GET', '/account')).status).toBe(200);
  });

  test.each(['key', 'account'])(
    'keys that were revoked, also where a backup from before the %s was restored meanwhile',
    async (created) => {
      const path = join(temporaryFolder(), 'a.db');
      const [early, file] = [join(temporaryFolder(), 'b.db'), join(temporaryFolder(), 'c.db')];
      const first = await startTestServer({ clock, databasePath: await putMigrated(path) });
      const known = await first.account();
      snapshot(path, early);
      const client = created === 'key' ? known : await first.account();
      const { body: leaked } = await client.rest('POST', '/api-keys', { body: { name: 'leaked' } });
      snapshot(path, file);
      await client.rest('DELETE', `/api-keys/${leaked.id}`);
      await first.close();
      for (const backup of [early, early, file]) {
        clock.advance(1);
        expect(await restored(path, backup)).toMatchObject({ carriedOver: true });
      }
      const second = await start(path);
      expect((await second.clientFor(leaked.secret).rest('GET', '/account')).status).toBe(401);
      expect((await second.clientFor(client.secret).rest('GET', '/account')).status).toBe(200);
    },
  );

  test('but no key is lost that came after the backup which the present database was made from', async () => {
    const path = join(temporaryFolder(), 'a.db');
    const [early, file] = [join(temporaryFolder(), 'b.db'), join(temporaryFolder(), 'c.db')];
    const first = await startTestServer({ clock, databasePath: await putMigrated(path) });
    const client = await first.account();
    snapshot(path, early);
    const { body: key } = await client.rest('POST', '/api-keys', { body: { name: 'later' } });
    snapshot(path, file);
    await first.close();
    await restored(path, early);
    clock.advance(1);
    const second = await startTestServer({ clock, databasePath: path });
    await second.clientFor(client.secret).rest('POST', '/api-keys', { body: { name: 'latest' } });
    await second.close();
    await restored(path, file);
    const third = await start(path);
    expect((await third.clientFor(key.secret).rest('GET', '/account')).status).toBe(200);
  });
});

longTest('a delivery that was outstanding in the backup is sent again, with the id that it had', async () => {
  const path = join(temporaryFolder(), 'a.db');
  const file = join(temporaryFolder(), 'b.db');
  const first = await startTestServer({
    clock,
    databasePath: await putMigrated(path),
    config: { webhookPolicy: anywhere },
  });
  let down = true;
  const scene = await sceneOf(first, await first.account(), () => (down ? { status: 503 } : {}));
  const { id } = await scene.webhook();
  await startConversation(scene.client);
  await scene.attempted(id, 1);
  await backUp(path, file);
  down = false;
  await scene.advance(10_000);
  await scene.attempted(id, 2);
  await first.close();
  await restored(path, file);
  await start(path, { config: { webhookPolicy: anywhere } });
  await until(() => scene.receiver.deliveries.length >= 3);
  expect(new Set(scene.receiver.deliveries.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
});

function makeOther(file: string): void {
  const database = new Database(file);
  database.exec('CREATE TABLE notes (text TEXT)');
  database.close();
}

async function makeNewer(file: string): Promise<void> {
  await madeDatabase(file);
  const database = new Database(file);
  database.exec(`INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('of the future', 9e12)`);
  database.pragma('journal_mode = DELETE');
  database.close();
}

function makeUnreleased(file: string): void {
  const database = olderDatabase(file, 1);
  database.exec('UPDATE __drizzle_migrations SET created_at = created_at - 1');
  database.close();
}

async function cutOff(file: string): Promise<void> {
  const bytes = readFileSync(await madeBackup());
  writeFileSync(file, bytes.subarray(0, bytes.length - 3 * 4096));
}

async function spoil(file: string): Promise<void> {
  const bytes = readFileSync(await madeBackup());
  const database = new Database(bytes);
  const page = database.prepare(`SELECT rootpage FROM sqlite_schema WHERE name = 'conversations'`).pluck().get();
  database.close();
  bytes.fill(0xff, (Number(page) - 1) * 4096, Number(page) * 4096);
  writeFileSync(file, bytes);
}

async function orphan(file: string): Promise<void> {
  await madeDatabase(file);
  const database = new Database(file);
  database.pragma('foreign_keys = OFF');
  database.pragma('journal_mode = DELETE');
  const columns = database.pragma('table_info(messages)') as { name: string; type: string; notnull: number }[];
  const values = columns.map(({ type, notnull }) => (notnull === 0 ? null : /int/i.test(type) ? 7 : '{}'));
  database.prepare(`INSERT INTO messages VALUES (${columns.map(() => '?').join()})`).run(values);
  database.close();
}

async function makeInUse(file: string): Promise<void> {
  const storage = openSqliteStorage(file);
  await storedAccount(storage);
  onTestFinished(() => storage.close());
}
