import { setTimeout as sleep } from 'node:timers/promises';
import { getTableColumns } from 'drizzle-orm';
import { getTableConfig, type PgColumn } from 'drizzle-orm/pg-core';
import type { Assignee, Visitor } from '../../domain/conversation-record.ts';
import { termsOf } from '../../domain/search-words.ts';
import { comparableEmail } from '../../domain/text.ts';
import { type CopiedTable, copiedTables, type Row, type Value, valuesOf } from '../copied-tables.ts';
import type { CopySide, CopyState, CopyTarget, Facts, Place } from '../copy.ts';
import { type TextSource, textOf } from '../rows/texts.ts';
import { fromJson, type Json } from '../rows/values.ts';
import { columnOf } from '../sql.ts';
import { copyStateName, unfinishedCopy, unknownMigration } from '../unfinished-copy.ts';
import { type Client, connect } from './connections.ts';
import { filtersOf } from './conversations.ts';
import { isLockTimeout } from './errors.ts';
import { type EpochRow, epochOf, ownEpochOf, selectEpoch } from './meta.ts';
import { migrate, newestMigration } from './migrate.ts';
import { indexed } from './search-index.ts';
import { arrayOf } from './statements.ts';

/** The advisory lock of whoever copies from or to a database: any number will do that nothing else on it takes. */
const lockKey = 7_235_114_092;

/** How long to wait for connections of programs that have just ended. */
const patienceMs = 1_000;

/** What of `meta` belongs to this database alone. */
const ownFacts = ['epoch', 'copied_epoch', copyStateName];

/** By the type of a column, how it is read, bound in an array, and written. */
interface Conversion {
  readonly read?: (column: string) => string;
  readonly bound?: string;
  readonly write?: (value: string) => string;
}

const conversions: Readonly<Record<string, Conversion>> = {
  boolean: { read: (column) => `${column}::integer`, bound: 'integer', write: (value) => `${value}::boolean` },
  bytea: {
    read: (column) => `encode(${column}, 'hex')`,
    bound: 'text',
    write: (value) => `decode(${value}, 'hex')`,
  },
  json: { bound: 'text', write: (value) => `${value}::json` },
  tsvector: { bound: 'text', write: (value) => indexed(value, 'row.account_id') },
};

/** Histograms as they are copied: each with a list of its buckets and their counts. */
const histograms = `(SELECT account_id, name, width, quarter,
    '[' || string_agg(bucket || ',' || count, ',' ORDER BY bucket) || ']' AS counts
  FROM analytics_histograms GROUP BY account_id, name, width, quarter) AS analytics_histograms`;

/** How a table is read and written. */
function statementsOf({ name, sqlName, columns, postgres }: CopiedTable) {
  const own = Object.values(getTableColumns(postgres)) as PgColumn[];
  const typeOf = (column: string): string =>
    own
      .find((each) => each.name === column)
      ?.getSQLType()
      .replace(/ COLLATE .*/, '') ?? '';
  const conversionOf = (column: string): Conversion => conversions[typeOf(column)] ?? {};
  const boundOf = (column: string): string => conversionOf(column).bound ?? typeOf(column);
  const readOf = (column: string): string => (conversionOf(column).read ?? String)(column);
  const writeOf = (column: string, value: string): string => (conversionOf(column).write ?? String)(value);
  const copied = columns.map(columnOf);
  const declared = getTableConfig(postgres).primaryKeys[0]?.columns ?? own.filter(({ primary }) => primary);
  const key = declared.map((column) => column.name).filter((column) => copied.includes(column));
  const keys = key.join(', ');
  const after = key.map((column, index) => writeOf(column, `$${index + 2}::${boundOf(column)}`));
  const from = name === 'analyticsHistograms' ? histograms : sqlName;
  const select = `SELECT ${[...copied, ...key].map(readOf).join(', ')} FROM ${from}`;
  return {
    first: `${select} ORDER BY ${keys} LIMIT $1`,
    next: `${select} WHERE (${keys}) > (${after.join(', ')}) ORDER BY ${keys} LIMIT $1`,
    count: `SELECT count(*) FROM ${from}`,
    /** Writes rows, of which each column is bound as an array, and in the same statement how far the copy has come. */
    insert(written: readonly string[]): string {
      const names = written.map(columnOf);
      const arrays = names.map((column, index) => `$${index + 2}::${boundOf(column)}[]`);
      const values = names.map((column) => writeOf(column, `row.${column}`));
      return `WITH copied AS (INSERT INTO ${sqlName} (${names.join(', ')}) SELECT ${values.join(', ')}
          FROM unnest(${arrays.join(', ')}) AS row (${names.join(', ')}))
        UPDATE meta SET value = $1 WHERE name = '${copyStateName}'`;
    },
  };
}

/** Opens a database to copy it. Nobody can write to it until it is closed. */
export async function openPostgresSource(url: string): Promise<CopySide> {
  return await opened(url, async (client) => {
    await requireFree(client);
    if (!(await has(client, '__drizzle_migrations')) || !(await has(client, 'accounts'))) {
      throw new Error('it is not a database of this program');
    }
    const done = await newestIn(client);
    if (done > newestMigration) throw unknownMigration(done);
    if (done < newestMigration) throw new Error('it is of an earlier version; run `migrate` on it first');
    // Nothing is read before the locks are there: the first read decides what all of them see.
    const all = ['meta', 'rate_clock', ...copiedTables.map(({ sqlName }) => sqlName)].join(', ');
    await client.unsafe('BEGIN ISOLATION LEVEL REPEATABLE READ').simple();
    await client.unsafe(`LOCK TABLE ${all} IN SHARE MODE`).simple();
    await client.unsafe('SET TRANSACTION READ ONLY').simple();
    return new PostgresSide(client);
  });
}

/** Opens a database to copy into it. */
export async function openPostgresTarget(url: string): Promise<CopyTarget> {
  return await opened(url, async (client) => {
    const unfinished = await stateOf(client);
    await requireFree(client);
    if (unfinished === undefined) {
      const [account] = (await has(client, 'accounts')) ? await client`SELECT 1 FROM accounts LIMIT 1` : [];
      if (account !== undefined) throw new Error('it holds accounts already; copy into an empty database');
      await migrate(url, {});
    } else if ((await newestIn(client, unfinishedCopy)) !== newestMigration) {
      throw new Error('another version has begun to copy into it; copy into an empty database');
    }
    return new PostgresTarget(client, unfinished);
  });
}

/** Opens a side with the only connection that it will have: another could do nothing but outside of its transaction. */
async function opened<Side>(url: string, open: (client: Client) => Promise<Side>): Promise<Side> {
  // Nobody waits for it, and either side waits for the other.
  const patient = { lockTimeoutMs: patienceMs, statementTimeoutMs: 0, idleTimeoutMs: 0 };
  const client = connect(url, patient, () => void client.end({ timeout: 0 }));
  try {
    await client.unsafe(`SELECT pg_advisory_lock(${lockKey})`);
    return await open(client);
  } catch (error) {
    await client.end({ timeout: 5 });
    throw isLockTimeout(error) ? inUse(error) : error;
  }
}

function inUse(cause?: unknown): Error {
  return new Error('it is in use; stop all servers on it, and whatever else uses it', { cause });
}

/** @throws Error when another program of ours has a connection to the database */
async function requireFree(client: Client): Promise<void> {
  for (let waitedMs = 0; ; waitedMs += 100) {
    const others = await client`SELECT 1 FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'conversation-service'`;
    if (others.length === 0) return;
    if (waitedMs >= patienceMs) throw inUse();
    await sleep(100);
  }
}

async function has(client: Client, table: string): Promise<boolean> {
  const [row] = await client<[{ found: string | null }]>`SELECT to_regclass(${table})::text AS found`;
  return row.found !== null;
}

async function newestIn(client: Client, before?: number): Promise<number> {
  const [row] = await client<[{ done: number | null }]>`SELECT max(created_at) AS done FROM __drizzle_migrations
    WHERE created_at < ${before ?? null}::bigint OR ${before ?? null}::bigint IS NULL`;
  return row.done ?? 0;
}

/** How far an unfinished copy into a database has come. */
async function stateOf(client: Client): Promise<CopyState | undefined> {
  if (!(await has(client, 'meta'))) return undefined;
  const [row] = await client<[{ value: string }?]>`SELECT value FROM meta WHERE name = ${copyStateName}`;
  return row && (JSON.parse(row.value) as CopyState);
}

class PostgresSide implements CopySide {
  protected readonly client: Client;

  constructor(client: Client) {
    this.client = client;
  }

  async facts(): Promise<Facts> {
    const meta = await this.client<{ name: string; value: string }[]>`SELECT name, value FROM meta`;
    const [epoch] = await this.client.unsafe<[EpochRow]>(selectEpoch);
    const [clock] = await this.client<[{ atMs: number }]>`SELECT
      greatest(at, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS at_ms FROM rate_clock WHERE key = 1`;
    const others = meta.filter(({ name }) => !ownFacts.includes(name));
    return {
      epoch: epochOf(epoch),
      clockMs: clock.atMs,
      meta: Object.fromEntries(others.map(({ name, value }) => [name, value])),
    };
  }

  async count(table: CopiedTable): Promise<number> {
    const [row] = await this.client.unsafe<[{ count: number }]>(statementsOf(table).count);
    return row.count;
  }

  async read(table: CopiedTable, after: Place | null, limit: number): Promise<{ rows: Row[]; last: Place | null }> {
    const { first, next } = statementsOf(table);
    const found: unknown = await this.client
      .unsafe(after === null ? first : next, [limit, ...(after ?? [])], { prepare: true })
      .values();
    const { length } = table.columns;
    const all = [...(found as (string | number)[][])];
    return { rows: all.map((row) => row.slice(0, length)), last: all.at(-1)?.slice(length) ?? null };
  }

  async close(): Promise<void> {
    await this.client.end({ timeout: 1 }); // a connection that is lost would never say so
  }
}

type Values = Record<string, Value>;

class PostgresTarget extends PostgresSide implements CopyTarget {
  readonly unfinished: CopyState | undefined;
  #analyzed: Promise<unknown> | undefined;

  constructor(client: Client, unfinished: CopyState | undefined) {
    super(client);
    this.unfinished = unfinished;
  }

  async begin(state: CopyState): Promise<void> {
    await this
      .client`WITH fenced AS (INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('', ${unfinishedCopy}))
      INSERT INTO meta VALUES (${copyStateName}, ${JSON.stringify(state)})`;
  }

  async write(table: CopiedTable, rows: readonly Row[], state: CopyState): Promise<void> {
    const written = await this.#written(
      table,
      rows.map((row) => valuesOf(table, row)),
    );
    const columns = Object.keys(written[0] ?? {});
    const arrays = columns.map((column) => arrayOf(written.map((values) => values[column] ?? null)));
    await this.client.unsafe(statementsOf(table).insert(columns), [JSON.stringify(state), ...arrays], {
      prepare: true,
    });
  }

  override async read(table: CopiedTable, after: Place | null, limit: number) {
    // Until then PostgreSQL plans as if the tables were empty: for each batch, it would read and sort the rest of a table.
    this.#analyzed ??= this.client.unsafe('ANALYZE').execute();
    await this.#analyzed;
    return await super.read(table, after, limit);
  }

  /** Its clock stays the database's, by which it goes: one that was set to a later time would stand still until then. */
  async aheadMs(source: Facts): Promise<number> {
    return (await this.facts()).clockMs - source.clockMs;
  }

  async finish({ epoch, meta }: Facts): Promise<void> {
    await this.client.begin(async (client) => {
      for (const [name, value] of Object.entries(meta)) {
        await client`INSERT INTO meta VALUES (${name}, ${value}) ON CONFLICT (name) DO UPDATE SET value = excluded.value`;
      }
      const [own] = await client.unsafe<[EpochRow]>(selectEpoch);
      await client`INSERT INTO meta VALUES ('copied_epoch', ${`${ownEpochOf(own)} ${epoch}`})`;
      await client`DELETE FROM meta WHERE name = ${copyStateName}`;
      await client`DELETE FROM __drizzle_migrations WHERE created_at = ${unfinishedCopy}`;
    });
  }

  /** Rows with the columns that are made of the copied ones, each by the same names. */
  async #written({ name }: CopiedTable, rows: readonly Values[]): Promise<Values[]> {
    switch (name) {
      case 'conversations':
        return rows.map((row) => ({
          ...row,
          ...filtersOf({
            visitor: fromJson<Json<Visitor> | null>(textIn(row, 'visitor')),
            assignee: fromJson<Json<Assignee> | null>(textIn(row, 'assignee')),
          }),
        }));
      case 'leads':
        return rows.map((row) => {
          const email = textIn(row, 'email');
          return { ...row, comparableEmail: email === null ? null : comparableEmail(email) };
        });
      case 'searchTexts':
        return await this.#withTerms(rows);
      case 'analyticsHistograms':
        return rows.flatMap(({ counts, ...key }) => {
          const buckets = JSON.parse(String(counts)) as number[];
          return buckets.flatMap((bucket, at) =>
            at % 2 === 0 ? [{ ...key, bucket, count: buckets[at + 1] ?? 0 }] : [],
          );
        });
      default:
        return [...rows];
    }
  }

  /** The texts themselves are copied already. */
  async #withTerms(rows: readonly Values[]): Promise<Values[]> {
    const placesOf = (column: string): string => arrayOf(rows.map((row) => row[column] ?? null));
    const texts = await this.client.unsafe<TextSource[]>(
      `SELECT messages.content, conversations.subject, conversations.visitor
        FROM unnest($1::text[], $2::text[], $3::integer[]) WITH ORDINALITY AS place (account_id, conversation_id, sequence, at)
        LEFT JOIN messages ON messages.account_id = place.account_id
          AND messages.conversation_id = place.conversation_id AND messages.sequence = place.sequence
        LEFT JOIN conversations ON conversations.account_id = place.account_id AND conversations.id = place.conversation_id
        ORDER BY place.at`,
      ['accountId', 'conversationId', 'sequence'].map(placesOf),
      { prepare: true },
    );
    return rows.map((row, index) => {
      const terms = termsOf(textOf(texts[index] as TextSource)); // there is one for each row
      return { ...row, terms: arrayOf([...terms]) };
    });
  }
}

function textIn(row: Values, column: string): string | null {
  const value = row[column] ?? null;
  return value === null ? null : String(value);
}
