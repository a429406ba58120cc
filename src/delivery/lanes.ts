import { DueQueue } from './due-queue.ts';

/** The most attempts in flight, of all webhooks. */
const maxInFlight = 384;
/** Reserved of these for webhooks with nothing in flight, so that slow receivers cannot take all. */
const reserved = 64;
/** The most attempts in flight of one webhook, which its window reaches after successes. */
const maxWindow = 40;
/** The window of a webhook without recent attempts. */
const initialWindow = 4;

/** The state of one webhook with pending deliveries. */
interface Lane {
  readonly webhookId: string;
  /** When its next delivery may be claimed: 0 once it is due, infinite if none is known. */
  dueAtMs: number;
  heapIndex: number;
  /** Its attempts in flight, and those granted by a turn and not claimed yet. */
  inFlight: number;
  /**
   * How many attempts may be in flight. It doubles with each success and drops to one with a failure, so that
   * receivers that hang take little of the common limit.
   */
  window: number;
}

/** Permission to claim deliveries of one webhook. */
export interface Turn {
  readonly lane: Lane;
  /** How many may be claimed. */
  readonly limit: number;
}

/**
 * Shares the attempts in flight fairly among webhooks. A lane is in one of three collections: due with nothing in flight,
 * due with room for more, or waiting until it is due. A lane whose window is full, or nearly so, is in none of them until
 * attempts end. The cost of a step hardly grows with the number of webhooks that wait.
 */
export class Lanes {
  readonly #lanes = new Map<string, Lane>();
  /** Both in the order of their turns. */
  readonly #idle = new Set<Lane>();
  readonly #busy = new Set<Lane>();
  readonly #waiting = new DueQueue<Lane>();
  #inFlight = 0;

  /** The number of webhooks that are known to have pending deliveries. */
  get size(): number {
    return this.#lanes.size;
  }

  /** When the first waiting lane is due; infinite if none waits. */
  get firstMs(): number {
    return this.#waiting.firstMs;
  }

  /** Notes that a delivery of a webhook may be claimed from `dueAtMs` on. */
  plan(webhookId: string, dueAtMs: number): void {
    let lane = this.#lanes.get(webhookId);
    if (lane === undefined) {
      lane = { webhookId, dueAtMs, heapIndex: -1, inFlight: 0, window: initialWindow };
      this.#lanes.set(webhookId, lane);
    }
    lane.dueAtMs = Math.min(lane.dueAtMs, dueAtMs);
    this.#place(lane);
  }

  /** The lanes whose turn it is, with equal shares. What is granted counts as in flight until `claimed`. */
  take(nowMs: number): Turn[] {
    for (let lane = this.#waiting.take(nowMs); lane !== undefined; lane = this.#waiting.take(nowMs)) {
      lane.dueAtMs = 0;
      this.#place(lane);
    }
    const waiting = this.#idle.size + this.#busy.size;
    const share = Math.max(1, Math.floor((maxInFlight - reserved - this.#inFlight) / Math.max(1, waiting)));
    return [
      ...this.#takeFrom(this.#idle, maxInFlight, share),
      ...this.#takeFrom(this.#busy, maxInFlight - reserved, share),
    ];
  }

  /**
   * Completes a turn.
   * @param count how many attempts were started
   * @param dueAtMs when the next delivery of the lane may be claimed; infinite if there is none
   */
  claimed({ lane, limit }: Turn, count: number, dueAtMs = Number.POSITIVE_INFINITY): void {
    lane.dueAtMs = Math.min(lane.dueAtMs, dueAtMs);
    this.#leave(lane, limit - count);
  }

  /** Notes the end of an attempt. @param succeeded undefined if the attempt says nothing about the receiver */
  ended({ lane }: Turn, succeeded: boolean | undefined): void {
    if (succeeded !== undefined) lane.window = succeeded ? Math.min(2 * lane.window, maxWindow) : 1;
    this.#leave(lane, 1);
  }

  *#takeFrom(lanes: Set<Lane>, places: number, share: number): Iterable<Turn> {
    for (const lane of lanes) {
      const limit = Math.min(share, lane.window - lane.inFlight, places - this.#inFlight);
      if (limit <= 0) return;
      lanes.delete(lane);
      lane.dueAtMs = Number.POSITIVE_INFINITY; // only `plan` and `claimed` make it due again
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

  /** Puts a lane into the collection that it belongs to. */
  #place(lane: Lane): void {
    // Claiming one costs nearly as much as claiming many, so a quarter of the window has to be free.
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
