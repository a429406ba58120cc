import { cursorExpired, type EventFilter, eventCursor, LogEvent } from '../domain/events.ts';
import type { EventFollower, LiveEvents, Storage } from '../domain/ports.ts';
import { ReadTurns } from './read-turns.ts';
import { TailBudget } from './tail-budget.ts';

/** The most events that a follower is given, or a look into the storage returns, at once. */
const batchSize = 100;
/** The most sequences that one look into the storage passes over for a filter. */
const span = 2_000;
/** The most text of data, in UTF-16 code units, that a follower is given at once, one event apart. */
const batchLength = 256 * 1024;
/** How many events the first look of a follower returns: they may be so large that few fit a batch. */
const firstLook = 25;
/** How many of an account's newest events are kept for its followers to share. */
const tailSize = 1_000;
/** How much they may weigh, in bytes. */
const tailWeight = 8 * 1024 * 1024;
/** After trouble with the storage the tail is read again without waiting for a commit. */
const retryMs = 1_000;

/**
 * The log's live readers. There is one way of reading, for replay and live: a follower pulls from the
 * log by sequence. Commits only wake it, so a wake-up that is lost or repeated loses nothing.
 *
 * An account's newest events are read once, however many follow it, and kept as long as there is room for them; a
 * follower that lags reads from the storage itself. Either way it holds a number and one batch.
 */
export class LiveLog implements LiveEvents {
  readonly #storage: Storage;
  readonly #onTrouble: (error: unknown) => void;
  readonly #tails = new Map<string, Tail>();
  readonly #budget = new TailBudget();
  readonly #turns = new ReadTurns();
  #erasures = -1;
  #stopWatching: (() => void) | undefined;

  /** @param onTrouble told when followers have to wait because the log cannot be read; once, until it can */
  constructor(storage: Storage, onTrouble: (error: unknown) => void = () => {}) {
    this.#storage = storage;
    this.#onTrouble = onTrouble;
  }

  /** How many accounts are being followed. */
  get followedAccounts(): number {
    return this.#tails.size;
  }

  /** How many follow. */
  get followers(): number {
    return [...this.#tails.values()].reduce((sum, tail) => sum + tail.followers, 0);
  }

  follow(accountId: string, after: number, filter: EventFilter): EventFollower {
    const join = (wake: () => void) => this.#join(accountId, wake);
    return new Follower(this.#storage, this.#turns, join, { accountId, after, filter });
  }

  #join(accountId: string, wake: () => void): { tail: Tail; leave: () => void } {
    // Watched first and read then: no commit may fall in between.
    this.#stopWatching ??= this.#storage.watch((touched) => this.#wake(touched?.accountIds));
    const tail = this.#tails.get(accountId) ?? this.#newTail(accountId);
    this.#tails.set(accountId, tail);
    tail.add(wake);
    const leave = (): void => {
      if (!tail.remove(wake) || tail.followed) return;
      this.#tails.delete(accountId);
      tail.forget();
      if (this.#tails.size > 0) return;
      this.#stopWatching?.();
      this.#stopWatching = undefined;
    };
    return { tail, leave };
  }

  #newTail(accountId: string): Tail {
    return new Tail(this.#storage, accountId, { budget: this.#budget, onTrouble: this.#onTrouble });
  }

  #wake(accountIds: ReadonlySet<string> | undefined): void {
    if (accountIds === undefined) void this.#lookAtAll();
    else for (const accountId of accountIds) this.#tails.get(accountId)?.refresh();
  }

  /**
   * Another process has written, or something was erased: one statement finds out whose logs have grown.
   * Never rejects.
   */
  async #lookAtAll(): Promise<void> {
    const tails = [...this.#tails];
    try {
      await this.#forgetWhatWasErased(tails);
      const last = await this.#storage.read.events.lastSequences(tails.map(([accountId]) => accountId));
      for (const [index, [, tail]] of tails.entries()) if ((last[index] ?? 0) > tail.last) tail.refresh();
    } catch {
      // Nobody knows whether anything was erased: so nothing is kept, and each reads on until it can.
      for (const [, tail] of tails) {
        tail.forget();
        tail.refresh();
      }
    }
  }

  /** What is kept may hold what the storage does not have any more. */
  async #forgetWhatWasErased(tails: readonly [string, Tail][]): Promise<void> {
    const erasures = await this.#storage.read.events.erasures();
    if (erasures === this.#erasures) return;
    for (const [, tail] of tails) tail.forget();
    this.#erasures = erasures;
  }
}

/** The newest events of one account's log, as they were read while somebody follows it. */
class Tail {
  readonly #storage: Storage;
  readonly #accountId: string;
  /** One for each follower: called whenever there is something new. */
  readonly #wakes = new Set<() => void>();
  /** The last sequence that was read; -1 until the log's end is known. */
  last = -1;
  /** How often what was kept had to be let go of. */
  forgotten = 0;
  /** The newest last, without gaps. */
  #events: LogEvent[] = [];
  /** How much they weigh. */
  #weight = 0;
  #reading = false;
  #grown = false;
  readonly #budget: TailBudget;
  readonly #onTrouble: (error: unknown) => void;
  #troubled = false;
  #retry: NodeJS.Timeout | undefined;

  constructor(
    storage: Storage,
    accountId: string,
    { budget, onTrouble }: { budget: TailBudget; onTrouble: (error: unknown) => void },
  ) {
    this.#storage = storage;
    this.#accountId = accountId;
    this.#budget = budget;
    this.#onTrouble = onTrouble;
  }

  get followers(): number {
    return this.#wakes.size;
  }

  get followed(): boolean {
    return this.#wakes.size > 0;
  }

  add(wake: () => void): void {
    this.#wakes.add(wake);
    if (this.last < 0) this.refresh();
  }

  /** @returns whether it was there */
  remove(wake: () => void): boolean {
    const removed = this.#wakes.delete(wake);
    if (!this.followed) clearTimeout(this.#retry);
    return removed;
  }

  /** Reads what has come and wakes the followers. Calls while it reads make it look once more. */
  refresh(): void {
    this.#grown = true;
    if (!this.#reading) void this.#read();
  }

  /** Lets go of the events that are kept, by followers too: they read the storage until new ones have come. */
  forget(): void {
    this.#events = [];
    this.#weight = 0;
    this.#budget.note(this, 0);
    this.forgotten++;
  }

  /** The next events after a sequence, or undefined when they lie further back than what is kept. */
  after(sequence: number): readonly LogEvent[] | undefined {
    const first = this.#events[0]?.sequence;
    if (first === undefined || sequence < first - 1) return undefined;
    const index = sequence - first + 1;
    return startOf(this.#events.slice(index, index + batchSize));
  }

  /** Never rejects. */
  async #read(): Promise<void> {
    this.#reading = true;
    try {
      while (this.#grown && this.followed) {
        this.#grown = false;
        await (this.last < 0 ? this.#findEnd() : this.#readOn());
        this.#troubled = false;
        for (const wake of this.#wakes) wake();
        await nextTurn();
      }
    } catch (error) {
      // The followers wait; they are told of trouble when they read for themselves.
      if (!this.#troubled) this.#onTrouble(error);
      this.#troubled = true;
      clearTimeout(this.#retry);
      if (this.followed) this.#retry = setTimeout(() => this.refresh(), retryMs).unref();
    } finally {
      this.#reading = false;
    }
  }

  async #findEnd(): Promise<void> {
    this.last = (await this.#storage.read.events.bounds(this.#accountId)).last;
    this.forget();
  }

  async #readOn(): Promise<void> {
    const { events: log } = this.#storage.read;
    const epoch = await log.epoch();
    const options = { filter: {}, limit: batchSize, span: batchSize };
    const { events, scannedTo } = await log.after(this.#accountId, this.last, options);
    if (scannedTo === this.last || !this.followed) return;
    if (events[0]?.sequence !== this.last + 1) {
      // What came next was removed before it was read. Nothing kept may hide the gap: who has not come
      // past it yet is to find it in the storage.
      await this.#findEnd();
      return;
    }
    for (const stored of events) {
      const event = new LogEvent(this.#accountId, epoch, stored);
      this.#events.push(event);
      this.#weight += weightOf(event);
    }
    this.last = scannedTo;
    if (this.#events.length > 2 * tailSize || this.#weight > 2 * tailWeight) this.#trim();
    this.#budget.note(this, this.#weight);
    // What comes later is told of; what was there already is not.
    if (events.length === batchSize) this.#grown = true;
  }

  #trim(): void {
    let count = 0;
    for (const event of this.#events) {
      if (this.#events.length - count <= tailSize && this.#weight <= tailWeight) break;
      this.#weight -= weightOf(event);
      count++;
    }
    this.#events.splice(0, count);
  }
}

/** Events to be given, and how far the log was looked through for them. */
interface Batch {
  readonly events: readonly LogEvent[];
  readonly scannedTo: number;
}

interface Wish {
  readonly accountId: string;
  readonly after: number;
  readonly filter: EventFilter;
}

class Follower implements EventFollower {
  readonly #storage: Storage;
  readonly #turns: ReadTurns;
  readonly #join: (wake: () => void) => { tail: Tail; leave: () => void };
  readonly #wish: Wish;
  position: number;
  /** How many events the next look returns at most. What does not fit the batch would be read in vain. */
  #look = firstLook;
  #isEnded = false;
  #leave = (): void => {};
  #wake = (): void => {};

  constructor(
    storage: Storage,
    turns: ReadTurns,
    join: (wake: () => void) => { tail: Tail; leave: () => void },
    wish: Wish,
  ) {
    this.#storage = storage;
    this.#turns = turns;
    this.#join = join;
    this.#wish = wish;
    this.position = wish.after;
  }

  giveBack(from: LogEvent): void {
    this.position = from.sequence - 1;
  }

  end(): void {
    this.#isEnded = true;
    // A consumer that never comes back keeps the generator parked, so it leaves without its help.
    this.#leave();
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<readonly LogEvent[], void> {
    if (this.#isEnded) return;
    const { tail, leave } = this.#join(() => this.#wake());
    this.#leave = leave;
    try {
      while (!this.#isEnded) {
        if (this.position >= tail.last) {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
          continue;
        }
        const { forgotten } = tail;
        const { events, scannedTo } = this.#shared(tail) ?? (await this.#readStorage());
        // What was erased while the consumer was busy with a part is not in what is read anew.
        for (let rest = events; rest.length > 0 && forgotten === tail.forgotten; ) {
          this.position = scannedTo;
          yield rest;
          if (this.#isEnded) return;
          rest = this.position < scannedTo ? rest.filter(({ sequence }) => sequence > this.position) : [];
        }
        if (events.length === 0) this.position = scannedTo;
        // A consumer whose socket is gone takes batches at once: without a turn of the loop it would spin.
        await nextTurn();
      }
    } finally {
      leave();
    }
  }

  /** What fits of the events that the tail keeps, or undefined when they lie further back. */
  #shared(tail: Tail): Batch | undefined {
    const shared = tail.after(this.position);
    return (
      shared && {
        events: shared.filter((event) => event.matches(this.#wish.filter)),
        scannedTo: shared.at(-1)?.sequence ?? this.position,
      }
    );
  }

  /** @throws CURSOR_EXPIRED when events were removed before this follower had come to them */
  async #readStorage(): Promise<Batch> {
    const { accountId, filter } = this.#wish;
    const { events: log } = this.#storage.read;
    await this.#turns.next();
    const epoch = await log.epoch();
    const { events, scannedTo } = await log.after(accountId, this.position, { filter, limit: this.#look, span });
    const { first } = await log.bounds(accountId);
    if (first - 1 > this.position) throw cursorExpired(eventCursor(epoch, first - 1));
    const batch = startOf(events.map((event) => new LogEvent(accountId, epoch, event)));
    this.#look = batch.length < events.length ? batch.length : Math.min(2 * this.#look, batchSize);
    return {
      events: batch,
      scannedTo: batch.length < events.length ? (batch.at(-1)?.sequence ?? scannedTo) : scannedTo,
    };
  }
}

/** As many of these events as may be given at once: a follower that is parked keeps what it was given last. */
function startOf(events: readonly LogEvent[]): readonly LogEvent[] {
  let length = 0;
  const end = events.findIndex((event) => {
    const fits = length < batchLength;
    length += event.dataLength;
    return !fits;
  });
  return end === -1 ? events : events.slice(0, end);
}

/** What an event takes at most, about, in bytes: as text, as JSON and parsed, all of that with metadata and without. */
function weightOf({ dataLength }: LogEvent): number {
  return 1_024 + 8 * dataLength;
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
