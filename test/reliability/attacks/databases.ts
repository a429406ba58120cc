import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import postgres from 'postgres';
import type { Storage } from '../../../src/domain/storage-port.ts';
import { systemClock } from '../../../src/server/clock.ts';
import { openPostgresStorage } from '../../../src/storage/postgres/storage.ts';
import { openSqliteStorage } from '../../../src/storage/sqlite/storage.ts';

/** An empty database of a trial. */
export interface TrialDatabase {
  readonly url: string;
  /** Opens it beside the server, as commands do. */
  open(): Promise<Storage>;
  /** How much room it takes. */
  bytes(): Promise<number>;
  remove(): void;
}

export function fileDatabase(): TrialDatabase {
  const folder = mkdtempSync(join(tmpdir(), 'conversation-service-'));
  const path = join(folder, 'test.db');
  return {
    url: `file:${path}`,
    open: async () => openSqliteStorage(path),
    bytes: async () => statSync(path).size,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** @param url of a database that is removed with its server */
export function postgresDatabase(url: string): TrialDatabase {
  return {
    url,
    open: () => openPostgresStorage(url, { clock: systemClock }),
    async bytes() {
      const client = postgres(url, { max: 1, fetch_types: false });
      const [row] = await client<{ bytes: string }[]>`SELECT pg_database_size(current_database()) AS bytes`;
      await client.end();
      return Number(row?.bytes);
    },
    remove: () => {},
  };
}
