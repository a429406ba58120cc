import type { LogPosition } from '../domain/event-cursor.ts';
import type { EventFilter } from '../domain/events.ts';
import type { EventFollower, LiveEvents } from '../domain/ports.ts';
import type { Storage } from '../domain/storage-port.ts';
import { HeldMemory } from '../runtime/held-memory.ts';
import { Follower, type Sources } from './follower.ts';
import { Tail, TailBudget, type Wakeable } from './tail.ts';

/**
 * What followers may hold of what they have read from the storage, in bytes: an account can have a hundred thousand, each
 * with a batch that waits for its turn or for its client.
 */
const heldBytes = { ofOne: 16 * 1024 * 1024, ofAll: 64 * 1024 * 1024 };

/**
 * The live readers of the log. Replay and live reading are the same: a follower pulls from the log by sequence. A commit
 * only wakes it, so a lost or repeated wake-up loses nothing.
 *
 * An account's newest events are read once for all its followers and cached as far as memory allows; a follower that
 * lags behind them reads from the storage itself. Either way it holds no more than a position and one batch.
 */
export class LiveLog implements LiveEvents {
  readonly #storage: Storage;
  readonly #onError: (error: unknown) => void;
  readonly #tails = new Map<string, Tail>();
  readonly #budget = new TailBudget();
  /** What all followers share: there may be ten thousand, each of which waits most of the time. */
  readonly #sources: Sources;
  #erasures = -1;
  #stopWatching: (() => void) | undefined;

  /** @param onError called when followers have to wait because the log cannot be read: once for each account, until it can */
  constructor(storage: Storage, onError: (error: unknown) => void = () => {}) {
    this.#storage = storage;
    this.#onError = onError;
    this.#sources = {
      storage,
      held: new HeldMemory(heldBytes),
      join: (accountId, epoch, follower) => this.#join(accountId, epoch, follower),
      leave: (tail, follower) => this.#leave(tail, follower),
      clearErased: () => this.#clearErased(),
    };
  }

  /** The number of followers, of all accounts. */
  get followers(): number {
    return [...this.#tails.values()].reduce((sum, tail) => sum + tail.followers, 0);
  }

  follow(accountId: string, after: LogPosition, filter: EventFilter): EventFollower {
    return new Follower(this.#sources, { accountId, after, filter });
  }

  #join(accountId: string, epoch: string, follower: Wakeable): Tail {
    // Watching begins before the first read, so that no commit is missed in between.
    this.#stopWatching ??= this.#storage.watch((touched) => this.#wake(touched?.accountIds));
    const before = this.#tails.get(accountId);
    const tail = before?.epoch === epoch && !before.isOver ? before : this.#newTail(accountId, epoch);
    if (before !== tail) before?.end();
    this.#tails.set(accountId, tail);
    tail.add(follower);
    return tail;
  }

  #leave(tail: Tail, follower: Wakeable): void {
    if (!tail.remove(follower) || tail.followers > 0) return;
    tail.clear();
    if (this.#tails.get(tail.accountId) === tail) this.#tails.delete(tail.accountId);
    if (this.#tails.size > 0) return;
    this.#stopWatching?.();
    this.#stopWatching = undefined;
  }

  #newTail(accountId: string, epoch: string): Tail {
    return new Tail(this.#storage, { accountId, epoch, budget: this.#budget, onError: this.#onError });
  }

  #wake(accountIds: ReadonlySet<string> | undefined): void {
    if (accountIds === undefined) void this.#refreshAll();
    else for (const accountId of accountIds) this.#tails.get(accountId)?.refresh();
  }

  /**
   * After a commit of another process or an erasure: a single statement tells which logs have grown.
   * Never rejects.
   */
  async #refreshAll(): Promise<void> {
    const tails = [...this.#tails];
    try {
      await this.#clearErasedOf(tails);
      const { events: log } = this.#storage.read;
      const last = await log.lastSequences(tails.map(([accountId]) => accountId));
      const epoch = await log.epoch();
      for (const [index, [, tail]] of tails.entries()) {
        if ((last[index] ?? 0) > tail.last || tail.epoch !== epoch) tail.refresh();
      }
    } catch {
      // There may have been an erasure, so nothing stays cached; each tail retries until it can be read.
      for (const [, tail] of tails) {
        tail.clear();
        tail.refresh();
      }
    }
  }

  /** Clears caches that may hold events whose data was erased from the storage. */
  async #clearErased(): Promise<void> {
    const erasures = await this.#storage.read.events.erasures();
    if (erasures === this.#erasures) return;
    // Those that joined meanwhile as well: once the number is known, nobody else would clear them.
    for (const tail of this.#tails.values()) tail.clear();
    this.#erasures = erasures;
  }

  /** The same, and nothing is taken from these until it is known: that may take longer than the answer to a deletion. */
  async #clearErasedOf(tails: readonly [string, Tail][]): Promise<void> {
    for (const [, tail] of tails) tail.doubts++;
    try {
      await this.#clearErased();
    } finally {
      for (const [, tail] of tails) tail.doubts--;
    }
  }
}
