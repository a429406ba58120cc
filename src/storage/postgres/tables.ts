import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  customType,
  foreignKey,
  index,
  integer,
  pgTable,
  primaryKey,
  uniqueIndex,
} from 'drizzle-orm/pg-core';
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

// The types of the columns are those of the rows as the connections return them. Times are epoch milliseconds. Ids contain
// the time of their creation and sort by it, so a key (account, id) serves to find a row, to isolate accounts, and to list
// by creation.
//
// Every primary and unique key begins with the account, so that accounts can be spread over several databases one day. The
// exceptions are the tables of the service itself: meta, accounts and rate_clock. A secret is looked up by an index
// that is not unique: two equal ones do not occur.
//
// No table refers to accounts by a foreign key: each insertion would lock the account's row, and accounts are never removed.

/** Text that is compared by its bytes, whatever the database compares other text by: so ids sort by time everywhere. */
const text = customType<{ data: string; driverData: string }>({ dataType: () => 'text COLLATE "C"' });

/** JSON that keeps the order of keys and the digits of numbers, as text for the program. */
const json = customType<{ data: string; driverData: string }>({ dataType: () => 'json' });

const bytes = customType<{ data: Uint8Array; driverData: Buffer }>({ dataType: () => 'bytea' });

/** Words of a text for the index. */
const words = customType<{ data: string; driverData: string }>({ dataType: () => 'tsvector' });

/** Epoch milliseconds, or another number below 2^53. */
const long = (name: string) => bigint(name, { mode: 'number' });

/**
 * Facts about the database itself. `epoch` identifies its event logs, `token_key` signs its tokens, and `revocations`
 * and `erasures` are counters: when one of them grows, credentials or events that are held in memory have to be checked.
 * `copied_epoch` is that of the source where all was copied from one, `unfinished_copy` how far a copy has come.
 */
export const meta = pgTable('meta', {
  name: text().primaryKey(),
  value: text().notNull(),
});

export const accounts = pgTable('accounts', {
  id: text().primaryKey(),
  /** A short name of the account, which its words have in the index for search. */
  key: integer().notNull().generatedAlwaysAsIdentity(),
  name: text().notNull(),
  plan: text().$type<Plan>().notNull(),
  requestsPerHour: integer('requests_per_hour'),
  createdAt: long('created_at').notNull(),
});

/** The origins whose pages may call with tokens of an account. */
export const accountOrigins = pgTable(
  'account_origins',
  {
    accountId: text('account_id').notNull(),
    origin: text().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.origin] }),
    // A preflight has no credential: any account's will do.
    index('account_origins_by_origin').on(table.origin),
  ],
);

/**
 * Counters of an account, changed in the transactions that change what they count. A transaction that writes for an
 * account locks this row first: it is the account's lock.
 */
export const accountTotals = pgTable('account_totals', {
  accountId: text('account_id').primaryKey(),
  active: integer().notNull().default(0),
  pending: integer().notNull().default(0),
  closed: integer().notNull().default(0),
  leads: integer().notNull().default(0),
  /** The last sequence of the account's event log. */
  eventSequence: long('event_sequence').notNull().default(0),
});

export const apiKeys = pgTable(
  'api_keys',
  {
    accountId: text('account_id').notNull(),
    id: text().notNull(),
    name: text().notNull(),
    prefix: text().notNull(),
    secretHash: bytes('secret_hash').notNull(),
    scopes: json().$type<Json<Scope[]>>().notNull(),
    expiresAt: long('expires_at'),
    lastUsedAt: long('last_used_at'),
    createdAt: long('created_at').notNull(),
    revokedAt: long('revoked_at'),
    /** When it expires or was revoked, whichever comes first; null for never. */
    endsAt: long('ends_at').generatedAlwaysAs(sql`least(expires_at, revoked_at)`),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.id] }),
    index('api_keys_by_secret').on(table.secretHash),
    index('api_keys_by_id').on(table.id),
    index('api_keys_by_account_and_end').on(table.accountId, table.endsAt),
    index('api_keys_by_expiry').on(table.expiresAt).where(sql`revoked_at IS NULL`),
  ],
);

/** Sign-ins to the console, by the SHA-256 of what their cookies hold. */
export const signIns = pgTable(
  'sign_ins',
  {
    accountId: text('account_id').notNull(),
    secretHash: bytes('secret_hash').notNull(),
    keyId: text('key_id').notNull(),
    expiresAt: long('expires_at').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.secretHash] }),
    foreignKey({ columns: [table.accountId, table.keyId], foreignColumns: [apiKeys.accountId, apiKeys.id] }).onDelete(
      'cascade',
    ),
    index('sign_ins_by_secret').on(table.secretHash),
    index('sign_ins_by_key').on(table.accountId, table.keyId, table.expiresAt),
    index('sign_ins_by_expiry').on(table.expiresAt),
  ],
);

export const conversations = pgTable(
  'conversations',
  {
    accountId: text('account_id').notNull(),
    id: text().notNull(),
    status: text().$type<Status>().notNull(),
    subject: text(),
    visitor: json().$type<Json<Visitor>>(),
    externalId: text('external_id'),
    assignee: json().$type<Json<Assignee>>(),
    // What lists are filtered by. The email address is as `comparableEmail` makes it.
    visitorId: text('visitor_id'),
    visitorEmail: text('visitor_email'),
    assigneeId: text('assignee_id'),
    tags: json().$type<Json<readonly string[]>>().notNull(),
    metadata: json().$type<Json<Metadata>>().notNull(),
    messageCount: integer('message_count').notNull(),
    contentBytes: long('content_bytes').notNull(),
    lastMessage: json('last_message').$type<Json<StoredLastMessage>>(),
    lastActivityAt: long('last_activity_at').notNull(),
    firstVisitorMessageAt: long('first_visitor_message_at'),
    firstResponseAt: long('first_response_at'),
    reopenedAt: long('reopened_at'),
    closedAt: long('closed_at'),
    /** Whether a lead was captured in it. */
    converted: boolean().notNull().default(false),
    version: integer().notNull(),
    createdAt: long('created_at').notNull(),
    updatedAt: long('updated_at').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.id] }),
    index('conversations_by_status').on(table.accountId, table.status, table.id),
    // Every message moves its conversation's entry: for those of any status, the entries of each are merged.
    index('conversations_by_status_and_activity').on(table.accountId, table.status, table.lastActivityAt, table.id),
    uniqueIndex('conversations_by_external_id')
      .on(table.accountId, table.externalId)
      .where(sql`external_id IS NOT NULL`),
    index('conversations_by_visitor').on(table.accountId, table.visitorId, table.id).where(sql`visitor_id IS NOT NULL`),
    index('conversations_by_visitor_email')
      .on(table.accountId, table.visitorEmail, table.id)
      .where(sql`visitor_email IS NOT NULL`),
    // Nearly all that is asked of an agent's conversations, and of those that no agent has, is which of them are open.
    index('conversations_by_assignee').on(table.accountId, table.assigneeId, table.status, table.id),
    index('conversations_by_assignee_and_activity')
      .on(table.accountId, table.assigneeId, table.status, table.lastActivityAt, table.id)
      .where(sql`assignee_id IS NOT NULL`),
    // Of what was changed since its last message. What was not is in the index by status and activity.
    index('conversations_by_update')
      .on(table.accountId, table.updatedAt, table.lastActivityAt)
      .where(sql`updated_at > last_activity_at`),
  ],
);

/** Which conversations have a tag. */
export const conversationTags = pgTable(
  'conversation_tags',
  {
    accountId: text('account_id').notNull(),
    tag: text().notNull(),
    conversationId: text('conversation_id').notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.tag, table.conversationId] })],
);

/** Messages of a conversation that is being erased are still here while its row is gone: then no read shows them. */
export const messages = pgTable(
  'messages',
  {
    accountId: text('account_id').notNull(),
    conversationId: text('conversation_id').notNull(),
    sequence: integer().notNull(),
    id: text().notNull(),
    sender: text().$type<Sender>().notNull(),
    content: text().notNull(),
    author: json().$type<Json<Author>>(),
    clientId: text('client_id'),
    metadata: json().$type<Json<Metadata>>().notNull(),
    createdAt: long('created_at').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.conversationId, table.sequence] }),
    uniqueIndex('messages_by_id').on(table.accountId, table.id),
  ],
);

/** How far readers have read a conversation. */
export const readPositions = pgTable(
  'read_positions',
  {
    accountId: text('account_id').notNull(),
    conversationId: text('conversation_id').notNull(),
    reader: text().notNull(),
    sequence: integer().notNull(),
    readAt: long('read_at').notNull(),
    /** The number of its last move, of all moves in the conversation. */
    move: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.conversationId, table.reader] })],
);

/** The conversations with messages past a reader's position: few of all there are, and found without looking at others. */
export const unreadConversations = pgTable(
  'unread_conversations',
  {
    accountId: text('account_id').notNull(),
    reader: text().notNull(),
    conversationId: text('conversation_id').notNull(),
    /** That of the conversation, by which lists can be sorted. */
    lastActivityAt: long('last_activity_at').notNull(),
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
export const events = pgTable(
  'events',
  {
    accountId: text('account_id').notNull(),
    sequence: long('sequence').notNull(),
    id: text().notNull(),
    type: text().$type<EventType>().notNull(),
    conversationId: text('conversation_id'),
    /** The visitor right after it, hashed with a key; null for none. */
    visitorHash: text('visitor_hash'),
    timestamp: long('timestamp').notNull(),
    /** As it is sent. */
    data: json().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.sequence] }),
    index('events_by_conversation').on(table.accountId, table.conversationId, table.sequence),
    index('events_by_visitor')
      .on(table.accountId, table.visitorHash, table.sequence)
      .where(sql`visitor_hash IS NOT NULL`),
    index('events_by_time').on(table.timestamp),
  ],
);

export const leads = pgTable(
  'leads',
  {
    accountId: text('account_id').notNull(),
    id: text().notNull(),
    conversationId: text('conversation_id'),
    name: text(),
    email: text(),
    /** What lists are filtered by: see `comparableEmail`. */
    comparableEmail: text('comparable_email'),
    phone: text(),
    company: text(),
    metadata: json().$type<Json<Metadata>>().notNull(),
    createdAt: long('created_at').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.id] }),
    index('leads_by_conversation')
      .on(table.accountId, table.conversationId, table.id)
      .where(sql`conversation_id IS NOT NULL`),
    index('leads_by_email')
      .on(table.accountId, table.comparableEmail, table.id)
      .where(sql`comparable_email IS NOT NULL`),
  ],
);

/** Conversations that are being erased step by step. What is left of one must not be shown any more. */
export const erasing = pgTable(
  'erasing',
  {
    accountId: text('account_id').notNull(),
    conversationId: text('conversation_id').notNull(),
    /** Events up to this one are erased. */
    eventSequence: long('event_sequence').notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.conversationId] })],
);

/**
 * The texts that can be searched: each message, and each conversation's own text. They are numbered in each account, in
 * the order in which they came.
 */
export const searchTexts = pgTable(
  'search_texts',
  {
    accountId: text('account_id').notNull(),
    number: long('number').notNull(),
    conversationId: text('conversation_id').notNull(),
    /** The message's; 0 for the conversation's own text. */
    sequence: integer().notNull(),
    createdAt: long('created_at').notNull(),
    /** Its terms, each behind the account's key: so the entries of an account are together, and a term finds only its own. */
    terms: words().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.number] }),
    uniqueIndex('search_texts_by_place').on(table.accountId, table.conversationId, table.sequence),
    index('search_texts_by_term').using('gin', table.terms),
  ],
);

/** Counts of what happened per quarter hour, numbered since the epoch. Quarters in which nothing did have no row. */
export const analyticsCounters = pgTable(
  'analytics_counters',
  {
    accountId: text('account_id').notNull(),
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
    firstResponseMs: long('first_response_ms').notNull(),
    resolutions: integer().notNull(),
    resolutionMs: long('resolution_ms').notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.quarter] })],
);

/** The distribution of durations within a span of quarter hours: how many are in each bucket; see `durations.ts`. */
export const analyticsHistograms = pgTable(
  'analytics_histograms',
  {
    accountId: text('account_id').notNull(),
    name: text().$type<'firstResponses' | 'resolutions'>().notNull(),
    /** The length of the span in quarter hours. */
    width: integer().notNull(),
    /** The first quarter hour of the span. */
    quarter: integer().notNull(),
    bucket: integer().notNull(),
    count: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.name, table.width, table.quarter, table.bucket] })],
);

/** A single row: the latest time of the limiter's clock, in milliseconds, that something was counted or read at. */
export const rateClock = pgTable('rate_clock', {
  key: integer().primaryKey(),
  atMs: long('at').notNull(),
});

/** Requests counted against an account, per whole minute of the limiter's clock. */
export const rateWindows = pgTable(
  'rate_windows',
  {
    accountId: text('account_id').notNull(),
    minute: integer().notNull(),
    count: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.accountId, table.minute] })],
);

export const webhooks = pgTable(
  'webhooks',
  {
    accountId: text('account_id').notNull(),
    id: text().notNull(),
    url: text().notNull(),
    events: json().$type<Json<readonly EventType[]>>().notNull(),
    description: text(),
    enabled: boolean().notNull(),
    disabledReason: text('disabled_reason').$type<DisabledReason>(),
    secrets: json().$type<Json<readonly SigningSecret[]>>().notNull(),
    failingSince: long('failing_since'),
    /** Never shown any more; the row is deleted after the last of its deliveries. */
    removed: boolean().notNull().default(false),
    createdAt: long('created_at').notNull(),
    updatedAt: long('updated_at').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.id] }),
    index('webhooks_by_id').on(table.id),
    index('webhooks_enabled').on(table.accountId, table.id).where(sql`enabled AND NOT removed`),
    index('webhooks_removed').on(table.accountId, table.id).where(sql`removed`),
  ],
);

export const deliveries = pgTable(
  'deliveries',
  {
    accountId: text('account_id').notNull(),
    id: text().notNull(),
    webhookId: text('webhook_id').notNull(),
    eventId: text('event_id').notNull(),
    eventType: text('event_type').$type<EventType>().notNull(),
    eventSequence: long('event_sequence'),
    sample: json(),
    status: text().$type<StoredDelivery['status']>().notNull(),
    attemptCount: integer('attempt_count').notNull(),
    step: integer().notNull(),
    trigger: text().$type<AttemptTrigger>().notNull(),
    dueAt: long('due_at'),
    traceparent: text(),
    createdAt: long('created_at').notNull(),
    completedAt: long('completed_at'),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.id] }),
    // By its id alone: what is claimed, and what is oldest of all accounts.
    index('deliveries_by_id').on(table.id),
    index('deliveries_by_webhook').on(table.accountId, table.webhookId, table.id),
    index('deliveries_due').on(table.accountId, table.webhookId, table.dueAt).where(sql`status = 'pending'`),
    index('deliveries_failed').on(table.accountId, table.webhookId, table.id).where(sql`status = 'failed'`),
  ],
);

/**
 * Leases of deliveries with an attempt under way. Otherwise a claim would rewrite the delivery and its index entries
 * for each attempt; these rows are small, few, and deleted when the attempt is over.
 */
export const deliveryLeases = pgTable(
  'delivery_leases',
  {
    accountId: text('account_id').notNull(),
    deliveryId: text('delivery_id').notNull(),
    /** Identifies the sender that holds it. */
    lease: text().notNull(),
    /** When the delivery may be claimed again. */
    endsAt: long('ends_at').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.deliveryId] }),
    foreignKey({
      columns: [table.accountId, table.deliveryId],
      foreignColumns: [deliveries.accountId, deliveries.id],
    }).onDelete('cascade'),
  ],
);

export const attempts = pgTable(
  'attempts',
  {
    accountId: text('account_id').notNull(),
    deliveryId: text('delivery_id').notNull(),
    /** 1, 2, 3 … within its delivery. */
    number: integer().notNull(),
    id: text().notNull(),
    startedAt: long('started_at').notNull(),
    durationMs: integer('duration_ms').notNull(),
    trigger: text().$type<AttemptTrigger>().notNull(),
    responseStatus: integer('response_status'),
    responseBody: text('response_body'),
    error: text(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.deliveryId, table.number] }),
    foreignKey({
      columns: [table.accountId, table.deliveryId],
      foreignColumns: [deliveries.accountId, deliveries.id],
    }).onDelete('cascade'),
  ],
);

/** Registered GraphQL documents, numbered in each account in the order of registration. */
export const trustedDocuments = pgTable(
  'trusted_documents',
  {
    accountId: text('account_id').notNull(),
    number: integer().notNull(),
    id: text().notNull(),
    text: text().notNull(),
    /** Of the text, in UTF-8. */
    bytes: integer().notNull(),
    createdAt: long('created_at').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.number] }),
    uniqueIndex('trusted_documents_by_id').on(table.accountId, table.id),
    // Has all that totals are made of: no text is read for them.
    index('trusted_documents_by_size').on(table.accountId, table.bytes),
  ],
);

/** Results of requests, by idempotency key. */
export const idempotencyRecords = pgTable(
  'kept_results',
  {
    accountId: text('account_id').notNull(),
    idempotencyKey: text('idempotency_key').notNull(),
    fingerprint: bytes().notNull(),
    /** JSON; null once it has been erased. */
    result: text(),
    conversationId: text('conversation_id'),
    createdAt: long('created_at').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.accountId, table.idempotencyKey] }),
    index('kept_results_by_conversation')
      .on(table.accountId, table.conversationId)
      .where(sql`conversation_id IS NOT NULL`),
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
