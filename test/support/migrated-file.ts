import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';

let migrated: Promise<Buffer> | undefined;

/**
 * Puts an empty database at the path that is migrated already: the migrations take longer than many a test. Like every
 * other database it has an epoch and a key of its own.
 * @returns the path
 */
export async function putMigrated(path: string): Promise<string> {
  migrated ??= make();
  writeFileSync(path, await migrated, { mode: 0o600 });
  const connection = new Database(path);
  connection.exec(
    `UPDATE meta SET value = lower(hex(randomblob(length(value) / 2))) WHERE name IN ('epoch', 'token_key')`,
  );
  connection.close();
  return path;
}

async function make(): Promise<Buffer> {
  const folder = mkdtempSync(join(tmpdir(), 'conversation-service-'));
  try {
    const path = join(folder, 'test.db');
    await openSqliteStorage(path).close();
    return readFileSync(path);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
