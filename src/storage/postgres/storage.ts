import type { Clock } from '../../domain/ports.ts';
import type { Reads, Storage, Transaction } from '../../domain/storage-port.ts';
import { accountReads, accountWrites, apiKeyReads, apiKeyWrites } from './accounts.ts';
import { CommitWatch } from './commit-watch.ts';
import { type ConnectionOptions, connect, Pool } from './connections.ts';
import { asDomainError } from './errors.ts';
import { rateWindowReads, rateWindowWrites } from './limits.ts';
import { type MigrationReport, migrate, newestMigration } from './migrate.ts';
import { Session } from './session.ts';
import { signInReads, signInWrites } from './sign-ins.ts';
import { Statements } from './statements.ts';
import { scoped, type WorkScope } from './work-scope.ts';
import { Writer, type WriterOptions, type Writing } from './writer.ts';

export interface PostgresStorage extends Storage {
  readonly migrations: MigrationReport;
  /** Number of writes waiting for their transaction. */
  readonly waitingWrites: number;
}

export interface PostgresOptions extends Omit<WriterOptions, 'onCommit'>, ConnectionOptions {
  /** This machine's clocks, between readings of the database's. */
  readonly clock: Clock;
  /** The address of the database itself, if the other one is that of a proxy. */
  readonly directUrl?: string | undefined;
  /** The maximum number of connections for reads. */
  readonly maxReaders?: number | undefined;
}

/**
 * Opens the storage in a PostgreSQL database, and migrates it if need be.
 * @throws Error when the database was migrated by a newer version of the program
 */
export async function openPostgresStorage(url: string, options: PostgresOptions): Promise<PostgresStorage> {
  const { clock, directUrl = url, maxReaders = 8 } = options;
  const migrations = await migrate(directUrl, options);
  const watch = new CommitWatch();
  const reading = connect(url, maxReaders, options);
  const pool = new Pool(reading, options);
  const writer = new Writer<Transaction>(() => writingOn(new Session(url, newestMigration, options), clock), {
    ...options,
    onCommit: watch.committed,
  });
  return {
    migrations,
    read: readsOn(new Statements(pool), clock),
    write: (work, accountId) => writer.write(work, accountId),
    watch: (listener) => watch.watch(listener),
    async check() {
      await inDomain(() => pool.query('SELECT name FROM meta LIMIT 1', []));
    },
    get waitingWrites() {
      return writer.waiting;
    },
    writeWaitMs: (accountId) => writer.waitMs(accountId),
    async close() {
      await writer.close();
      await reading.end({ timeout: 5 });
    },
  };
}

async function inDomain<T>(read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw asDomainError(error);
  }
}

/** Wraps a group of queries for readers: the errors of PostgreSQL become the domain's. */
function translated<Group extends object>(group: Group): Group {
  const entries = Object.entries(group) as [string, (...args: never[]) => unknown][];
  return Object.fromEntries(
    entries.map(([name, method]) => [name, (...args: never[]) => inDomain(() => method(...args))]),
  ) as Group;
}

function readsOn(db: Statements, clock: Clock): Reads {
  return {
    accounts: translated(accountReads(db)),
    apiKeys: translated(apiKeyReads(db)),
    signIns: translated(signInReads(db)),
    rateWindows: translated(rateWindowReads(db, clock)),
  } as unknown as Reads;
}

function writingOn(session: Session, clock: Clock): Writing<Transaction> {
  const db = new Statements(session);
  const touchedAll = () => session.touches.touchedAll();
  const accounts = scoped({ ...accountReads(db), ...accountWrites(db) });
  const apiKeys = scoped({ ...apiKeyReads(db), ...apiKeyWrites(db, touchedAll) });
  const signIns = scoped({ ...signInReads(db), ...signInWrites(db) });
  const rateWindows = scoped({ ...rateWindowReads(db, clock), ...rateWindowWrites(db) });
  const transactionFor = (scope: WorkScope) =>
    ({
      accounts: accounts(scope),
      apiKeys: apiKeys(scope),
      signIns: signIns(scope),
      rateWindows: rateWindows(scope),
    }) as unknown as Transaction;
  return { session, transactionFor };
}
