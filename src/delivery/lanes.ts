import { DueQueue } from './due-queue.ts';

/** The most attempts in flight, of all webhooks. */
const maxInFlight = 384;
/** The most attempts in flight of one webhook, which its window reaches after successes. */
const maxWindow = 40;
/** The window of a webhook without recent attempts. */
const initialWindow = 4;

/** An account with pending deliveries. */
interface Owner {
  readonly accountId: string;
  /** How many of its lanes there are. */
  lanes: number;
  /** Its attempts in flight, those of webhooks that were deleted meanwhile included. */
  inFlight: number;
  /** Its lanes that are due, with nothing in flight or with room for more; both in the order of their turns. */
  readonly idle: Set<Lane>;
  readonly busy: Set<Lane>;
}

/** The state of one webhook with pending deliveries. */
interface Lane {
  readonly owner: Owner;
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
 * Shares the attempts in flight fairly among accounts, and those of an account among its webhooks. An account may have
 * as many in flight as are still free: alone half of all, as one of n equals 1/(n + 1) of them. So whoever comes next
 * finds a place, however many attempts of others hang. The same holds for a webhook in what its account may have.
 *
 * A lane is in one of three collections: due with nothing in flight, due with room for more, or waiting until it is due.
 * A lane whose window is full, or nearly so, is in none of them until attempts end. The cost of a step hardly grows with
 * the number of webhooks that wait.
 */
export class Lanes {
  readonly #lanes = new Map<string, Lane>();
  readonly #owners = new Map<string, Owner>();
  /** Accounts with lanes that are due, in the order of their turns. */
  readonly #due = new Set<Owner>();
  readonly #waiting = new DueQueue<Lane>();
  #free = maxInFlight;

  /** The number of webhooks that are known to have pending deliveries. */
  get size(): number {
    return this.#lanes.size;
  }

  /** When the first waiting lane is due; infinite if none waits. */
  get firstMs(): number {
    return this.#waiting.firstMs;
  }

  /** Notes that a delivery of a webhook may be claimed from `dueAtMs` on. */
  plan(accountId: string, webhookId: string, dueAtMs: number): void {
    const lane = this.#lanes.get(webhookId) ?? this.#add(accountId, webhookId);
    lane.dueAtMs = Math.min(lane.dueAtMs, dueAtMs);
    this.#place(lane);
  }

  /**
   * The lanes whose turn it is, with equal shares for accounts and for lanes of an account. What is granted counts as in
   * flight until `claimed`.
   */
  take(nowMs: number): Turn[] {
    for (let lane = this.#waiting.take(nowMs); lane !== undefined; lane = this.#waiting.take(nowMs)) {
      lane.dueAtMs = 0;
      this.#place(lane);
    }
    const share = Math.max(1, Math.floor(this.#free / Math.max(1, this.#due.size)));
    const turns: Turn[] = [];
    const served: Owner[] = [];
    for (const owner of this.#dueOwners()) {
      if (this.#free === 0) break;
      const before = turns.length;
      turns.push(...this.#takeFrom(owner, Math.min(share, Math.ceil((this.#free - owner.inFlight) / 2))));
      if (turns.length > before) served.push(owner);
    }
    for (const owner of served) {
      this.#due.delete(owner); // what it has left comes after all others
      if (isDue(owner)) this.#due.add(owner);
    }
    return turns;
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

  /** The accounts with lanes that are due: first those with nothing in flight. */
  *#dueOwners(): Iterable<Owner> {
    const others: Owner[] = [];
    for (const owner of this.#due) {
      if (owner.inFlight === 0) yield owner;
      else others.push(owner);
    }
    yield* others;
  }

  /** @param places how many attempts the account may start */
  *#takeFrom(owner: Owner, places: number): Iterable<Turn> {
    if (places <= 0) return;
    const end = owner.inFlight + places;
    const share = Math.max(1, Math.floor(places / (owner.idle.size + owner.busy.size)));
    for (const lane of [...owner.idle, ...owner.busy]) {
      const least = lane.inFlight === 0 ? 1 : leastOf(lane);
      const room = Math.ceil((this.#free - owner.inFlight - lane.inFlight) / 3);
      const limit = Math.min(Math.max(share, least), room, lane.window - lane.inFlight, end - owner.inFlight);
      if (limit < least) continue;
      owner.idle.delete(lane);
      owner.busy.delete(lane);
      lane.dueAtMs = Number.POSITIVE_INFINITY; // only `plan` and `claimed` make it due again
      this.#enter(lane, limit);
      yield { lane, limit };
    }
  }

  #add(accountId: string, webhookId: string): Lane {
    let owner = this.#owners.get(accountId);
    if (owner === undefined) {
      owner = { accountId, lanes: 0, inFlight: 0, idle: new Set(), busy: new Set() };
      this.#owners.set(accountId, owner);
    }
    const dueAtMs = Number.POSITIVE_INFINITY;
    const lane = { owner, webhookId, dueAtMs, heapIndex: -1, inFlight: 0, window: initialWindow };
    owner.lanes++;
    this.#lanes.set(webhookId, lane);
    return lane;
  }

  #remove({ owner, webhookId }: Lane): void {
    if (!this.#lanes.delete(webhookId)) return;
    owner.lanes--;
    if (owner.lanes === 0) this.#owners.delete(owner.accountId);
  }

  #enter(lane: Lane, count: number): void {
    lane.inFlight += count;
    lane.owner.inFlight += count;
    this.#free -= count;
  }

  #leave(lane: Lane, count: number): void {
    this.#enter(lane, -count);
    this.#place(lane);
  }

  /** Puts a lane into the collection that it belongs to. */
  #place(lane: Lane): void {
    const { owner } = lane;
    const full = lane.window - lane.inFlight < leastOf(lane);
    const due = lane.dueAtMs === 0;
    if (due && !full && lane.inFlight === 0) owner.idle.add(lane);
    else owner.idle.delete(lane);
    if (due && !full && lane.inFlight > 0) owner.busy.add(lane);
    else owner.busy.delete(lane);
    if (isDue(owner)) this.#due.add(owner);
    else this.#due.delete(owner);
    if (!due && !full && lane.dueAtMs < Number.POSITIVE_INFINITY) this.#waiting.put(lane);
    else this.#waiting.remove(lane);
    if (lane.inFlight === 0 && lane.dueAtMs === Number.POSITIVE_INFINITY) this.#remove(lane);
  }
}

/** Claiming one costs nearly as much as claiming many, so a lane waits until it can claim a quarter of its window. */
function leastOf({ window }: Lane): number {
  return Math.max(1, Math.floor(window / 4));
}

function isDue({ idle, busy }: Owner): boolean {
  return idle.size + busy.size > 0;
}
