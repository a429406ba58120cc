import { randomFillSync } from 'node:crypto';
import type { Account } from '../../src/domain/accounts.ts';
import type { ApiKey } from '../../src/domain/api-keys.ts';
import { conversationView, type StoredConversation } from '../../src/domain/conversation-record.ts';
import type { Attempt, StoredDelivery } from '../../src/domain/delivery-record.ts';
import type { EventType } from '../../src/domain/event-types.ts';
import type { EventData, NewEvent, StoredEvent } from '../../src/domain/events.ts';
import { createIds } from '../../src/domain/ids.ts';
import type { Lead } from '../../src/domain/leads.ts';
import { lastMessageOf, type Message } from '../../src/domain/message-record.ts';
import type { Storage } from '../../src/domain/storage-port.ts';
import { timestamp } from '../../src/domain/time.ts';
import type { StoredWebhook } from '../../src/domain/webhook-record.ts';

// Things to store: right in form, with just as much in them as a test does not care about.

export const ids = createIds((target) => randomFillSync(target));
export const startMs = Date.parse('2026-11-21T06:12:00.000Z');
export const start = timestamp(startMs);

export function sampleAccount(facts: Partial<Account> = {}): Account {
  return {
    id: ids.next('account', startMs),
    name: 'Shop',
    plan: 'pro',
    requestsPerHour: null,
    createdAt: start,
    ...facts,
  };
}

/** An account that is stored already. */
export async function storedAccount(storage: Storage): Promise<Account> {
  const account = sampleAccount();
  await storage.write(async (tx) => tx.accounts.insert(account));
  return account;
}

export function sampleKey(facts: Partial<ApiKey> = {}): ApiKey {
  return {
    id: ids.next('apiKey', startMs),
    name: 'server',
    prefix: 'cs_abcde',
    scopes: ['conversations:read', 'keys:manage'],
    expiresAt: null,
    lastUsedAt: null,
    createdAt: start,
    revokedAt: null,
    ...facts,
  };
}

export function sampleHash(): Uint8Array {
  return randomFillSync(new Uint8Array(32));
}

/** @param createdMs the time that its id carries too */
export function sampleConversation(
  facts: Partial<Omit<StoredConversation, 'id' | 'createdAt'>> = {},
  createdMs = startMs,
): StoredConversation {
  const createdAt = timestamp(createdMs);
  return {
    id: ids.next('conversation', createdMs),
    status: 'active',
    subject: null,
    visitor: null,
    externalId: null,
    assignee: null,
    tags: [],
    metadata: {},
    messageCount: 0,
    lastMessage: null,
    contentBytes: 0,
    lastActivityAt: createdAt,
    firstVisitorMessageAt: null,
    firstResponseAt: null,
    reopenedAt: null,
    closedAt: null,
    version: 1,
    createdAt,
    updatedAt: createdAt,
    ...facts,
  };
}

export function sampleMessage(conversationId: string, sequence: number, facts: Partial<Message> = {}): Message {
  return {
    id: ids.next('message', startMs),
    conversationId,
    sequence,
    sender: 'agent',
    content: `message ${sequence}`,
    author: null,
    clientId: null,
    metadata: {},
    createdAt: start,
    ...facts,
  };
}

/** A conversation with a message of each of these contents, stored. */
export async function storedConversation(
  storage: Storage,
  accountId: string,
  contents: readonly string[],
): Promise<StoredConversation> {
  const conversation = sampleConversation({ messageCount: contents.length });
  await storage.write(async (tx) => {
    await tx.conversations.insert(accountId, conversation);
    for (const [index, content] of contents.entries())
      await tx.messages.insert(accountId, sampleMessage(conversation.id, index + 1, { content }));
  });
  return conversation;
}

export function sampleEvent(conversation: StoredConversation, facts: Partial<NewEvent> = {}): NewEvent {
  return {
    id: ids.next('event', startMs),
    type: 'conversation.started',
    timestamp: start,
    conversationId: conversation.id,
    visitorId: conversation.visitor?.id ?? null,
    data: sampleData(facts.type ?? 'conversation.started', conversation),
    ...facts,
  };
}

/** An event as the storage returns it. */
export function storedEvent({ data, visitorId, ...event }: NewEvent, sequence: number): StoredEvent {
  return { ...event, sequence, visitorHash: visitorId && `hash of ${visitorId}`, dataJson: JSON.stringify(data) };
}

/** What an event of a type holds. */
function sampleData(type: EventType, stored: StoredConversation): EventData {
  const conversation = conversationView(stored);
  if (type === 'message.received') return { message: sampleMessage(stored.id, 1, { sender: 'visitor' }), conversation };
  if (type === 'lead.captured') return { lead: sampleLead({ conversationId: stored.id }), conversation };
  return { conversation };
}

/** Text and values that encodings like to break. */
export const awkwardText = "Zoë “quoted” 'it's' \\ null 👩‍👩‍👧‍👦 \u2028 日本語 \u{10ffff}";
export const awkwardMetadata = {
  [awkwardText]: awkwardText,
  '': 'an empty name',
  null: 'null',
  'a.b[0]': 0.1,
  huge: 1e21,
  tiny: Number.MIN_VALUE,
  exact: Number.MAX_SAFE_INTEGER,
  yes: true,
  no: false,
  zero: 0,
  empty: '',
};

export function sampleLead(changes: Partial<Lead> = {}): Lead {
  return {
    id: ids.next('lead', startMs),
    conversationId: null,
    name: null,
    email: 'ada@example.com',
    phone: null,
    company: null,
    metadata: {},
    createdAt: start,
    ...changes,
  };
}

export function sampleWebhook(changes: Partial<StoredWebhook> = {}): StoredWebhook {
  return {
    id: ids.next('webhook', startMs),
    url: 'https://example.com/hooks',
    events: ['conversation.started', 'message.received', 'conversation.closed', 'lead.captured'],
    description: null,
    enabled: true,
    disabledReason: null,
    createdAt: start,
    updatedAt: start,
    secrets: [{ secret: 'whsec_c2VjcmV0', until: null }],
    failingSince: null,
    ...changes,
  };
}

/** @param createdMs the time that its id carries too */
export function sampleDelivery(
  webhookId: string,
  changes: Partial<Omit<StoredDelivery, 'id' | 'createdAt'>> = {},
  createdMs = startMs,
): StoredDelivery {
  const createdAt = timestamp(createdMs);
  return {
    id: ids.next('delivery', createdMs),
    webhookId,
    eventId: ids.next('event', createdMs),
    eventType: 'conversation.started',
    eventSequence: 1,
    sample: null,
    status: 'pending',
    attemptCount: 0,
    step: 0,
    trigger: 'schedule',
    dueAt: createdAt,
    traceparent: null,
    createdAt,
    completedAt: null,
    ...changes,
  };
}

export function sampleAttempt(changes: Partial<Attempt> = {}): Attempt {
  return {
    id: ids.next('attempt', startMs),
    startedAt: start,
    durationMs: 12,
    trigger: 'schedule',
    responseStatus: 200,
    responseBody: 'ok',
    error: null,
    ...changes,
  };
}

/** A conversation with something in each of its fields. */
export function fullConversation(): StoredConversation {
  const time = (offset: number) => timestamp(startMs + offset);
  return sampleConversation({
    status: 'closed',
    subject: awkwardText,
    visitor: { id: awkwardText, name: null, email: 'zoë@例え.jp' },
    externalId: awkwardText,
    assignee: { id: awkwardText, name: null },
    tags: [awkwardText.slice(0, 5), '“', '\u{10ffff}'],
    metadata: awkwardMetadata,
    messageCount: 10_000,
    lastMessage: lastMessageOf(
      sampleMessage('', 10_000, { content: awkwardText, author: { id: awkwardText, name: null } }),
    ),
    contentBytes: 8 * 1024 * 1024,
    lastActivityAt: time(1),
    firstVisitorMessageAt: time(2),
    firstResponseAt: time(3),
    closedAt: time(4),
    version: 7,
    updatedAt: time(5),
  });
}
