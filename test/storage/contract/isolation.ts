import { describe, expect, test } from 'vitest';
import { conversationSorts } from '../../../src/domain/conversations.ts';
import { lastMessageOf } from '../../../src/domain/message-record.ts';
import type { Storage } from '../../../src/domain/storage-port.ts';
import {
  sampleAttempt,
  sampleConversation,
  sampleDelivery,
  sampleEvent,
  sampleHash,
  sampleKey,
  sampleLead,
  sampleMessage,
  sampleWebhook,
  start,
  startMs,
  storedAccount,
} from '../../support/samples.ts';
import { wholeConversation } from '../../support/whole-conversation.ts';
import type { OpenedStorage } from './opened.ts';

/** What every storage promises of one account and another: a part of `storageContract`. */
export function isolationContract(open: () => Promise<OpenedStorage>): void {
  describe('another account', () => {
    test('finds nothing under any id of this one, neither in reads nor in transactions', async () => {
      const { storage } = await open();
      const mine = await storedAccount(storage);
      const theirs = await storedAccount(storage);
      const key = sampleKey();
      const started = sampleConversation({
        externalId: 'order-1',
        visitor: { id: 'visitor-1', name: null, email: 'ada@example.com' },
        assignee: { id: 'agent-1', name: null },
        tags: ['urgent'],
        messageCount: 1,
      });
      const message = sampleMessage(started.id, 1);
      const conversation = { ...started, lastMessage: lastMessageOf(message) };
      const lead = sampleLead({ conversationId: conversation.id });
      const event = sampleEvent(conversation);
      const webhook = sampleWebhook();
      const delivery = sampleDelivery(webhook.id, { status: 'failed' });
      const attempt = sampleAttempt();
      await storage.write(async (tx) => {
        await tx.webhooks.insert(mine.id, webhook);
        await tx.deliveries.insert(mine.id, delivery);
        await tx.deliveries.insertAttempt(delivery.id, 1, attempt);
        await tx.apiKeys.insert(mine.id, key, sampleHash());
        await tx.conversations.insert(mine.id, conversation);
        await tx.messages.insert(mine.id, message);
        await tx.leads.insert(mine.id, lead);
        await tx.events.append(mine.id, [event]);
        await tx.rateWindows.add(mine.id, 10, 5);
        await tx.documents.insert(mine.id, { id: 'a', text: '{ __typename }', createdAt: start });
      });
      const leadFilters = [{}, { conversationId: conversation.id }, { email: lead.email ?? '' }, { createdAfter: 0 }];
      const everything = async (reads: Omit<Storage['read'], 'analytics' | 'search'>, accountId: string) => ({
        key: await reads.apiKeys.find(accountId, key.id),
        keyWithAccount: await reads.apiKeys.findWithAccount(accountId, key.id),
        manyKeys: await reads.apiKeys.findMany(accountId, [key.id]),
        keys: await reads.apiKeys.page(accountId, { limit: 10, offset: 0 }),
        keyCounts: [await reads.apiKeys.count(accountId), await reads.apiKeys.countLive(accountId, startMs)],
        conversation: await reads.conversations.find(accountId, conversation.id),
        opened: await reads.conversations.open(accountId, conversation.id, { count: 9, maxCount: 9, maxBytes: 9_999 }),
        many: await reads.conversations.findMany(accountId, [conversation.id]),
        whole: await wholeConversation(reads, accountId, conversation.id),
        byExternalId: await reads.conversations.idByExternalId(accountId, 'order-1'),
        pages: await Promise.all(
          conversationSorts.map(async (sort) => {
            const query = { filter: {}, sort, limit: 10, offset: 0 };
            const { items, hasMore } = await reads.conversations.page(accountId, query);
            return { items, hasMore };
          }),
        ),
        counts: [
          await reads.conversations.count(accountId, {}),
          await reads.conversations.count(accountId, { statuses: ['active'] }),
          await reads.conversations.count(accountId, { externalId: 'order-1' }),
          await reads.conversations.count(accountId, { createdAfter: 0 }),
          await reads.conversations.count(accountId, { visitorId: 'visitor-1' }),
          await reads.conversations.count(accountId, { visitorEmail: 'ada@example.com' }),
          await reads.conversations.count(accountId, { assigneeId: 'agent-1' }),
          await reads.conversations.count(accountId, { unassigned: false }),
          await reads.conversations.count(accountId, { tags: ['urgent'] }),
          await reads.conversations.count(accountId, { updatedAfter: 0 }),
        ],
        messages: await reads.messages.findMany(accountId, [message.id]),
        ranges: await reads.messages.ranges(accountId, [{ conversationId: conversation.id, from: 1, to: 9 }]),
        messagePage: await reads.messages.page(accountId, conversation.id, { isFromEnd: true, limit: 9, offset: 0 }),
        totals: await reads.accounts.totals(accountId),
        lead: await reads.leads.find(accountId, lead.id),
        leads: await reads.leads.findMany(accountId, [lead.id]),
        leadPages: await Promise.all(
          leadFilters.map((filter) => reads.leads.page(accountId, { filter, limit: 10, offset: 0 })),
        ),
        leadCounts: await Promise.all(leadFilters.map((filter) => reads.leads.count(accountId, filter))),
        bounds: await reads.events.bounds(accountId),
        logEnds: await reads.events.lastSequences([accountId]),
        events: await Promise.all(
          [{}, { types: [event.type] }, { conversationId: conversation.id }].map(async (filter) => {
            const page = await reads.events.after(accountId, 0, { filter, limit: 9, span: 9 });
            return page.events.map(({ id }) => id);
          }),
        ),
        windows: await reads.rateWindows.since(accountId, 0),
        webhook: await reads.webhooks.find(accountId, webhook.id),
        webhooks: await reads.webhooks.findMany(accountId, [webhook.id]),
        webhookPage: await reads.webhooks.page(accountId, { limit: 10, offset: 0 }),
        webhookCount: await reads.webhooks.count(accountId),
        wanting: await reads.webhooks.enabled(accountId),
        delivery: await reads.deliveries.find(accountId, delivery.id),
        deliveries: await reads.deliveries.findMany(accountId, [delivery.id]),
        deliveryPage: await reads.deliveries.page(accountId, webhook.id, { limit: 10, offset: 0 }),
        deliveryCount: await reads.deliveries.count(accountId, webhook.id),
        attempts: await reads.deliveries.attempts(accountId, [{ deliveryId: delivery.id, from: 1, to: 9 }]),
        failed: await reads.deliveries.failed(accountId, webhook.id, { fromId: '', limit: 9 }),
        document: await reads.documents.text(accountId, 'a'),
        documents: await reads.documents.findMany(accountId, ['a']),
        documentPage: await reads.documents.page(accountId, { limit: 10, offset: 0 }),
        documentTotals: await reads.documents.totals(accountId),
      });
      const none = { items: [], hasMore: false };
      const nothing: Awaited<ReturnType<typeof everything>> = {
        key: undefined,
        keyWithAccount: undefined,
        manyKeys: [undefined],
        keys: none,
        keyCounts: [0, 0],
        conversation: undefined,
        opened: undefined,
        many: [undefined],
        whole: undefined,
        byExternalId: undefined,
        pages: conversationSorts.map(() => none),
        counts: Array.from({ length: 10 }, () => 0),
        messages: [undefined],
        ranges: [[]],
        messagePage: undefined,
        totals: expect.objectContaining({ active: 0, pending: 0, closed: 0, eventSequence: 0 }),
        lead: undefined,
        leads: [undefined],
        leadPages: leadFilters.map(() => none),
        leadCounts: leadFilters.map(() => 0),
        bounds: { first: 1, last: 0 },
        logEnds: [0],
        events: [[], [], []],
        windows: [],
        webhook: undefined,
        webhooks: [undefined],
        webhookPage: none,
        webhookCount: 0,
        wanting: [],
        delivery: undefined,
        deliveries: [undefined],
        deliveryPage: none,
        deliveryCount: 0,
        attempts: [[]],
        failed: [],
        document: undefined,
        documents: [undefined],
        documentPage: none,
        documentTotals: { count: 0, bytes: 0 },
      };
      expect(await everything(storage.read, theirs.id)).toEqual(nothing);
      expect(await storage.write((tx) => everything(tx, theirs.id))).toEqual(nothing);
      // The same questions of the owner are all answered: the silence above is not a mistake of the questions.
      const found = await everything(storage.read, mine.id);
      expect(found).toMatchObject({
        key,
        conversation,
        opened: { conversation },
        messages: [message],
        ranges: [[message]],
        messagePage: { messages: [message] },
        counts: Array.from({ length: 10 }, () => 1),
        lead,
        leads: [lead],
        leadPages: leadFilters.map(() => ({ items: [lead] })),
        leadCounts: leadFilters.map(() => 1),
        bounds: { first: 1, last: 1 },
        logEnds: [1],
        events: [[event.id], [event.id], [event.id]],
        webhook,
        webhooks: [webhook],
        webhookPage: { items: [webhook] },
        webhookCount: 1,
        wanting: [{ id: webhook.id }],
        delivery,
        deliveries: [delivery],
        deliveryPage: { items: [delivery] },
        deliveryCount: 1,
        attempts: [[attempt]],
        failed: [delivery],
      });
    });

    test('cannot change or remove a webhook of this one', async () => {
      const { storage } = await open();
      const [mine, theirs] = [await storedAccount(storage), await storedAccount(storage)];
      const webhook = sampleWebhook();
      await storage.write(async (tx) => {
        await tx.webhooks.insert(mine.id, webhook);
        await tx.webhooks.update(theirs.id, { ...webhook, url: 'https://example.org/' });
        await tx.webhooks.remove(theirs.id, webhook.id);
      });
      expect(await storage.read.webhooks.find(mine.id, webhook.id)).toEqual(webhook);
    });

    test('cannot change a conversation of this one', async () => {
      const { storage } = await open();
      const [mine, theirs] = [await storedAccount(storage), await storedAccount(storage)];
      const conversation = sampleConversation();
      await storage.write(async (tx) => tx.conversations.insert(mine.id, conversation));
      const change = storage.write(async (tx) =>
        tx.conversations.update(theirs.id, conversation, { ...conversation, status: 'closed', version: 2 }),
      );
      await expect(change).rejects.toThrow();
      expect(await storage.read.conversations.find(mine.id, conversation.id)).toEqual(conversation);
      expect(await storage.read.accounts.totals(theirs.id)).toMatchObject({ active: 0, closed: 0 });
    });
  });
}
