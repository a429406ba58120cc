import type { Account, AccountTotals } from './accounts.ts';
import type { AnalyticsDelta, AnalyticsSums, QuarterRange } from './analytics-delta.ts';
import type { ApiKey } from './api-keys.ts';
import type { Awaitable } from './awaitable.ts';
import type { StoredConversation } from './conversation-record.ts';
import type { ConversationFilter, ConversationQuery } from './conversations.ts';
import type { Attempt, DeliveryOfWebhook, StoredDelivery } from './delivery-record.ts';
import type { DocumentTotals, ListedDocument, StoredDocument, TrustedDocument } from './documents.ts';
import type { EventFilter, NewEvent, StoredEvent } from './events.ts';
import type { IdempotencyRecord } from './idempotency.ts';
import type { Lead, LeadFilter, LeadQuery } from './leads.ts';
import type { Message } from './message-record.ts';
import type { MessagePage, MessageRange } from './messages.ts';
import type { NewestFirstReads, PageQuery, Slice } from './paging.ts';
import type { RateWindow } from './rate-window.ts';
import type { ReadPosition, ReadPositions } from './read-position-record.ts';
import type { FoundTexts, SearchQuery } from './search.ts';
import type { SignIn } from './sign-ins.ts';
import type { ClockReading } from './steady-clock.ts';
import type { StoredWebhook } from './webhook-record.ts';

/**
 * The persistent storage.
 *
 * Reads see only committed state. A write is a function that receives a transaction: when its promise resolves, all its
 * changes are durable; when it rejects, none were made.
 */
export interface Storage {
  readonly read: Reads;
  /**
   * Runs work in a transaction.
   *
   * The work must await nothing but its `tx` and be safe to repeat: it may run again when the transaction was lost
   * through no fault of its own.
   * @param accountId for whom: writes of accounts take turns. Those of the service itself are as one account's
   * @param about what a small work is about, if it makes no difference to it whether it comes before or after works about
   *   other things: the id of its conversation, its idempotency key. It may then run at the same time as these, in one
   *   transaction
   * @throws UNAVAILABLE when the storage is busy, full or closing
   * @throws any error of the work, after rolling it back
   */
  write<T>(work: (tx: Transaction) => Promise<T>, accountId?: string, about?: readonly string[]): Promise<T>;
  /**
   * Notifies a listener of commits, by any process, that may have appended or erased events, made deliveries due or
   * ended credentials. It is only a hint: the listener has to read what changed.
   * @param listener receives what the commit touched, or nothing if that is not known
   * @returns removes the listener
   */
  watch(listener: (touched?: Touched) => void): () => void;
  /**
   * Reads something.
   * @throws UNAVAILABLE when the storage cannot be read
   */
  check(): Awaitable<void>;
  /** How many writes wait for their transaction. */
  readonly waitingWrites: number;
  /**
   * How long the next write is expected to wait for those before it, based on recent ones. Locks that others hold are not
   * foreseen.
   * @param accountId for whom it would be; without it, for all that waits
   */
  writeWaitMs(accountId?: string): number;
  /** How many rows are removed at once of what is old. */
  readonly pruneSizes: Readonly<Record<Pruned, number>>;
  /** Completes the waiting writes, then closes the files. */
  close(): Promise<void>;
}

/** What is removed when it is old. */
export type Pruned = 'deliveries' | 'events' | 'idempotencyRecords' | 'apiKeys' | 'signIns';

/** What a commit of this process touched. */
export interface Touched {
  /** Accounts whose logs have grown. */
  readonly accountIds: ReadonlySet<string>;
  /** Webhooks with a delivery that may be due, and the account of each. */
  readonly webhooks: ReadonlyMap<string, string>;
}

export interface Reads {
  readonly accounts: AccountReads;
  readonly apiKeys: ApiKeyReads;
  readonly signIns: SignInReads;
  readonly conversations: ConversationReads;
  readonly messages: MessageReads;
  readonly readPositions: ReadPositionReads;
  readonly events: EventReads;
  readonly leads: LeadReads;
  readonly webhooks: WebhookReads;
  readonly deliveries: DeliveryReads;
  readonly documents: DocumentReads;
  readonly idempotencyRecords: IdempotencyRecordReads;
  readonly analytics: AnalyticsReads;
  readonly search: SearchReads;
  readonly rateWindows: RateWindowReads;
}

export interface Transaction {
  readonly accounts: AccountReads & AccountWrites;
  readonly apiKeys: ApiKeyReads & ApiKeyWrites;
  readonly signIns: SignInReads & SignInWrites;
  readonly conversations: ConversationReads & ConversationWrites;
  readonly messages: MessageReads & MessageWrites;
  readonly readPositions: ReadPositionReads & ReadPositionWrites;
  readonly events: EventReads & EventWrites;
  readonly leads: LeadReads & LeadWrites;
  readonly webhooks: WebhookReads & WebhookWrites;
  readonly deliveries: DeliveryReads & DeliveryWrites;
  readonly documents: DocumentReads & DocumentWrites;
  readonly idempotencyRecords: IdempotencyRecordReads & IdempotencyRecordWrites;
  readonly analytics: AnalyticsWrites;
  readonly search: SearchWrites;
  readonly rateWindows: RateWindowReads & RateWindowWrites;
}

export interface AccountReads {
  find(id: string): Awaitable<Account | undefined>;
  /** All accounts, oldest first. */
  list(): Awaitable<readonly Account[]>;
  totals(id: string): Awaitable<AccountTotals>;
  /** The origins whose pages may call with tokens of the account, sorted. */
  origins(id: string): Awaitable<readonly string[]>;
  /** Whether pages of this origin may call with tokens of the account, or of any account if none is given. */
  hasOrigin(origin: string, id?: string): Awaitable<boolean>;
}

export interface AccountWrites {
  insert(account: Account): Awaitable<void>;
  /** Whether there is no account yet. If so, nobody else inserts one before the transaction ends. */
  areNone(): Awaitable<boolean>;
  update(account: Account): Awaitable<void>;
  /** Replaces the origins whose pages may call with tokens of the account. */
  setOrigins(id: string, origins: readonly string[]): Awaitable<void>;
}

/** An API key found by its secret. */
export interface FoundApiKey {
  readonly key: ApiKey;
  readonly account: Account;
}

export interface ApiKeyReads extends NewestFirstReads<ApiKey> {
  /** The key with this secret and its account, whether it is still valid or not. */
  findBySecret(secretHash: Uint8Array): Awaitable<FoundApiKey | undefined>;
  find(accountId: string, id: string): Awaitable<ApiKey | undefined>;
  /** In the order of the ids; undefined for unknown ones. */
  findMany(accountId: string, ids: readonly string[]): Awaitable<readonly (ApiKey | undefined)[]>;
  /** Like `find`, with the account. */
  findWithAccount(accountId: string, id: string): Awaitable<FoundApiKey | undefined>;
  /** A number that grows with every revocation in any account: while it is unchanged, no key was revoked. */
  revocations(): Awaitable<number>;
  /** The key that signs tokens: 256 bits that never change, shared by all processes on the database. */
  tokenKey(): Awaitable<Uint8Array>;
  /** Number of keys that are neither revoked nor expired. The cost depends on it only, not on how many have ended. */
  countLive(accountId: string, nowMs: number): Awaitable<number>;
}

export interface ApiKeyWrites {
  insert(accountId: string, key: ApiKey, secretHash: Uint8Array): Awaitable<void>;
  /** Stores `lastUsedAt`, and `revokedAt` if the key is not revoked yet: no revocation is undone by who has not seen it. */
  update(key: ApiKey): Awaitable<void>;
  /**
   * Removes keys of an account that were revoked or have expired, all but the `kept` that did so last; `limit` of them
   * at most. The cost depends on these two numbers only.
   */
  removeEnded(accountId: string, nowMs: number, options: { kept: number; limit: number }): Awaitable<void>;
  /**
   * Removes the keys of any account that expired first, before a time, and were not revoked.
   * @returns the number removed; none when none are left but those that others are removing
   */
  prune(beforeMs: number, limit: number): Awaitable<number>;
}

export interface SignInReads {
  /** What a secret stands for, whether it has expired or not. */
  find(secretHash: Uint8Array): Awaitable<SignIn | undefined>;
}

export interface SignInWrites {
  insert(signIn: SignIn, secretHash: Uint8Array): Awaitable<void>;
  remove(secretHash: Uint8Array): Awaitable<void>;
  /** Removes all of a key but the `kept` that expire last. */
  removeOldest(accountId: string, keyId: string, kept: number): Awaitable<void>;
  /**
   * Removes those that expired first, before a time.
   * @returns the number removed; none when none are left but those that others are removing
   */
  prune(beforeMs: number, limit: number): Awaitable<number>;
}

// Where each question is a way to the database and back, a storage may read along what will be asked for next. It is of the
// same state.

interface ConversationSlice extends Slice<StoredConversation> {
  readonly readPositions?: readonly ReadPositions[];
}

export interface OpenedConversation {
  readonly conversation: StoredConversation;
  readonly readPositions?: ReadPositions;
  /** The newest messages. */
  readonly messages?: readonly Message[];
}

/** How many of a conversation's newest messages will be asked for, and where that is too much to be read along. */
export interface NewestMessages {
  readonly count: number;
  /** Of the messages asked for. */
  readonly maxCount: number;
  /** Of all that the conversation holds. */
  readonly maxBytes: number;
}

export interface ConversationReads {
  find(accountId: string, id: string): Awaitable<StoredConversation | undefined>;
  /** Like `find`, for who will ask for its read positions and its newest messages. */
  open(accountId: string, id: string, newest: NewestMessages): Awaitable<OpenedConversation | undefined>;
  /** In the order of the ids; undefined for unknown ones. */
  findMany(accountId: string, ids: readonly string[]): Awaitable<readonly (StoredConversation | undefined)[]>;
  idByExternalId(accountId: string, externalId: string): Awaitable<string | undefined>;
  page(accountId: string, query: ConversationQuery): Awaitable<ConversationSlice>;
  count(accountId: string, filter: ConversationFilter): Awaitable<number>;
  /** Conversations of any account whose erasure has begun, and so are hidden, but is not complete. */
  erasing(): Awaitable<readonly { accountId: string; id: string }[]>;
}

export interface ConversationWrites {
  /**
   * Permanently removes a conversation with its messages, read positions and leads, and every trace of their content: the
   * data of its events becomes `{"erased":true}`, and the stored webhook responses to these events and idempotent results
   * about the conversation are emptied. Reads show this state from here on. What exceeds one transaction is left to
   * `eraseMore`.
   */
  erase(accountId: string, conversation: StoredConversation): Awaitable<void>;
  /**
   * Continues the erasure of a conversation, as far as one transaction should.
   * @returns whether it is complete
   */
  eraseMore(accountId: string, id: string): Awaitable<boolean>;
  insert(accountId: string, conversation: StoredConversation): Awaitable<void>;
  /**
   * Replaces `previous`, which was read in this transaction, by `next`, and updates the account's counters.
   */
  update(accountId: string, previous: StoredConversation, next: StoredConversation): Awaitable<void>;
  /**
   * Marks a conversation as having a lead. The mark is internal and not a new version.
   * @returns whether it was not marked before
   */
  markConverted(accountId: string, id: string): Awaitable<boolean>;
}

export interface MessageReads {
  /** In the order of the ids; undefined for unknown ones. */
  findMany(accountId: string, ids: readonly string[]): Awaitable<readonly (Message | undefined)[]>;
  /**
   * The messages of each range, by ascending sequence. Long ones are read in several steps, by turns with other accounts.
   * @param onRead called with the bytes that a step has read of long texts; what it throws ends the reading
   */
  ranges(
    accountId: string,
    ranges: readonly MessageRange[],
    onRead?: (bytes: number) => void,
  ): Awaitable<readonly (readonly Message[])[]>;
  /**
   * A page of a conversation's messages, by ascending sequence: those of `sequencesOf`.
   * @returns also what of the conversation says who may see it; undefined for an unknown one
   */
  page(
    accountId: string,
    conversationId: string,
    page: MessagePage,
  ): Awaitable<
    | { conversation: Pick<StoredConversation, 'id' | 'visitor' | 'messageCount'>; messages: readonly Message[] }
    | undefined
  >;
}

export interface MessageWrites {
  insert(accountId: string, message: Message): Awaitable<void>;
}

export interface ReadPositionReads {
  /** Those of each conversation, in the order of the ids; none for unknown ones. */
  ofConversations(accountId: string, ids: readonly string[]): Awaitable<readonly ReadPositions[]>;
}

export interface ReadPositionWrites {
  /**
   * Moves a reader's position in a conversation forward, or makes it; one that is there and as far stays as it is. Beyond
   * `maxReadPositions`, the one that has not moved for longest is removed.
   * @param conversation its state in this transaction
   * @returns the position afterwards
   */
  move(
    accountId: string,
    conversation: StoredConversation,
    position: ReadPosition,
  ): Awaitable<{ position: ReadPosition; hasMoved: boolean }>;
  /** The same to the conversation's last message, for who has just written it: nothing is known of it before it is there. */
  moveToEnd(accountId: string, conversation: StoredConversation, reader: string, readAt: string): Awaitable<void>;
}

/** What a scan of an account's log has found, and the bounds of the log in the same state. */
export interface ScannedEvents {
  readonly events: readonly StoredEvent[];
  /** The last sequence scanned. */
  readonly scannedTo: number;
  /** Whether scanning ended because of `among`. */
  readonly isCut: boolean;
  /** As `EventReads.bounds` says. */
  readonly first: number;
  readonly last: number;
}

export interface EventReads {
  /** Identifies the log. It changes when a backup is restored, so that cursors from before are recognised. */
  epoch(): Awaitable<string>;
  /** A number that grows with every erasure in any account: while it is unchanged, no event lost its data. */
  erasures(): Awaitable<number>;
  /** The first and last sequence in the log; `first` is `last` + 1 when it is empty. */
  bounds(accountId: string): Awaitable<{ first: number; last: number }>;
  /** The last sequence of each of these accounts' logs, in their order. */
  lastSequences(accountIds: readonly string[]): Awaitable<readonly number[]>;
  /**
   * What an event keeps of the visitor who may read of it: the same text for the same visitor of the same account, from
   * which nobody without the key of the storage can tell who that is.
   */
  visitorHash(accountId: string, visitorId: string): Awaitable<string>;
  /**
   * Events after a sequence, by ascending sequence.
   * @param options `span` is the maximum number of sequences to scan, matching or not, from the first that the log still
   *   has; `among` that of events to look at, of any type: those of the filter's conversation if it has one, else of its
   *   visitor, else of the log
   */
  after(
    accountId: string,
    sequence: number,
    options: { filter: EventFilter; limit: number; span: number; among?: number },
  ): Awaitable<ScannedEvents>;
  /** The last event of a conversation. */
  lastOf(accountId: string, conversationId: string): Awaitable<StoredEvent | undefined>;
}

export interface EventWrites {
  /**
   * Appends to the account's log with the next sequence numbers.
   * @returns the last sequence of the log
   */
  append(accountId: string, events: readonly NewEvent[]): Awaitable<number>;
  /**
   * Removes the oldest events of any account from before a time.
   * @returns the number removed; none when none are left but those that others are removing
   */
  prune(beforeMs: number, limit: number): Awaitable<number>;
}

export interface LeadReads {
  page(accountId: string, query: LeadQuery): Awaitable<Slice<Lead>>;
  count(accountId: string, filter: LeadFilter): Awaitable<number>;
  find(accountId: string, id: string): Awaitable<Lead | undefined>;
  /** In the order of the ids; undefined for unknown ones. */
  findMany(accountId: string, ids: readonly string[]): Awaitable<readonly (Lead | undefined)[]>;
}

export interface LeadWrites {
  insert(accountId: string, lead: Lead): Awaitable<void>;
}

export interface WebhookReads extends NewestFirstReads<StoredWebhook> {
  find(accountId: string, id: string): Awaitable<StoredWebhook | undefined>;
  /** In the order of the ids; undefined for unknown ones. */
  findMany(accountId: string, ids: readonly string[]): Awaitable<readonly (StoredWebhook | undefined)[]>;
  /** The account's enabled webhooks with their event types. */
  enabled(accountId: string): Awaitable<readonly Pick<StoredWebhook, 'id' | 'events'>[]>;
}

export interface WebhookWrites {
  insert(accountId: string, webhook: StoredWebhook): Awaitable<void>;
  /** Stores its mutable fields. */
  update(accountId: string, webhook: StoredWebhook): Awaitable<void>;
  /** Removes a webhook. Its deliveries are removed later, by pruning. */
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
  /** In the order of the ids; undefined for unknown ones. */
  findMany(accountId: string, ids: readonly string[]): Awaitable<readonly (DeliveryOfWebhook | undefined)[]>;
  /** Newest first. */
  page(accountId: string, webhookId: string, query: PageQuery): Awaitable<Slice<DeliveryOfWebhook>>;
  count(accountId: string, webhookId: string): Awaitable<number>;
  /** The attempts of each range, oldest first. `onRead` is that of `MessageReads.ranges`. */
  attempts(
    accountId: string,
    ranges: readonly AttemptRange[],
    onRead?: (bytes: number) => void,
  ): Awaitable<readonly (readonly Attempt[])[]>;
  /** Deliveries that finally failed, by ascending id. The cost depends on the limit only. */
  failed(
    accountId: string,
    webhookId: string,
    range: { fromId: string; limit: number },
  ): Awaitable<readonly StoredDelivery[]>;
  /** For each enabled webhook of any account with pending deliveries, when the first can be claimed. */
  due(nowMs: number): Awaitable<readonly { accountId: string; webhookId: string; dueAtMs: number }[]>;
  /**
   * The backlog of enabled webhooks of all accounts.
   * @param countedTo counting stops here, to bound the cost
   */
  backlog(nowMs: number, countedTo: number): Awaitable<DeliveryBacklog>;
  /** Whether any account has deliveries created before a time, if only such as a process is removing at the moment. */
  hasBefore(beforeMs: number): Awaitable<boolean>;
}

export interface DeliveryBacklog {
  /** Deliveries not completed. */
  readonly pending: number;
  /** Those of them that can be claimed. */
  readonly due: number;
  /** Since when the first of those can be claimed. */
  readonly oldestDueAtMs: number | undefined;
}

/** A delivery whose lease was released, with what the end of an attempt can change. */
export interface ReleasedDelivery {
  readonly delivery: StoredDelivery;
  readonly accountId: string;
  readonly webhook: StoredWebhook;
}

/** A delivery claimed for an attempt, with all that the attempt needs. */
export interface ClaimedDelivery extends ReleasedDelivery {
  /** The event; null for a sample, and when it is no longer in the log. */
  readonly event: StoredEvent | null;
}

/** The maximum number of deliveries to claim for a webhook. */
export interface WantedDeliveries {
  readonly webhookId: string;
  readonly limit: number;
}

/** A lease on the claimed deliveries, of `longestLeaseMs` at most. */
export interface DeliveryLease {
  /** Identifies the claim. */
  readonly id: string;
  readonly nowMs: number;
  readonly endsMs: number;
}

/** The result of a claim for one webhook. */
export interface Claim {
  /** Deliveries of the same event share one event object. */
  readonly claimed: readonly ClaimedDelivery[];
  /** When the next unclaimed delivery is due, if there is one. */
  readonly nextDueAtMs: number | undefined;
}

export interface DeliveryWrites {
  insert(accountId: string, delivery: StoredDelivery): Awaitable<void>;
  update(accountId: string, delivery: StoredDelivery): Awaitable<void>;
  /**
   * Claims due deliveries of enabled webhooks, the longest due first. No other claim gets them before the lease ends,
   * unless the clock is set back so far that the lease would last for more than `longestLeaseMs` from then on.
   * @param wanted names each webhook once
   * @returns one result for each, in their order
   */
  claim(wanted: readonly WantedDeliveries[], lease: DeliveryLease): Awaitable<readonly Claim[]>;
  /**
   * Releases claimed deliveries.
   * @returns the current deliveries and webhooks in the order of the ids; undefined if one of them was removed or the
   * delivery is no longer held by this lease
   */
  release(lease: string, ids: readonly string[]): Awaitable<readonly (ReleasedDelivery | undefined)[]>;
  /** Adds an attempt to a delivery. @param number its position in the delivery, counted from 1 */
  insertAttempt(deliveryId: string, number: number, attempt: Attempt): Awaitable<void>;
  /**
   * Removes the oldest deliveries created before a time, and removed webhooks with theirs.
   * @returns the number removed, of both; none when none are left but those that others are removing
   */
  prune(beforeMs: number, limit: number): Awaitable<number>;
}

/** Registered GraphQL documents. */
export interface DocumentReads {
  /** The text of a document; undefined for an unknown one. */
  text(accountId: string, id: string): Awaitable<string | undefined>;
  /** In the order of the ids; undefined for unknown ones. */
  findMany(accountId: string, ids: readonly string[]): Awaitable<readonly (StoredDocument | undefined)[]>;
  /** Newest first: by descending number, below `after`. */
  page(
    accountId: string,
    query: { readonly limit: number; readonly offset: number; readonly after?: number | undefined },
  ): Awaitable<Slice<ListedDocument>>;
  /** The cost depends on their number. */
  totals(accountId: string): Awaitable<DocumentTotals>;
}

export interface DocumentWrites {
  /** @returns the number of the document, which is above those of the account's others */
  insert(accountId: string, document: TrustedDocument): Awaitable<number>;
  /** @returns whether there was one */
  remove(accountId: string, id: string): Awaitable<boolean>;
}

/** Results of requests, stored under their idempotency keys. */
export interface IdempotencyRecordReads {
  find(accountId: string, key: string): Awaitable<IdempotencyRecord | undefined>;
}

export interface IdempotencyRecordWrites {
  /** Stores a result, replacing an earlier one of the key. */
  put(accountId: string, key: string, kept: IdempotencyRecord): Awaitable<void>;
  /**
   * Removes the oldest results of any account from before a time.
   * @returns the number removed; none when none are left but those that others are removing
   */
  prune(beforeMs: number, limit: number): Awaitable<number>;
}

export interface AnalyticsReads {
  /**
   * Sums over each of these ranges. The cost depends on the length of the ranges, not on how much happened. Long ones
   * are read in several steps, by turns with other accounts; in each sum the tallies agree with the counts.
   */
  sums(accountId: string, ranges: readonly QuarterRange[]): Awaitable<readonly AnalyticsSums[]>;
}

export interface AnalyticsWrites {
  /** Adds to the counts of a quarter hour, past or present. */
  add(accountId: string, quarter: number, delta: AnalyticsDelta): Awaitable<void>;
}

/** What the words of messages, and of conversations' own texts (`conversationText`), are found by. */
export interface SearchReads {
  /**
   * Texts that the words are in, newest first: in the order in which they came, by which they are numbered. A text is
   * found as soon as what wrote it is committed. Takes many small steps, by turns with other accounts. Where one question
   * serves all, the records of the texts come along, and their number if it was asked for.
   */
  page(accountId: string, query: SearchQuery): Awaitable<FoundTexts>;
  /** How many there are, counted up to `limit`. */
  count(accountId: string, search: Pick<SearchQuery, 'words' | 'filter'>, limit: number): Awaitable<number>;
  /** Whether there is work for `index`. */
  isBehind(): Awaitable<boolean>;
}

export interface SearchWrites {
  /**
   * Does some of the work that a storage puts off when texts are written, as much as one transaction should. They are
   * found without it too, but slower.
   * @returns whether nothing is left to be done
   */
  index(): Awaitable<boolean>;
}

export interface RateWindowReads {
  /** The last stored reading of the limiter's clock; undefined before the first request was counted. */
  clock(): Awaitable<ClockReading | undefined>;
  /** The non-empty minutes from this one on, ascending. */
  since(accountId: string, minute: number): Awaitable<readonly RateWindow[]>;
}

export interface RateWindowWrites {
  setClock(reading: ClockReading): Awaitable<void>;
  /**
   * Adds to the count of a minute; a negative number gives units back.
   * @returns the new count
   */
  add(accountId: string, minute: number, count: number): Awaitable<RateWindow>;
  /** Removes the minutes before this one. */
  prune(accountId: string, minute: number): Awaitable<void>;
}
