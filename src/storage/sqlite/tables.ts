import { sql } from 'drizzle-orm';
import { blob, index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core';
import type { Plan } from '../../domain/accounts.ts';
import type { Scope } from '../../domain/caller.ts';
import type { Assignee, Visitor } from '../../domain/conversation-record.ts';
import type { AttemptTrigger, StoredDelivery } from '../../domain/delivery-record.ts';
import type { EventType } from '../../domain/event-types.ts';
import type { Status } from '../../domain/lifecycle.ts';
import type { Author, Sender } from '../../domain/message-record.ts';
import type { Metadata } from '../../domain/metadata.ts';
import type { DisabledReason, SigningSecret } from '../../domain/webhook-record.ts';
import type { AccountRow, KeyRow } from '../rows/accounts.ts';
import type { ConversationRow, StoredLastMessage } from '../rows/conversations.ts';
import type { AttemptRow, DeliveryRow } from '../rows/deliveries.ts';
import type { DocumentRow, ListedDocumentRow } from '../rows/documents.ts';
import type { LeadRow } from '../rows/leads.ts';
import type { MessageRow } from '../rows/messages.ts';
import type { ReadPositionRow } from '../rows/read-positions.ts';
import type { Json } from '../rows/values.ts';
import type { WebhookRow } from '../rows/webhooks.ts';

// The types of the columns are those of the rows as SQLite returns them. Times are epoch milliseconds. Ids contain the time
// of their creation and sort by it, so an index on (account, id) serves to find a row, to isolate accounts, and to list by
// creation.
//
// conversation_tags, messages, read_positions, unread_conversations, rate_windows, analytics_counters,
// analytics_histograms, search_texts and search_partitions are WITHOUT ROWID, which drizzle cannot express: their rows are
// then stored in the order in which they are read. The migrations that create them were completed by hand. Rows that often
// have more than 1,002 bytes, as events do, would each take a page of their own there.

/**
 * Facts about the database itself. `epoch` identifies its event logs, `token_key` signs its tokens, and `revocations`
 * and `erasures` are counters: when one of them grows, credentials or events that are held in memory have to be
 * checked. `unfinished_copy` is there until all is copied from another database. `kept_revocations` are of keys that a
 * restored backup did not have, as JSON.
 */
export const meta = sqliteTable('meta', {
  name: text().primaryKey(),
  value: text().notNull(),
});

export const accounts = sqliteTable('accounts', {
  id: text().primaryKey(),
  name: text().notNull(),
  plan: text().$type<Plan>().notNull(),
  requestsPerHour: integer('requests_per_hour'),
  createdAt: integer('created_at').notNull(),
});

const ofAccount = () =>
  text('account_id')
    .notNull()
    .references(() => accounts.id);

/** The origins whose pages may call with tokens of an account. */
export const accountOrigins = sqliteTable(
  'account_origins',
  {
    accountId: ofAccount(),
    origin: text().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.origin] }),
    // A preflight has no credential: any account's will do.
    index('account_origins_by_origin').on(table.origin),
  ],
);

/** Counters of an account, changed in the transactions that change what they count. */
export const accountTotals = sqliteTable('account_totals', {
  accountId: text('account_id')
    .primaryKey()
    .references(() => accounts.id),
  active: integer().notNull().default(0),
  pending: integer().notNull().default(0),
  closed: integer().notNull().default(0),
  leads: integer().notNull().default(0),
  /** The last sequence of the account's event log. */
  eventSequence: integer('event_sequence').notNull().default(0),
});

export const apiKeys = sqliteTable(
  'api_keys',
  {
    id: text().primaryKey(),
    accountId: ofAccount(),
    name: text().notNull(),
    prefix: text().notNull(),
    secretHash: blob('secret_hash', { mode: 'buffer' }).notNull(),
    scopes: text().$type<Json<Scope[]>>().notNull(),
    expiresAt: integer('expires_at'),
    lastUsedAt: integer('last_used_at'),
    createdAt: integer('created_at').notNull(),
    revokedAt: integer('revoked_at'),
    /** When it expires or was revoked, whichever comes first; null for never. */
    endsAt: integer('ends_at').generatedAlwaysAs(
      sql`min(ifnull(expires_at, revoked_at), ifnull(revoked_at, expires_at))`,
    ),
  },
  (table) => [
    uniqueIndex('api_keys_by_secret').on(table.secretHash),
    uniqueIndex('api_keys_by_account').on(table.accountId, table.id),
    index('api_keys_by_account_and_end').on(table.accountId, table.endsAt),
    index('api_keys_by_expiry').on(table.expiresAt).where(sql`revoked_at IS NULL`),
  ],
);

/** Sign-ins to the console, by the SHA-256 of what their cookies hold. */
export const signIns = sqliteTable(
  'sign_ins',
  {
    secretHash: blob('secret_hash', { mode: 'buffer' }).$type<Uint8Array>().primaryKey(),
    accountId: ofAccount(),
    keyId: text('key_id')
      .notNull()
      .references(() => apiKeys.id, { onDelete: 'cascade' }),
    expiresAt: integer('expires_at').notNull(),
  },
  (table) => [
    index('sign_ins_by_key').on(table.keyId, table.expiresAt),
    index('sign_ins_by_expiry').on(table.expiresAt),
  ],
);

export const conversations = sqliteTable(
  'conversations',
  {
    /** A short key for messages to refer to. */
    key: integer().primaryKey(),
    id: text().notNull(),
    /** Null while it is being erased: then no account finds it or its messages. */
    accountId: text('account_id').references(() => accounts.id),
    status: text().$type<Status>().notNull(),
    subject: text(),
    visitor: text().$type<Json<Visitor>>(),
    externalId: text('external_id'),
    /** Of the visitor's email address: see `foldedEmail`. */
    foldedVisitorEmail: text('folded_visitor_email'),
    assignee: text().$type<Json<Assignee>>(),
    // What lists are filtered by.
    visitorId: text('visitor_id').generatedAlwaysAs(sql`visitor ->> 'id'`),
    visitorEmail: text('visitor_email').generatedAlwaysAs(
      sql`coalesce(folded_visitor_email, lower(visitor ->> 'email'))`,
    ),
    assigneeId: text('assignee_id').generatedAlwaysAs(sql`assignee ->> 'id'`),
    tags: text().$type<Json<readonly string[]>>().notNull().default('[]'),
    metadata: text().$type<Json<Metadata>>().notNull(),
    messageCount: integer('message_count').notNull(),
    contentBytes: integer('content_bytes').notNull(),
    lastMessage: text('last_message').$type<Json<StoredLastMessage>>(),
    lastActivityAt: integer('last_activity_at').notNull(),
    firstVisitorMessageAt: integer('first_visitor_message_at'),
    firstResponseAt: integer('first_response_at'),
    reopenedAt: integer('reopened_at'),
    closedAt: integer('closed_at'),
    /** Whether a lead was captured in it. */
    converted: integer({ mode: 'boolean' }).notNull().default(false).$type<0 | 1>(),
    version: integer().notNull(),
    createdAt: integer('created_at').notNull(),
    updatedAt: integer('updated_at').notNull(),
  },
  (table) => [
    uniqueIndex('conversations_by_id').on(table.accountId, table.id),
    index('conversations_by_status').on(table.accountId, table.status, table.id),
    // Every message moves its conversation's entry: for those of any status, the entries of each are merged.
    index('conversations_by_status_and_activity').on(table.accountId, table.status, table.lastActivityAt, table.id),
    uniqueIndex('conversations_by_external_id')
      .on(table.accountId, table.externalId)
      .where(sql`${table.externalId} is not null`),
    index('conversations_by_visitor')
      .on(table.accountId, table.visitorId, table.id)
      .where(sql`${table.visitorId} is not null`),
    index('conversations_by_visitor_email')
      .on(table.accountId, table.visitorEmail, table.id)
      .where(sql`${table.visitorEmail} is not null`),
    // Nearly all that is asked of an agent's conversations, and of those that no agent has, is which of them are open.
    index('conversations_by_assignee').on(table.accountId, table.assigneeId, table.status, table.id),
    index('conversations_by_assignee_and_activity')
      .on(table.accountId, table.assigneeId, table.status, table.lastActivityAt, table.id)
      .where(sql`${table.assigneeId} is not null`),
    // Of what was changed since its last message. What was not is in the index by status and activity.
    index('conversations_by_update')
      .on(table.accountId, table.updatedAt, table.lastActivityAt)
      .where(sql`${table.updatedAt} > ${table.lastActivityAt}`),
  ],
);

/** Which conversations have a tag. */
export const conversationTags = sqliteTable(
  'conversation_tags',
  {
    accountId: ofAccount(),
    tag: text().notNull(),
    conversationId: text('conversation_id').notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.tag, table.conversationId] })],
);

export const messages = sqliteTable(
  'messages',
  {
    conversationKey: integer('conversation_key')
      .notNull()
      .references(() => conversations.key),
    sequence: integer().notNull(),
    id: text().notNull(),
    sender: text().$type<Sender>().notNull(),
    content: text().notNull(),
    author: text().$type<Json<Author>>(),
    clientId: text('client_id'),
    metadata: text().$type<Json<Metadata>>().notNull(),
    createdAt: integer('created_at').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.conversationKey, table.sequence] }),
    uniqueIndex('messages_by_id').on(table.id),
  ],
);

/** How far readers have read a conversation. */
export const readPositions = sqliteTable(
  'read_positions',
  {
    conversationKey: integer('conversation_key')
      .notNull()
      .references(() => conversations.key),
    reader: text().notNull(),
    sequence: integer().notNull(),
    readAt: integer('read_at').notNull(),
    /** The number of its last move, of all moves in the conversation. */
    move: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.conversationKey, table.reader] })],
);

/** The conversations with messages past a reader's position: few of all there are, and found without looking at others. */
export const unreadConversations = sqliteTable(
  'unread_conversations',
  {
    accountId: text('account_id').notNull(),
    reader: text().notNull(),
    conversationId: text('conversation_id').notNull(),
    /** That of the conversation, by which lists can be sorted. */
    lastActivityAt: integer('last_activity_at').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.reader, table.conversationId] }),
    index('unread_conversations_by_activity').on(
      table.accountId,
      table.reader,
      table.lastActivityAt,
      table.conversationId,
    ),
  ],
);

/** The event log of each account: sequences 1, 2, 3 … without gaps, in commit order. */
export const events = sqliteTable(
  'events',
  {
    accountId: ofAccount(),
    sequence: integer().notNull(),
    id: text().notNull(),
    type: text().$type<EventType>().notNull(),
    conversationId: text('conversation_id'),
    /** The visitor right after it, hashed with a key. Null for none. */
    visitorHash: text('visitor_hash'),
    timestamp: integer().notNull(),
    /** JSON, as it is sent. */
    data: text().notNull(),
    /** Always 2, and not read: the data of all events has the same fields. */
    dataVersion: integer('data_version').notNull().default(1),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.sequence] }),
    index('events_by_conversation').on(table.accountId, table.conversationId, table.sequence),
    index('events_by_visitor')
      .on(table.accountId, table.visitorHash, table.sequence)
      .where(sql`${table.visitorHash} is not null`),
    index('events_by_time').on(table.timestamp),
  ],
);

export const leads = sqliteTable(
  'leads',
  {
    id: text().notNull(),
    accountId: ofAccount(),
    conversationId: text('conversation_id'),
    name: text(),
    email: text(),
    /** See `foldedEmail`. */
    foldedEmail: text('folded_email'),
    /** What lists are filtered by: see `comparableEmail`. */
    comparableEmail: text('comparable_email').generatedAlwaysAs(sql`coalesce(folded_email, lower(email))`),
    phone: text(),
    company: text(),
    metadata: text().$type<Json<Metadata>>().notNull(),
    createdAt: integer('created_at').notNull(),
  },
  (table) => [
    uniqueIndex('leads_by_id').on(table.accountId, table.id),
    index('leads_by_conversation')
      .on(table.accountId, table.conversationId, table.id)
      .where(sql`${table.conversationId} is not null`),
    index('leads_by_email')
      .on(table.accountId, table.comparableEmail, table.id)
      .where(sql`${table.comparableEmail} is not null`),
  ],
);

/** Conversations that are being erased step by step. What is left of one must not be shown any more. */
export const erasing = sqliteTable(
  'erasing',
  {
    accountId: ofAccount(),
    conversationId: text('conversation_id').notNull(),
    conversationKey: integer('conversation_key').notNull(),
    /** Events up to this one are erased. */
    eventSequence: integer('event_sequence').notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.conversationId] })],
);

/** A short key of each account that has texts to be found, for the index of their words. */
export const searchAccounts = sqliteTable(
  'search_accounts',
  {
    key: integer().primaryKey(),
    accountId: ofAccount(),
  },
  (table) => [uniqueIndex('search_accounts_by_id').on(table.accountId)],
);

/**
 * The texts that can be searched: each message, and each conversation's own text. They are numbered in each account, in
 * the order in which they came. `search_words`, an FTS5 table that drizzle cannot express, has their words.
 */
export const searchTexts = sqliteTable(
  'search_texts',
  {
    accountKey: integer('account_key').notNull(),
    number: integer().notNull(),
    conversationKey: integer('conversation_key').notNull(),
    /** The message's; 0 for the conversation's own text. */
    sequence: integer().notNull(),
    createdAt: integer('created_at').notNull(),
    /** How many of its terms, in their order, the index has; null while it waits for being indexed. */
    indexedTerms: integer('indexed_terms'),
  },
  (table) => [
    primaryKey({ columns: [table.accountKey, table.number] }),
    uniqueIndex('search_texts_by_place').on(table.conversationKey, table.sequence),
    index('search_texts_waiting').on(table.accountKey, table.number).where(sql`${table.indexedTerms} is null`),
  ],
);

/** When the indexed texts of a partition were created: all of them within this time, both ends included. */
export const searchPartitions = sqliteTable(
  'search_partitions',
  {
    accountKey: integer('account_key').notNull(),
    partition: integer().notNull(),
    createdFrom: integer('created_from').notNull(),
    createdTo: integer('created_to').notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountKey, table.partition] })],
);

/** Counts of what happened per quarter hour, numbered since the epoch. Quarters in which nothing did have no row. */
export const analyticsCounters = sqliteTable(
  'analytics_counters',
  {
    accountId: ofAccount(),
    quarter: integer().notNull(),
    conversationsStarted: integer('conversations_started').notNull(),
    conversationsClosed: integer('conversations_closed').notNull(),
    conversationsReopened: integer('conversations_reopened').notNull(),
    conversationsConverted: integer('conversations_converted').notNull(),
    agentMessages: integer('agent_messages').notNull(),
    visitorMessages: integer('visitor_messages').notNull(),
    botMessages: integer('bot_messages').notNull(),
    leads: integer().notNull(),
    firstResponses: integer('first_responses').notNull(),
    firstResponseMs: integer('first_response_ms').notNull(),
    resolutions: integer().notNull(),
    resolutionMs: integer('resolution_ms').notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.quarter] })],
);

/** The distribution of durations within a span of quarter hours. */
export const analyticsHistograms = sqliteTable(
  'analytics_histograms',
  {
    accountId: ofAccount(),
    name: text().$type<'firstResponses' | 'resolutions'>().notNull(),
    /** The length of the span in quarter hours. */
    width: integer().notNull(),
    /** The first quarter hour of the span. */
    quarter: integer().notNull(),
    /** Encoded; see `analytics.ts`. */
    counts: blob({ mode: 'buffer' }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.name, table.width, table.quarter] })],
);

/** A single row: the last reading of the limiter's clock, and of the others at the same moment, in milliseconds. */
export const rateClock = sqliteTable('rate_clock', {
  key: integer().primaryKey(),
  atMs: integer('at').notNull(),
  wallMs: integer('wall').notNull(),
  uptimeMs: integer('uptime').notNull(),
  boot: text().notNull(),
});

/** Requests counted against an account, per whole minute of the limiter's clock. */
export const rateWindows = sqliteTable(
  'rate_windows',
  {
    accountId: text('account_id').notNull(),
    minute: integer().notNull(),
    count: integer().notNull(),
    /** Unused; servers of the previous version still read it while this one takes over in a rolling upgrade. */
    added: integer().notNull().default(0),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.minute] })],
);

export const webhooks = sqliteTable(
  'webhooks',
  {
    /** A short key for deliveries to refer to. */
    key: integer().primaryKey(),
    id: text().notNull(),
    accountId: ofAccount(),
    url: text().notNull(),
    events: text().$type<Json<readonly EventType[]>>().notNull(),
    description: text(),
    enabled: integer({ mode: 'boolean' }).notNull().$type<0 | 1>(),
    disabledReason: text('disabled_reason').$type<DisabledReason>(),
    secrets: text().$type<Json<readonly SigningSecret[]>>().notNull(),
    failingSince: integer('failing_since'),
    /** Never shown any more; the row is deleted after the last of its deliveries. */
    removed: integer({ mode: 'boolean' }).notNull().default(false).$type<0 | 1>(),
    createdAt: integer('created_at').notNull(),
    updatedAt: integer('updated_at').notNull(),
  },
  (table) => [
    uniqueIndex('webhooks_by_id').on(table.id),
    uniqueIndex('webhooks_by_account').on(table.accountId, table.id).where(sql`${table.removed} = 0`),
    index('webhooks_enabled').on(table.key).where(sql`${table.enabled} = 1 AND ${table.removed} = 0`),
    index('webhooks_removed').on(table.key).where(sql`${table.removed} = 1`),
  ],
);

export const deliveries = sqliteTable(
  'deliveries',
  {
    key: integer().primaryKey(),
    id: text().notNull(),
    webhookKey: integer('webhook_key')
      .notNull()
      .references(() => webhooks.key),
    eventId: text('event_id').notNull(),
    eventType: text('event_type').$type<EventType>().notNull(),
    eventSequence: integer('event_sequence'),
    sample: text(),
    status: text().$type<StoredDelivery['status']>().notNull(),
    attemptCount: integer('attempt_count').notNull(),
    step: integer().notNull(),
    trigger: text().$type<AttemptTrigger>().notNull(),
    dueAt: integer('due_at'),
    traceparent: text(),
    createdAt: integer('created_at').notNull(),
    completedAt: integer('completed_at'),
  },
  (table) => [
    uniqueIndex('deliveries_by_id').on(table.id),
    index('deliveries_by_webhook').on(table.webhookKey, table.id),
    index('deliveries_due').on(table.webhookKey, table.dueAt).where(sql`${table.status} = 'pending'`),
    index('deliveries_failed').on(table.webhookKey, table.id).where(sql`${table.status} = 'failed'`),
  ],
);

/**
 * Leases of deliveries with an attempt under way. Otherwise a claim would rewrite the delivery and its index entries
 * for each attempt; these rows are small, few, and deleted when the attempt is over.
 */
export const deliveryLeases = sqliteTable('delivery_leases', {
  deliveryKey: integer('delivery_key')
    .primaryKey()
    .references(() => deliveries.key, { onDelete: 'cascade' }),
  /** Identifies the sender that holds it. */
  lease: text().notNull(),
  /** When the delivery may be claimed again. */
  endsAt: integer('ends_at').notNull(),
});

export const attempts = sqliteTable(
  'attempts',
  {
    deliveryKey: integer('delivery_key')
      .notNull()
      .references(() => deliveries.key, { onDelete: 'cascade' }),
    /** 1, 2, 3 … within its delivery. */
    number: integer().notNull(),
    id: text().notNull(),
    startedAt: integer('started_at').notNull(),
    durationMs: integer('duration_ms').notNull(),
    trigger: text().$type<AttemptTrigger>().notNull(),
    responseStatus: integer('response_status'),
    responseBody: text('response_body'),
    error: text(),
  },
  (table) => [primaryKey({ columns: [table.deliveryKey, table.number] })],
);

/** Registered GraphQL documents, numbered in each account in the order of registration. */
export const trustedDocuments = sqliteTable(
  'trusted_documents',
  {
    accountId: ofAccount(),
    number: integer().notNull(),
    id: text().notNull(),
    text: text().notNull(),
    /** Of the text, in UTF-8. */
    bytes: integer().notNull(),
    createdAt: integer('created_at').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.number] }),
    uniqueIndex('trusted_documents_by_id').on(table.accountId, table.id),
    // Has all that totals are made of: no text is read for them.
    index('trusted_documents_by_size').on(table.accountId, table.bytes),
  ],
);

/** Results of requests, by idempotency key. */
export const idempotencyRecords = sqliteTable(
  'kept_results',
  {
    accountId: ofAccount(),
    idempotencyKey: text('idempotency_key').notNull(),
    fingerprint: blob({ mode: 'buffer' }).$type<Uint8Array>().notNull(),
    /** JSON; null once it has been erased. */
    result: text(),
    conversationId: text('conversation_id'),
    createdAt: integer('created_at').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.idempotencyKey] }),
    index('kept_results_by_conversation')
      .on(table.accountId, table.conversationId)
      .where(sql`${table.conversationId} is not null`),
    index('kept_results_by_time').on(table.createdAt),
  ],
);

/** The columns of a table are those that `../rows` converts: one of another name or type is an error here. */
type Fits<Row, Table extends { readonly $inferSelect: Row }> = Table;
export type ConvertedTables = [
  Fits<AccountRow, typeof accounts>,
  Fits<KeyRow, typeof apiKeys>,
  Fits<ConversationRow, typeof conversations>,
  Fits<MessageRow, typeof messages>,
  Fits<ReadPositionRow, typeof readPositions>,
  Fits<LeadRow, typeof leads>,
  Fits<WebhookRow, typeof webhooks>,
  Fits<DeliveryRow, typeof deliveries>,
  Fits<AttemptRow, typeof attempts>,
  Fits<DocumentRow & ListedDocumentRow, typeof trustedDocuments>,
];
