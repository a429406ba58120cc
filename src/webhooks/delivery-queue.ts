/** The most attempts in flight, of all webhooks. */
const maxInFlight = 384;
/** The most attempts in flight of one webhook, which its window reaches after successes. */
const maxWindow = 40;
/** The window of a webhook without recent attempts. */
const initialWindow = 4;

/** An account with pending deliveries. */
interface QueuedAccount {
  readonly id: string;
  /** How many of its webhooks are queued. */
  webhooks: number;
  /** Its attempts in flight, those of webhooks that were deleted meanwhile included. */
  inFlight: number;
  /** Its webhooks that are due, with nothing in flight or with room for more; both in the order in which they are served. */
  readonly idle: Set<QueuedWebhook>;
  readonly busy: Set<QueuedWebhook>;
}

/** A webhook with pending deliveries. */
interface QueuedWebhook {
  readonly account: QueuedAccount;
  readonly id: string;
  /** When its next delivery may be claimed: 0 once it is due, infinite if none is known. */
  dueAtMs: number;
  heapIndex: number;
  /** Its attempts in flight, and those granted and not claimed yet. */
  inFlight: number;
  /**
   * How many attempts may be in flight. It doubles with each success and drops to one with a failure, so that
   * receivers that hang take little of the common limit.
   */
  window: number;
}

/** Permission to claim deliveries of one webhook. */
export interface Grant {
  readonly webhook: QueuedWebhook;
  /** How many may be claimed. */
  readonly limit: number;
}

/**
 * The webhooks with pending deliveries, fair by account. The deliveries themselves stay in the storage until they are
 * claimed. Attempts in flight are shared among the accounts, and those of an account among its webhooks. An account may
 * have as many in flight as are still free: alone half of all, as one of n equals 1/(n + 1) of them. So whoever comes
 * next finds a place, however many attempts of others hang. The same holds for a webhook in what its account may have.
 *
 * A webhook is in one of three collections: due with nothing in flight, due with room for more, or waiting until it is
 * due. One whose window is full, or nearly so, is in none of them until attempts end. The cost of a step hardly grows
 * with the number of webhooks that wait.
 */
export class DeliveryQueue {
  readonly #webhooks = new Map<string, QueuedWebhook>();
  readonly #accounts = new Map<string, QueuedAccount>();
  /** Accounts with webhooks that are due, in the order in which they are served. */
  readonly #due = new Set<QueuedAccount>();
  readonly #waiting = new DueHeap<QueuedWebhook>();
  #free = maxInFlight;

  /** The number of webhooks that are known to have pending deliveries. */
  get size(): number {
    return this.#webhooks.size;
  }

  /** When the first waiting webhook is due; infinite if none waits. */
  get firstMs(): number {
    return this.#waiting.firstMs;
  }

  /** Notes that a delivery of a webhook may be claimed from `dueAtMs` on. */
  plan(accountId: string, webhookId: string, dueAtMs: number): void {
    const webhook = this.#webhooks.get(webhookId) ?? this.#add(accountId, webhookId);
    webhook.dueAtMs = Math.min(webhook.dueAtMs, dueAtMs);
    this.#place(webhook);
  }

  /**
   * Grants what may be claimed now, with equal shares for accounts and for webhooks of an account. What is granted counts
   * as in flight until `claimed`.
   */
  grant(nowMs: number): Grant[] {
    for (let webhook = this.#waiting.take(nowMs); webhook !== undefined; webhook = this.#waiting.take(nowMs)) {
      webhook.dueAtMs = 0;
      this.#place(webhook);
    }
    const share = Math.max(1, Math.floor(this.#free / Math.max(1, this.#due.size)));
    const grants: Grant[] = [];
    const served: QueuedAccount[] = [];
    for (const account of this.#dueAccounts()) {
      if (this.#free === 0) break;
      const before = grants.length;
      grants.push(...this.#grantTo(account, Math.min(share, Math.ceil((this.#free - account.inFlight) / 2))));
      if (grants.length > before) served.push(account);
    }
    for (const account of served) {
      this.#due.delete(account); // what it has left comes after all others
      if (isDue(account)) this.#due.add(account);
    }
    return grants;
  }

  /**
   * Completes a grant.
   * @param count how many attempts were started
   * @param dueAtMs when the next delivery of the webhook may be claimed; infinite if there is none
   */
  claimed({ webhook, limit }: Grant, count: number, dueAtMs = Number.POSITIVE_INFINITY): void {
    webhook.dueAtMs = Math.min(webhook.dueAtMs, dueAtMs);
    this.#leave(webhook, limit - count);
  }

  /** Notes the end of an attempt. @param succeeded undefined if the attempt says nothing about the receiver */
  ended({ webhook }: Grant, succeeded: boolean | undefined): void {
    if (succeeded !== undefined) webhook.window = succeeded ? Math.min(2 * webhook.window, maxWindow) : 1;
    this.#leave(webhook, 1);
  }

  /** The accounts with webhooks that are due: first those with nothing in flight. */
  *#dueAccounts(): Iterable<QueuedAccount> {
    const others: QueuedAccount[] = [];
    for (const account of this.#due) {
      if (account.inFlight === 0) yield account;
      else others.push(account);
    }
    yield* others;
  }

  /** @param places how many attempts the account may start */
  *#grantTo(account: QueuedAccount, places: number): Iterable<Grant> {
    if (places <= 0) return;
    const end = account.inFlight + places;
    const share = Math.max(1, Math.floor(places / (account.idle.size + account.busy.size)));
    for (const webhook of [...account.idle, ...account.busy]) {
      const least = webhook.inFlight === 0 ? 1 : leastOf(webhook);
      const room = Math.ceil((this.#free - account.inFlight - webhook.inFlight) / 3);
      const unused = webhook.window - webhook.inFlight;
      const limit = Math.min(Math.max(share, least), room, unused, end - account.inFlight);
      if (limit < least) continue;
      account.idle.delete(webhook);
      account.busy.delete(webhook);
      webhook.dueAtMs = Number.POSITIVE_INFINITY; // only `plan` and `claimed` make it due again
      this.#enter(webhook, limit);
      yield { webhook, limit };
    }
  }

  #add(accountId: string, webhookId: string): QueuedWebhook {
    let account = this.#accounts.get(accountId);
    if (account === undefined) {
      account = { id: accountId, webhooks: 0, inFlight: 0, idle: new Set(), busy: new Set() };
      this.#accounts.set(accountId, account);
    }
    const dueAtMs = Number.POSITIVE_INFINITY;
    const webhook = { account, id: webhookId, dueAtMs, heapIndex: -1, inFlight: 0, window: initialWindow };
    account.webhooks++;
    this.#webhooks.set(webhookId, webhook);
    return webhook;
  }

  #remove({ account, id }: QueuedWebhook): void {
    if (!this.#webhooks.delete(id)) return;
    account.webhooks--;
    if (account.webhooks === 0) this.#accounts.delete(account.id);
  }

  #enter(webhook: QueuedWebhook, count: number): void {
    webhook.inFlight += count;
    webhook.account.inFlight += count;
    this.#free -= count;
  }

  #leave(webhook: QueuedWebhook, count: number): void {
    this.#enter(webhook, -count);
    this.#place(webhook);
  }

  /** Puts a webhook into the collection that it belongs to. */
  #place(webhook: QueuedWebhook): void {
    const { account } = webhook;
    const full = webhook.window - webhook.inFlight < leastOf(webhook);
    const due = webhook.dueAtMs === 0;
    if (due && !full && webhook.inFlight === 0) account.idle.add(webhook);
    else account.idle.delete(webhook);
    if (due && !full && webhook.inFlight > 0) account.busy.add(webhook);
    else account.busy.delete(webhook);
    if (isDue(account)) this.#due.add(account);
    else this.#due.delete(account);
    if (!due && !full && webhook.dueAtMs < Number.POSITIVE_INFINITY) this.#waiting.put(webhook);
    else this.#waiting.remove(webhook);
    if (webhook.inFlight === 0 && webhook.dueAtMs === Number.POSITIVE_INFINITY) this.#remove(webhook);
  }
}

/** Claiming one costs nearly as much as claiming many, so a webhook waits until it can claim a quarter of its window. */
function leastOf({ window }: QueuedWebhook): number {
  return Math.max(1, Math.floor(window / 4));
}

function isDue({ idle, busy }: QueuedAccount): boolean {
  return idle.size + busy.size > 0;
}

/** An item of a heap. It may be in one heap at a time. */
export interface Dated {
  dueAtMs: number;
  /** Its index in the heap; -1 if it is in none. */
  heapIndex: number;
}

/** A priority queue by due time: a binary heap whose items know their index, so that any of them can be moved. */
export class DueHeap<T extends Dated> {
  readonly #heap: T[] = [];

  /** The due time of the first item; infinite if there is none. */
  get firstMs(): number {
    return this.#heap[0]?.dueAtMs ?? Number.POSITIVE_INFINITY;
  }

  /** Adds an item, or moves it after its due time has changed. */
  put(item: T): void {
    if (item.heapIndex === -1) {
      item.heapIndex = this.#heap.length;
      this.#heap.push(item);
    }
    this.#rise(item);
    this.#sink(item);
  }

  remove(item: T): void {
    if (item.heapIndex === -1) return;
    const last = this.#heap.pop();
    if (last !== undefined && last !== item) {
      this.#set(item.heapIndex, last);
      this.#rise(last);
      this.#sink(last);
    }
    item.heapIndex = -1;
  }

  /** Removes and returns the first item if it is due at `nowMs`. */
  take(nowMs: number): T | undefined {
    const [first] = this.#heap;
    if (first === undefined || first.dueAtMs > nowMs) return undefined;
    this.remove(first);
    return first;
  }

  #set(index: number, item: T): void {
    this.#heap[index] = item;
    item.heapIndex = index;
  }

  #rise(item: T): void {
    for (;;) {
      const index = item.heapIndex;
      const parent = this.#heap[(index - 1) >> 1];
      if (parent === undefined || parent.dueAtMs <= item.dueAtMs) return;
      this.#set(parent.heapIndex, item);
      this.#set(index, parent);
    }
  }

  #sink(item: T): void {
    for (;;) {
      const index = item.heapIndex;
      const [left, right] = [this.#heap[2 * index + 1], this.#heap[2 * index + 2]];
      const child = right !== undefined && left !== undefined && right.dueAtMs < left.dueAtMs ? right : left;
      if (child === undefined || child.dueAtMs >= item.dueAtMs) return;
      this.#set(child.heapIndex, item);
      this.#set(index, child);
    }
  }
}
