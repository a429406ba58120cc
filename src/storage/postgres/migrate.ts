import { randomBytes, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type MigrationMeta, readMigrationFiles } from 'drizzle-orm/migrator';
import { postgresMigrationsFolder } from '../../layout.ts';
import { unavailable } from '../errors.ts';
import { unknownMigration } from '../unfinished-copy.ts';
import { type Client, type ConnectionOptions, closeMs, connect } from './connections.ts';
import { isDivisionByZero, isLockTimeout } from './errors.ts';

/** The migrations as JSON, which esbuild.config.ts inserts into the built program. The sources run without it. */
declare const builtPostgresMigrations: string | undefined;

/** Those that this program was built with: an upgrade in place can change the folder while this one is still running. */
export const migrations: readonly MigrationMeta[] =
  typeof builtPostgresMigrations === 'undefined'
    ? readMigrationFiles({ migrationsFolder: postgresMigrationsFolder })
    : JSON.parse(builtPostgresMigrations);

/** When the newest migration was made that this program knows, in epoch milliseconds. */
export const newestMigration = migrations.at(-1)?.folderMillis ?? 0;

/**
 * An expression that fails where a newer version of the program has migrated the database, as in a rolling upgrade: what an
 * older version writes lacks what the newer one relies on. So the transaction fails, and nobody has to wait for the answer.
 */
export const isNotNewer = `1 / (SELECT (coalesce(max(created_at), 0) <= ${newestMigration})::integer
  FROM __drizzle_migrations)`;

/** @throws UNAVAILABLE if that is why a statement failed */
export function explainNewer(error: unknown): never {
  if (!isDivisionByZero(error)) throw error;
  throw unavailable('The database was migrated by a newer version of the service, which is to take over.', error);
}

export interface MigrationReport {
  /** How many migrations this call applied. */
  readonly applied: number;
  /** How many there are. */
  readonly total: number;
}

interface MigrateOptions extends ConnectionOptions {
  readonly isTemplate?: boolean;
  readonly migrations?: readonly MigrationMeta[];
  /** How long to wait for another node that migrates. */
  readonly patienceMs?: number;
}

/** The advisory lock of whoever migrates: any number will do that nothing else on the database takes. */
const lockKey = 7_235_114_091;

/** How long other nodes wait at a time behind one that is about to migrate, and how long they serve in between. */
const lockMs = 500;
const pauseMs = 2_000;

/**
 * Applies the missing migrations in one transaction. Other nodes wait for it.
 * @param url of the database itself, and not of a proxy
 * @param options `isTemplate` leaves out what no two databases may have in common; `migrations` are the program's, but in tests
 * @throws Error when the database was migrated by a newer version of the program, or others have it locked
 */
export async function migrate(
  url: string,
  { isTemplate = false, migrations: known = migrations, patienceMs = 60_000, ...options }: MigrateOptions,
): Promise<MigrationReport> {
  const client = connect(url, { ...options, lockTimeoutMs: patienceMs, statementTimeoutMs: 0 });
  try {
    await client.unsafe('BEGIN').simple();
    const report = await applyMissing(client, known, patienceMs);
    if (!isTemplate) await addFacts(client);
    await client.unsafe('COMMIT').simple();
    return report;
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    throw new Error(
      'others have locked it for too long: a node that migrates it, or a program such as pg_dump; try again later',
      { cause: error },
    );
  } finally {
    await client.finish(closeMs); // which rolls back what was not committed
  }
}

async function applyMissing(
  client: Client,
  known: readonly MigrationMeta[],
  patienceMs: number,
): Promise<MigrationReport> {
  const [{ encoding }] = await client<[{ encoding: string }]>`SELECT pg_advisory_xact_lock(${lockKey}),
    current_setting('server_encoding') AS encoding`;
  if (encoding !== 'UTF8') throw new Error(`its encoding is ${encoding} and must be UTF8; make another one`);
  await client`CREATE TABLE IF NOT EXISTS __drizzle_migrations
    (id serial PRIMARY KEY, hash text NOT NULL, created_at bigint NOT NULL)`;
  const [row] = await client<[{ done: number | null }]>`SELECT max(created_at) AS done FROM __drizzle_migrations`;
  const done = row.done ?? 0;
  if (done > (known.at(-1)?.folderMillis ?? 0)) throw unknownMigration(done);
  const pending = known.filter((migration) => migration.folderMillis > done);
  // Who has found the database not newer holds this table until the end of the transaction: what it writes is migrated,
  // and whoever comes later waits and finds it newer.
  if (pending.length > 0) await keepOthersOut(client, patienceMs);
  for (const { sql, hash, folderMillis } of pending) {
    for (const statement of sql) await client.unsafe(statement).simple();
    await client`INSERT INTO __drizzle_migrations (hash, created_at) VALUES (${hash}, ${folderMillis})`;
  }
  return { applied: pending.length, total: known.length };
}

/**
 * Locks the table that every write of the other nodes looks at. All of them wait behind whoever waits for that lock: so where
 * it is not free, as long as pg_dump runs for one, it is asked for again and again, for a moment.
 */
async function keepOthersOut(client: Client, patienceMs: number): Promise<void> {
  for (let waitedMs = lockMs; ; waitedMs += pauseMs + lockMs) {
    try {
      await client.unsafe(`SAVEPOINT before; SET LOCAL lock_timeout = ${lockMs}`).simple();
      await client.unsafe('LOCK TABLE __drizzle_migrations IN ACCESS EXCLUSIVE MODE').simple();
      await client.unsafe(`SET LOCAL lock_timeout = ${patienceMs}`).simple();
      return;
    } catch (error) {
      if (!isLockTimeout(error) || waitedMs >= patienceMs) throw error;
      await client.unsafe('ROLLBACK TO before').simple();
    }
    await sleep(pauseMs);
  }
}

/** What a database is to have from its first opening on. */
async function addFacts(client: Client): Promise<void> {
  const [epoch, tokenKey] = [randomUUID(), randomBytes(32).toString('hex')];
  await client`INSERT INTO meta (name, value)
    VALUES ('epoch', ${epoch}), ('token_key', ${tokenKey}), ('revocations', '0'), ('erasures', '0') ON CONFLICT DO NOTHING`;
  await client`INSERT INTO rate_clock (key, at) VALUES (1, 0) ON CONFLICT DO NOTHING`;
}
