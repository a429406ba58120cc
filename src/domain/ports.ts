import type { Account, AccountTotals } from './accounts.ts';
import type { ApiKey } from './api-keys.ts';
import type { StoredConversation } from './conversation.ts';
import type { ConversationFilter, ConversationQuery } from './conversations.ts';
import type { EventFilter, LogEvent, NewEvent, StoredEvent } from './events.ts';
import type { HappeningSums, Happenings, QuarterRange } from './happenings.ts';
import type { Ids } from './ids.ts';
import type { Lead } from './leads.ts';
import type { Message, MessageRange } from './messages.ts';
import type { NewestFirstReads, Slice } from './paging.ts';

/** A value that a storage may have at once, or later. Both are awaited. */
export type Awaitable<T> = T | Promise<T>;

/** All that the operations need of the world. `app.ts` brings it together. */
export interface World {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly secrets: Secrets;
  readonly limiter: Limiter;
  readonly liveEvents: LiveEvents;
}

export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
}

export interface Secrets {
  /** A new API key's secret: `cs_` and 256 random bits in base64url. */
  generate(): string;
  /** The SHA-256 of a secret, which is all of it that is stored. */
  hash(secret: string): Uint8Array;
}

/** How much of its hourly budget an account has left. */
export interface RateLimit {
  /** Requests in any 60 minutes. */
  readonly limit: number;
  readonly remaining: number;
  /** When `remaining` next grows, in epoch milliseconds. */
  readonly resetAtMs: number;
}

export interface Limiter {
  /** The account's budget as it stands, without spending of it. */
  peek(account: Account): Awaitable<RateLimit>;
}

/**
 * Where everything is kept.
 *
 * Reading sees only what was committed. Writing is a work that gets a transaction: all of what it
 * does is durable when the promise resolves, or none of it happened.
 */
export interface Storage {
  readonly read: Reads;
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
   * Tells a listener of commits that may have appended events or ended credentials, of this process or
   * of another. It is a hint: what happened is to be read.
   * @param listener is given the accounts whose logs have grown, or nothing where that is not known
   * @returns stops telling it
   */
  watch(listener: (accountIds?: ReadonlySet<string>) => void): () => void;
  /** Finishes the writes that wait, then lets go of the files. */
  close(): Promise<void>;
}

export interface Reads {
  readonly accounts: AccountReads;
  readonly apiKeys: ApiKeyReads;
  readonly conversations: ConversationReads;
  readonly messages: MessageReads;
  readonly events: EventReads;
  readonly leads: LeadReads;
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

export interface ApiKeyReads extends NewestFirstReads<ApiKey> {
  /** The key with this secret and its account, whether it is still valid or not. */
  findBySecret(secretHash: Uint8Array): Awaitable<{ key: ApiKey; account: Account } | undefined>;
  find(accountId: string, id: string): Awaitable<ApiKey | undefined>;
  /** A number that grows with every revocation, of any account: as long as it stays, no key has ended by one. */
  revocations(): Awaitable<number>;
  /** How many were not revoked. */
  countLive(accountId: string): Awaitable<number>;
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
}

export interface ConversationWrites {
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

/** Where an account's log is followed as it grows. */
export interface LiveEvents {
  /**
   * Follows an account's log from after a sequence, pulling: it reads no further ahead than it is asked.
   * @param signal ends it
   */
  follow(accountId: string, after: number, filter: EventFilter, signal: AbortSignal): EventFollower;
}

/** An endless sequence of batches, each of one event or more, in the log's order. */
export interface EventFollower extends AsyncIterable<readonly LogEvent[]> {
  /** The last sequence that was given or passed over: the place to resume from. */
  readonly position: number;
}

/** Requests that were counted against an account in one minute. */
export interface RateWindow {
  /** Whole minutes since the epoch. */
  readonly minute: number;
  readonly count: number;
}

export interface RateWindowReads {
  /** Those from this minute on, by ascending minute, without empty ones. */
  since(accountId: string, minute: number): Awaitable<readonly RateWindow[]>;
}

export interface RateWindowWrites {
  /** Adds to the count of a minute; a negative number gives back. */
  add(accountId: string, minute: number, count: number): Awaitable<void>;
  /** Forgets the minutes before this one. */
  prune(accountId: string, minute: number): Awaitable<void>;
}
