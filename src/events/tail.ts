import { setImmediate as nextTurn } from 'node:timers/promises';
import { LogEvent } from '../domain/events.ts';
import type { Storage } from '../domain/storage-port.ts';
import { scheduler } from '../runtime/scheduler.ts';

/** The most events in a batch for a follower, and in the result of one read of the storage. */
export const batchSize = 100;
/** A batch ends with the event that brings its text to this length, in UTF-16 code units. */
const batchLength = 256 * 1024;

/** The first of these events, as many as fit into a batch: a parked follower holds its last batch in memory. */
export function firstBatch(events: readonly LogEvent[]): readonly LogEvent[] {
  let length = 0;
  const end = events.findIndex((event) => {
    const fits = length < batchLength;
    length += event.dataLength;
    return !fits;
  });
  return end === -1 ? events : events.slice(0, end);
}

/** How many of an account's newest events are cached for its followers to share. */
const tailSize = 1_000;
/** The limit on their memory, in bytes. */
const tailBytes = 8 * 1024 * 1024;
/** The limit on the memory of the caches of all accounts, in bytes. */
const tailsBytes = 32 * 1024 * 1024;
/** After a failed read the tail is read again without waiting for a commit. */
const retryMs = 1_000;

/** How many followers are woken in a turn. Each sends an event, which takes about 25 µs. */
const wokenAtOnce = 100;

/** A reader of a log, which may be waiting at its end. */
export interface Wakeable {
  /** Called whenever there is something new. */
  wake(): void;
}

interface TailOptions {
  readonly accountId: string;
  /** Of the log that it reads. */
  readonly epoch: string;
  readonly budget: TailBudget;
  /** Called when reading fails, once until it succeeds again. */
  readonly onError: (error: unknown) => void;
}

/** The newest events of one account's log, cached as they are read for its followers. */
export class Tail {
  readonly #storage: Storage;
  readonly accountId: string;
  readonly epoch: string;
  readonly #followers = new Set<Wakeable>();
  /** The last sequence that was read; -1 until the end of the log is known. */
  last = -1;
  /** Whether the log has another epoch by now. Its followers have to see whether theirs is the log that there is. */
  isOver = false;
  /** How often the cache was cleared. */
  timesCleared = 0;
  /** How many are finding out whether some of it was erased. Meanwhile nothing is taken from it. */
  doubts = 0;
  /** The newest last, without gaps. */
  #events: LogEvent[] = [];
  #bytes = 0;
  #reading = false;
  #reaching: Promise<void> | undefined;
  #refreshWanted = false;
  readonly #budget: TailBudget;
  readonly #onError: (error: unknown) => void;
  #hasFailed = false;
  #retry: NodeJS.Timeout | undefined;

  constructor(storage: Storage, { accountId, epoch, budget, onError }: TailOptions) {
    this.#storage = storage;
    this.accountId = accountId;
    this.epoch = epoch;
    this.#budget = budget;
    this.#onError = onError;
  }

  get followers(): number {
    return this.#followers.size;
  }

  /** Whether events are being read, which may have been erased by the time they are there. */
  get isReading(): boolean {
    return this.#reading;
  }

  add(follower: Wakeable): void {
    this.#followers.add(follower);
    if (this.last < 0) this.refresh();
  }

  /** @returns whether it had been added */
  remove(follower: Wakeable): boolean {
    const removed = this.#followers.delete(follower);
    if (this.followers === 0) clearTimeout(this.#retry);
    return removed;
  }

  /** Reads new events and wakes the followers. A call during a read causes one more read after it. */
  refresh(): void {
    this.#refreshWanted = true;
    if (!this.#reading) void this.#read();
  }

  /**
   * Clears the cache, and makes followers discard the events of it that they hold: they read from the storage until
   * there are new events.
   */
  clear(): void {
    this.#events = [];
    this.#bytes = 0;
    this.#budget.resize(this, 0);
    this.timesCleared++;
  }

  /** Ends it, and wakes the followers. */
  end(): void {
    this.isOver = true;
    this.clear();
    this.refresh();
  }

  /** The next batch of events after a sequence, or undefined if the cache does not reach back that far. */
  after(sequence: number): readonly LogEvent[] | undefined {
    const index = sequence - this.#first + 1;
    if (index < 0 || this.#events.length === 0 || this.doubts > 0) return undefined;
    return firstBatch(this.#events.slice(index, index + batchSize));
  }

  /**
   * Caches older events as well, back to a sequence, unless these are too many or nobody else follows the log. When a
   * server has started, all clients want the same ones: those since they were cut off.
   */
  async reach(sequence: number): Promise<void> {
    if (this.last - sequence > tailSize || this.followers < 2) return;
    this.#reaching ??= this.#reach(sequence).finally(() => {
      this.#reaching = undefined;
    });
    await this.#reaching;
  }

  async #reach(sequence: number): Promise<void> {
    const { timesCleared } = this;
    const { events: log } = this.#storage.read;
    while (this.#first - 1 > sequence) {
      const before = this.#first;
      const from = Math.max(sequence, before - 1 - batchSize);
      await scheduler.step(this.accountId);
      const options = { filter: {}, limit: before - 1 - from, span: batchSize };
      const { events } = await log.after(this.accountId, from, options);
      const older = events.map((event) => new LogEvent(this.accountId, this.epoch, event));
      const bytes = older.reduce((sum, event) => sum + bytesOf(event), 0);
      if (await this.#isOfAnother()) return;
      // Meanwhile some may have been erased, trimmed or pruned.
      if (timesCleared !== this.timesCleared || before !== this.#first || older.length !== before - 1 - from) return;
      if (this.#bytes + bytes > tailBytes) return;
      this.#events.unshift(...older);
      this.#bytes += bytes;
      this.#budget.resize(this, this.#bytes);
    }
  }

  /** The sequence of the first event in the cache, or of the next one of the log. */
  get #first(): number {
    return this.#events[0]?.position ?? this.last + 1;
  }

  /** Never rejects. */
  async #read(): Promise<void> {
    this.#reading = true;
    try {
      while (this.#refreshWanted && this.followers > 0) {
        this.#refreshWanted = false;
        if (!this.isOver) await (this.last < 0 ? this.#findEnd() : this.#readNext());
        this.#hasFailed = false;
        await this.#wakeAll();
        await nextTurn();
      }
    } catch (error) {
      // Followers at the tail go on waiting; those that read the storage themselves get its error there.
      if (!this.#hasFailed) this.#onError(error);
      this.#hasFailed = true;
      clearTimeout(this.#retry);
      if (this.followers > 0) this.#retry = setTimeout(() => this.refresh(), retryMs).unref();
    } finally {
      this.#reading = false;
    }
  }

  async #wakeAll(): Promise<void> {
    let count = 0;
    for (const follower of this.#followers) {
      if (count > 0 && count % wokenAtOnce === 0) await scheduler.step(this.accountId);
      follower.wake();
      count++;
    }
  }

  async #findEnd(): Promise<void> {
    const { last } = await this.#storage.read.events.bounds(this.accountId);
    if (await this.#isOfAnother()) return;
    this.last = last;
    this.clear();
  }

  /**
   * Ends it if the log has another epoch, as it has where a replica took the place of its primary. To be asked after
   * reading: what was read is of this log if the epoch is still the same.
   */
  async #isOfAnother(): Promise<boolean> {
    if (!this.isOver && (await this.#storage.read.events.epoch()) !== this.epoch) this.end();
    return this.isOver;
  }

  async #readNext(): Promise<void> {
    const { timesCleared } = this;
    const options = { filter: {}, limit: batchSize, span: batchSize };
    const { events, scannedTo } = await this.#storage.read.events.after(this.accountId, this.last, options);
    if ((await this.#isOfAnother()) || scannedTo === this.last || this.followers === 0) return;
    if (timesCleared !== this.timesCleared) {
      this.#refreshWanted = true; // some of them may have been erased since they were read
      return;
    }
    if (events[0]?.sequence !== this.last + 1) {
      // Events were pruned before they were read. The cache must not hide that gap: a follower that has not passed
      // it has to find it in the storage.
      await this.#findEnd();
      return;
    }
    for (const stored of events) {
      const event = new LogEvent(this.accountId, this.epoch, stored);
      this.#events.push(event);
      this.#bytes += bytesOf(event);
    }
    this.last = scannedTo;
    if (this.#events.length > 2 * tailSize || this.#bytes > 2 * tailBytes) this.#trim();
    this.#budget.resize(this, this.#bytes);
    // A commit announces later events, but not the rest of those that were there already.
    if (events.length === batchSize) this.#refreshWanted = true;
  }

  #trim(): void {
    let count = 0;
    for (const event of this.#events) {
      if (this.#events.length - count <= tailSize && this.#bytes <= tailBytes) break;
      this.#bytes -= bytesOf(event);
      count++;
    }
    this.#events.splice(0, count);
  }
}

/** An estimate of the most memory that an event takes: as text, JSON and parsed, each with and without metadata. */
export function bytesOf({ dataLength }: LogEvent): number {
  return 1_024 + 8 * dataLength;
}

/**
 * Bounds the memory that the tails of all accounts take together. When there is too much, the tails that have not grown
 * for the longest time are cleared; their followers read from the storage.
 */
export class TailBudget {
  /** The sizes of the tails that are not empty, least recently grown first. */
  readonly #sizes = new Map<Tail, number>();
  #bytes = 0;

  /** Reports the present size of a tail. It must be below the limit on all of them. */
  resize(tail: Tail, bytes: number): void {
    const before = this.#sizes.get(tail) ?? 0;
    this.#bytes += bytes - before;
    this.#sizes.delete(tail);
    if (bytes > 0) this.#sizes.set(tail, bytes);
    if (bytes <= before) return;
    for (const oldest of this.#sizes.keys()) {
      if (this.#bytes <= tailsBytes) return;
      oldest.clear(); // which reports its size as 0
    }
  }
}
