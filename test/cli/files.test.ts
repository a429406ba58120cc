import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { backUp } from '../../src/storage/sqlite/backup.ts';
import { compact } from '../../src/storage/sqlite/compact.ts';
import { restore } from '../../src/storage/sqlite/restore.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { TestClock } from '../support/clock.ts';
import { temporaryFolder } from '../support/files.ts';
import { putMigrated } from '../support/migrated-file.ts';
import { storedAccount } from '../support/samples.ts';
import { startTestServer } from '../support/server.ts';
import { commandLine } from './program.ts';

const clock = new TestClock();

/** The permissions of a folder and of everything in it. */
function modesIn(folder: string): Record<string, string> {
  const names = ['.', ...readdirSync(folder)];
  return Object.fromEntries(names.map((name) => [name, (statSync(join(folder, name)).mode & 0o777).toString(8)]));
}

/** A database that nobody has open, with as many accounts as were asked for. */
async function madeDatabase(path: string, accounts = 1): Promise<void> {
  mkdirSync(dirname(path), { recursive: true });
  const storage = openSqliteStorage(await putMigrated(path));
  for (let count = 0; count < accounts; count++) await storedAccount(storage);
  await storage.close();
}

function accountsIn(path: string): unknown {
  const database = new Database(path, { readonly: true });
  try {
    return database.prepare('SELECT count(*) FROM accounts').pluck().get();
  } finally {
    database.close();
  }
}

describe('only their owner can read the files that the program makes', () => {
  test('a server, a backup, a restoration and a compaction, with a umask that hides nothing', async () => {
    const umask = process.umask(0);
    onTestFinished(() => void process.umask(umask));
    const folder = join(temporaryFolder(), 'new', 'data');
    const path = join(folder, 'a.db');
    const server = await startTestServer({ databasePath: path });
    onTestFinished(() => server.close());
    const { runHere } = commandLine(path);
    const whileServing = { '.': '700', 'a.db': '600', 'a.db-lock': '600', 'a.db-shm': '600', 'a.db-wal': '600' };
    expect(modesIn(folder)).toEqual(whileServing);
    expect(modesIn(join(folder, '..'))['.']).toBe('700');
    const file = join(temporaryFolder(), 'b.db');
    expect(await runHere('backup', file)).toMatchObject({ code: 0 });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await server.close();
    chmodSync(file, 0o644);
    expect(await runHere('restore', file)).toMatchObject({ code: 0 });
    expect(await runHere('compact')).toMatchObject({ code: 0 });
    expect(new Set(Object.values(modesIn(folder)))).toEqual(new Set(['700', '600']));
  });

  test('a database that everybody could read, as earlier versions made it, is made private when it is opened', async () => {
    const folder = join(temporaryFolder(), 'data');
    const path = join(folder, 'a.db');
    await madeDatabase(path);
    const other = openSqliteStorage(path);
    for (const name of ['a.db', 'a.db-wal', 'a.db-shm']) chmodSync(join(folder, name), 0o644);
    const storage = openSqliteStorage(path);
    expect({ first: other.wasPublic, second: storage.wasPublic }).toEqual({ first: false, second: true });
    expect(modesIn(folder)).toMatchObject({ 'a.db': '600', 'a.db-wal': '600', 'a.db-shm': '600' });
    await storage.close();
    await other.close();
  });

  test('but one that its owner has opened to a group stays so, and what replaces it too', async () => {
    const folder = join(temporaryFolder(), 'data');
    const path = join(folder, 'a.db');
    await madeDatabase(path);
    const file = join(temporaryFolder(), 'b.db');
    await backUp(path, file);
    chmodSync(path, 0o640);
    await restore(path, file, { clock });
    const storage = openSqliteStorage(path);
    expect(storage.wasPublic).toBe(false);
    expect(modesIn(folder)).toMatchObject({ 'a.db': '640', 'a.db-wal': '640', 'a.db-shm': '640' });
    await storage.close();
  });
});

describe('through symbolic links', () => {
  /** A database behind a link, in a folder that is reached through a link, too. */
  async function linked(): Promise<{ real: string; path: string; folder: string }> {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'disk'));
    symlinkSync('disk', join(folder, 'data'));
    symlinkSync('a-1.db', join(folder, 'disk', 'a.db'));
    return { real: join(folder, 'disk', 'a-1.db'), path: join(folder, 'data', 'a.db'), folder: join(folder, 'disk') };
  }

  test('a restoration replaces the file, and leaves the links', async () => {
    const { real, path, folder } = await linked();
    await madeDatabase(path, 2);
    const file = join(temporaryFolder(), 'b.db');
    await madeDatabase(file, 1);
    const { previous } = await restore(path, file, { clock });
    expect(lstatSync(join(folder, 'a.db')).isSymbolicLink()).toBe(true);
    expect([accountsIn(path), accountsIn(real), accountsIn(previous ?? '')]).toEqual([1, 1, 2]);
    expect(previous?.startsWith(`${real}.before-`)).toBe(true);
  });

  test('all who open the database, by whichever name, share the lock that restoring takes', async () => {
    const { real, path, folder } = await linked();
    const storage = openSqliteStorage(path);
    expect(readdirSync(folder).sort()).toEqual(['a-1.db', 'a-1.db-lock', 'a-1.db-shm', 'a-1.db-wal', 'a.db']);
    const file = join(temporaryFolder(), 'b.db');
    await madeDatabase(file);
    await expect(restore(path, file, { clock })).rejects.toThrow(`${real} is in use`);
    await storage.close();
    expect((await compact(path)).after).toBeGreaterThan(0);
  });

  test('a backup is written to the file that the link points to, whether it exists or not', async () => {
    const { real, path, folder } = await linked();
    const database = join(temporaryFolder(), 'a.db');
    await madeDatabase(database, 3);
    await backUp(database, path);
    await backUp(database, path, { force: true });
    expect(lstatSync(join(folder, 'a.db')).isSymbolicLink()).toBe(true);
    expect([accountsIn(real), readdirSync(folder).sort()]).toEqual([3, ['a-1.db', 'a.db']]);
  });
});

describe('what is left over beside a file that is gone', () => {
  test.each(['-wal', '-shm', '-journal'])(
    '%s: a backup is not put beside it, unless it is to be removed',
    async (suffix) => {
      const path = join(temporaryFolder(), 'a.db');
      await madeDatabase(path, 2);
      const folder = temporaryFolder();
      const file = join(folder, 'b.db');
      writeFileSync(file + suffix, 'what another database has left');
      await expect(backUp(path, file)).rejects.toThrow(
        `${file}${suffix} is left over from another ${file}, and would damage the backup; --force removes it.`,
      );
      expect(readdirSync(folder)).toEqual([`b.db${suffix}`]);
      await backUp(path, file, { force: true });
      expect(readdirSync(folder)).toEqual(['b.db']);
      expect(accountsIn(file)).toBe(2);
    },
  );

  test('nor is a database replaced that a rollback journal belongs to', async () => {
    const path = join(temporaryFolder(), 'a.db');
    await madeDatabase(path);
    const file = join(temporaryFolder(), 'b.db');
    await madeDatabase(file);
    writeFileSync(`${file}-journal`, 'an unfinished transaction');
    const before = readFileSync(file);
    await expect(backUp(path, file, { force: true })).rejects.toThrow(`${file}-journal belongs to it.`);
    await expect(restore(path, file, { clock })).rejects.toThrow(`${file}-journal belongs to it.`);
    expect(readFileSync(file).equals(before)).toBe(true);
  });
});

test.each([['account', 'list'], ['backup', 'b.db'], ['compact'], ['copy', '--to', 'file:b.db']])(
  'a database that the system does not let anybody look for is not told to be missing: %s',
  async (...command) => {
    const path = join(temporaryFolder(), 'a.db');
    symlinkSync('a.db', path);
    const { code, stderr } = await commandLine(path).runHere(...command);
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('ELOOP') });
  },
);
