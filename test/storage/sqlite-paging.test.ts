import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { StoredConversation } from '../../src/domain/conversation-record.ts';
import { type ConversationFilter, type ConversationSort, conversationSorts } from '../../src/domain/conversations.ts';
import type { Lead, LeadFilter } from '../../src/domain/leads.ts';
import { statuses } from '../../src/domain/lifecycle.ts';
import { timestamp } from '../../src/domain/time.ts';
import { entriesPerStep, rowsPerStep } from '../../src/storage/sqlite/paging.ts';
import { openSqliteStorage, type SqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { minuteMs } from '../support/clock.ts';
import { effort, longTest } from '../support/effort.ts';
import {
  ids,
  sampleAttempt,
  sampleConversation,
  sampleDelivery,
  sampleLead,
  sampleMessage,
  sampleWebhook,
  startMs,
  storedAccount,
} from '../support/samples.ts';

// What a page shows is little; what it passes over can be all that an account has. Nobody else waits for that.

/** More than what is walked at once, and than twice that. */
const many = effort(6_000, 12_000);
const middle = many / 2;

/** Runs something, and says how often the loop has turned meanwhile. */
async function turning<T>(work: () => T | Promise<T>): Promise<{ result: T; turns: number }> {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    if (isOver) return;
    turns++;
    setImmediate(count);
  };
  setImmediate(count);
  const result = await work();
  isOver = true;
  return { result, turns };
}

/** The same, and again if that were too many turns: steps are smaller on a machine that stalls, but not every time. */
async function turningAtMost<T>(most: number, work: () => T | Promise<T>): Promise<{ result: T; turns: number }> {
  let ran = await turning(work);
  for (let tried = 1; ran.turns > most && tried < 5; tried++) ran = await turning(work);
  expect(ran.turns).toBeLessThanOrEqual(most);
  return ran;
}

const folder = mkdtempSync(join(tmpdir(), 'conversation-service-'));
let storage: SqliteStorage;
let accountId: string;
/** All of an account's conversations in each order. */
const inOrder = {} as Record<ConversationSort, readonly StoredConversation[]>;
/** All of its leads, as they are listed: newest first. */
let leads: readonly Lead[];
/** Of two conversations nearly all leads, but few in the second; nearly all by one of two addresses. */
const [talkative, quiet] = [ids.next('conversation', startMs), ids.next('conversation', startMs)];

beforeAll(async () => {
  const path = join(folder, 'test.db');
  storage = openSqliteStorage(path);
  accountId = (await storedAccount(storage)).id;
  const all: { conversation: StoredConversation; activeMs: number }[] = [];
  for (let index = 0; index < many; index++) {
    const createdMs = startMs + index * minuteMs;
    // Most go quiet soon; some old ones are spoken in again.
    const activeMs = createdMs + (index % 7 === 0 ? ((index * 7_919) % many) * minuteMs : 1_000);
    const facts = {
      status: statuses[index % 3] ?? 'active',
      lastActivityAt: timestamp(activeMs),
      updatedAt: timestamp(startMs + index),
      // Two visitors: of few conversations, and of most.
      visitor: { id: index % 100 === 0 ? 'rare' : 'common', name: null, email: `${index % 4}@example.com` },
      assignee: index % 5 === 0 ? null : { id: index % 50 === 1 ? 'rare' : 'common', name: null },
      messageCount: 1,
      tags: index % 2 === 0 ? ['even', ...(index % 1_000 === 0 ? ['rare'] : [])] : [],
      externalId: index % 3 === 0 ? null : `order-${index}`,
    };
    const conversation = sampleConversation(facts, createdMs);
    all.push({ conversation, activeMs });
  }
  const captured = all.map(({ conversation: { createdAt } }, index) =>
    sampleLead({
      id: ids.next('lead', Date.parse(createdAt)),
      createdAt,
      conversationId: index % 10 === 0 ? null : index % 100 === 1 ? quiet : talkative,
      email: index % 11 === 0 ? null : index % 500 === 2 ? 'Rare@example.com' : 'common@example.com',
      phone: '+49 30 1234567',
    }),
  );
  leads = captured.toReversed();
  const inserted: Promise<void>[] = [];
  for (let from = 0; from < many; from += 1_000) {
    const insert = storage.write(async (tx) => {
      for (const lead of captured.slice(from, from + 1_000)) await tx.leads.insert(accountId, lead);
      for (const { conversation } of all.slice(from, from + 1_000)) {
        await tx.conversations.insert(accountId, conversation);
        const reader = conversation.visitor?.id ?? ''; // who has read none of it, for this test
        await tx.readPositions.move(accountId, conversation, { reader, sequence: 0, readAt: timestamp(startMs) });
      }
    });
    inserted.push(insert);
  }
  await Promise.all(inserted);
  inOrder.createdAt = all.map(({ conversation }) => conversation);
  // Sorting keeps those of the same moment in the order of their ids.
  inOrder.lastActivityAt = all.toSorted((a, b) => a.activeMs - b.activeMs).map(({ conversation }) => conversation);
  inOrder['-createdAt'] = inOrder.createdAt.toReversed();
  inOrder['-lastActivityAt'] = inOrder.lastActivityAt.toReversed();
});
afterAll(async () => {
  await storage.close();
  rmSync(folder, { recursive: true });
});

function accepts(filter: ConversationFilter, one: StoredConversation): boolean {
  const {
    externalId,
    visitorId,
    visitorEmail,
    assigneeId,
    unassigned,
    unreadBy,
    tags = [],
    createdAfter,
    createdBefore,
    updatedAfter,
  } = filter;
  return (
    (filter.statuses ?? statuses).includes(one.status) &&
    (externalId === undefined || one.externalId === externalId) &&
    (visitorId === undefined || one.visitor?.id === visitorId) &&
    (visitorEmail === undefined || one.visitor?.email === visitorEmail) &&
    (assigneeId === undefined || one.assignee?.id === assigneeId) &&
    (unassigned === undefined || (one.assignee === null) === unassigned) &&
    (unreadBy === undefined || one.visitor?.id === unreadBy) &&
    tags.every((tag) => one.tags.includes(tag)) &&
    (updatedAfter === undefined || one.updatedAt > timestamp(updatedAfter)) &&
    (createdAfter === undefined || one.createdAt > timestamp(createdAfter)) &&
    (createdBefore === undefined || one.createdAt < timestamp(createdBefore))
  );
}

longTest('a page and its count are right and block nobody, however much of an account they skip', async () => {
  const { read } = storage;
  const at = (index: number): number => startMs + index * minuteMs;
  const windows: ConversationFilter[] = [
    {},
    { createdBefore: at(100) },
    { createdAfter: at(many - 100) },
    { createdAfter: at(middle), createdBefore: at(middle + 40) },
    { createdAfter: at(many) },
    { createdAfter: at(10), createdBefore: at(many - 10) },
  ];
  const filters = windows.flatMap((window) => [window, { ...window, statuses: ['closed' as const] }]);
  for (const filter of filters) {
    const matching = inOrder.createdAt.filter((one) => accepts(filter, one));
    const counted = await turning(() => read.conversations.count(accountId, filter));
    expect(counted.result).toBe(matching.length);
    const ofWindow = inOrder.createdAt.filter((one) => accepts({ ...filter, statuses }, one));
    const isNarrowed = (filter.createdAfter ?? filter.createdBefore) !== undefined;
    if (isNarrowed) expect(counted.turns).toBeGreaterThanOrEqual(Math.floor(matching.length / entriesPerStep));

    for (const sort of conversationSorts) {
      const ofStatus = inOrder[sort].filter(({ status }) => (filter.statuses ?? statuses).includes(status));
      const expected = ofStatus.filter((one) => accepts(filter, one));
      for (const offset of [0, 30, Math.max(0, expected.length - 5), expected.length, 2 ** 31 - 1]) {
        // How many there are of a status is kept, so that nothing is walked for what lies behind the last.
        const isKnown = !isNarrowed && offset >= expected.length;
        const { result, turns } = await turningAtMost(isKnown ? 1 : Number.POSITIVE_INFINITY, () =>
          read.conversations.page(accountId, { filter, sort, limit: 10, offset }),
        );
        const shown = expected.slice(offset, offset + 10);
        const what = JSON.stringify({ filter, sort, offset });
        expect(
          result.items.map(({ id }) => id),
          what,
        ).toEqual(shown.map(({ id }) => id));
        expect(result.hasMore, what).toBe(expected.length > offset + 10);
        // Few are sorted. Otherwise, by creation an index begins at the window; by activity it is walked from one end of
        // the account.
        if (isKnown || (isNarrowed && ofWindow.length <= rowsPerStep)) continue;
        const walked = sort.endsWith('createdAt') ? expected : ofStatus;
        const last = expected[offset + 10] ?? walked.at(-1);
        const passed = last === undefined ? 0 : walked.indexOf(last);
        expect(turns, what).toBeGreaterThanOrEqual(Math.floor(passed / (entriesPerStep + 1)));
      }
    }
  }
});

const combinations: ConversationFilter[] = [
  { statuses: ['active', 'pending'] },
  { statuses: ['active', 'pending'], createdAfter: startMs + middle * minuteMs },
  { externalId: 'order-100' },
  { externalId: 'nobody’s' },
  { externalId: 'order-100', statuses: ['active'], visitorId: 'rare' },
  { externalId: 'order-100', statuses: ['closed'] },
  { externalId: 'order-100', visitorId: 'common' },
  { externalId: 'order-100', visitorEmail: '0@example.com', unassigned: true, tags: ['even'] },
  { externalId: 'order-100', unreadBy: 'rare', createdAfter: startMs + 99 * minuteMs, updatedAfter: startMs },
  { externalId: 'order-100', unreadBy: 'common' },
  { externalId: 'order-100', createdAfter: startMs + 100 * minuteMs },
  { externalId: 'order-101', assigneeId: 'rare', createdBefore: startMs + 102 * minuteMs },
  { visitorId: 'rare' },
  { visitorId: 'common', statuses: ['closed'] },
  { visitorId: 'rare', statuses: ['closed', 'pending'], tags: ['even'] },
  { visitorId: 'nobody' },
  { visitorEmail: '3@example.com', visitorId: 'rare' },
  { visitorEmail: '3@example.com', unassigned: true },
  { assigneeId: 'rare' },
  { assigneeId: 'common', statuses: ['active'] },
  { assigneeId: 'common', visitorId: 'rare', createdBefore: startMs + (many - 3_000) * minuteMs },
  { assigneeId: 'common', unassigned: true },
  { unassigned: true, statuses: ['pending'] },
  { unassigned: false, tags: ['rare'] },
  { unreadBy: 'rare' },
  { unreadBy: 'common' },
  { unreadBy: 'nobody' },
  { unreadBy: 'common', visitorId: 'rare' },
  { unreadBy: 'common', tags: ['rare'], createdAfter: startMs + 1_000 * minuteMs },
  { unreadBy: 'common', assigneeId: 'common', statuses: ['active'] },
  { tags: ['rare', 'even'] },
  { tags: ['even'], updatedAfter: startMs + middle, statuses: ['active', 'closed'] },
  { updatedAfter: startMs + many },
  { createdAfter: startMs + 2_000 * minuteMs, createdBefore: startMs + 2_100 * minuteMs, tags: ['even'] },
];

const tried = effort(
  combinations.filter((_, index) => index % 3 === 0),
  combinations,
);

test.each(tried)('a list is right in every order, at any offset and from any cursor: %j', async (filter) => {
  const { read } = storage;
  const accepted = new Set(inOrder.createdAt.filter((one) => accepts(filter, one)));
  expect(await read.conversations.count(accountId, filter)).toBe(accepted.size);
  for (const sort of conversationSorts) {
    const expected = inOrder[sort].filter((one) => accepted.has(one)).map(({ id }) => id);
    for (const offset of [0, 7, Math.max(0, expected.length - 5), expected.length, 2 ** 31 - 1]) {
      const page = await read.conversations.page(accountId, { filter, sort, limit: 10, offset });
      expect(page.items.map(({ id }) => id)).toEqual(expected.slice(offset, offset + 10));
      expect(page.hasMore).toBe(expected.length > offset + 10);
    }
    const found: string[] = [];
    const limit = Math.max(7, Math.ceil(expected.length / 15));
    for (let after: { id: string; lastActivityAtMs: number } | undefined, more = true; more; ) {
      const query = { filter, sort, limit, offset: 0, ...(after !== undefined && { after }) };
      const { items, hasMore } = await read.conversations.page(accountId, query);
      found.push(...items.map(({ id }) => id));
      const last = items.at(-1);
      after = last && { id: last.id, lastActivityAtMs: Date.parse(last.lastActivityAt) };
      more = hasMore;
    }
    expect(found).toEqual(expected);
  }
});

longTest('walks of a hundred that ask together block nobody', async () => {
  const { read } = storage;
  const sort = '-createdAt';
  const walks = [
    () =>
      read.conversations.page(accountId, {
        filter: { statuses: ['active', 'closed'] },
        sort,
        limit: 1,
        offset: entriesPerStep,
      }),
    () => read.conversations.count(accountId, { createdAfter: startMs }),
    () => read.conversations.count(accountId, { visitorId: 'common', unassigned: true }),
    () =>
      read.conversations.page(accountId, {
        filter: { assigneeId: 'common', unassigned: true },
        sort: 'lastActivityAt',
        limit: 1,
        offset: 0,
      }),
    () =>
      read.conversations.page(accountId, {
        filter: { visitorId: 'common', tags: ['even'] },
        sort: 'lastActivityAt',
        limit: 1,
        offset: 2 ** 31 - 1,
      }),
    () => read.leads.page(accountId, { filter: {}, limit: 1, offset: entriesPerStep }),
    () => read.leads.page(accountId, { filter: { conversationId: talkative }, limit: 1, offset: 2 ** 31 - 1 }),
    () => read.leads.count(accountId, { email: 'common@example.com' }),
    () => read.leads.count(accountId, { conversationId: talkative, email: 'nobody@example.com' }),
    () =>
      read.leads.page(accountId, {
        filter: { conversationId: talkative, email: 'rare@example.com', createdAfter: startMs },
        limit: 1,
        offset: 2 ** 31 - 1,
      }),
    () =>
      read.conversations.page(accountId, {
        filter: { createdAfter: startMs },
        sort: 'lastActivityAt',
        limit: 1,
        offset: 500,
      }),
  ];
  for (const walk of walks) {
    const together = () => Promise.all(Array.from({ length: 100 }, async () => await walk()));
    const before = process.threadCpuUsage();
    const { turns } = await turning(together);
    const { user, system } = process.threadCpuUsage(before); // what the machine does besides does not count
    expect(turns, 'a turn takes a few milliseconds').toBeGreaterThan((user + system) / 1_000 / 10);
  }
});

test('pages by cursor, each of which skips many entries, list every match once', async () => {
  const filter = { createdAfter: startMs + middle * minuteMs, createdBefore: startMs + (middle + 60) * minuteMs };
  for (const sort of ['lastActivityAt', '-lastActivityAt'] as const) {
    const found: string[] = [];
    for (let after: { id: string; lastActivityAtMs: number } | undefined, more = true; more; ) {
      const query = { filter, sort, limit: 7, offset: 0, ...(after !== undefined && { after }) };
      const { items, hasMore } = await storage.read.conversations.page(accountId, query);
      found.push(...items.map(({ id }) => id));
      const last = items.at(-1);
      after = last && { id: last.id, lastActivityAtMs: Date.parse(last.lastActivityAt) };
      more = hasMore;
    }
    expect(found).toEqual(inOrder[sort].filter((one) => accepts(filter, one)).map(({ id }) => id));
  }
});

test('a conversation that moves to the end of a list while a page of it is read is on that page once', async () => {
  const own = await storedAccount(storage);
  const assignee = { id: 'agent', name: null };
  const all = Array.from({ length: 4 * rowsPerStep }, (_, index) =>
    sampleConversation(index % 1_000 === 0 ? { assignee } : {}, startMs + index),
  );
  await storage.write(async (tx) => {
    for (const conversation of all) await tx.conversations.insert(own.id, conversation);
  });
  const assigned = all.filter((one) => one.assignee !== null);
  const [first] = assigned;
  if (first === undefined) expect.fail();
  const query = { filter: { unassigned: false }, sort: 'lastActivityAt', limit: 4, offset: 0 } as const;
  const reading = storage.read.conversations.page(own.id, query);
  const moved = { ...first, lastActivityAt: timestamp(startMs + minuteMs), version: first.version + 1 };
  await storage.write(async (tx) => tx.conversations.update(own.id, first, moved));
  const { items, hasMore } = await reading;
  expect(items.map(({ id }) => id)).toEqual(assigned.map(({ id }) => id));
  expect(hasMore).toBe(false);
});

const leadFilters: readonly LeadFilter[] = [
  {},
  { conversationId: talkative },
  { conversationId: quiet },
  { email: 'common@example.com' },
  { email: 'rare@example.com' },
  { conversationId: talkative, email: 'common@example.com' },
  { conversationId: talkative, email: 'rare@example.com' },
  { conversationId: quiet, email: 'common@example.com' },
  { conversationId: quiet, email: 'rare@example.com' },
].flatMap((filter) => [
  filter,
  { ...filter, createdAfter: startMs + 2_000 * minuteMs },
  { ...filter, createdBefore: startMs + 2_000 * minuteMs },
  { ...filter, createdAfter: startMs + 1_000 * minuteMs, createdBefore: startMs + (many - 1_000) * minuteMs },
]);

test.each(leadFilters)(
  'a list of leads is right at any offset and from any cursor, and blocks nobody: %j',
  async (filter) => {
    const { read } = storage;
    const { conversationId, email, createdAfter = -Infinity, createdBefore = Infinity } = filter;
    // No index has both: each lead of the conversation is tested, and fewer of them in a step.
    const isTested = conversationId !== undefined && email !== undefined;
    const hasEmail = (lead: Lead): boolean => email === undefined || lead.email?.toLowerCase() === email;
    const walked = leads.filter((lead) => {
      const createdMs = Date.parse(lead.createdAt);
      const isOf = conversationId === undefined || lead.conversationId === conversationId;
      return isOf && (isTested || hasEmail(lead)) && createdMs > createdAfter && createdMs < createdBefore;
    });
    const expected = walked.filter(hasEmail);
    const perStep = isTested ? rowsPerStep : entriesPerStep;
    const isKept = Object.keys(filter).length === 0;
    const counted = await turning(() => read.leads.count(accountId, filter));
    expect(counted.result).toBe(expected.length);
    if (!isKept) expect(counted.turns).toBeGreaterThanOrEqual(Math.floor(walked.length / perStep));

    for (const offset of [0, 7, Math.max(0, expected.length - 5), expected.length, 2 ** 31 - 1]) {
      const isKnown = isKept && offset >= expected.length;
      const { result, turns } = await turningAtMost(isKnown ? 1 : Number.POSITIVE_INFINITY, () =>
        read.leads.page(accountId, { filter, limit: 10, offset }),
      );
      expect(result).toEqual({ items: expected.slice(offset, offset + 10), hasMore: expected.length > offset + 10 });
      const last = expected[offset + 10];
      const passed = last === undefined ? walked.length : walked.indexOf(last);
      if (!isKnown) expect(turns).toBeGreaterThanOrEqual(Math.floor(passed / (perStep + 1)));
    }

    const found: Lead[] = [];
    const limit = Math.max(7, Math.ceil(expected.length / 15));
    for (let more = true; more && found.length <= expected.length; ) {
      const after = found.at(-1)?.id;
      // What lies before the cursor costs nothing.
      const from = walked.findIndex(({ id }) => id === after);
      const next = expected[found.length + limit];
      const passed = (next === undefined ? walked.length : walked.indexOf(next)) - from;
      const most = 1 + (isTested ? 3 * Math.ceil(passed / perStep) : 0);
      const { result } = await turningAtMost(most, () =>
        read.leads.page(accountId, { filter, limit, offset: 0, after }),
      );
      found.push(...result.items);
      more = result.hasMore;
    }
    expect(found).toEqual(expected);
  },
);

test('deliveries at large offsets are found and counted in the same way', async () => {
  const { read, write } = storage;
  const webhook = sampleWebhook();
  const count = entriesPerStep + 1_000;
  const made = Array.from({ length: count }, (_, index) => sampleDelivery(webhook.id, { eventSequence: index + 1 }));
  await write(async (tx) => {
    await tx.webhooks.insert(accountId, webhook);
    for (const delivery of made) await tx.deliveries.insert(accountId, delivery);
  });
  const idsOfMade = made
    .map(({ id }) => id)
    .sort()
    .reverse();
  const deliveries = await turning(() =>
    read.deliveries.page(accountId, webhook.id, { limit: 10, offset: count - 15 }),
  );
  expect(deliveries.result.items.map(({ id }) => id)).toEqual(idsOfMade.slice(-15, -5));
  expect(deliveries.turns).toBeGreaterThanOrEqual(1);
  const counted = await turning(() => read.deliveries.count(accountId, webhook.id));
  expect(counted.result).toBe(count);
  expect(counted.turns).toBeGreaterThanOrEqual(1);
});

test('long messages and attempts are read in steps, and no further than their reader lets them', async () => {
  const { read, write } = storage;
  const long = '€'.repeat(16_384); // 48 KiB
  const conversations = [sampleConversation({ messageCount: 40 }), sampleConversation({ messageCount: 40 })];
  const webhook = sampleWebhook();
  const deliveries = [1, 2].map((eventSequence) => sampleDelivery(webhook.id, { eventSequence, attemptCount: 40 }));
  await write(async (tx) => {
    await tx.webhooks.insert(accountId, webhook);
    for (const conversation of conversations) {
      await tx.conversations.insert(accountId, conversation);
      for (let sequence = 1; sequence <= 40; sequence++) {
        await tx.messages.insert(accountId, sampleMessage(conversation.id, sequence, { content: long }));
      }
    }
    for (const delivery of deliveries) {
      await tx.deliveries.insert(accountId, delivery);
      for (let number = 1; number <= 40; number++) {
        await tx.deliveries.insertAttempt(delivery.id, number, sampleAttempt({ responseBody: long }));
      }
    }
  });
  for (const ask of [
    (onRead?: (bytes: number) => void) => {
      const ranges = conversations.map(({ id }) => ({ conversationId: id, from: 3, to: 39 }));
      return read.messages.ranges(accountId, ranges, onRead);
    },
    (onRead?: (bytes: number) => void) => {
      const ranges = deliveries.map(({ id }) => ({ deliveryId: id, from: 3, to: 39 }));
      return read.deliveries.attempts(accountId, ranges, onRead);
    },
  ]) {
    const { result, turns } = await turning(() => ask());
    expect(result.map((page) => page.length)).toEqual([37, 37]);
    expect(turns).toBeGreaterThanOrEqual(2);
    let bytes = 0;
    const noMore = (more: number): void => {
      bytes += more;
      throw new Error('no more');
    };
    await expect(async () => await ask(noMore)).rejects.toThrow('no more');
    expect(bytes).toBeLessThan(2 * 1024 * 1024);
  }
  const [, second = []] = await read.messages.ranges(
    accountId,
    conversations.map(({ id }) => ({ conversationId: id, from: 3, to: 39 })),
  );
  expect(second.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 37 }, (_, at) => at + 3));
});

test('of conversations that are tested for twenty tags, a step tests fewer than for one', async () => {
  const { id } = await storedAccount(storage);
  const tags = Array.from({ length: 20 }, (_, index) => `${'é'.repeat(47)}${10 + index}`);
  const count = 600;
  await storage.write(async (tx) => {
    for (let index = 0; index < count; index++) await tx.conversations.insert(id, sampleConversation({ tags }));
  });
  const turns = count / (rowsPerStep / 5) - 1; // between that many steps
  const counted = await turning(() => storage.read.conversations.count(id, { tags }));
  expect(counted.result).toBe(count);
  expect(counted.turns).toBeGreaterThanOrEqual(turns);
  const query = { filter: { tags, unassigned: true }, sort: '-createdAt', limit: 10, offset: count - 5 } as const;
  const page = await turning(() => storage.read.conversations.page(id, query));
  expect(page.result.items.length).toBe(5);
  expect(page.turns).toBeGreaterThanOrEqual(turns);
});
