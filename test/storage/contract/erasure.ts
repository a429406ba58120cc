import { describe, expect, test } from 'vitest';
import type { StoredConversation } from '../../../src/domain/conversation-record.ts';
import type { ConversationFilter } from '../../../src/domain/conversations.ts';
import type { Storage } from '../../../src/domain/storage-port.ts';
import {
  ids,
  sampleAttempt,
  sampleConversation,
  sampleDelivery,
  sampleEvent,
  sampleHash,
  sampleLead,
  sampleMessage,
  sampleWebhook,
  start,
  startMs,
  storedAccount,
} from '../../support/samples.ts';
import { until } from '../../support/wait.ts';
import { wholeConversation } from '../../support/whole-conversation.ts';
import type { OpenedStorage } from './opened.ts';

/** What every storage promises of erasing: a part of `storageContract`. */
export function erasureContract(open: () => Promise<OpenedStorage>): void {
  describe('erasing a conversation', () => {
    /** A conversation with everything that can hold its content. */
    async function store(storage: Storage, accountId: string, status: StoredConversation['status'] = 'active') {
      const externalId = ids.next('lead', startMs);
      const [agent, tags] = [{ id: 'agent-3', name: 'Grace' }, [`tag of ${externalId}`, 'urgent']];
      const conversation = sampleConversation({ status, externalId, assignee: agent, tags, messageCount: 3 });
      const messages = [1, 2, 3].map((sequence) =>
        sampleMessage(conversation.id, sequence, { author: agent, clientId: `draft-${sequence}` }),
      );
      const leads = [1, 2].map(() => sampleLead({ conversationId: conversation.id }));
      const webhook = sampleWebhook();
      const event = sampleEvent(conversation);
      const delivery = sampleDelivery(webhook.id, { eventId: event.id, attemptCount: 2 });
      const attempts = [sampleAttempt(), sampleAttempt({ responseStatus: 500 })];
      const key = ids.next('apiKey', startMs);
      await storage.write(async (tx) => {
        await tx.conversations.insert(accountId, conversation);
        for (const message of messages) await tx.messages.insert(accountId, message);
        for (const [sequence, reader] of ['visitor', 'agent-3', 'agent-4'].entries()) {
          await tx.readPositions.move(accountId, conversation, { reader, sequence: sequence + 1, readAt: start });
        }
        for (const lead of leads) await tx.leads.insert(accountId, lead);
        await tx.webhooks.insert(accountId, webhook);
        const eventSequence = await tx.events.append(accountId, [event]);
        await tx.deliveries.insert(accountId, { ...delivery, eventSequence });
        for (const [index, attempt] of attempts.entries()) {
          await tx.deliveries.insertAttempt(delivery.id, index + 1, attempt);
        }
        await tx.idempotencyRecords.put(accountId, key, {
          fingerprint: sampleHash(),
          result: '"stored"',
          conversationId: conversation.id,
          createdAtMs: startMs,
        });
      });
      return { conversation, messages, leads, event, delivery, key };
    }

    type Stored = Awaited<ReturnType<typeof store>>;

    /** All that is to be found of one. */
    async function trace({ read }: Storage, accountId: string, stored: Stored) {
      const { conversation, messages, leads, event, delivery, key } = stored;
      const { events } = await read.events.after(accountId, 0, { filter: {}, limit: 100, span: 100 });
      const [attempts] = await read.deliveries.attempts(accountId, [{ deliveryId: delivery.id, from: 1, to: 9 }]);
      const isListed = async (filter: ConversationFilter): Promise<boolean> => {
        const { items } = await read.conversations.page(accountId, { filter, sort: '-createdAt', limit: 9, offset: 0 });
        return items.some(({ id }) => id === conversation.id);
      };
      return {
        listed: [
          await isListed({ tags: conversation.tags }),
          await isListed({ assigneeId: 'agent-3' }),
          await isListed({ unreadBy: 'visitor' }),
        ],
        positions: (await read.readPositions.ofConversations(accountId, [conversation.id]))[0],
        conversation: await wholeConversation(read, accountId, conversation.id),
        byName: await read.conversations.idByExternalId(accountId, conversation.externalId ?? ''),
        messages: await read.messages.findMany(
          accountId,
          messages.map(({ id }) => id),
        ),
        leads: await read.leads.findMany(
          accountId,
          leads.map(({ id }) => id),
        ),
        event: events.find(({ id }) => id === event.id),
        answers: attempts?.map(({ responseStatus, responseBody }) => [responseStatus, responseBody]),
        result: (await read.idempotencyRecords.find(accountId, key))?.result,
      };
    }

    /** What is left of a trace of the conversation itself. */
    const hidden = {
      conversation: undefined,
      byName: undefined,
      listed: [false, false, false],
      positions: { positions: [], moves: 0 },
    };

    const erase = (storage: Storage, accountId: string, { conversation }: Stored) =>
      storage.write(async (tx) => tx.conversations.erase(accountId, conversation));

    test('removes all content that belongs to it, but keeps its places in the event log and its deliveries', async () => {
      const { storage, reopen } = await open();
      const { id } = await storedAccount(storage);
      const stored = await store(storage, id);
      const before = await trace(storage, id, stored);
      await erase(storage, id, stored);
      expect(before).toMatchObject({ listed: [true, true, true], positions: { positions: [{}, {}, {}], moves: 3 } });
      const expected = {
        ...hidden,
        messages: [undefined, undefined, undefined],
        leads: [undefined, undefined],
        event: { ...before.event, dataJson: '{"erased":true}' },
        answers: [
          [200, null],
          [500, null],
        ],
        result: null,
      };
      expect(await trace(storage, id, stored)).toEqual(expected);
      expect(await trace(await reopen(), id, stored)).toEqual(expected);
    });

    test('touches no other conversation and no other account, and keeps the counters right', async () => {
      const { storage } = await open();
      const [one, other] = [await storedAccount(storage), await storedAccount(storage)];
      const stored = await store(storage, one.id, 'closed');
      const beside = [await store(storage, one.id, 'closed'), await store(storage, one.id, 'pending')];
      const theirs = await store(storage, other.id);
      const traces = () =>
        Promise.all([
          ...beside.map((each) => trace(storage, one.id, each)),
          trace(storage, other.id, theirs),
          storage.read.accounts.totals(other.id),
        ]);
      const before = await traces();
      await erase(storage, one.id, stored);
      expect(await traces()).toEqual(before);
      expect(await storage.read.accounts.totals(one.id)).toMatchObject({
        active: 0,
        pending: 1,
        closed: 1,
        eventSequence: 3,
      });
      expect(await storage.read.leads.count(one.id, {})).toBe(4);
      expect(await storage.read.conversations.count(one.id, {})).toBe(2);
    });

    test('erases nothing if the transaction is rolled back', async () => {
      const { storage } = await open();
      const { id } = await storedAccount(storage);
      const stored = await store(storage, id);
      const before = await trace(storage, id, stored);
      const erasures = await storage.read.events.erasures();
      const undone = storage.write(async (tx) => {
        await tx.conversations.erase(id, stored.conversation);
        throw new Error('on purpose');
      });
      await expect(undone).rejects.toThrow('on purpose');
      expect(await trace(storage, id, stored)).toEqual(before);
      expect(await storage.read.events.erasures()).toBe(erasures);
      expect(await storage.read.accounts.totals(id)).toMatchObject({ active: 1 });
    });

    /** Adds so much to a conversation that no transaction should erase it alone: another of everything, many times. */
    async function enlarge(storage: Storage, accountId: string, { conversation, delivery }: Stored) {
      const more = Array.from({ length: 150 }, (_, index) => {
        const event = sampleEvent(conversation, { type: 'message.received' });
        return {
          message: sampleMessage(conversation.id, index + 4),
          lead: sampleLead({ conversationId: conversation.id }),
          event,
          delivery: sampleDelivery(delivery.webhookId, { eventId: event.id, attemptCount: 1 }),
          key: ids.next('apiKey', startMs),
        };
      });
      await storage.write(async (tx) => {
        for (const one of more) {
          await tx.messages.insert(accountId, one.message);
          await tx.leads.insert(accountId, one.lead);
          const eventSequence = await tx.events.append(accountId, [one.event]);
          await tx.deliveries.insert(accountId, { ...one.delivery, eventSequence });
          await tx.deliveries.insertAttempt(one.delivery.id, 1, sampleAttempt());
          await tx.idempotencyRecords.put(accountId, one.key, {
            fingerprint: sampleHash(),
            result: '"stored"',
            conversationId: conversation.id,
            createdAtMs: startMs,
          });
        }
      });
      return more;
    }

    /** All that is to be found of what was added, each kind by itself. */
    async function traceMore(
      { read, write }: Storage,
      accountId: string,
      { conversation, delivery }: Stored,
      more: Awaited<ReturnType<typeof enlarge>>,
    ) {
      const named = <T extends 'message' | 'lead' | 'delivery'>(kind: T) => more.map((one) => one[kind].id);
      const asked = named('delivery').map((deliveryId) => ({ deliveryId, from: 1, to: 9 }));
      const all = { filter: {}, limit: 1_000, span: 1_000 };
      const claimed = await write(async (tx) => {
        const atOnce = { id: 'over at once', nowMs: startMs + 1_000, endsMs: startMs + 1_000 };
        const [found] = await tx.deliveries.claim([{ webhookId: delivery.webhookId, limit: 1_000 }], atOnce);
        return found?.claimed.filter((one) => one.delivery.id !== delivery.id).map(({ event }) => event?.dataJson);
      });
      return {
        messages: await read.messages.findMany(accountId, named('message')),
        ranges: await read.messages.ranges(accountId, [{ conversationId: conversation.id, from: 1, to: 500 }]),
        leads: [
          ...(await read.leads.findMany(accountId, named('lead'))),
          await read.leads.find(accountId, more[7]?.lead.id ?? ''),
        ],
        leadPage: (await read.leads.page(accountId, { filter: {}, limit: 100, offset: 0 })).items,
        events: (await read.events.after(accountId, 0, all)).events.map(({ dataJson }) => dataJson),
        ofIt: (
          await read.events.after(accountId, 0, { ...all, filter: { conversationId: conversation.id } })
        ).events.map(({ dataJson }) => dataJson),
        claimed,
        answers: (await read.deliveries.attempts(accountId, asked)).flat().map(({ responseBody }) => responseBody),
        results: await Promise.all(more.map(({ key }) => read.idempotencyRecords.find(accountId, key))).then((found) =>
          found.map((one) => one?.result),
        ),
        page: (await read.conversations.page(accountId, { filter: {}, sort: '-createdAt', limit: 9, offset: 0 })).items,
        counts: [
          await read.conversations.count(accountId, {}),
          await read.conversations.count(accountId, { createdAfter: startMs - 1 }),
          await read.leads.count(accountId, {}),
        ],
        webhookId: delivery.webhookId,
      };
    }

    test('hides a large one at once and removes it in many transactions, the last of which reports the end', async () => {
      const { storage, beside, reopen } = await open();
      const [{ id }, other] = [await storedAccount(storage), await storedAccount(storage)];
      const theirs = await store(storage, other.id);
      const untouched = await trace(storage, other.id, theirs);
      const stored = await store(storage, id);
      const before = await trace(storage, id, stored);
      const more = await enlarge(storage, id, stored);
      const all = <T>(value: T) => more.map(() => value);
      const erased = '{"erased":true}';
      const gone = {
        messages: all(undefined),
        ranges: [[]],
        leads: [...all(undefined), undefined],
        leadPage: [],
        events: [erased, ...all(erased)],
        ofIt: [erased, ...all(erased)],
        claimed: all(erased),
        answers: all(null),
        results: all(null),
        page: [],
        counts: [0, 0, 0],
        webhookId: stored.delivery.webhookId,
      };
      expect(await traceMore(storage, id, stored, more)).not.toMatchObject({ leadPage: [] });
      const erasures = await storage.read.events.erasures();
      await erase(storage, id, stored);
      const others = await beside();
      const state = async () => ({
        ...(await trace(others, id, stored)),
        ...(await traceMore(others, id, stored, more)),
        theirs: await trace(others, other.id, theirs),
        totals: await others.read.accounts.totals(id),
        erasures: await others.read.events.erasures(),
      });
      const expected = {
        ...hidden,
        event: { ...before.event, dataJson: erased },
        result: null,
        ...gone,
        theirs: untouched,
        totals: { ...(await storage.read.accounts.totals(id)), active: 0, eventSequence: 1 + more.length },
        erasures: erasures + 1,
      };
      expect(await state()).toEqual(expected);
      expect(await storage.read.conversations.erasing()).toEqual([{ accountId: id, id: stored.conversation.id }]);
      // It cannot be begun anew, and nobody else's goes on by its id.
      await erase(storage, id, stored);
      expect(await storage.write(async (tx) => tx.conversations.eraseMore(other.id, stored.conversation.id))).toBe(
        true,
      );
      let steps = 0;
      for (let isGone = false; !isGone; steps++) {
        // Whoever comes next may be another.
        const next = steps % 2 === 0 ? storage : others;
        isGone = await next.write(async (tx) => tx.conversations.eraseMore(id, stored.conversation.id));
        if (steps < 3) expect(await state()).toEqual(expected);
        expect(await storage.read.conversations.erasing()).toHaveLength(isGone ? 0 : 1);
      }
      expect(steps).toBeGreaterThan(5);
      expect(await state()).toEqual(expected);
      expect(await storage.write(async (tx) => tx.conversations.eraseMore(id, stored.conversation.id))).toBe(true);
      expect(await traceMore(await reopen(), id, stored, more)).toEqual(gone);
    });

    test('continues where it stopped when the storage was closed', async () => {
      const { storage, reopen } = await open();
      const { id } = await storedAccount(storage);
      const stored = await store(storage, id);
      await enlarge(storage, id, stored);
      await erase(storage, id, stored);
      await storage.write(async (tx) => tx.conversations.eraseMore(id, stored.conversation.id));
      const reopened = await reopen();
      expect(await reopened.read.conversations.erasing()).toEqual([{ accountId: id, id: stored.conversation.id }]);
      let isGone = false;
      while (!isGone) {
        isGone = await reopened.write(async (tx) => tx.conversations.eraseMore(id, stored.conversation.id));
      }
      expect(await reopened.read.conversations.erasing()).toEqual([]);
    });

    test('notifies watchers in this and in other processes, which then see one erasure more', async () => {
      const { storage, beside } = await open();
      const { id } = await storedAccount(storage);
      const stored = await store(storage, id);
      const other = await beside();
      const before = await other.read.events.erasures();
      const heard: string[] = [];
      const stops = [
        storage.watch((touched) => void (touched === undefined && heard.push('here'))),
        other.watch((touched) => void (touched === undefined && heard.push('beside'))),
      ];
      await erase(storage, id, stored);
      await until(() => heard.includes('here') && heard.includes('beside'));
      for (const stop of stops) stop();
      expect(await other.read.events.erasures()).toBe(before + 1);
      expect(await other.read.conversations.find(id, stored.conversation.id)).toBeUndefined();
    });
  });
}
