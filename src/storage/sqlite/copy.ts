import Database from 'better-sqlite3';
import { getTableColumns } from 'drizzle-orm';
import { getTableConfig, type SQLiteColumn } from 'drizzle-orm/sqlite-core';
import type { Clock } from '../../domain/ports.ts';
import type { ClockReading } from '../../domain/steady-clock.ts';
import { type CopiedName, type CopiedTable, type Row, valuesOf } from '../copied-tables.ts';
import type { CopySide, CopyState, CopyTarget, Facts, Place } from '../copy.ts';
import { columnOf } from '../sql.ts';
import { copyStateName, unfinishedCopy, unknownMigration } from '../unfinished-copy.ts';
import { bucketsOf, histogramOf } from './analytics.ts';
import { isBusy } from './errors.ts';
import { dataVersion } from './events.ts';
import { realFile, requireWritable } from './files.ts';
import { putClock, readClock } from './limits.ts';
import {
  addMigrationFunctions,
  type Connection,
  keepOthersOut,
  migrate,
  migrationState,
  openTimeoutMs,
  openWriter,
  stopBlocking,
  takeOpenLock,
} from './open.ts';
import { insertSearchAccount, searchWrites } from './search-index.ts';
import { Statements } from './statements.ts';

/** Where SQLite's table is not what is copied. */
interface Special {
  /** Other tables that are needed for reading. */
  readonly from?: string;
  /** Which rows are read. */
  readonly where?: string;
  /** How columns are read. */
  readonly read?: Readonly<Record<string, string>>;
  /** How columns are written that are not copied as they are. */
  readonly write?: Readonly<Record<string, string>>;
}

function ofConversation(table: string): Special {
  return {
    from: `CROSS JOIN conversations ON conversations.key = ${table}.conversation_key`,
    read: {
      // That of a conversation which is being erased stands only there.
      accountId: `coalesce(conversations.account_id,
        (SELECT account_id FROM erasing WHERE conversation_key = conversations.key))`,
      conversationId: 'conversations.id',
    },
    write: {
      conversationKey: `coalesce(
        (SELECT key FROM conversations WHERE account_id = :accountId AND id = :conversationId),
        (SELECT conversation_key FROM erasing WHERE account_id = :accountId AND conversation_id = :conversationId))`,
    },
  };
}

function ofDelivery(table: string): Special {
  return {
    from: `CROSS JOIN deliveries ON deliveries.key = ${table}.delivery_key
      CROSS JOIN webhooks ON webhooks.key = deliveries.webhook_key`,
    read: { accountId: 'webhooks.account_id', deliveryId: 'deliveries.id' },
    write: { deliveryKey: '(SELECT key FROM deliveries WHERE id = :deliveryId)' },
  };
}

const specials: Partial<Record<CopiedName, Special>> = {
  conversations: {
    where: 'account_id IS NOT NULL',
    write: { foldedVisitorEmail: `folded_email(:visitor ->> 'email')` },
  },
  erasing: { write: { conversationKey: 'last_insert_rowid()' } },
  messages: ofConversation('messages'),
  readPositions: ofConversation('read_positions'),
  events: { write: { dataVersion: String(dataVersion) } },
  leads: { write: { foldedEmail: 'folded_email(:email)' } },
  searchTexts: {
    ...ofConversation('search_texts'),
    write: {
      ...ofConversation('search_texts').write,
      accountKey: '(SELECT key FROM search_accounts WHERE account_id = :accountId)',
    },
  },
  analyticsHistograms: {
    read: { counts: 'buckets_of(analytics_histograms.counts)' },
    write: { counts: 'histogram_of(:counts)' },
  },
  deliveries: {
    from: 'CROSS JOIN webhooks ON webhooks.key = deliveries.webhook_key',
    read: { accountId: 'webhooks.account_id', webhookId: 'webhooks.id' },
    write: { webhookKey: '(SELECT key FROM webhooks WHERE id = :webhookId)' },
  },
  deliveryLeases: ofDelivery('delivery_leases'),
  attempts: ofDelivery('attempts'),
};

/** How a table is read and written. */
function statementsOf({ name, sqlName, columns, sqlite }: CopiedTable) {
  const own: Readonly<Record<string, SQLiteColumn>> = getTableColumns(sqlite);
  const { from = '', where = 'true', read = {}, write = {} } = specials[name] ?? {};
  const isBytes = (column: SQLiteColumn | undefined): boolean => column?.getSQLType() === 'blob';
  const readOf = (column: SQLiteColumn | undefined): string => {
    const place = `${sqlName}.${column?.name}`;
    return isBytes(column) ? `lower(hex(${place}))` : place;
  };
  const boundTo = (column: SQLiteColumn | undefined, value: string): string =>
    isBytes(column) ? `unhex(${value})` : value;
  const declared =
    getTableConfig(sqlite).primaryKeys[0]?.columns ?? Object.values(own).filter(({ primary }) => primary);
  const key = declared.length > 0 ? declared : [own['accountId'], own['id']];
  const keys = key.map((column) => `${sqlName}.${column?.name}`).join(', ');
  const selected = [...columns.map((property) => read[property] ?? readOf(own[property])), ...key.map(readOf)];
  const select = `SELECT ${selected.join(', ')} FROM ${sqlName} ${from} WHERE ${where}`;
  const inOrder = `ORDER BY ${keys} LIMIT ?`;
  const kept = columns.filter((property) => property in own && !(property in write));
  const written = [
    ...kept.map((property) => [property, boundTo(own[property], `:${property}`)] as const),
    ...Object.entries(write),
  ];
  return {
    first: `${select} ${inOrder}`,
    next: `${select} AND (${keys}) > (${key.map((column) => boundTo(column, '?')).join(', ')}) ${inOrder}`,
    count: `SELECT count(*) FROM ${sqlName} WHERE ${where}`,
    insert: `INSERT INTO ${sqlName} (${written.map(([property]) => columnOf(property)).join(', ')})
      VALUES (${written.map(([, value]) => value).join(', ')})`,
  };
}

/** What stays of the row of a conversation that is being erased. */
const insertHidden = `INSERT INTO conversations
    (id, status, metadata, message_count, content_bytes, last_activity_at, version, created_at, updated_at)
  VALUES (:conversationId, 'closed', '{}', 0, 0, 0, 1, 0, 0)`;

/** What of `meta` belongs to this file alone. */
const ownFacts = ['epoch', copyStateName];

/** Opens a file to copy it. Nothing else can open it until it is closed. */
export function openSqliteSource(file: string, clock: Clock): CopySide {
  const connect = (path: string): Connection => new Database(path, { fileMustExist: true, timeout: 0 });
  return openedAlone(file, connect, (connection) => {
    connection.pragma('query_only = ON');
    requirePresent(connection);
    return new SqliteSide(connection, clock);
  });
}

/** Opens a file to copy into it, which is made if there is none. Nothing else can open it until it is closed. */
export function openSqliteTarget(file: string, clock: Clock): CopyTarget {
  return openedAlone(file, openWriter, (connection) => {
    const unfinished = stateOf(connection);
    if (unfinished !== undefined) {
      requireSameVersion(connection);
    } else {
      const isEmpty = !has(connection, 'accounts') || connection.prepare('SELECT 1 FROM accounts').get() === undefined;
      if (!isEmpty) throw new Error('it holds accounts already; copy into an empty database');
      migrate(connection);
    }
    return new SqliteTarget(connection, clock, unfinished);
  });
}

function openedAlone<Side extends SqliteSide>(
  file: string,
  connect: (path: string) => Connection,
  sideOf: (connection: Connection) => Side,
): Side {
  const path = realFile(file);
  requireWritable(path);
  const lock = takeOpenLock(path, openTimeoutMs);
  let connection: Connection | undefined;
  try {
    connection = connect(path);
    stopBlocking(connection);
    keepOthersOut(connection);
    return Object.assign(sideOf(connection), { lock });
  } catch (error) {
    connection?.close();
    lock.close();
    throw isBusy(error)
      ? new Error('it is in use; stop the server, and whatever else has it open', { cause: error })
      : error;
  }
}

function has(connection: Connection, table: string): boolean {
  return connection.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table) !== undefined;
}

function requirePresent(connection: Connection): void {
  if (!has(connection, '__drizzle_migrations') || !has(connection, 'accounts')) {
    throw new Error('it is not a database of this program');
  }
  const { done, newest } = migrationState(connection);
  if (done > newest) throw unknownMigration(done);
  if (done < newest) throw new Error('it is of an earlier version; run `migrate` on it first');
}

/** How far an unfinished copy into a file has come. */
function stateOf(connection: Connection): CopyState | undefined {
  if (!has(connection, 'meta')) return undefined;
  const state = connection.prepare('SELECT value FROM meta WHERE name = ?').pluck().get(copyStateName);
  return state === undefined ? undefined : (JSON.parse(String(state)) as CopyState);
}

/** @throws Error when an unfinished copy was begun by another version of the program */
function requireSameVersion(connection: Connection): void {
  const { newest } = migrationState(connection);
  const done = connection
    .prepare('SELECT max(created_at) FROM __drizzle_migrations WHERE created_at < ?')
    .pluck()
    .get(unfinishedCopy);
  if (done !== newest) throw new Error('another version has begun to copy into it; copy into an empty database');
}

class SqliteSide implements CopySide {
  protected readonly connection: Connection;
  readonly #clock: Clock;
  readonly #prepared = new Map<string, Database.Statement>();
  lock: { close(): void } | undefined;

  constructor(connection: Connection, clock: Clock) {
    this.connection = connection;
    this.#clock = clock;
    addMigrationFunctions(connection);
    connection.function('buckets_of', { deterministic: true }, (counts) => JSON.stringify(bucketsOf(counts as Buffer)));
    connection.function('histogram_of', { deterministic: true }, (json) => histogramOf(JSON.parse(String(json))));
  }

  async facts(): Promise<Facts> {
    const meta = Object.fromEntries(
      this.connection.prepare('SELECT name, value FROM meta').raw().all() as [string, string][],
    );
    const others = Object.entries(meta).filter(([name]) => !ownFacts.includes(name));
    return { epoch: meta['epoch'] ?? '', clockMs: this.reading().atMs, meta: Object.fromEntries(others) };
  }

  async count(table: CopiedTable): Promise<number> {
    return this.prepared(statementsOf(table).count).pluck().get() as number;
  }

  async read(table: CopiedTable, after: Place | null, limit: number): Promise<{ rows: Row[]; last: Place | null }> {
    const { first, next } = statementsOf(table);
    const statement = this.prepared(after === null ? first : next).raw();
    const found = statement.all(...(after ?? []), limit) as (string | number)[][];
    const { length } = table.columns;
    return { rows: found.map((row) => row.slice(0, length)), last: found.at(-1)?.slice(length) ?? null };
  }

  async close(): Promise<void> {
    this.connection.close();
    this.lock?.close();
  }

  /** The limiter's clock as of now. */
  protected reading(): ClockReading {
    return readClock(this.connection, this.#clock);
  }

  protected prepared(sql: string): Database.Statement {
    const known = this.#prepared.get(sql) ?? this.connection.prepare(sql);
    this.#prepared.set(sql, known);
    return known;
  }
}

class SqliteTarget extends SqliteSide implements CopyTarget {
  readonly unfinished: CopyState | undefined;

  constructor(connection: Connection, clock: Clock, unfinished: CopyState | undefined) {
    super(connection, clock);
    this.unfinished = unfinished;
  }

  async begin(state: CopyState): Promise<void> {
    await this.#transaction(() => {
      this.connection.prepare(`INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('', ?)`).run(unfinishedCopy);
      this.connection.prepare('INSERT INTO meta VALUES (?, ?)').run(copyStateName, JSON.stringify(state));
    });
  }

  async write(table: CopiedTable, rows: readonly Row[], state: CopyState): Promise<void> {
    await this.#transaction(async () => {
      const insert = this.prepared(statementsOf(table).insert);
      for (const row of rows) {
        const values = valuesOf(table, row);
        if (table.name === 'erasing') this.prepared(insertHidden).run(values);
        if (table.name === 'searchTexts') this.prepared(insertSearchAccount).run(values);
        insert.run(values);
      }
      if (table.name === 'searchTexts') await this.#indexWords();
      this.prepared('UPDATE meta SET value = ? WHERE name = ?').run(JSON.stringify(state), copyStateName);
    });
  }

  /** Its clock goes on from the source's. */
  async aheadMs(): Promise<number> {
    return 0;
  }

  async finish({ epoch, clockMs, meta }: Facts): Promise<void> {
    const put = this.connection.prepare('INSERT OR REPLACE INTO meta VALUES (?, ?)');
    const setClock = this.connection.prepare(putClock);
    await this.#transaction(() => {
      for (const fact of Object.entries({ ...meta, epoch })) put.run(fact);
      setClock.run({ ...this.reading(), atMs: clockMs });
      this.connection.prepare('DELETE FROM meta WHERE name = ?').run(copyStateName);
      this.connection.prepare('DELETE FROM __drizzle_migrations WHERE created_at = ?').run(unfinishedCopy);
    });
  }

  /** As for a server, texts are indexed after they were written; but in the same transaction. */
  async #indexWords(): Promise<void> {
    const search = searchWrites(new Statements(this.connection));
    while (!(await search.index()));
  }

  async #transaction(work: () => void | Promise<void>): Promise<void> {
    this.connection.exec('BEGIN IMMEDIATE');
    try {
      await work();
      this.connection.exec('COMMIT');
    } catch (error) {
      if (this.connection.inTransaction) this.connection.exec('ROLLBACK'); // a full disk has ended it
      throw error;
    }
  }
}
