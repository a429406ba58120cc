import DataLoader from 'dataloader';
import { columnOf } from '../sql.ts';
import type { Answer, Queries, RowsText, RowValue } from './connections.ts';

/** The values of a statement's parameters, by their names. */
type Values = Readonly<Record<string, unknown>>;

const parameter = /(?<!:):([a-z]\w*)/gi;

/** How many rows are looked up together, at most: others on the same connection wait for as long as that takes. */
const maxKeys = 64;

/** How many texts that depend on what is asked are kept. */
const maxTexts = 500;

/** The statements on one connection, or on any of a pool. */
export class Statements {
  readonly queries: Queries;
  #writers = 0;
  readonly #byText = new Map<string, Statement<never>>();

  constructor(queries: Queries) {
    this.queries = queries;
  }

  /**
   * A statement of SQL, in which `:name` stands for a value. Each connection prepares it at its first use. Columns are
   * named as in the program: `created_at` comes back as `createdAt`.
   */
  prepare<Row = never>(sql: string): Statement<Row> {
    return new Statement(this.queries, sql);
  }

  /**
   * A statement that writes rows, in which `:rows` stands for a table of them: see `RowsStatement`. Of several, the one is
   * sent first that was prepared first.
   * @param explain makes another error of one of PostgreSQL
   */
  prepareForRows<Name extends string>(
    sql: string,
    values: RowValues<Name>,
    explain?: (error: unknown) => never,
  ): RowWriter<Name> {
    return new RowWriter(this.queries, sql, values, { order: this.#writers++, explain });
  }

  /** A statement that finds rows by keys, in which `:rows` stands for a table of them; it selects `at`, too. */
  prepareForKeys<Row, Name extends string>(sql: string, values: RowValues<Name>): RowFinder<Row, Name> {
    return new RowFinder(this.queries, sql, values);
  }

  /** A statement that PostgreSQL plans each time, for the values that it is given: where these decide which plan is good. */
  prepareForValues<Row>(sql: string): Statement<Row> {
    return new Statement(this.queries, sql, false);
  }

  /** The statement of this text, made once: for texts that depend on what is asked. */
  prepareOnce<Row>(sql: string): Statement<Row> {
    const known = this.#byText.get(sql) as Statement<Row> | undefined;
    if (known !== undefined) return known;
    // What is asked for seldom is not kept: each connection would keep it for ever.
    if (this.#byText.size >= maxTexts) return new Statement(this.queries, sql, false);
    const statement = this.prepare<Row>(sql);
    this.#byText.set(sql, statement as unknown as Statement<never>);
    return statement;
  }
}

/** @typeParam Row what a row is, by the names of its columns */
class Statement<Row> {
  readonly #queries: Queries;
  readonly #text: string;
  readonly #names: readonly string[];
  readonly #changes: boolean;
  readonly #isKept: boolean;

  constructor(queries: Queries, sql: string, isKept = true) {
    this.#isKept = isKept;
    const names: string[] = [];
    this.#queries = queries;
    this.#text = sql.replaceAll(parameter, (_, name: string) => {
      if (!names.includes(name)) names.push(name);
      return `$${names.indexOf(name) + 1}`;
    });
    this.#names = names;
    this.#changes = /\b(?:INSERT|UPDATE|DELETE)\b/.test(sql.replaceAll(/FOR (?:NO KEY )?UPDATE/g, ''));
  }

  /** The first row; undefined if there is none. */
  async get(values: Values = {}): Promise<Row | undefined> {
    const [row] = await this.all(values);
    return row;
  }

  async all(values: Values = {}): Promise<Row[]> {
    return (await this.#ask(values)) as unknown as Row[];
  }

  /** @returns the number of rows changed */
  async run(values: Values = {}): Promise<number> {
    return (await this.#ask(values)).count;
  }

  /**
   * Changes something, and no answer is needed: then it is sent at once, and is not waited for before the commit. So one
   * wait serves all that a work writes.
   */
  send(values: Values = {}): Promise<unknown> | undefined {
    return this.#queries.send(this.#text, this.#bound(values));
  }

  #ask(values: Values): Promise<Answer> {
    const bound = this.#bound(values);
    if (this.#changes) return this.#queries.change(this.#text, bound);
    const { accountId } = values;
    const owner = typeof accountId === 'string' ? accountId : undefined;
    return this.#queries.query(this.#text, bound, this.#isKept, owner);
  }

  #bound(values: Values): unknown[] {
    return this.#names.map((name) => {
      const value = values[name];
      if (value === undefined) throw new Error(`No value for :${name} was given`);
      return value;
    });
  }
}

/** Of what kind the values of a row are, by the names that the program has for the columns. */
interface RowValues<Name extends string> {
  readonly texts: readonly Name[];
  readonly numbers?: readonly Name[];
  readonly json?: readonly Name[];
}

type GivenRow<Name extends string> = Readonly<Record<Name, RowValue>>;

/**
 * A statement on any number of rows that the program gives. For one row PostgreSQL has a text of its own, in which it is no
 * table: most of what a statement on a table of one row costs is that it is one.
 */
class RowsStatement<Name extends string> {
  readonly #ofOne: string;
  readonly #ofMany: string;
  readonly #names: readonly Name[];

  /** @param sql in which `:rows` stands for a table of the rows, called `given`, where `at` numbers them */
  constructor(sql: string, { texts, numbers = [], json = [] }: RowValues<Name>) {
    this.#names = [...texts, ...numbers, ...json];
    const columns = this.#names.map(columnOf);
    // Where a column is narrower, PostgreSQL casts.
    const types = [...texts.map(() => 'text'), ...numbers.map(() => 'bigint'), ...json.map(() => 'json')];
    const values = types.map((type, index) => `$${index + 1}::${type} AS ${columns[index]}`);
    this.#ofOne = sql.replaceAll(':rows', `(SELECT ${values.join(', ')}, 1 AS at) AS given`);
    const lists = types.map((type, index) => `$${index + 1}::${type}[] AS list${index}`);
    // OFFSET keeps PostgreSQL from looking at how long the lists are: else it would plan the statement anew each time.
    const rows = `(SELECT ${lists.join(', ')} OFFSET 0) AS lists
      CROSS JOIN LATERAL unnest(${types.map((_, index) => `list${index}`).join(', ')})
        WITH ORDINALITY AS given (${columns.join(', ')}, at)`;
    this.#ofMany = sql.replaceAll(':rows', rows);
  }

  rowOf(given: GivenRow<Name>): RowValue[] {
    return this.#names.map((name) => {
      if (given[name] === undefined) throw new Error(`No value for ${name} was given`);
      return given[name];
    });
  }

  on(rows: readonly (readonly RowValue[])[]): { text: string; values: readonly RowValue[] } {
    const [row] = rows;
    if (row !== undefined && rows.length === 1) return { text: this.#ofOne, values: row };
    const lists = this.#names.map((_, index) => arrayOf(rows.map((each) => each[index] as RowValue)));
    return { text: this.#ofMany, values: lists };
  }
}

/**
 * Writes rows. Those that the works of a transaction give one after the other, or at the same time, are sent together. To
 * PostgreSQL and to its driver, most of a small statement is that it is one.
 */
class RowWriter<Name extends string> extends RowsStatement<Name> implements RowsText {
  readonly #queries: Queries;
  readonly order: number;
  readonly explain: RowsText['explain'];

  constructor(
    queries: Queries,
    sql: string,
    values: RowValues<Name>,
    { order, explain }: Pick<RowsText, 'order' | 'explain'>,
  ) {
    super(sql, values);
    this.#queries = queries;
    this.order = order;
    this.explain = explain;
  }

  /** Writes a row, and any others that are given before the next statement. It is waited for as `Statement.send` says. */
  send(row: GivenRow<Name>): Promise<unknown> | undefined {
    return this.#queries.sendRow(this, this.rowOf(row));
  }
}

/** Looks rows up by keys. Those that are asked for in the same turn of the event loop are looked up together. */
class RowFinder<Row, Name extends string> extends RowsStatement<Name> {
  readonly #loader: DataLoader<readonly RowValue[], Row[], string>;

  /** @param sql selects `at`, too */
  constructor(queries: Queries, sql: string, values: RowValues<Name>) {
    super(sql, values);
    const owner = (values.texts as readonly string[]).indexOf('accountId');
    this.#loader = new DataLoader(
      async (keys) => {
        this.#loader.clearAll(); // who asks from here on is to see what is written meanwhile
        const found: Row[][] = keys.map(() => []);
        const owners = new Set(keys.map((key) => key[owner]));
        const accountId = owner >= 0 && owners.size === 1 ? String(keys[0]?.[owner]) : undefined;
        const { text, values } = this.on(keys);
        const rows = await queries.query(text, values, true, accountId);
        for (const { at, ...row } of rows) found[Number(at) - 1]?.push(row as Row);
        return found;
      },
      { cacheKeyFn: (key) => JSON.stringify(key), maxBatchSize: maxKeys },
    );
  }

  async get(key: GivenRow<Name>): Promise<Row | undefined> {
    const [row] = await this.all(key);
    return row;
  }

  all(key: GivenRow<Name>): Promise<Row[]> {
    return this.#loader.load(this.rowOf(key));
  }
}

/**
 * An insertion of rows with these columns, for `Statements.prepareForRows`.
 * @param computed expressions for further columns
 */
export function insertRows(
  table: string,
  names: readonly string[],
  computed: Readonly<Record<string, string>> = {},
): string {
  const columns = names.map(columnOf);
  return `INSERT INTO ${table} (${[...Object.keys(computed).map(columnOf), ...columns].join(', ')})
    SELECT ${[...Object.values(computed), ...columns].join(', ')} FROM :rows`;
}

/**
 * A deletion of the first rows of a table, `:limit` at most. Those that another transaction is changing or deleting at the
 * moment are passed over: it need not be waited for, and what it has changed may have to stay.
 * @param range which rows, and their order
 */
export function deleteFirst(table: string, range: string): string {
  return `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM ${table} WHERE ${range}
    LIMIT :limit FOR UPDATE SKIP LOCKED))`;
}

/** Assignments to these columns from rows: `url = given.url, updated_at = given.updated_at`. */
export function assignedRows(names: readonly string[]): string {
  return names.map((name) => `${columnOf(name)} = given.${columnOf(name)}`).join(', ');
}

/** Columns of a table by the names that the program has for them: `leads.id, leads.created_at`. */
export function columnsOf(table: string, names: readonly string[]): string {
  return names.map((name) => `${table}.${columnOf(name)}`).join(', ');
}

/**
 * Rows of a table as a list in JSON, each by the names that the program has for its columns: to be read along with another
 * row. JSON in a row stays a text.
 * @param json the columns of JSON
 */
export function jsonRows(
  table: string,
  names: readonly string[],
  { where, order, json = [] }: { where: string; order: string; json?: readonly string[] },
): string {
  // With the table's name: else a column that it lacks would be one of the other row.
  const members = names.map((name) => `'${name}', ${table}.${columnOf(name)}${json.includes(name) ? '::text' : ''}`);
  return `(SELECT coalesce(json_agg(json_build_object(${members.join(', ')}) ORDER BY ${order}), '[]')
      FROM ${table} WHERE ${where})`;
}

/** A list of texts or numbers to bind for `ANY(:list::text[])`: with it, one statement serves any number of values. */
export function arrayOf(values: readonly RowValue[]): string {
  const quoted = values.map((value) => {
    if (value === null) return 'NULL';
    return typeof value === 'number' ? String(value) : `"${value.replaceAll(/["\\]/g, '\\$&')}"`;
  });
  return `{${quoted.join(',')}}`;
}
