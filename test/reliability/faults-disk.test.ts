import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { indexTexts } from '../../src/domain/search.ts';
import { compact } from '../../src/storage/sqlite/compact.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { commandLine, run, start } from '../cli/program.ts';
import { type Client, clientOf } from '../support/client.ts';
import { effort, longTest } from '../support/effort.ts';
import { sampleConversation, sampleMessage, storedAccount } from '../support/samples.ts';
import { until } from '../support/wait.ts';
import { avoidEndOfMinute, expectAcknowledgedWrites, expectReads } from './fault-checks.ts';
import { cannotMount, type SmallDisk, smallDisk } from './small-disk.ts';
import { makeBusyAccount, Writers } from './writers.ts';

// A disk that fills up, and one that cannot be written, under the program as it runs. The skipping of these says why.

const kibibyte = 1024;

describe.skipIf(cannotMount !== undefined)(
  `a disk${cannotMount === undefined ? '' : ` (skipped: ${cannotMount})`}`,
  () => {
    longTest(
      'that is full has writes refused on both faces, and reads go on; with room again all go on, and nothing is lost',
      {
        timeout: effort(30_000, 300_000),
      },
      async () => {
        const disk = smallDisk(effort(24, 256));
        const path = join(disk.folder, 'test.db');
        const server = await serveOn(disk, path);
        const busy = await Writers.start(server.url, server.secret, 4, 8_000);
        // By then the write-ahead log has been folded into the file, and is written anew from its beginning.
        await busy.until(() => busy.done > effort(60, 600));
        await busy.stop();
        await expectAcknowledgedWrites(server.client, busy);
        for (let round = 0; round < effort(2, 10); round++) {
          // Before anybody writes: during this wait, they would fill the disk or their conversations on a fast machine.
          await avoidEndOfMinute(server.client, 5_000);
          const writers = await Writers.start(server.url, server.secret, 4, 8_000);
          disk.fill(round % 2 === 0 ? 0 : 300 * kibibyte);
          await writers.until(() => writers.refused >= 10);
          await expectReads(server.url, server.client);
          const { done } = writers;
          disk.free();
          await writers.until(() => writers.done > done + 20);
          await writers.stop();
          await expectAcknowledgedWrites(server.client, writers);
        }

        disk.fill();
        server.process.signal('SIGTERM');
        expect(await server.process.ended).toEqual({ code: 0, stdout: '', stderr: '' });
        disk.free();
        expect(integrityOf(path)).toBe('ok');
        // The log was on the same disk, which had room for a part of its last line at most.
        const lines = server.log().split('\n').slice(0, -1);
        expect(lines.length).toBeGreaterThan(0);
        for (const line of lines) expect(() => JSON.parse(line), line).not.toThrow();
      },
    );

    test('that has no room for a backup leaves nothing of it, and the backup says so', async () => {
      const [disk, other] = [smallDisk(8), smallDisk(1)];
      const path = join(disk.folder, 'test.db');
      await openSqliteStorage(path).close();
      other.fill(100 * kibibyte);
      const file = join(other.folder, 'backup.db');
      expect(await commandLine(path).runHere('backup', file)).toEqual({
        code: 1,
        stdout: '',
        stderr: `${path} could not be copied to ${file}: database or disk is full.\n`,
      });
      expect(readdirSync(other.folder)).toEqual(['ballast']);
    });

    test('that is full under a server can be saved to another one, by a backup that leaves nothing beside the database', async () => {
      const [disk, other] = [smallDisk(8), smallDisk(8)];
      const path = join(disk.folder, 'test.db');
      const storage = openSqliteStorage(path);
      onTestFinished(() => storage.close());
      await storedAccount(storage);
      disk.fill();
      const before = readdirSync(disk.folder);
      const file = join(other.folder, 'backup.db');
      expect(await commandLine(path).runHere('backup', file)).toMatchObject({ code: 0, stderr: '' });
      expect(readdirSync(disk.folder)).toEqual(before);
      const ofBackup = await commandLine(file).runHere('account', 'list', '--json');
      expect(await commandLine(path).runHere('account', 'list', '--json')).toEqual(ofBackup);
    });

    test('that is full has a command that writes refused with the reason', async () => {
      const disk = smallDisk(8);
      const path = join(disk.folder, 'test.db');
      const storage = openSqliteStorage(path);
      onTestFinished(() => storage.close());
      disk.fill();
      expect(await commandLine(path).runHere('account', 'create', '--name', 'Shop', '--plan', 'trial')).toEqual({
        code: 1,
        stdout: '',
        stderr: 'The storage cannot be written or read at the moment (database or disk is full).\n',
      });
    });

    test('that fills up under a copy has it interrupted with the reason, and with room again the same command continues it', async () => {
      const [disk, other] = [smallDisk(16), smallDisk(16)];
      const [from, to] = [join(other.folder, 'from.db'), join(disk.folder, 'to.db')];
      await makeConversation(from, 2_000, (sequence) => `${sequence} `.repeat(200));
      disk.fill(2 * kibibyte * kibibyte);
      const copying = ['copy', '--to', `file:${to}`];
      expect(await commandLine(from).runHere(...copying)).toEqual({
        code: 1,
        stdout: '',
        stderr: 'The copy was interrupted: database or disk is full. The same command continues it.\n',
      });
      disk.free();
      expect(await commandLine(to).runHere('backup', join(other.folder, 'backup.db'))).toEqual({
        code: 1,
        stdout: '',
        stderr: `${to} holds an unfinished copy: the same \`copy\` again continues it.\n`,
      });
      expect(await commandLine(from).runHere(...copying, '--json')).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('"continued":true'),
      });
    });

    longTest('on which a compaction begins has the room for all of it, the search index, too', async () => {
      const disk = smallDisk(48);
      const path = join(disk.folder, 'test.db');
      await makeConversation(path, 3_000, (sequence) => {
        // No word is there twice or begins like the one before it, so that the index takes much of the file.
        const words = Array.from({ length: 100 }, (_, index) => ((sequence * 100 + index) * 48_271) % 0x7fffffff);
        return words.map((word) => word.toString(36)).join(' ');
      });
      const size = statSync(path).size;
      for (let room = 1.5 * size; ; room += 512 * kibibyte) {
        disk.free();
        disk.fill(room);
        const outcome = await compact(path).catch((error: Error) => error.message);
        if (typeof outcome !== 'string') break;
        expect(outcome).toMatch(/^It needs \d+\.\d MB on the disk of the file, which has \d+\.\d MB left\.$/);
        expect(statSync(path).size).toBe(size);
      }
      expect(integrityOf(path)).toBe('ok');
    });

    test('that has no room for a migration has the database as it was, and the next attempt succeeds', async () => {
      const disk = smallDisk(8);
      const path = join(disk.folder, 'test.db');
      disk.fill(100 * kibibyte);
      expect(() => openSqliteStorage(path)).toThrow('database or disk is full');
      expect(tablesOf(path)).toEqual([]);
      disk.free();
      const storage = openSqliteStorage(path);
      onTestFinished(() => storage.close());
      expect(storage.migrations.applied).toBe(storage.migrations.total);
    });

    test('that is read-only keeps a server from starting, which says so in a sentence', async () => {
      const disk = smallDisk(8);
      const path = join(disk.folder, 'test.db');
      const left = join(disk.folder, 'left.db');
      const storage = openSqliteStorage(path);
      // As a server that was killed leaves them, with all that it takes to be opened for reading.
      for (const suffix of ['', '-wal', '-shm']) copyFileSync(path + suffix, left + suffix);
      await storage.close();
      disk.makeReadOnly();
      const reason = `${disk.folder} cannot be written: its file system is read-only.`;
      expect(await run(['serve'], { environment: { PORT: '0', DATABASE_URL: `file:${path}` } })).toEqual({
        code: 1,
        stdout: '',
        stderr: `The database ${path} cannot be opened: ${reason}\n`,
      });
      for (const name of ['left.db', 'new.db', 'none/new.db']) {
        expect(() => openSqliteStorage(join(disk.folder, name)), name).toThrow(reason);
      }
      expect(await commandLine(path).runHere('backup', join(disk.folder, 'backup.db'))).toEqual({
        code: 1,
        stdout: '',
        stderr: `${reason}\n`,
      });
    });

    test('that keeps the lock beside a database from being written, as another owner would, has that file named', async () => {
      const [disk, other] = [smallDisk(1), smallDisk(8)];
      const path = join(other.folder, 'test.db');
      await openSqliteStorage(path).close();
      rmSync(`${path}-lock`);
      writeFileSync(join(disk.folder, 'lock'), '');
      symlinkSync(join(disk.folder, 'lock'), `${path}-lock`);
      disk.makeReadOnly();
      const reason = `${path}-lock cannot be written: its file system is read-only.\n`;
      expect(await commandLine(path).runHere('account', 'list')).toEqual({
        code: 1,
        stdout: '',
        stderr: `The database ${path} cannot be opened: ${reason}`,
      });
      for (const command of ['backup', 'restore']) {
        const file = join(other.folder, `${command}.db`);
        if (command === 'restore') writeFileSync(file, 'anything');
        expect(await commandLine(path).runHere(command, file)).toEqual({ code: 1, stdout: '', stderr: reason });
      }
    });
  },
);

interface Served {
  readonly url: string;
  readonly secret: string;
  readonly client: Client;
  readonly process: ReturnType<typeof start>;
  log(): string;
}

/** Starts a server whose log is on the same disk as its data, as it often is. */
async function serveOn({ folder }: SmallDisk, path: string): Promise<Served> {
  const secret = await makeBusyAccount(path);
  const file = join(folder, 'log');
  const process = start(['serve'], {
    environment: { PORT: '0', DATABASE_URL: `file:${path}` },
    before: `exec > '${file}'`,
  });
  const log = (): string => (existsSync(file) ? readFileSync(file, 'utf8') : '');
  await until(() => log().includes('"msg":"listening"'));
  const url = /"url":"([^"]+)"/.exec(log())?.[1] ?? '';
  return { url, secret, client: clientOf(url, secret), process, log };
}

function tablesOf(path: string): unknown[] {
  const database = new Database(path, { fileMustExist: true });
  try {
    return database.prepare('SELECT name FROM sqlite_schema').pluck().all();
  } finally {
    database.close();
  }
}

function integrityOf(path: string): unknown {
  const database = new Database(path, { readonly: true });
  try {
    return database.pragma('integrity_check', { simple: true });
  } finally {
    database.close();
  }
}

/** Makes a database with one conversation, all of whose messages are indexed. */
async function makeConversation(path: string, messages: number, contentOf: (sequence: number) => string) {
  const storage = openSqliteStorage(path);
  const { id: accountId } = await storedAccount(storage);
  const conversation = sampleConversation();
  await storage.write(async (tx) => {
    await tx.conversations.insert(accountId, conversation);
    for (let sequence = 1; sequence <= messages; sequence++) {
      await tx.messages.insert(accountId, sampleMessage(conversation.id, sequence, { content: contentOf(sequence) }));
    }
  });
  await indexTexts(storage);
  await storage.close();
}
