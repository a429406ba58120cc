import { mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, watch } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { reportingFileErrors } from '../../src/cli/files.ts';
import { finishErasures } from '../../src/domain/conversations.ts';
import { OperatorError } from '../../src/server/operator-error.ts';
import { compact } from '../../src/storage/sqlite/compact.ts';
import { takeOpenLock } from '../../src/storage/sqlite/open.ts';
import { openSqliteStorage, type SqliteStorage } from '../../src/storage/sqlite/storage.ts';
import type { Json } from '../support/client.ts';
import { temporaryFolder } from '../support/files.ts';
import { sampleConversation, sampleMessage, storedAccount } from '../support/samples.ts';
import { startTestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';
import { wholeConversation } from '../support/whole-conversation.ts';
import { commandLine, run } from './program.ts';

const marker = 'marker-of-what-was-erased';

/** Two conversations of one account, of a megabyte each and more, of which one holds the marker. */
async function fill(storage: SqliteStorage, accountId: string, count = 100) {
  const conversations = [sampleConversation({ messageCount: count }), sampleConversation({ messageCount: count })];
  const [erased, other] = conversations as [(typeof conversations)[0], (typeof conversations)[0]];
  await storage.write(async (tx) => {
    for (const each of conversations) await tx.conversations.insert(accountId, each);
    for (let sequence = 1; sequence <= count; sequence++) {
      const content = `${marker} `.repeat(500);
      await tx.messages.insert(accountId, sampleMessage(erased.id, sequence, { content }));
      const harmless = 'what may be seen '.repeat(750);
      await tx.messages.insert(accountId, sampleMessage(other.id, sequence, { content: harmless }));
    }
  });
  return { erased, other };
}

function bytesIn(folder: string): Buffer {
  return Buffer.concat(readdirSync(folder).map((name) => readFileSync(join(folder, name))));
}

describe('compact', () => {
  test('beside a running server makes the file as small as what it holds, and the server goes on', async () => {
    const server = await startTestServer();
    onTestFinished(() => server.close());
    const client = await server.account();
    const { erased, other } = await fill(server.storage, client.account.id);
    expect((await client.rest('DELETE', `/conversations/${erased.id}`)).status).toBe(204);
    // It is emptied when all is erased, but the server may write to it again at any time.
    await until(() => statSync(`${server.databasePath}-wal`).size < 100_000);
    const size = statSync(server.databasePath).size;
    // What it holds from before is of use no more, whatever was prepared and read.
    const before = (await client.rest('GET', `/conversations/${other.id}`)).body;
    const sizes = await commandLine(server.databasePath).json<{ before: number; after: number }>('compact');
    expect(sizes).toEqual({ before: size, after: statSync(server.databasePath).size });
    expect(sizes.after).toBeLessThan(0.6 * sizes.before);
    expect((await client.rest('GET', `/conversations/${other.id}`)).body).toEqual(before);
    const sent = await client.rest('POST', `/conversations/${other.id}/messages`, {
      body: { content: 'And on it goes', sender: 'visitor' },
    });
    expect(sent.body.sequence).toBe(other.messageCount + 1);
    const log = (await client.rest('GET', '/events')).body.data;
    expect(log.map(({ type }: Json) => type)).toEqual(['conversation.deleted', 'message.received']);
  });

  test('finishes first what was being erased when a process was killed, and leaves nothing of it', async () => {
    const folder = temporaryFolder();
    const path = join(folder, 'test.db');
    const storage = openSqliteStorage(path);
    const { id: accountId } = await storedAccount(storage);
    const { erased } = await fill(storage, accountId);
    await storage.write(async (tx) => tx.conversations.erase(accountId, erased));
    await storage.close();
    expect(bytesIn(folder).includes(marker)).toBe(true);
    const { code, stdout, stderr } = await commandLine(path).runHere('compact');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^Compacted the database from \d+\.\d MB to \d+\.\d MB\.\n$/);
    expect(bytesIn(folder).includes(marker)).toBe(false);
  });

  test('has its temporary file beside the database, not where those of others are', async () => {
    const [folder, elsewhere] = [join(temporaryFolder(), 'data'), temporaryFolder()];
    mkdirSync(folder);
    const path = join(folder, 'test.db');
    const storage = openSqliteStorage(path);
    const { id: accountId } = await storedAccount(storage);
    await fill(storage, accountId);
    await storage.close();
    const link = join(elsewhere, 'link.db');
    symlinkSync(path, link);
    const seen = { here: new Set<string>(), elsewhere: new Set<string>() };
    const watchers = [
      watch(folder, (_, name) => void seen.here.add(String(name))),
      watch(elsewhere, (_, name) => void seen.elsewhere.add(String(name))),
    ];
    onTestFinished(() => {
      for (const watcher of watchers) watcher.close();
    });
    const environment = { DATABASE_URL: `file:${link}`, SQLITE_TMPDIR: elsewhere };
    expect((await run(['compact'], { environment })).code).toBe(0);
    expect([...seen.here].filter((name) => !name.startsWith('test.db'))).toHaveLength(1);
    expect([...seen.elsewhere]).toEqual([]);
    expect(readdirSync(folder)).toEqual(['test.db', 'test.db-lock']);
  });

  test('of a database that is not there makes none', async () => {
    const folder = temporaryFolder();
    const path = join(folder, 'none.db');
    expect(await commandLine(path).runHere('compact')).toEqual({
      code: 1,
      stdout: '',
      stderr: `There is no database ${path}: DATABASE_URL says where it is, and \`serve\` makes it.\n`,
    });
    expect(readdirSync(folder)).toEqual([]);
  });
});

describe('a database is not compacted, and is as it was', () => {
  async function filled() {
    const path = join(temporaryFolder(), 'test.db');
    const storage = openSqliteStorage(path);
    onTestFinished(() => storage.close());
    const { id: accountId } = await storedAccount(storage);
    const { erased, other } = await fill(storage, accountId, 20);
    await storage.write(async (tx) => tx.conversations.erase(accountId, erased));
    await finishErasures(storage);
    await until(() => statSync(`${path}-wal`).size === 0);
    const beside = new Database(path);
    onTestFinished(() => void beside.close());
    const expectWhole = async () => {
      const found = await wholeConversation(storage.read, accountId, other.id);
      expect(found?.messages).toHaveLength(20);
    };
    return { path, beside, expectWhole };
  }

  test('without the room for it, and says so', async () => {
    const { path, expectWhole } = await filled();
    const size = statSync(path).size;
    await expect(compact(path, { roomIn: () => 500_000 })).rejects.toThrow(
      /^It needs \d\.\d MB on the disk of the file, which has 0\.5 MB left\.$/,
    );
    expect(statSync(path).size).toBe(size);
    await expectWhole();
    await compact(path, { roomIn: () => 2_000_000 });
    expect(statSync(path).size).toBeLessThan(size);
  });

  test('while another process writes all the time', async () => {
    const { path, beside, expectWhole } = await filled();
    beside.exec('BEGIN IMMEDIATE');
    await expect(compact(path, { busyTimeoutMs: 50 })).rejects.toThrow(/^Others write to the database all the time/);
    beside.exec('ROLLBACK');
    await expectWhole();
    await compact(path);
    await expectWhole();
  });

  test('while another process restores a backup into it, and says so', async () => {
    const { path, expectWhole } = await filled();
    const lock = takeOpenLock(path, 0);
    const compacting = reportingFileErrors(() => compact(path, { busyTimeoutMs: 50 }));
    await expect(compacting).rejects.toThrow(OperatorError);
    await expect(compacting).rejects.toThrow(/^Another process .* restoring a backup into it; try again later\.$/);
    lock.close();
    await expectWhole();
  });

  test('to its end while another process reads what was there before, and says that its log still holds it', async () => {
    const { path, beside, expectWhole } = await filled();
    beside.exec('BEGIN');
    beside.prepare('SELECT count(*) FROM messages').get();
    await expect(compact(path, { busyTimeoutMs: 50 })).rejects.toThrow(/another process still reads .* try again/);
    expect(statSync(`${path}-wal`).size).toBeGreaterThan(0);
    await expectWhole();
    beside.exec('ROLLBACK');
    await compact(path);
    expect(statSync(`${path}-wal`).size).toBe(0);
    await expectWhole();
  });
});
