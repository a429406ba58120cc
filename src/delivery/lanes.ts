import { DueQueue } from './due-queue.ts';

/** Attempts in flight, of all webhooks. */
const maxInFlight = 256;
/** The last of these places are for webhooks that have nothing in flight: however slow others are, there is room. */
const firstPlaces = 64;
/** Attempts in flight of one webhook, once it has shown that it can take them. */
const maxWindow = 32;
/** And before it has shown anything. */
const firstWindow = 4;

/** What is known of one webhook that has something pending. */
interface Lane {
  readonly webhookId: string;
  /** When something of it may be claimed; infinite when nothing is known of. */
  dueAtMs: number;
  heapIndex: number;
  /** Its attempts that are going on, and those that a turn has given it and that are not claimed yet. */
  inFlight: number;
  /**
   * How many attempts may be in flight: it doubles with each success and falls to one with a failure, so
   * that receivers which hang do not use up what there is for all.
   */
  window: number;
}

/** A webhook's turn to have something claimed. */
export interface Turn {
  readonly lane: Lane;
  /** How many it may have. */
  readonly limit: number;
}

/**
 * Whose turn it is. A lane is in one of three places: due and with nothing in flight, due and with room for more,
 * or waiting for its time. One whose window is full, or nearly so, is in none, until attempts have ended. So whatever happens
 * costs the same, however many webhooks wait.
 */
export class Lanes {
  readonly #lanes = new Map<string, Lane>();
  /** Both in the order in which they have their turn. */
  readonly #idle = new Set<Lane>();
  readonly #busy = new Set<Lane>();
  readonly #waiting = new DueQueue<Lane>();
  #inFlight = 0;

  /** How many webhooks are known to have something pending. */
  get size(): number {
    return this.#lanes.size;
  }

  /** When the first of what waits for its time is due; infinite when nothing does. */
  get firstMs(): number {
    return this.#waiting.firstMs;
  }

  /** Something of a webhook may be claimed at a time, or has been since then. */
  plan(webhookId: string, dueAtMs: number): void {
    let lane = this.#lanes.get(webhookId);
    if (lane === undefined) {
      lane = { webhookId, dueAtMs, heapIndex: -1, inFlight: 0, window: firstWindow };
      this.#lanes.set(webhookId, lane);
    }
    lane.dueAtMs = Math.min(lane.dueAtMs, dueAtMs);
    this.#place(lane);
  }

  /** Whose turn it is now: each gets one before any gets more. What they may have is kept for them until `claimed`. */
  take(nowMs: number): Turn[] {
    for (let lane = this.#waiting.take(nowMs); lane !== undefined; lane = this.#waiting.take(nowMs)) {
      lane.dueAtMs = 0;
      this.#place(lane);
    }
    const waiting = this.#idle.size + this.#busy.size;
    const share = Math.max(1, Math.floor((maxInFlight - firstPlaces - this.#inFlight) / Math.max(1, waiting)));
    return [
      ...this.#takeFrom(this.#idle, maxInFlight, share),
      ...this.#takeFrom(this.#busy, maxInFlight - firstPlaces, share),
    ];
  }

  /**
   * What came of a turn.
   * @param count how many attempts were begun
   * @param dueAtMs when more of it may be claimed; infinite when there is nothing
   */
  claimed({ lane, limit }: Turn, count: number, dueAtMs = Number.POSITIVE_INFINITY): void {
    lane.dueAtMs = Math.min(lane.dueAtMs, dueAtMs);
    this.#leave(lane, limit - count);
  }

  /** An attempt has ended. @param succeeded undefined when that says nothing of the receiver */
  ended({ lane }: Turn, succeeded: boolean | undefined): void {
    if (succeeded !== undefined) lane.window = succeeded ? Math.min(2 * lane.window, maxWindow) : 1;
    this.#leave(lane, 1);
  }

  *#takeFrom(lanes: Set<Lane>, places: number, share: number): Iterable<Turn> {
    // Those that are put back meanwhile come to the other set, or to none.
    for (const lane of lanes) {
      const limit = Math.min(share, lane.window - lane.inFlight, places - this.#inFlight);
      if (limit <= 0) return;
      lanes.delete(lane);
      lane.dueAtMs = Number.POSITIVE_INFINITY; // whatever lowers it from here on is news
      lane.inFlight += limit;
      this.#inFlight += limit;
      yield { lane, limit };
    }
  }

  #leave(lane: Lane, count: number): void {
    lane.inFlight -= count;
    this.#inFlight -= count;
    this.#place(lane);
  }

  /** Puts a lane where it belongs by now. */
  #place(lane: Lane): void {
    // Claiming one costs nearly as much as claiming many: of a wide window a quarter has to be free.
    const full = lane.window - lane.inFlight < Math.max(1, lane.window / 4);
    const due = lane.dueAtMs === 0;
    if (due && !full && lane.inFlight === 0) this.#idle.add(lane);
    else this.#idle.delete(lane);
    if (due && !full && lane.inFlight > 0) this.#busy.add(lane);
    else this.#busy.delete(lane);
    if (!due && !full && lane.dueAtMs < Number.POSITIVE_INFINITY) this.#waiting.put(lane);
    else this.#waiting.remove(lane);
    if (lane.inFlight === 0 && lane.dueAtMs === Number.POSITIVE_INFINITY) this.#lanes.delete(lane.webhookId);
  }
}
