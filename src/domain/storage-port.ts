import type { Account, AccountTotals } from './accounts.ts';
import type { ApiKey } from './api-keys.ts';
import type { Awaitable } from './awaitable.ts';
import type { StoredConversation } from './conversation.ts';
import type { ConversationFilter, ConversationQuery } from './conversations.ts';
import type { Attempt, DeliveryOfWebhook, StoredDelivery } from './delivery.ts';
import type { EventFilter, NewEvent, StoredEvent } from './events.ts';
import type { HappeningSums, Happenings, QuarterRange } from './happenings.ts';
import type { KeptResult } from './idempotency.ts';
import type { Lead } from './leads.ts';
import type { Message, MessageRange } from './messages.ts';
import type { NewestFirstReads, PageQuery, Slice } from './paging.ts';
import type { RateWindow } from './rate-window.ts';
import type { ClockReading } from './steady-clock.ts';
import type { StoredWebhook } from './webhook.ts';

/**
 * Where everything is kept.
 *
 * Reading sees only what was committed. Writing is a work that gets a transaction: all of what it
 * does is durable when the promise resolves, or none of it happened.
 */
export interface Storage {
  readonly read: Reads;
  /**
   * Until that is ended, reads need show no more than what is committed now, which makes them cheaper. So it is for
   * those only who have come before, and for no longer than the event loop does not turn.
   * @returns ends it
   */
  holdReads(): () => void;
  /** A number that stays the same until the next commit, whoever makes it: what was read since is as it was. */
  state(): Awaitable<number>;
  /**
   * Runs a work in a transaction.
   *
   * The work must await nothing but its `tx`, and must be safe to repeat: it may be run again when
   * the transaction was lost through no fault of its own.
   * @throws UNAVAILABLE when the storage is busy, full or closing
   * @throws what the work throws, after undoing what it did
   */
  write<T>(work: (tx: Transaction) => Promise<T>): Promise<T>;
  /**
   * Tells a listener of commits that may have appended events or erased them, made deliveries due or ended
   * credentials, of this process or of another. It is a hint: what happened is to be read.
   * @param listener is given what the commit has touched, or nothing where that is not known
   * @returns stops telling it
   */
  watch(listener: (touched?: Touched) => void): () => void;
  /**
   * Reads something, each time anew.
   * @throws UNAVAILABLE when nothing can be read
   */
  check(): Awaitable<void>;
  /** How many works wait for their transaction. */
  readonly waitingWrites: number;
  /** How long they will take, by how long works took of late; what another process holds up is not foreseen. */
  readonly writeBacklogMs: number;
  /** Finishes the writes that wait, then lets go of the files. */
  close(): Promise<void>;
}

/** What a commit of this process has touched. */
export interface Touched {
  /** The accounts whose logs have grown. */
  readonly accountIds: ReadonlySet<string>;
  /** The webhooks that have a delivery that may be due. */
  readonly webhookIds: ReadonlySet<string>;
}

export interface Reads {
  readonly accounts: AccountReads;
  readonly apiKeys: ApiKeyReads;
  readonly conversations: ConversationReads;
  readonly messages: MessageReads;
  readonly events: EventReads;
  readonly leads: LeadReads;
  readonly webhooks: WebhookReads;
  readonly deliveries: DeliveryReads;
  readonly keptResults: KeptResultReads;
  readonly analytics: AnalyticsReads;
  readonly rateWindows: RateWindowReads;
}

export interface Transaction {
  readonly accounts: AccountReads & AccountWrites;
  readonly apiKeys: ApiKeyReads & ApiKeyWrites;
  readonly conversations: ConversationReads & ConversationWrites;
  readonly messages: MessageReads & MessageWrites;
  readonly events: EventReads & EventWrites;
  readonly leads: LeadReads & LeadWrites;
  readonly webhooks: WebhookReads & WebhookWrites;
  readonly deliveries: DeliveryReads & DeliveryWrites;
  readonly keptResults: KeptResultReads & KeptResultWrites;
  readonly analytics: AnalyticsReads & AnalyticsWrites;
  readonly rateWindows: RateWindowReads & RateWindowWrites;
}

export interface AccountReads {
  find(id: string): Awaitable<Account | undefined>;
  /** All accounts, oldest first. */
  list(): Awaitable<readonly Account[]>;
  totals(id: string): Awaitable<AccountTotals>;
}

export interface AccountWrites {
  insert(account: Account): Awaitable<void>;
  update(account: Account): Awaitable<void>;
}

/** A key that was found by its secret. */
export interface FoundApiKey {
  readonly key: ApiKey;
  readonly account: Account;
}

export interface ApiKeyReads extends NewestFirstReads<ApiKey> {
  /** The key with this secret and its account, whether it is still valid or not. */
  findBySecret(secretHash: Uint8Array): Awaitable<FoundApiKey | undefined>;
  find(accountId: string, id: string): Awaitable<ApiKey | undefined>;
  /** A number that grows with every revocation, of any account: as long as it stays, no key has ended by one. */
  revocations(): Awaitable<number>;
  /** What tokens are signed with: 256 bits that never change, the same for all who have the database open. */
  tokenKey(): Awaitable<Uint8Array>;
  /** How many were neither revoked nor have expired. */
  countLive(accountId: string, nowMs: number): Awaitable<number>;
}

export interface ApiKeyWrites {
  insert(accountId: string, key: ApiKey, secretHash: Uint8Array): Awaitable<void>;
  /** Sets `revokedAt` and `lastUsedAt` to the key's. */
  update(key: ApiKey): Awaitable<void>;
}

export interface ConversationReads {
  find(accountId: string, id: string): Awaitable<StoredConversation | undefined>;
  /** In the order of the ids; undefined where there is none. */
  findMany(accountId: string, ids: readonly string[]): Awaitable<readonly (StoredConversation | undefined)[]>;
  /** A conversation and all its messages, oldest first, as they were at one moment. */
  findWithMessages(
    accountId: string,
    id: string,
  ): Awaitable<{ conversation: StoredConversation; messages: readonly Message[] } | undefined>;
  idByExternalId(accountId: string, externalId: string): Awaitable<string | undefined>;
  page(accountId: string, query: ConversationQuery): Awaitable<Slice<StoredConversation>>;
  count(accountId: string, filter: ConversationFilter): Awaitable<number>;
  /** Conversations of any account that nobody is shown any more, and of which something is left to be erased. */
  erasing(): Awaitable<readonly { accountId: string; id: string }[]>;
}

export interface ConversationWrites {
  /**
   * Removes a conversation for good, with its messages and leads, and all that others tell of them: the data
   * of its events becomes `{"erased":true}`, and what receivers of these have answered and the results that
   * are kept of requests about it are emptied. From here on nobody is shown anything else. What is more than
   * one transaction should do is left to `eraseMore`.
   */
  erase(accountId: string, conversation: StoredConversation): Awaitable<void>;
  /**
   * Goes on with erasing a conversation, as far as one transaction should.
   * @returns whether nothing is left of it
   */
  eraseMore(accountId: string, id: string): Awaitable<boolean>;
  insert(accountId: string, conversation: StoredConversation): Awaitable<void>;
  /**
   * Replaces `previous` by `next`, and keeps the account's counters right.
   * If another writer has changed it since `previous` was read, the whole work is repeated.
   */
  update(accountId: string, previous: StoredConversation, next: StoredConversation): Awaitable<void>;
  /**
   * Notes that a lead was captured in a conversation, which changes nothing that anybody is shown of it.
   * @returns whether that is news: once for each conversation
   */
  markConverted(accountId: string, id: string): Awaitable<boolean>;
}

export interface MessageReads {
  /** In the order of the ids; undefined where there is none. */
  findMany(accountId: string, ids: readonly string[]): Awaitable<readonly (Message | undefined)[]>;
  /** For each range its messages by ascending sequence. */
  ranges(accountId: string, ranges: readonly MessageRange[]): Awaitable<readonly (readonly Message[])[]>;
}

export interface MessageWrites {
  insert(accountId: string, message: Message): Awaitable<void>;
}

export interface EventReads {
  /** Names this log: it changes when a backup is restored, so that cursors of another are known. */
  epoch(): Awaitable<string>;
  /** A number that grows with every erasure, of any account: as long as it stays, no event has lost its data. */
  erasures(): Awaitable<number>;
  /** The first and the last sequence that the log holds; `first` is one above `last` when it is empty. */
  bounds(accountId: string): Awaitable<{ first: number; last: number }>;
  /** The last sequence of each of these accounts' logs, in their order. */
  lastSequences(accountIds: readonly string[]): Awaitable<readonly number[]>;
  /**
   * Events after a sequence, by ascending sequence.
   * @param span how many sequences to look through at most, whatever the filter leaves of them
   * @returns the events, and the last sequence that was looked at
   */
  after(
    accountId: string,
    sequence: number,
    options: { filter: EventFilter; limit: number; span: number },
  ): Awaitable<{ events: readonly StoredEvent[]; scannedTo: number }>;
}

export interface EventWrites {
  /**
   * Appends to the account's log with the sequence numbers that come next.
   * @returns the last sequence of the log
   */
  append(accountId: string, events: readonly NewEvent[]): Awaitable<number>;
  /**
   * Removes the oldest events, of any account, that happened before a time.
   * @returns how many were removed; fewer than `limit` when there are no more
   */
  prune(beforeMs: number, limit: number): Awaitable<number>;
}

export interface LeadReads extends NewestFirstReads<Lead> {
  find(accountId: string, id: string): Awaitable<Lead | undefined>;
  /** In the order of the ids; undefined where there is none. */
  findMany(accountId: string, ids: readonly string[]): Awaitable<readonly (Lead | undefined)[]>;
}

export interface LeadWrites {
  insert(accountId: string, lead: Lead): Awaitable<void>;
}

export interface WebhookReads extends NewestFirstReads<StoredWebhook> {
  find(accountId: string, id: string): Awaitable<StoredWebhook | undefined>;
  /** In the order of the ids; undefined where there is none. */
  findMany(accountId: string, ids: readonly string[]): Awaitable<readonly (StoredWebhook | undefined)[]>;
  /** What is wanted by those of an account that are not disabled. */
  enabled(accountId: string): Awaitable<readonly Pick<StoredWebhook, 'id' | 'events'>[]>;
}

export interface WebhookWrites {
  insert(accountId: string, webhook: StoredWebhook): Awaitable<void>;
  /** Replaces what can change of it. */
  update(accountId: string, webhook: StoredWebhook): Awaitable<void>;
  /** From here on there is no such webhook. Its deliveries go by and by, with pruning. */
  remove(accountId: string, id: string): Awaitable<void>;
}

/** The attempts `from` to `to` of a delivery, both included, counted from 1. */
export interface AttemptRange {
  readonly deliveryId: string;
  readonly from: number;
  readonly to: number;
}

export interface DeliveryReads {
  find(accountId: string, id: string): Awaitable<DeliveryOfWebhook | undefined>;
  /** In the order of the ids; undefined where there is none. */
  findMany(accountId: string, ids: readonly string[]): Awaitable<readonly (DeliveryOfWebhook | undefined)[]>;
  /** Newest first. */
  page(accountId: string, webhookId: string, query: PageQuery): Awaitable<Slice<DeliveryOfWebhook>>;
  count(accountId: string, webhookId: string): Awaitable<number>;
  /** For each range its attempts in their order. */
  attempts(accountId: string, ranges: readonly AttemptRange[]): Awaitable<readonly (readonly Attempt[])[]>;
  /** Those that have failed for good, by ascending id. It costs by the limit alone, however many there are. */
  failed(
    accountId: string,
    webhookId: string,
    range: { fromId: string; limit: number },
  ): Awaitable<readonly StoredDelivery[]>;
  /** For each enabled webhook of any account with something pending, when the first of it may be claimed. */
  due(nowMs: number): Awaitable<readonly { webhookId: string; dueAtMs: number }[]>;
  /**
   * How much is to be sent to enabled webhooks, of all accounts.
   * @param countedTo further is not counted, so that the cost has a bound
   */
  backlog(nowMs: number, countedTo: number): Awaitable<DeliveryBacklog>;
}

export interface DeliveryBacklog {
  /** How many are not done. */
  readonly pending: number;
  /** How many of these may be claimed. */
  readonly due: number;
  /** Since when the first of those may be claimed. */
  readonly oldestDueAtMs: number | undefined;
  /** Further was not counted. */
  readonly countedTo: number;
}

/** A delivery at the end of an attempt, with what that changes. */
export interface ReleasedDelivery {
  readonly delivery: StoredDelivery;
  readonly accountId: string;
  readonly webhook: StoredWebhook;
}

/** A delivery that was claimed for an attempt, with all that the attempt needs. */
export interface ClaimedDelivery extends ReleasedDelivery {
  /** The event of the log; null for a sample, and when the log does not have it any more. */
  readonly event: StoredEvent | null;
}

/** How many deliveries are asked for of a webhook, at most. */
export interface WantedDeliveries {
  readonly webhookId: string;
  readonly limit: number;
}

/** For how long what is claimed is nobody else's: `longestLeaseMs` at most. */
export interface DeliveryLease {
  /** Whose it is. */
  readonly id: string;
  readonly nowMs: number;
  readonly endsMs: number;
}

/** What was claimed of one webhook. */
export interface Claim {
  /** What was taken. Those of one event have the same object of it. */
  readonly claimed: readonly ClaimedDelivery[];
  /** When the next is due of what nobody has taken, if there is more. */
  readonly nextDueAtMs: number | undefined;
}

export interface DeliveryWrites {
  insert(delivery: StoredDelivery): Awaitable<void>;
  update(delivery: StoredDelivery): Awaitable<void>;
  /**
   * Takes what is due of enabled webhooks, the longest due first. Nobody else is given it before the lease ends,
   * unless the clock is set back so far that it would hold for more than `longestLeaseMs` from then on.
   * @param wanted names each webhook once
   * @returns what was taken of each, in their order
   */
  claim(wanted: readonly WantedDeliveries[], lease: DeliveryLease): Awaitable<readonly Claim[]>;
  /**
   * Ends claims.
   * @returns the deliveries and their webhooks as they are now, in the order of the ids; undefined if one of them was
   * removed, or if the delivery is not taken by this lease any more
   */
  release(lease: string, ids: readonly string[]): Awaitable<readonly (ReleasedDelivery | undefined)[]>;
  /** Adds an attempt to a delivery, as the number that it has in it, counted from 1. */
  insertAttempt(deliveryId: string, number: number, attempt: Attempt): Awaitable<void>;
  /**
   * Removes the oldest deliveries made before a time, and those of webhooks that were removed.
   * @returns how many were removed; fewer than `limit` when there are no more
   */
  prune(beforeMs: number, limit: number): Awaitable<number>;
}

/** Results of requests under the idempotency keys that the callers have given them. */
export interface KeptResultReads {
  find(accountId: string, key: string): Awaitable<KeptResult | undefined>;
}

export interface KeptResultWrites {
  /** Keeps a result in place of any that the key had before. */
  put(accountId: string, key: string, kept: KeptResult): Awaitable<void>;
  /**
   * Removes the oldest that were kept before a time, of any account.
   * @returns how many were removed; fewer than `limit` when there are no more
   */
  prune(beforeMs: number, limit: number): Awaitable<number>;
}

export interface AnalyticsReads {
  /**
   * What happened in each of these ranges, as it was at one moment. It costs by the length of the ranges,
   * not by how much happened.
   */
  sums(accountId: string, ranges: readonly QuarterRange[]): Awaitable<readonly HappeningSums[]>;
}

export interface AnalyticsWrites {
  /** Adds to what happened in a quarter hour, which may be any. */
  add(accountId: string, quarter: number, happenings: Happenings): Awaitable<void>;
}

export interface RateWindowReads {
  /** The limiter's clock as it was read last; undefined before the first request is counted. */
  clock(): Awaitable<ClockReading | undefined>;
  /** Those from this minute on, by ascending minute, without empty ones. */
  since(accountId: string, minute: number): Awaitable<readonly RateWindow[]>;
}

export interface RateWindowWrites {
  setClock(reading: ClockReading): Awaitable<void>;
  /**
   * Adds to the count of a minute; a negative number gives back.
   * @returns what it is now
   */
  add(accountId: string, minute: number, count: number): Awaitable<RateWindow>;
  /** Forgets the minutes before this one. */
  prune(accountId: string, minute: number): Awaitable<void>;
}
