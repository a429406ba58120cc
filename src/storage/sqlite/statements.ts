import type { Statement as Prepared } from 'better-sqlite3';
import { columnOf } from '../sql.ts';
import type { Connection } from './open.ts';

/** The values of a statement's parameters, by their names. */
type Values = Readonly<Record<string, unknown>>;

const parameter = /:(\w+)/g;

/** The statements on one connection. */
export class Statements {
  readonly connection: Connection;
  readonly #byText = new Map<string, Statement<never>>();

  constructor(connection: Connection) {
    this.connection = connection;
  }

  /**
   * A statement of SQL, in which `:name` stands for a value. SQLite prepares it at its first use: at the start, most are
   * not needed soon.
   */
  prepare<Row = never>(sql: string): Statement<Row> {
    return new Statement(this.connection, sql);
  }

  /** The statement of this text, prepared once: for texts that depend on what is asked. */
  prepareOnce<Row>(sql: string): Statement<Row> {
    let statement = this.#byText.get(sql) as Statement<Row> | undefined;
    if (statement === undefined) {
      statement = this.prepare<Row>(sql);
      this.#byText.set(sql, statement as Statement<never>);
    }
    return statement;
  }
}

/** @typeParam Row what a row is, by the names of its columns */
export class Statement<Row> {
  readonly #connection: Connection;
  readonly #sql: string;
  #prepared: Prepared<unknown[], unknown[]> | undefined;
  #names: readonly string[] = [];
  #read: ((values: unknown[]) => Row) | undefined;

  constructor(connection: Connection, sql: string) {
    this.#connection = connection;
    this.#sql = sql;
  }

  /** The first row; undefined if there is none. */
  get(values: Values = {}): Row | undefined {
    const statement = this.#statement();
    const read = this.#reader(statement);
    const row = statement.get(...this.#bound(values));
    return row && read(row);
  }

  all(values: Values = {}): Row[] {
    const statement = this.#statement();
    const read = this.#reader(statement);
    return statement.all(...this.#bound(values)).map(read);
  }

  /** The rows one after the other, as they are asked for. The connection can do nothing else before the last of them. */
  *each(values: Values = {}): Generator<Row, void> {
    const statement = this.#statement();
    const read = this.#reader(statement);
    for (const row of statement.iterate(...this.#bound(values))) yield read(row as unknown[]);
  }

  /** @returns the number of rows changed */
  run(values: Values = {}): number {
    return this.#statement().run(...this.#bound(values)).changes;
  }

  /**
   * SQLite (built with STAT4) plans a query with a bare parameter anew at every run, in case its value makes another plan
   * better. That takes 15 µs, running the query often just one. A subquery hides the value from the planner.
   */
  #statement(): Prepared<unknown[], unknown[]> {
    if (this.#prepared === undefined) {
      const placeholder = this.#sql.startsWith('SELECT') ? '(SELECT ?)' : '?';
      this.#names = [...this.#sql.matchAll(parameter)].map(([, name = '']) => name);
      this.#prepared = this.#connection.prepare(this.#sql.replaceAll(parameter, placeholder));
    }
    return this.#prepared;
  }

  /**
   * Makes an object of a row's values. It is generated from the names of the columns, which come from the program alone:
   * an object literal is several times as fast as an object that gets one property after another.
   */
  #reader(statement: Prepared<unknown[], unknown[]>): (values: unknown[]) => Row {
    if (this.#read === undefined) {
      const members = statement.columns().map(({ name }, index) => `${JSON.stringify(name)}: values[${index}]`);
      this.#read = new Function('values', `return { ${members.join(', ')} };`) as (values: unknown[]) => Row;
      statement.raw();
    }
    return this.#read;
  }

  #bound(values: Values): unknown[] {
    return this.#names.map((name) => {
      const value = values[name];
      if (value === undefined) throw new Error(`No value for :${name} was given`);
      return value;
    });
  }
}

/** Columns of a table by the names that the program has for them: `leads.id AS id, leads.created_at AS createdAt`. */
export function columnsOf(table: string, names: readonly string[]): string {
  return names.map((name) => `${table}.${columnOf(name)} AS ${name}`).join(', ');
}

/** A list to bind for `json_each`: with it, one statement serves any number of values. */
export function jsonList(values: readonly unknown[]): string {
  return JSON.stringify(values);
}
