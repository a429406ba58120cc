import { statSync } from 'node:fs';
import postgres from 'postgres';
import type { Storage } from '../../src/domain/storage-port.ts';
import { systemClock } from '../../src/server/clock.ts';
import { openPostgresStorage } from '../../src/storage/postgres/storage.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import type { PostgresServer } from '../support/postgres.ts';

/** A database for a server in a process of its own. */
export interface EmptyDatabase {
  readonly url: string;
  /** Opens it beside the server, as commands do. */
  open(): Promise<Storage>;
  /** How much room it takes. */
  bytes(): Promise<number>;
}

export function fileDatabase(path: string): EmptyDatabase {
  return {
    url: `file:${path}`,
    open: async () => openSqliteStorage(path),
    bytes: async () => statSync(path).size,
  };
}

/** A database that is removed with its server. */
export async function postgresDatabase(server: PostgresServer): Promise<EmptyDatabase> {
  const url = await server.database();
  return {
    url,
    open: () => openPostgresStorage(url, { clock: systemClock }),
    async bytes() {
      const client = postgres(url, { max: 1, fetch_types: false });
      const [row] = await client<{ bytes: string }[]>`SELECT pg_database_size(current_database()) AS bytes`;
      await client.end();
      return Number(row?.bytes);
    },
  };
}
