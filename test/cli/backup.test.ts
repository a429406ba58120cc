import { copyFileSync, existsSync, readdirSync, readFileSync, statSync, watch, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { backUp } from '../../src/storage/sqlite/backup.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { clientOf } from '../support/client.ts';
import { effort, longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { putMigrated } from '../support/migrated-file.ts';
import { storedAccount } from '../support/samples.ts';
import { startTestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';
import { commandLine, start } from './program.ts';

/** A database that was in use, and is not. */
async function madeDatabase(path = join(temporaryFolder(), 'a.db')): Promise<string> {
  const storage = openSqliteStorage(await putMigrated(path));
  await storedAccount(storage);
  await storage.close();
  return path;
}

function accountsIn(path: string): number {
  const database = new Database(path, { readonly: true });
  onTestFinished(() => void database.close());
  return database.prepare('SELECT count(*) FROM accounts').pluck().get() as number;
}

/** Makes it large enough for its backup to take a while. */
function fill(path: string, megabytes: number): void {
  const database = new Database(path);
  database.exec('CREATE TABLE filler (bytes BLOB)');
  const insert = database.prepare('INSERT INTO filler VALUES (zeroblob(1000000))');
  database.transaction(() => {
    for (let count = 0; count < megabytes; count++) insert.run();
  })();
  database.close();
}

function integrityOf(path: string): unknown {
  const database = new Database(path, { readonly: true });
  onTestFinished(() => void database.close());
  return [database.pragma('integrity_check', { simple: true }), database.pragma('foreign_key_check')];
}

describe('a backup', () => {
  test('is one complete, sound file that its owner alone can read, and leaves nothing beside', async () => {
    const path = await madeDatabase();
    const folder = temporaryFolder();
    const file = join(folder, 'b.db');
    const { code, stdout, stderr } = await commandLine(path).run('backup', file);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^Wrote \S+b\.db \(\d+ KB\) and verified it\.\n$/);
    expect(readdirSync(folder)).toEqual(['b.db']);
    expect(readdirSync(dirname(path)).sort()).toEqual(['a.db', 'a.db-lock']);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(integrityOf(file)).toEqual(['ok', []]);
    expect(accountsIn(file)).toBe(1);
  });

  test('taken while a server is being written to holds one moment, with all that was acknowledged before it', async () => {
    const path = join(temporaryFolder(), 'a.db');
    const server = await startTestServer({ databasePath: path });
    onTestFinished(() => server.close());
    const client = await server.account();
    let stop = false;
    let acknowledged = 0;
    const writing = Array.from({ length: 4 }, async () => {
      while (!stop) {
        const { status } = await client.rest('POST', '/conversations', {
          body: { message: { sender: 'visitor', content: 'hello' } },
        });
        expect(status).toBe(201);
        acknowledged++;
      }
    });
    await until(() => acknowledged >= 20);
    const before = acknowledged;
    const file = join(temporaryFolder(), 'b.db');
    expect(await commandLine(path).run('backup', file)).toMatchObject({ code: 0, stderr: '' });
    const after = acknowledged;
    stop = true;
    await Promise.all(writing);
    expect(after, 'writing went on meanwhile').toBeGreaterThan(before);

    const copy = await startTestServer({ databasePath: file });
    onTestFinished(() => copy.close());
    const there = copy.clientFor(client.secret);
    const { total } = (await there.rest('GET', '/conversations')).body.pagination;
    expect(total).toBeGreaterThanOrEqual(before);
    expect(total).toBeLessThanOrEqual(acknowledged);
    const database = new Database(file, { readonly: true });
    const log = database.prepare('SELECT count(*) AS events, max(sequence) AS last FROM events').get();
    const rows = database.prepare('SELECT count(*) FROM conversations').pluck().get();
    database.close();
    expect({ rows, log }, 'nothing by halves').toEqual({ rows: total, log: { events: 2 * total, last: 2 * total } });
    expect(server.logLines.filter(({ level }) => level !== 'info')).toEqual([]);
  });

  test('holds what a server has written that was killed', async () => {
    const [living, path] = [join(temporaryFolder(), 'a.db'), join(temporaryFolder(), 'b.db')];
    const storage = openSqliteStorage(await putMigrated(living));
    await storedAccount(storage);
    for (const suffix of ['', '-wal', '-shm']) copyFileSync(living + suffix, path + suffix); // as a kill leaves them
    await storage.close();
    expect(statSync(`${path}-wal`).size, 'it lies in the log still').toBeGreaterThan(0);
    const file = join(temporaryFolder(), 'b.db');
    await backUp(path, file);
    expect(accountsIn(file)).toBe(1);
  });

  test('tells how far it is', async () => {
    const path = await madeDatabase();
    fill(path, 10);
    const told: [string, number | undefined][] = [];
    const file = join(temporaryFolder(), 'b.db');
    const { bytes } = await backUp(path, file, { onProgress: (part, share) => told.push([part, share]) });
    expect(bytes).toBe(statSync(file).size);
    const copying = told.filter(([part]) => part === 'copying').map(([, share]) => share ?? Number.NaN);
    expect(copying).toEqual([...copying].sort((a, b) => a - b));
    expect(copying.at(-1)).toBeGreaterThan(0.9);
    expect(copying.at(-1)).toBeLessThanOrEqual(1);
    expect(told.at(-1)).toEqual(['checking', undefined]);
  });

  test('has nothing of what was erased, not even where the database has pieces of it', async () => {
    const path = await madeDatabase();
    const marker = 'marker-of-what-was-erased';
    const database = new Database(path);
    database.pragma('secure_delete = OFF'); // as if SQLite had left pieces everywhere
    database.exec(`CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('${marker.repeat(500)}'), ('kept')`);
    database.exec(`DELETE FROM notes WHERE text LIKE 'marker%'`);
    database.pragma('wal_checkpoint(TRUNCATE)');
    database.close();
    expect(readFileSync(path).includes(marker)).toBe(true);
    const file = join(temporaryFolder(), 'b.db');
    await backUp(path, file);
    expect(readFileSync(file).includes('kept')).toBe(true);
    expect(readFileSync(file).includes(marker)).toBe(false);
  });
});

describe('a backup is there or it is not', () => {
  const signals: NodeJS.Signals[] = effort(['SIGTERM'], ['SIGINT', 'SIGTERM', 'SIGHUP']);

  longTest(
    `by ${signals.join(', ')} it ends, and leaves nothing behind; by SIGKILL it leaves no file of its name`,
    async () => {
      const path = await madeDatabase();
      fill(path, 80);
      for (const signal of [...signals, 'SIGKILL' as const]) {
        const folder = temporaryFolder();
        const file = join(folder, 'b.db');
        const backup = start(['backup', file], { environment: { DATABASE_URL: `file:${path}` } });
        await firstFileIn(folder);
        backup.signal(signal);
        expect(await backup.ended, signal).toMatchObject({ code: null, stdout: '' });
        if (signal === 'SIGKILL') expect(existsSync(file)).toBe(false);
        else expect(readdirSync(folder), signal).toEqual([]);
      }
    },
  );

  test('a file of its name is kept, unless it is to be replaced', async () => {
    const path = await madeDatabase();
    const file = join(temporaryFolder(), 'b.db');
    writeFileSync(file, 'precious');
    expect(await commandLine(path).runHere('backup', file)).toEqual({
      code: 1,
      stdout: '',
      stderr: `${file} exists already; --force replaces it.\n`,
    });
    expect(readFileSync(file, 'utf8')).toBe('precious');
    expect((await commandLine(path).runHere('backup', file, '--force')).code).toBe(0);
    expect(integrityOf(file)).toEqual(['ok', []]);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test.each([
    ['where there is no folder', (folder: string) => join(folder, 'no', 'b.db'), /^There is no folder \S+no\.$/],
    ['to a folder', (folder: string) => folder, /^\S+ is not a file\.$/],
  ])('%s it is refused', async (_, target, expected) => {
    const folder = temporaryFolder();
    await expect(backUp(await madeDatabase(), target(folder))).rejects.toThrow(expected);
    expect(readdirSync(folder)).toEqual([]);
  });

  test('over the database itself it is refused, whatever is asked for', async () => {
    const path = await madeDatabase();
    const before = readFileSync(path);
    await expect(backUp(path, path, { force: true })).rejects.toThrow(`${path} is the database itself.`);
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  test('over a database in use it is refused, whatever is asked for', async () => {
    const [path, other] = [await madeDatabase(), await madeDatabase()];
    const using = openSqliteStorage(other);
    onTestFinished(() => using.close());
    const added = await storedAccount(using);
    await expect(backUp(path, other, { force: true })).rejects.toThrow(
      `${other} is a database in use: ${other}-wal belongs to it.`,
    );
    expect(await using.read.accounts.list()).toContainEqual(added);
  });

  test.each(['-wal', '-shm', '-journal', '-lock'])(
    'over what belongs to the database, as its %s, it is refused, whatever is asked for',
    async (suffix) => {
      const path = await madeDatabase();
      const using = openSqliteStorage(path);
      onTestFinished(() => using.close());
      const before = readdirSync(dirname(path));
      await expect(backUp(path, path + suffix, { force: true })).rejects.toThrow(
        `${path}${suffix} belongs to the database.`,
      );
      expect(readdirSync(dirname(path))).toEqual(before);
    },
  );

  test.each([
    ['there is none', () => {}, /^There is no database \S+\.$/],
    ['it is of another program', makeOther, /^\S+ is not a database of this program\.$/],
    [
      'it is not a database',
      (path: string) => writeFileSync(path, 'x'.repeat(9_999)),
      /^\S+ is damaged: file is not a /,
    ],
    ['it is damaged', damage, /^\S+ is damaged: /],
  ])('of a database it is refused where %s, and none is made', async (_, make, expected) => {
    const folder = temporaryFolder();
    const path = join(temporaryFolder(), 'a.db');
    await make(path);
    await expect(backUp(path, join(folder, 'b.db'))).rejects.toThrow(expected);
    expect(readdirSync(folder)).toEqual([]);
    if (make.length === 0) expect(existsSync(path)).toBe(false);
  });
});

test('an account’s key opens a backup that is served: it is a database like the other', async () => {
  const path = join(temporaryFolder(), 'a.db');
  const server = await startTestServer({ databasePath: path });
  const client = await server.account();
  await client.rest('POST', '/conversations', { body: { subject: 'kept' } });
  const file = join(temporaryFolder(), 'b.db');
  await backUp(path, file);
  await server.close();
  const copy = await startTestServer({ databasePath: file });
  onTestFinished(() => copy.close());
  const { body } = await clientOf(copy.url, client.secret).rest('GET', '/conversations');
  expect(body.data).toMatchObject([{ subject: 'kept' }]);
});

/** Resolves when something has been made in a folder. */
function firstFileIn(folder: string): Promise<void> {
  return new Promise((resolve) => {
    const watcher = watch(folder, () => {
      watcher.close();
      resolve();
    });
  });
}

function makeOther(path: string): void {
  const database = new Database(path);
  database.exec('CREATE TABLE notes (text TEXT)');
  database.close();
}

/** A database with a page in its midst that says nothing any more. */
async function damage(path: string): Promise<void> {
  await madeDatabase(path);
  const bytes = readFileSync(path);
  const schema = new Database(path, { readonly: true });
  const page = schema.prepare(`SELECT rootpage FROM sqlite_schema WHERE name = 'accounts'`).pluck().get() as number;
  schema.close();
  bytes.fill(0xff, (page - 1) * 4096, page * 4096);
  writeFileSync(path, bytes);
}
