import { setImmediate as nextTurn } from 'node:timers/promises';
import { cursorExpired, eventCursor } from '../domain/event-cursor.ts';
import { type EventFilter, LogEvent } from '../domain/events.ts';
import type { EventFollower } from '../domain/ports.ts';
import type { Storage } from '../domain/storage-port.ts';
import { scheduler } from '../runtime/scheduler.ts';
import { batchSize, firstBatch, type Tail } from './tail.ts';

/** The most sequences that one read of the storage scans for events that match the filter. */
const span = 2_000;
/** The most events of the first read of the storage: they may be so large that few fit into a batch. */
const firstReadSize = 25;

export interface FollowOptions {
  readonly accountId: string;
  readonly after: number;
  readonly filter: EventFilter;
}

interface Sources {
  readonly storage: Storage;
  /** Adds a follower to the tail of its account. */
  readonly join: (wake: () => void) => { tail: Tail; leave: () => void };
}

/** Events to be yielded, and the last sequence that was scanned for them. */
interface Batch {
  readonly events: readonly LogEvent[];
  readonly scannedTo: number;
}

/** Reads from the tail where that reaches back far enough, else from the storage. */
export class Follower implements EventFollower {
  readonly #sources: Sources;
  readonly #options: FollowOptions;
  position: number;
  /** The most events of the next read of the storage. Events that do not fit into the batch are read again later. */
  #readSize = firstReadSize;
  #isEnded = false;
  #leave = (): void => {};
  #wake = (): void => {};

  constructor(sources: Sources, options: FollowOptions) {
    this.#sources = sources;
    this.#options = options;
    this.position = options.after;
  }

  giveBack(from: LogEvent): void {
    this.position = from.position - 1;
  }

  end(): void {
    this.#isEnded = true;
    // If the consumer never asks for another batch, the generator stays parked and its `finally` does not run.
    this.#leave();
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<readonly LogEvent[], void> {
    if (this.#isEnded) return;
    const { tail, leave } = this.#sources.join(() => this.#wake());
    this.#leave = leave;
    try {
      while (!this.#isEnded) {
        if (this.position >= tail.last) {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
          continue;
        }
        const { timesCleared } = tail;
        const { events, scannedTo } = this.#readTail(tail) ?? (await this.#readStorage());
        // If the tail was cleared while the consumer was busy, the rest may have been erased: it is read again.
        for (let rest = events; rest.length > 0 && timesCleared === tail.timesCleared; ) {
          this.position = scannedTo;
          yield rest;
          if (this.#isEnded) return;
          rest = this.position < scannedTo ? rest.filter(({ position }) => position > this.position) : [];
        }
        if (events.length === 0) this.position = scannedTo;
        // A consumer whose socket has gone takes batches at once: without yielding, this would block the event loop.
        await nextTurn();
      }
    } finally {
      leave();
    }
  }

  /** The next batch from the tail, or undefined if that does not reach back far enough. */
  #readTail(tail: Tail): Batch | undefined {
    const events = tail.after(this.position);
    return (
      events && {
        events: events.filter((event) => event.matches(this.#options.filter)),
        scannedTo: events.at(-1)?.position ?? this.position,
      }
    );
  }

  /** @throws CURSOR_EXPIRED when events after the position were pruned */
  async #readStorage(): Promise<Batch> {
    const { accountId, filter } = this.#options;
    const { storage } = this.#sources;
    const { events: log } = storage.read;
    await scheduler.step(accountId);
    const epoch = await log.epoch();
    const { events, scannedTo } = await log.after(accountId, this.position, { filter, limit: this.#readSize, span });
    const { first } = await log.bounds(accountId);
    if (first - 1 > this.position) throw cursorExpired(eventCursor(epoch, first - 1));
    const batch = firstBatch(events.map((event) => new LogEvent(accountId, epoch, event)));
    this.#readSize = batch.length < events.length ? batch.length : Math.min(2 * this.#readSize, batchSize);
    return {
      events: batch,
      scannedTo: batch.length < events.length ? (batch.at(-1)?.position ?? scannedTo) : scannedTo,
    };
  }
}
