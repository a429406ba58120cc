import type { RunResult, Statement } from 'better-sqlite3';
import { Column, getTableName, is, noopDecoder, Param, Placeholder, type QueryWithTypings, SQL } from 'drizzle-orm';
import { BetterSQLite3Database } from 'drizzle-orm/better-sqlite3';
import { BetterSQLiteSession, PreparedQuery } from 'drizzle-orm/better-sqlite3/session';
import { SQLiteSyncDialect } from 'drizzle-orm/sqlite-core';
import type { Connection } from './open.ts';
import type { Queries } from './queries.ts';

// Drizzle builds the statements and knows their types. It generates the SQL of each and prepares it at once: at
// start-up that is hundreds of statements, few of which are needed soon, so here both are left until the first use. To
// bind values and to read rows it inspects each of them anew, which costs more than the query itself: a list spent a
// third of its time there. So its prepared query is replaced by one that compiles both once.

type Row = readonly unknown[];
type Values = Readonly<Record<string, unknown>>;

interface Decoder {
  mapFromDriverValue(value: unknown): unknown;
}

interface Field {
  readonly path: readonly string[];
  readonly field: unknown;
}

/** The arguments of drizzle's prepared query after the statement. */
type QueryArguments = ConstructorParameters<typeof PreparedQuery> extends [unknown, ...infer Rest] ? Rest : never;

/** Properties of drizzle's prepared query that its types do not show. */
interface Internals {
  readonly query: { readonly sql: string; readonly params: readonly unknown[] };
  readonly fields: readonly Field[] | undefined;
  readonly joinsNotNullableMap: Readonly<Record<string, boolean>> | undefined;
}

class CompiledQuery extends PreparedQuery {
  readonly #connection: Connection;
  #statement: Statement<unknown[]> | undefined;
  #bind: ((values: Values) => unknown[]) | undefined;
  #read: ((row: Row) => unknown) | undefined;

  constructor(connection: Connection, ...rest: QueryArguments) {
    super(undefined as never, ...rest); // the statement is prepared later
    this.#connection = connection;
  }

  get #internals(): Internals {
    return this as unknown as Internals;
  }

  #prepared(): Statement<unknown[]> {
    this.#statement ??= this.#connection.prepare<unknown[]>(this.#internals.query.sql);
    return this.#statement;
  }

  #values(values: Values): unknown[] {
    this.#bind ??= compileBinding(this.#internals.query.params);
    return this.#bind(values);
  }

  #reader(): ((row: Row) => unknown) | undefined {
    const { fields, joinsNotNullableMap } = this.#internals;
    if (this.#read === undefined && fields !== undefined) {
      this.#prepared().raw();
      this.#read = compileReading(fields, joinsNotNullableMap);
    }
    return this.#read;
  }

  override run(values: Values = {}): RunResult {
    return this.#prepared().run(...this.#values(values));
  }

  override get(values: Values = {}): unknown {
    const read = this.#reader();
    const row = this.#prepared().get(...this.#values(values));
    return row === undefined || read === undefined ? row : read(row as Row);
  }

  override all(values: Values = {}): unknown {
    const read = this.#reader();
    const rows = this.#prepared().all(...this.#values(values));
    return read === undefined ? rows : (rows as Row[]).map(read);
  }
}

/** Returns a function that puts values into the order of a statement's parameters. */
function compileBinding(params: readonly unknown[]): (values: Values) => unknown[] {
  const getters = params.map((param): ((values: Values) => unknown) => {
    if (is(param, Placeholder)) return valueNamed(param.name);
    if (is(param, Param) && is(param.value, Placeholder)) {
      const [value, { encoder }] = [valueNamed(param.value.name), param];
      return (values) => encoder.mapToDriverValue(value(values));
    }
    return () => param;
  });
  return (values) => getters.map((get) => get(values));
}

function valueNamed(name: string): (values: Values) => unknown {
  return (values) => {
    const value = values[name];
    if (value === undefined && !(name in values)) throw new Error(`No value for "${name}" was given`);
    return value;
  };
}

/**
 * Returns a function that turns a row into an object. It is compiled from the names of the fields, which come from the
 * program alone: an object literal is several times as fast as setting one property after another.
 */
function compileReading(
  fields: readonly Field[],
  notNullable: Readonly<Record<string, boolean>> | undefined,
): (row: Row) => unknown {
  const decoders = fields.map(({ field }) => decoderOf(field));
  const expressions = fields.map((_, index) =>
    decoders[index] === undefined
      ? `row[${index}]`
      : `row[${index}] === null ? null : decoders[${index}].mapFromDriverValue(row[${index}])`,
  );
  const literal = literalOf(fields, expressions, notNullable);
  return new Function('decoders', `return (row) => (${literal});`)(decoders) as (row: Row) => unknown;
}

/** The source text of a row's object: flat, or with one inner object per table of a join. */
function literalOf(
  fields: readonly Field[],
  expressions: readonly string[],
  notNullable: Readonly<Record<string, boolean>> | undefined,
): string {
  const groups = Map.groupBy(fields.keys(), (index) => fields[index]?.path[0] ?? '');
  const members = [...groups].map(([name, indexes]) => {
    const [first = 0] = indexes;
    if (fields[first]?.path.length === 1) return `${JSON.stringify(name)}: ${expressions[first]}`;
    const inner = indexes.map((index) => `${JSON.stringify(fields[index]?.path[1])}: ${expressions[index]}`).join(', ');
    // When a left join finds nothing, all columns of its table are null.
    const table = tableOf(fields[first]?.field);
    const canBeMissing = table !== undefined && notNullable?.[table] === false;
    const missing = indexes.map((index) => `row[${index}] === null`).join(' && ');
    return `${JSON.stringify(name)}: ${canBeMissing ? `${missing} ? null : ` : ''}{ ${inner} }`;
  });
  return `{ ${members.join(', ')} }`;
}

function decoderOf(field: unknown): Decoder | undefined {
  const decoder = (is(field, SQL) ? (field as unknown as { decoder: Decoder }).decoder : field) as Decoder;
  const plain = decoder === noopDecoder || decoder.mapFromDriverValue === Column.prototype.mapFromDriverValue;
  return plain ? undefined : decoder;
}

function tableOf(field: unknown): string | undefined {
  return is(field, Column) ? getTableName(field.table) : undefined;
}

type Session = BetterSQLiteSession<Record<string, never>, Record<string, never>>;
type PrepareArguments = Parameters<Session['prepareQuery']>;

class CompiledSession extends BetterSQLiteSession<Record<string, never>, Record<string, never>> {
  // biome-ignore lint/suspicious/noExplicitAny: only the query's builder knows the type of a result, as in drizzle
  override prepareQuery(...[query, fields, method, inArrays, mapper, metadata, caching]: PrepareArguments): any {
    const [client, logger, cache] = [this['client'], this['logger'], this['cache']];
    return new CompiledQuery(client, query, logger, cache, metadata, caching, fields, method, inArrays, mapper);
  }
}

/**
 * Generates the SQL of a statement on first use, in a form that SQLite plans only once. When a query has a bare
 * parameter, SQLite (built with STAT4) may plan it anew at every run, in case the value makes another plan better. That
 * takes about 15 µs, running the query often just one. A subquery around the parameter hides its value from the
 * planner.
 */
class LazyDialect extends SQLiteSyncDialect {
  override sqlToQuery(...statement: Parameters<SQLiteSyncDialect['sqlToQuery']>): QueryWithTypings {
    let generated: QueryWithTypings | undefined;
    const query = (): QueryWithTypings => {
      if (generated === undefined) {
        const { sql, ...rest } = super.sqlToQuery(...statement);
        if (sql.split('?').length - 1 !== rest.params.length)
          throw new Error(`A ? that is not a parameter is in ${sql}`);
        generated = { ...rest, sql: sql.startsWith('select ') ? sql.replaceAll('?', '(SELECT ?)') : sql };
      }
      return generated;
    };
    return {
      get sql() {
        return query().sql;
      },
      get params() {
        return query().params;
      },
    };
  }
}

/** Drizzle on a connection, with statements that are compiled on first use. */
export function openQueries(connection: Connection): Queries {
  const dialect = new LazyDialect();
  const session = new CompiledSession(connection, dialect, undefined);
  const database = new BetterSQLite3Database('sync', dialect, session as never, undefined);
  return Object.assign(database, { $client: connection });
}
