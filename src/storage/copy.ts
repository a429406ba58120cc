import { hash } from 'node:crypto';
import { minuteMs } from '../domain/rate-window.ts';
import { type CopiedTable, copiedTables, type Row } from './copied-tables.ts';

// Copying a database into another, of the same or the other storage. A batch of rows is written in one transaction with the
// place that it ends at, so that a copy that was killed goes on from there. At the end both databases are read and compared.

/** Rows of a batch. A row has some hundred bytes, and with the longest texts some hundred kilobytes. */
const rowsAtOnce = 500;

/** A place among the rows of a table: the values of the source's own key. */
export type Place = readonly (string | number)[];

/** How far a copy has come. */
export interface CopyState {
  /** The epoch of the source. */
  readonly source: string;
  /** How much later the minutes of the limiter are in the copy, whose clock may be another. */
  readonly minutesLater: number;
  readonly table: CopiedTable['name'];
  /** Rows of this table up to here are copied; null for none. */
  readonly after: Place | null;
  /** Copied rows of all tables. */
  readonly rows: number;
}

/** Facts about a database as a whole. */
export interface Facts {
  /** What identifies its event logs. */
  readonly epoch: string;
  /** The limiter's clock. */
  readonly clockMs: number;
  /** The other entries of `meta`. */
  readonly meta: Readonly<Record<string, string>>;
}

/** A database that nothing else uses. */
export interface CopySide {
  facts(): Promise<Facts>;
  count(table: CopiedTable): Promise<number>;
  /** The next rows in the order of a key that does not change, and the place of the last of them. */
  read(table: CopiedTable, after: Place | null, limit: number): Promise<{ rows: Row[]; last: Place | null }>;
  close(): Promise<void>;
}

export interface CopyTarget extends CopySide {
  /** How far an unfinished copy in it has come; undefined if it is empty. */
  readonly unfinished: CopyState | undefined;
  /** Keeps everything else from opening it. */
  begin(state: CopyState): Promise<void>;
  /** Writes rows, and how far the copy has come with them, in one transaction. */
  write(table: CopiedTable, rows: readonly Row[], state: CopyState): Promise<void>;
  /** How far the limiter's clock is ahead of the source's, once the copy is finished. */
  aheadMs(source: Facts): Promise<number>;
  /** Takes over the facts, and lets it be used. */
  finish(facts: Facts): Promise<void>;
}

/** Why there is no copy. The message is a sentence for the operator. */
export class CopyFault extends Error {
  override readonly name = 'CopyFault';
}

export interface CopyOptions {
  /** @param share how much of the step is done, from 0 to 1 */
  readonly onProgress?: (step: 'copying' | 'verifying', table: string, share: number) => void;
}

export interface Copied {
  /** Whether an earlier copy was continued. */
  readonly continued: boolean;
  readonly accounts: number;
  readonly rows: number;
  /** The rows of each table. */
  readonly tables: Readonly<Record<string, number>>;
}

/** @throws CopyFault */
export async function copy(
  source: CopySide,
  target: CopyTarget,
  { onProgress = () => {} }: CopyOptions = {},
): Promise<Copied> {
  const facts = await source.facts();
  const { unfinished } = target;
  if (unfinished !== undefined && unfinished.source !== facts.epoch) {
    throw new CopyFault('The target holds an unfinished copy of another database: copy into an empty one.');
  }
  let state = unfinished ?? (await beginning(facts, target));
  if (unfinished === undefined) await target.begin(state);

  let total = 0;
  for (const table of copiedTables) total += await source.count(table);
  const shareOf = (rows: number): number => Math.min(1, rows / Math.max(1, total));
  const first = copiedTables.findIndex(({ name }) => name === state.table);
  for (const table of copiedTables.slice(first)) {
    const read = (after: Place | null) => readFrom(source, table, after, state.minutesLater);
    let next = await read(table.name === state.table ? state.after : null);
    while (next.rows.length > 0) {
      const { rows, last } = next;
      state = { ...state, table: table.name, after: last, rows: state.rows + rows.length };
      [next] = await Promise.all([read(last), target.write(table, rows, state)]);
      onProgress('copying', table.sqlName, shareOf(state.rows));
    }
  }

  const tables: Record<string, number> = {};
  let rows = 0;
  for (const table of copiedTables) {
    const onRead = (read: number): void => onProgress('verifying', table.sqlName, shareOf(rows + read / 2));
    const [here, there] = [new Sums(table), new Sums(table)];
    await here.addAll((after) => readFrom(source, table, after, state.minutesLater), onRead);
    await there.addAll(
      (after) => readFrom(target, table, after),
      (read) => onRead(here.rows + read),
    );
    here.requireSame(there);
    tables[table.sqlName] = here.rows;
    rows += here.rows;
  }
  await target.finish(await source.facts());
  return { continued: unfinished !== undefined, accounts: tables['accounts'] ?? 0, rows, tables };
}

async function beginning(source: Facts, target: CopyTarget): Promise<CopyState> {
  const aheadMs = await target.aheadMs(source);
  // What was spent must not leave the window too early. Clocks that differ by less are one, read at two moments.
  const minutesLater = Math.abs(aheadMs) < 1_000 ? 0 : Math.ceil(aheadMs / minuteMs);
  return { source: source.epoch, minutesLater, table: 'accounts', after: null, rows: 0 };
}

async function readFrom(side: CopySide, table: CopiedTable, after: Place | null, minutesLater = 0) {
  const found = await side.read(table, after, rowsAtOnce);
  if (table.name !== 'rateWindows' || minutesLater === 0) return found;
  const at = table.columns.indexOf('minute');
  const later = (row: Row): Row => row.with(at, Number(row[at]) + minutesLater);
  return { ...found, rows: found.rows.map(later) };
}

interface Sum {
  readonly rows: number;
  /** The sum of the rows' hashes, so that their order does not count. */
  readonly checksum: bigint;
}

const nothing: Sum = { rows: 0, checksum: 0n };

/** Sums of the rows of a table, by account. */
class Sums {
  readonly #table: CopiedTable;
  readonly #byAccount = new Map<string, Sum>();
  rows = 0;

  constructor(table: CopiedTable) {
    this.#table = table;
  }

  async addAll(
    read: (after: Place | null) => ReturnType<CopySide['read']>,
    onRead: (rows: number) => void,
  ): Promise<void> {
    const account = this.#table.columns.indexOf(this.#table.name === 'accounts' ? 'id' : 'accountId');
    for (let next = await read(null); next.rows.length > 0; next = await read(next.last)) {
      for (const row of next.rows) {
        const { rows, checksum } = this.#byAccount.get(String(row[account])) ?? nothing;
        const digest = hash('sha256', JSON.stringify(row), 'buffer').readBigUInt64BE();
        this.#byAccount.set(String(row[account]), {
          rows: rows + 1,
          checksum: BigInt.asUintN(64, checksum + digest),
        });
      }
      this.rows += next.rows.length;
      onRead(this.rows);
    }
  }

  /** @throws CopyFault naming the accounts that are not the same in the copy */
  requireSame(copy: Sums): void {
    const accounts = new Set([...this.#byAccount.keys(), ...copy.#byAccount.keys()]);
    const wrong: string[] = [];
    for (const account of accounts) {
      const [one, other] = [this.#byAccount.get(account) ?? nothing, copy.#byAccount.get(account) ?? nothing];
      if (one.rows !== other.rows) wrong.push(`${account} has ${one.rows} rows there and ${other.rows} in the copy`);
      else if (one.checksum !== other.checksum) wrong.push(`${account} has other contents there than in the copy`);
    }
    if (wrong.length === 0) return;
    const [first, second, third, ...more] = wrong;
    const shown = [first, second, third].filter((text) => text !== undefined).join(', ');
    throw new CopyFault(
      `The copy is not the same as its source, so it cannot be used: in the table ${this.#table.sqlName}, ${shown}${more.length > 0 ? `, and ${more.length} more accounts are wrong` : ''}. One of the two was changed meanwhile: copy again into an empty database.`,
    );
  }
}
