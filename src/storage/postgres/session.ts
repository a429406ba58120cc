import postgres from 'postgres';
import { inDoubt } from '../../domain/errors.ts';
import { unavailable } from '../errors.ts';
import { Touches } from '../touches.ts';
import {
  type Answer,
  Connection,
  type ConnectionOptions,
  type Queries,
  type RowsText,
  type RowValue,
  timeoutsOf,
} from './connections.ts';
import { isDisconnection, isInFailed } from './errors.ts';
import { explainNewer, isNotNewer } from './migrate.ts';
import { arrayOf } from './statements.ts';

/**
 * A connection for one transaction after the other. Its statements are sent as they come, and PostgreSQL answers them in
 * that order: so what needs no answer is not waited for, and `BEGIN` and the lock of one account cost no round trip.
 *
 * In a careful transaction every change is waited for, and is undone alone if it fails; so a work may go on after it.
 * That takes two more statements for each change. In any other transaction all is lost when a statement fails.
 */
export class Session implements Queries {
  readonly #connection: Connection;
  readonly #options: ConnectionOptions;
  /** Why nothing of this transaction can be committed. */
  #failure: unknown;
  #isOpen = false;
  #isCareful = false;
  #losses = 0;
  /** Rows that wait to be written, by the statement that does. */
  readonly #rows = new Map<RowsText, (readonly RowValue[])[]>();
  /** What is to be sent right before the commit. */
  readonly #last = new Set<string>();
  /** The ends of the logs of the accounts whose rows are locked, as far as the changes go that were sent. */
  #logEnds = new Map<string, Promise<number>>();
  #lose: (error: unknown) => void = () => {};
  /** Since when it has its locks; undefined if it has none, or could not begin. */
  beganMs: number | undefined;
  /** What the transaction has touched, for those who watch. */
  touches = new Touches();
  /** Rejects when the connection of this transaction is lost. */
  lost: Promise<never> = new Promise(() => {});

  constructor(url: string, options: ConnectionOptions) {
    this.#options = options;
    this.#connection = new Connection(url, options, (cause) => this.#onLoss(cause));
  }

  /** What has gone wrong, so that nothing can be committed; undefined if nothing has. */
  get failure(): unknown {
    return this.#failure;
  }

  /**
   * Begins a transaction. What follows need not wait for that.
   * @param accountId whose row is locked first; empty for none
   * @returns when it has begun, or failed
   */
  async begin(accountId: string, { isCareful = false } = {}): Promise<void> {
    this.#begin(isCareful);
    const lock = `SELECT event_sequence, ${isNotNewer} FROM account_totals WHERE account_id = $1 FOR UPDATE`;
    const locked = accountId === '' ? this.#tell(`SELECT ${isNotNewer}`) : this.#tell(lock, [accountId]);
    this.#keep(locked.catch(explainNewer));
    this.#endsAt(
      accountId,
      locked.then(([row]) => Number(row?.['eventSequence'])),
    );
    try {
      await locked;
      this.beganMs = performance.now();
    } catch {
      // It is the transaction’s failure.
    }
  }

  /**
   * Begins a transaction for several accounts, of which none waits for the lock of another.
   * @returns those whose rows are locked now, without any that somebody else has locked; none if it has failed
   */
  async beginShared(accountIds: readonly string[]): Promise<ReadonlySet<string>> {
    this.#begin(false);
    const lock = `SELECT account_id, event_sequence, ${isNotNewer} FROM account_totals
      WHERE account_id = ANY($1::text[]) FOR UPDATE SKIP LOCKED`;
    try {
      const rows = await this.#kept(this.#tell(lock, [arrayOf(accountIds)]).catch(explainNewer));
      this.beganMs = performance.now();
      for (const row of rows) this.#endsAt(String(row['accountId']), Promise.resolve(Number(row['eventSequence'])));
    } catch {
      // It is the transaction’s failure.
    }
    return new Set(this.#logEnds.keys());
  }

  advanceLog(accountId: string, count: number): Promise<number> | undefined {
    const end = this.#logEnds.get(accountId);
    // What is undone alone would have taken numbers.
    if (this.#isCareful || end === undefined) return undefined;
    const next = end.then((sequence) => sequence + count);
    this.#endsAt(accountId, next);
    return next;
  }

  async query(text: string, values: readonly unknown[], isKept: boolean): Promise<Answer> {
    this.#sendRows();
    return await this.#kept(this.#tell(text, values, isKept));
  }

  async change(text: string, values: readonly unknown[]): Promise<Answer> {
    this.#sendRows();
    return this.#isCareful ? await this.#changeCarefully(text, values) : await this.#kept(this.#tell(text, values));
  }

  send(text: string, values: readonly unknown[]): Promise<unknown> | undefined {
    if (this.#isCareful) return this.change(text, values);
    this.#sendRows();
    this.#keep(this.#tell(text, values));
    return undefined;
  }

  sendRow(statement: RowsText, row: readonly RowValue[]): Promise<unknown> | undefined {
    if (this.#isCareful) {
      const { text, values } = statement.on([row]);
      return this.change(text, values).catch(statement.explain);
    }
    this.#requireWhole();
    const rows = this.#rows.get(statement);
    if (rows === undefined) this.#rows.set(statement, [row]);
    else rows.push(row);
    return undefined;
  }

  sendLast(text: string): void {
    this.#requireWhole();
    this.#last.add(text);
  }

  /**
   * Commits what was done.
   * @throws what had failed, when nothing was committed; UNAVAILABLE when it is not known whether it was
   */
  async commit(): Promise<void> {
    this.#sendRows();
    // In the same order by all: two that have one row each would wait for that of the other.
    for (const text of [...this.#last].sort()) this.#keep(this.#tell(text));
    try {
      const { command } = await this.#tell('COMMIT');
      if (this.#failure !== undefined) throw this.#failure;
      if (command !== 'COMMIT') throw new Error(`The transaction was ended by ${command}`);
    } catch (error) {
      // Where a statement before it was refused, so was the commit.
      const isRefused = this.#failure instanceof postgres.PostgresError;
      if (!isDisconnection(error) || isRefused) throw error;
      throw inDoubt('The storage was lost while it made the change, which may have been made.', error);
    } finally {
      this.#isOpen = false;
    }
  }

  /** Undoes what was done, and never fails: a connection that is lost has done so already. */
  async rollback(): Promise<void> {
    try {
      if (this.#isOpen) await this.#tell('ROLLBACK');
    } catch {
      // It is lost.
    } finally {
      this.#isOpen = false;
    }
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }

  get losses(): number | undefined {
    return this.#options.isProxied ? undefined : this.#losses; // a proxy keeps its own connections
  }

  #begin(isCareful: boolean): void {
    this.#failure = undefined;
    this.#rows.clear();
    this.#last.clear();
    this.beganMs = undefined;
    this.#isOpen = true;
    this.#isCareful = isCareful;
    this.#logEnds = new Map();
    this.touches = new Touches();
    this.lost = new Promise((_, reject) => {
      this.#lose = reject;
    });
    this.lost.catch(() => {}); // nobody need wait for it
    // Not prepared: were that useless, what is sent behind it would be committed by itself, and then be done again.
    this.#keep(this.#tell('BEGIN ISOLATION LEVEL READ COMMITTED', [], false));
    if (!this.#options.isProxied) return;
    for (const [name, ms] of Object.entries(timeoutsOf(this.#options)))
      this.#keep(this.#tell(`SET LOCAL ${name} = ${ms}`));
  }

  #endsAt(accountId: string, sequence: Promise<number>): void {
    sequence.catch(() => {}); // nobody need ask for it
    this.#logEnds.set(accountId, sequence);
  }

  #onLoss(cause: unknown): void {
    this.#losses++;
    if (!this.#isOpen) return;
    this.#failure ??= cause ?? unavailable('The connection to the storage was lost.');
    this.#isOpen = false;
    this.#lose(this.#failure);
  }

  /** Sends the rows that wait, before the next statement. */
  #sendRows(): void {
    this.#requireWhole();
    if (this.#rows.size === 0) return;
    const waiting = [...this.#rows].sort(([one], [other]) => one.order - other.order);
    this.#rows.clear();
    for (const [statement, rows] of waiting) {
      const { text, values } = statement.on(rows);
      this.#keep(this.#tell(text, values).catch(statement.explain));
    }
  }

  #requireWhole(): void {
    if (this.#failure !== undefined) throw this.#failure;
    // Another connection would be made for it, and would do it outside the transaction.
    if (!this.#isOpen) throw unavailable('The connection to the storage was lost.');
  }

  async #changeCarefully(text: string, values: readonly unknown[]): Promise<Answer> {
    this.#keep(this.#tell('SAVEPOINT change'));
    const changing = this.#tell(text, values);
    // Both are in vain when it fails.
    const releasing = this.#tell('RELEASE change').catch(() => undefined);
    try {
      const answer = await changing;
      await releasing;
      return answer;
    } catch (error) {
      this.#requireWhole();
      await releasing;
      await this.#kept(this.#tell('ROLLBACK TO change'));
      throw error;
    }
  }

  #tell(text: string, values: readonly unknown[] = [], isKept = true): Promise<Answer> {
    return this.#connection.ask(text, values, isKept);
  }

  /** The answer; if it is an error, the transaction cannot be committed. */
  #kept(answer: Promise<Answer>): Promise<Answer> {
    this.#keep(answer);
    return answer;
  }

  #keep(answer: Promise<unknown>): void {
    const { lost } = this;
    answer.catch((error: unknown) => {
      if (this.lost !== lost) return; // it was of the transaction before, whose connection was lost
      // What a statement before it failed with says why, though that may be noticed later.
      if (this.#failure === undefined || isInFailed(this.#failure)) this.#failure = error;
    });
  }
}
