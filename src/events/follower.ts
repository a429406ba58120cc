import { setImmediate as nextTurn } from 'node:timers/promises';
import { cursorExpired, eventCursor, type LogPosition } from '../domain/event-cursor.ts';
import { type EventFilter, LogEvent } from '../domain/events.ts';
import type { EventFollower } from '../domain/ports.ts';
import type { Storage } from '../domain/storage-port.ts';
import type { HeldMemory, Owner } from '../runtime/held-memory.ts';
import { scheduler } from '../runtime/scheduler.ts';
import { batchSize, bytesOf, firstBatch, type Tail, type Wakeable } from './tail.ts';

/** The most sequences that one read of the storage scans for events that match the filter. */
const span = 2_000;
/** The most events of the first read of the storage: they may be so large that few fit into a batch. */
const firstReadSize = 25;

interface FollowOptions {
  readonly accountId: string;
  readonly after: LogPosition;
  readonly filter: EventFilter;
}

/** What all followers share. */
export interface Sources {
  readonly storage: Storage;
  /** Counts what followers hold of what they have read from the storage. */
  readonly held: HeldMemory;
  /** Adds a follower to the tail of an account's log with this epoch. */
  readonly join: (accountId: string, epoch: string, follower: Wakeable) => Tail;
  /** Removes it, however often it is called. */
  readonly leave: (tail: Tail, follower: Wakeable) => void;
  /** Clears all tails if anything was erased that they may hold. */
  readonly clearErased: () => Promise<void>;
}

/** Events to be yielded, and the last sequence that was scanned for them. */
interface Batch {
  readonly events: readonly LogEvent[];
  readonly scannedTo: number;
  /** How much memory it takes of its own. */
  readonly bytes: number;
}

const none: readonly LogEvent[] = [];
const nothing = (): void => {};

/**
 * Reads from the tail where that reaches back far enough, else from the storage. It holds its last batch if there is room
 * for it, and otherwise reads what was given back again.
 */
export class Follower implements EventFollower, Wakeable, AsyncIterableIterator<readonly LogEvent[], void> {
  readonly #sources: Sources;
  readonly #options: FollowOptions;
  position: number;
  /** The most events of the next read of the storage. */
  #readSize = firstReadSize;
  #tail: Tail | undefined;
  /**
   * Whether the tail may hold, or soon hold, what another process had erased before this follower joined: this one learns of
   * that a moment later.
   */
  #mayBeErased = false;
  /** The last batch, for as long as its consumer may give a part of it back. */
  #held: Batch | undefined;
  /** How often the tail had been cleared when the last batch was read. */
  #timesCleared = 0;
  /** Whether the event loop has to turn before the next batch is read. */
  #mustYield = false;
  #isEnded = false;
  /** Ends its wait for events. */
  #endWait: (events: readonly LogEvent[]) => void = nothing;

  constructor(sources: Sources, options: FollowOptions) {
    this.#sources = sources;
    this.#options = options;
    this.position = options.after.sequence;
  }

  /** If the tail was cleared since, or may have to be. */
  get mayBeErased(): boolean {
    const tail = this.#tail;
    return tail === undefined || this.#timesCleared !== tail.timesCleared || tail.doubts > 0;
  }

  giveBack(from: LogEvent): void {
    this.position = from.position - 1;
    if (this.#held === undefined) this.#readSize = Math.max(1, Math.floor(this.#readSize / 2));
  }

  end(): void {
    this.#isEnded = true;
    this.#release();
    this.#leave(); // the consumer may never ask for another batch
    this.wake();
  }

  wake(): void {
    this.#endWait(none);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** @throws CURSOR_EXPIRED when events after the position were pruned */
  async next(): Promise<IteratorResult<readonly LogEvent[], void>> {
    try {
      while (!this.#isEnded) {
        const tail = this.#tail ?? this.#join();
        const events = this.#rest() ?? (await this.#nextEvents(tail));
        if (events.length > 0) return { done: false, value: events }; // the position is past them
      }
    } catch (error) {
      this.end();
      throw error;
    }
    return { done: true, value: undefined };
  }

  async return(): Promise<IteratorResult<readonly LogEvent[], void>> {
    this.end();
    return { done: true, value: undefined };
  }

  #join(): Tail {
    const { accountId, after } = this.#options;
    this.#tail = this.#sources.join(accountId, after.epoch, this);
    const { last, isReading } = this.#tail;
    this.#mayBeErased = last >= 0 && (this.position < last || isReading);
    return this.#tail;
  }

  #leave(): void {
    if (this.#tail !== undefined) this.#sources.leave(this.#tail, this);
    this.#tail = undefined;
  }

  /** What was given back of the batch that is held. */
  #rest(): readonly LogEvent[] | undefined {
    const held = this.#release();
    if (held === undefined || this.position >= held.scannedTo) return undefined;
    if (this.mayBeErased) return undefined;
    const events = held.events.filter(({ position }) => position > this.position);
    this.#hold({ ...held, events });
    return events;
  }

  /**
   * The next events; none if the log has to be looked at again. It is no async function, which would take memory while it
   * waits.
   */
  #nextEvents(tail: Tail): Promise<readonly LogEvent[]> {
    if (this.#mustYield) {
      // A consumer whose socket has gone takes batches at once: without this, it would block the event loop.
      this.#mustYield = false;
      return nextTurn(none);
    }
    if (tail.isOver) return this.#joinAnew();
    if (this.position < tail.last) return this.#read(tail);
    return new Promise((resolve) => {
      this.#endWait = resolve;
    });
  }

  /** @throws CURSOR_EXPIRED when the log has another epoch than the one that it follows */
  async #joinAnew(): Promise<readonly LogEvent[]> {
    this.#leave();
    const { accountId } = this.#options;
    const { first } = await this.#sources.storage.read.events.bounds(accountId);
    await this.#requireReach(first);
    return none;
  }

  async #read(tail: Tail): Promise<readonly LogEvent[]> {
    if (this.#mayBeErased) await this.#sources.clearErased();
    this.#mayBeErased = false;
    const { timesCleared } = tail;
    if (tail.after(this.position) === undefined) await tail.reach(this.position);
    const batch = this.#readTail(tail) ?? (await this.#readStorage());
    // If the tail was cleared meanwhile, some of them may have been erased: they are read again.
    if (this.#isEnded || timesCleared !== tail.timesCleared) return [];
    this.#timesCleared = timesCleared;
    this.#hold(batch);
    this.#mustYield = true;
    return batch.events;
  }

  get #owner(): Owner {
    return { name: this.#options.accountId };
  }

  #hold(held: Batch): void {
    this.position = held.scannedTo;
    if (held.events.length > 0 && this.#sources.held.add(this.#owner, held.bytes)) this.#held = held;
  }

  #release(): Batch | undefined {
    const held = this.#held;
    this.#held = undefined;
    if (held !== undefined) this.#sources.held.remove(this.#owner, held.bytes);
    return held;
  }

  /** The next batch from the tail, or undefined if that does not reach back far enough. */
  #readTail(tail: Tail): Batch | undefined {
    const events = tail.after(this.position);
    return (
      events && {
        events: events.filter((event) => event.matches(this.#options.filter)),
        scannedTo: events.at(-1)?.position ?? this.position,
        bytes: 0, // all followers of the account share them
      }
    );
  }

  /**
   * Makes sure that what was read follows on the position.
   * @param first the first sequence of the log, as it was read
   * @throws CURSOR_EXPIRED if events after the position were pruned, or the log has another epoch by now
   */
  async #requireReach(first: number): Promise<void> {
    const epoch = await this.#sources.storage.read.events.epoch();
    if (epoch !== this.#options.after.epoch || first - 1 > this.position) {
      throw cursorExpired(eventCursor(epoch, first - 1));
    }
  }

  /** @throws CURSOR_EXPIRED when events after the position were pruned */
  async #readStorage(): Promise<Batch> {
    const { accountId, after, filter } = this.#options;
    await scheduler.step(accountId);
    const options = { filter, limit: this.#readSize, span };
    const { events, scannedTo, first } = await this.#sources.storage.read.events.after(
      accountId,
      this.position,
      options,
    );
    await this.#requireReach(first);
    const batch = firstBatch(events.map((event) => new LogEvent(accountId, after.epoch, event)));
    this.#readSize = batch.length < events.length ? batch.length : Math.min(2 * this.#readSize, batchSize);
    return {
      events: batch,
      bytes: batch.reduce((sum, event) => sum + bytesOf(event), 0),
      scannedTo: batch.length < events.length ? (batch.at(-1)?.position ?? scannedTo) : scannedTo,
    };
  }
}
