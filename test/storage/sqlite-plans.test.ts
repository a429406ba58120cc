import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ConversationFilter, type ConversationSort, conversationSorts } from '../../src/domain/conversations.ts';
import type { EventFilter } from '../../src/domain/events.ts';
import type { LeadFilter } from '../../src/domain/leads.ts';
import { maxReadPositions } from '../../src/domain/read-position-record.ts';
import { SearchWords } from '../../src/domain/search-words.ts';
import type { Reads, Transaction } from '../../src/domain/storage-port.ts';
import { timestamp } from '../../src/domain/time.ts';
import { rowsPerStep } from '../../src/storage/sqlite/paging.ts';
import { openSqliteStorage, type SqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { effort } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { putMigrated } from '../support/migrated-file.ts';
import {
  sampleAccount,
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
} from '../support/samples.ts';

// Every statement that the storage runs is explained by SQLite itself. One that reads all of a table or
// an account, or that sorts what it has found, is quick in every test and slow in the first large account.

interface Explained {
  readonly sql: string;
  /** What SQLite says of each step. */
  readonly plan: readonly string[];
}

const folder = mkdtempSync(join(tmpdir(), 'conversation-service-'));
const empty = join(folder, 'empty.db');
const filled = join(folder, 'filled.db');

beforeAll(async () => {
  await putMigrated(empty);
  const storage = openSqliteStorage(await putMigrated(filled));
  await fill(storage);
  await storage.close();
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs something on the storage in a file, and returns the queries that it led to. */
async function queriesOf(run: (storage: SqliteStorage) => unknown, path: string): Promise<string[]> {
  const statements = new Set<string>();
  const storage = openSqliteStorage(path, { onStatement: (sql) => void statements.add(sql) });
  statements.clear();
  await run(storage);
  await storage.close();
  return [...statements].filter((sql) => /^(select|insert|update|delete|with)\b/i.test(sql));
}

/** The same on a copy of a file, with the plans of the queries. */
async function explain(run: (storage: SqliteStorage) => unknown, file = empty): Promise<Explained[]> {
  const path = join(temporaryFolder(), 'test.db');
  copyFileSync(file, path);
  const queries = await queriesOf(run, path);
  const connection = new Database(path, { readonly: true });
  const plans = new Map<string, readonly string[]>();
  const explained = queries.map((sql) => {
    const shape = sql.replaceAll(/'(?:[^']|'')*'|\b\d[\d.e+]*/g, '?');
    const plan = plans.get(shape) ?? withoutValues(connection.prepare<[], Step>(`EXPLAIN QUERY PLAN ${sql}`).all());
    plans.set(shape, plan);
    return { sql, plan };
  });
  connection.close();
  return explained;
}

interface Step {
  readonly id: number;
  readonly parent: number;
  readonly detail: string;
}

/** Without the inner queries that bound values are: see statements.ts. */
function withoutValues(steps: readonly Step[]): string[] {
  const values = new Set(steps.filter(({ detail }) => detail === 'SCAN CONSTANT ROW').map(({ parent }) => parent));
  return steps
    .filter(({ id, parent, detail }) => !values.has(id) && !values.has(parent) && !/^REUSE SUBQUERY/.test(detail))
    .map(({ detail }) => detail);
}

/** Steps that take the longer, the more there is beside what was asked for. */
function slowSteps({ sql, plan }: Explained): string[] {
  // What is counted without a limit lies between two places, which the query before it has found.
  const bounded = /\blimit\b|^SELECT \(SELECT count/i.test(sql);
  // What is sorted are few, as the query before it has found.
  const sorts = plan.filter((step) => /^USE TEMP B-TREE/.test(step)).length;
  // What is unread is in the order of its index. Only the rows of the page are put into it once more.
  const isSortedTwice = sorts > 1 && /INDEXED BY unread_conversations_by_activity/.test(sql);
  // Of the index of words, no more is sorted than a partition has.
  const few = (/ AS some CROSS JOIN conversations /.test(sql) && !isSortedTwice) || /FROM search_words\b/.test(sql);
  return plan.filter(
    (step) =>
      (/^USE TEMP B-TREE/.test(step) && !few) ||
      // Of what is being erased nobody asks for more than whether there is any; of the others there is a bounded number.
      (/^SCAN /.test(step) &&
        !/VIRTUAL TABLE|INDEX (webhooks_removed|search_texts_waiting)$|^SCAN (erasing |some$|delivery_leases$)/.test(
          step,
        )) ||
      // Keys that have ended must cost those nothing who count or remove keys by when they end.
      (/^SEARCH api_keys .*\(account_id=\?\)$/.test(step) && /ends_at/.test(sql)) ||
      // Who asks for a status must not walk over the others.
      (/^SEARCH conversations .*INDEX (?!conversations_by_external_id|conversations_by_update|conversations_by_id \(account_id=\? AND id=)/.test(
        step,
      ) &&
        /\bstatus = /.test(sql) &&
        !step.includes('status=?')) ||
      // An index that is entered by the account alone gives all that the account has.
      (!bounded &&
        /^SEARCH (conversations|messages|events|leads|analytics_counters|analytics_histograms) .*\(account_id=\?\)$/.test(
          step,
        )),
  );
}

function expectNoneSlow(explained: readonly Explained[]): void {
  const slow = explained.map((query) => ({ ...query, slow: slowSteps(query) })).filter(({ slow }) => slow.length > 0);
  expect(slow).toEqual([]);
}

const account = sampleAccount();
const key = sampleKey();
const hash = sampleHash();
const conversation = sampleConversation({ externalId: 'order-1' });
const message = sampleMessage(conversation.id, 1);
const webhook = sampleWebhook();
const delivery = sampleDelivery(webhook.id);

const singleFilters: readonly ConversationFilter[] = [
  { statuses: ['active'] },
  { statuses: ['active', 'pending'] },
  { externalId: 'order-1' },
  { visitorId: 'visitor-1' },
  { visitorEmail: 'ada@example.com' },
  { assigneeId: 'agent-1' },
  { unassigned: true },
  { unreadBy: 'agent-1' },
  { tags: ['urgent', 'delivery'] },
  { createdAfter: startMs - 10 },
  { createdBefore: startMs + 10 },
  { updatedAfter: startMs - 10 },
];

/** No filter, each alone, and any two of them; in the long trials any three, too. */
const filters = effort([1, 2], [1, 2, 3]).reduce(
  (made) => [
    ...new Map(
      made
        .flatMap((filter) => [filter, ...singleFilters.map((single) => ({ ...filter, ...single }))])
        .map((filter) => [JSON.stringify(Object.entries(filter).sort()), filter]),
    ).values(),
  ],
  [{}] as readonly ConversationFilter[],
);

const leadFilters: readonly LeadFilter[] = [
  {},
  { conversationId: conversation.id },
  { email: 'ada@example.com' },
  { conversationId: conversation.id, email: 'ada@example.com' },
].flatMap((filter) => [
  filter,
  { ...filter, createdAfter: startMs - 10 },
  { ...filter, createdBefore: startMs + 10_000 },
  { ...filter, createdAfter: startMs - 10, createdBefore: startMs + 10_000 },
]);

/** More of everything that filters ask for than would be sorted. */
async function fill({ write }: SqliteStorage): Promise<void> {
  await write(async (tx) => {
    await tx.accounts.insert(account);
    for (let count = 0; count < rowsPerStep + 100; count++) {
      const visitor = { id: 'visitor-1', name: null, email: 'ada@example.com' };
      const assignee = { id: 'agent-1', name: null };
      const filled = sampleConversation({ visitor, assignee, tags: ['delivery', 'urgent'], messageCount: 1 });
      await tx.conversations.insert(account.id, filled);
      await tx.readPositions.move(account.id, filled, { reader: 'agent-1', sequence: 0, readAt: start });
      await tx.leads.insert(account.id, sampleLead({ conversationId: conversation.id, email: 'ada@example.com' }));
    }
  });
}

const places = [undefined, { id: conversation.id, lastActivityAtMs: startMs }];

const searches = [
  {},
  { statuses: ['active'], createdAfter: startMs - 10, createdBefore: startMs + 10 } as const,
  { statuses: ['active', 'closed'], assigneeId: 'agent-1', tags: ['urgent'] } as const,
].flatMap((filter) => ['message 1', 'message m', '中文字'].map((query) => ({ words: new SearchWords(query), filter })));

type Calls<Sections> = {
  readonly [Section in keyof Sections]: {
    readonly [Method in keyof Sections[Section]]: (section: Sections[Section]) => unknown;
  };
};

// The type asks for each method of each section: a new query cannot be left out.
const reads: Calls<Reads> = {
  accounts: {
    find: (accounts) => accounts.find(account.id),
    list: () => {}, // for the operator, who does want all: see below
    totals: (accounts) => accounts.totals(account.id),
    origins: (accounts) => accounts.origins(account.id),
    hasOrigin: (accounts) => [
      accounts.hasOrigin('https://shop.example'),
      accounts.hasOrigin('https://shop.example', account.id),
    ],
  },
  apiKeys: {
    findBySecret: (apiKeys) => apiKeys.findBySecret(hash),
    find: (apiKeys) => apiKeys.find(account.id, key.id),
    findMany: (apiKeys) => apiKeys.findMany(account.id, [key.id]),
    findWithAccount: (apiKeys) => apiKeys.findWithAccount(account.id, key.id),
    page: (apiKeys) => [
      apiKeys.page(account.id, { limit: 10, offset: 5 }),
      apiKeys.page(account.id, { limit: 10, offset: 0, after: key.id }),
    ],
    count: (apiKeys) => apiKeys.count(account.id),
    countLive: (apiKeys) => apiKeys.countLive(account.id, startMs),
    revocations: (apiKeys) => apiKeys.revocations(),
    tokenKey: (apiKeys) => apiKeys.tokenKey(),
  },
  signIns: {
    find: (signIns) => signIns.find(hash),
  },
  conversations: {
    find: (conversations) => conversations.find(account.id, conversation.id),
    open: (conversations) =>
      conversations.open(account.id, conversation.id, { count: 5, maxCount: 10, maxBytes: 1_000 }),
    findMany: (conversations) => conversations.findMany(account.id, [conversation.id, conversation.id]),
    idByExternalId: (conversations) => conversations.idByExternalId(account.id, 'order-1'),
    page: (conversations) =>
      filters.flatMap((filter) =>
        conversationSorts.flatMap((sort) =>
          places.map((after) => conversations.page(account.id, { filter, sort, limit: 20, offset: 0, after })),
        ),
      ),
    count: (conversations) => filters.map((filter) => conversations.count(account.id, filter)),
    erasing: () => {}, // for whoever finishes them, who does want all
  },
  messages: {
    findMany: (messages) => messages.findMany(account.id, [message.id, message.id]),
    ranges: (messages) => messages.ranges(account.id, [{ conversationId: conversation.id, from: 1, to: 5 }]),
    page: (messages) =>
      [false, true].map((isFromEnd) => messages.page(account.id, conversation.id, { isFromEnd, limit: 5, offset: 0 })),
  },
  readPositions: {
    ofConversations: (readPositions) => readPositions.ofConversations(account.id, [conversation.id, conversation.id]),
  },
  events: {
    epoch: (events) => events.epoch(),
    erasures: (events) => events.erasures(),
    bounds: (events) => events.bounds(account.id),
    lastSequences: (events) => events.lastSequences([account.id]),
    visitorHash: (events) => events.visitorHash(account.id, 'Ada'),
    after: (events) =>
      [
        {},
        { types: ['message.received'] as const },
        { conversationId: conversation.id },
        { visitorHash: 'of Ada' },
        { conversationId: conversation.id, visitorHash: 'of Ada' },
      ].flatMap((filter) => [
        events.after(account.id, 5, { filter, limit: 10, span: 100 }),
        events.after(account.id, 5, {
          filter: { ...filter, types: ['lead.captured'] },
          limit: 10,
          span: 100,
          among: 5,
        }),
      ]),
    lastOf: (events) => events.lastOf(account.id, conversation.id),
  },
  leads: {
    find: (leads) => leads.find(account.id, 'lead_x'),
    findMany: (leads) => leads.findMany(account.id, ['lead_x', 'lead_y']),
    page: (leads) => [
      ...leadFilters.flatMap((filter) => [
        leads.page(account.id, { filter, limit: 10, offset: 5 }),
        leads.page(account.id, { filter, limit: 10, offset: 0, after: 'lead_x' }),
      ]),
    ],
    count: (leads) => leadFilters.map((filter) => leads.count(account.id, filter)),
  },
  webhooks: {
    find: (webhooks) => webhooks.find(account.id, webhook.id),
    findMany: (webhooks) => webhooks.findMany(account.id, [webhook.id, webhook.id]),
    page: (webhooks) => [
      webhooks.page(account.id, { limit: 10, offset: 5 }),
      webhooks.page(account.id, { limit: 10, offset: 0, after: webhook.id }),
    ],
    count: (webhooks) => webhooks.count(account.id),
    enabled: (webhooks) => webhooks.enabled(account.id),
  },
  deliveries: {
    find: (deliveries) => deliveries.find(account.id, delivery.id),
    findMany: (deliveries) => deliveries.findMany(account.id, [delivery.id, delivery.id]),
    page: (deliveries) => [
      deliveries.page(account.id, webhook.id, { limit: 10, offset: 5 }),
      deliveries.page(account.id, webhook.id, { limit: 10, offset: 0, after: delivery.id }),
    ],
    count: (deliveries) => deliveries.count(account.id, webhook.id),
    attempts: (deliveries) => deliveries.attempts(account.id, [{ deliveryId: delivery.id, from: 1, to: 5 }]),
    failed: (deliveries) => deliveries.failed(account.id, webhook.id, { fromId: delivery.id, limit: 10 }),
    // Both look at all webhooks that are enabled: see below.
    due: () => {},
    backlog: () => {},
    hasBefore: (deliveries) => deliveries.hasBefore(startMs),
  },
  documents: {
    text: (documents) => documents.text(account.id, 'a'),
    findMany: (documents) => documents.findMany(account.id, ['a', 'b']),
    page: (documents) => [
      documents.page(account.id, { limit: 10, offset: 5 }),
      documents.page(account.id, { limit: 10, offset: 0, after: 7 }),
    ],
    totals: (documents) => documents.totals(account.id),
  },
  idempotencyRecords: {
    find: (idempotencyRecords) => idempotencyRecords.find(account.id, 'key'),
  },
  analytics: {
    sums: (analytics) => analytics.sums(account.id, [{ from: 1, to: 3_000 }]),
  },
  search: {
    isBehind: (search) => search.isBehind(),
    page: (search) => searches.map((query) => search.page(account.id, { ...query, limit: 10, after: 2 ** 31 + 5 })),
    count: (search) => searches.map((query) => search.count(account.id, query, 10)),
  },
  rateWindows: {
    clock: (rateWindows) => rateWindows.clock(),
    since: (rateWindows) => rateWindows.since(account.id, 5),
  },
};

type Writes = { readonly [Section in keyof Reads]: Omit<Transaction[Section], keyof Reads[Section]> };

// In an order in which each finds what it needs.
const writes: Calls<Writes> = {
  accounts: {
    insert: (accounts) => accounts.insert(account),
    areNone: (accounts) => accounts.areNone(),
    update: (accounts) => accounts.update({ ...account, name: 'Renamed' }),
    setOrigins: (accounts) => accounts.setOrigins(account.id, ['https://shop.example']),
  },
  apiKeys: {
    insert: (apiKeys) => apiKeys.insert(account.id, key, hash),
    update: (apiKeys) => apiKeys.update({ ...key, revokedAt: start }),
    removeEnded: (apiKeys) => apiKeys.removeEnded(account.id, startMs, { kept: 10, limit: 5 }),
    prune: (apiKeys) => apiKeys.prune(startMs, 10),
  },
  signIns: {
    insert: async (signIns) => {
      await signIns.insert({ accountId: account.id, keyId: key.id, expiresAtMs: startMs }, hash);
    },
    remove: (signIns) => signIns.remove(hash),
    removeOldest: (signIns) => signIns.removeOldest(account.id, key.id, 10),
    prune: (signIns) => signIns.prune(startMs, 10),
  },
  conversations: {
    insert: (conversations) => conversations.insert(account.id, conversation),
    update: async (conversations) => {
      const closed = { ...conversation, status: 'closed', version: 2 } as const;
      await conversations.update(account.id, conversation, closed);
      await conversations.update(account.id, closed, { ...closed, messageCount: 1, version: 3 });
    },
    erase: () => {}, // has to find something of each kind: see below
    eraseMore: () => {},
    markConverted: (conversations) => conversations.markConverted(account.id, conversation.id),
  },
  messages: {
    insert: (messages) => messages.insert(account.id, message),
  },
  readPositions: {
    moveToEnd: (readPositions) => readPositions.moveToEnd(account.id, conversation, 'writer', start),
    move: (readPositions) =>
      [...Array(maxReadPositions + 1).keys()].flatMap((index) =>
        [0, 1].map((sequence) =>
          readPositions.move(
            account.id,
            { ...conversation, messageCount: 1 },
            { reader: `${index}`, sequence, readAt: start },
          ),
        ),
      ),
  },
  events: {
    append: (events) => events.append(account.id, [sampleEvent(conversation)]),
    prune: (events) => events.prune(startMs + 1_000_000, 10),
  },
  leads: {
    insert: (leads) => leads.insert(account.id, sampleLead()),
  },
  webhooks: {
    insert: (webhooks) => webhooks.insert(account.id, webhook),
    update: (webhooks) => webhooks.update(account.id, { ...webhook, description: 'changed' }),
    remove: (webhooks) => webhooks.remove(account.id, sampleWebhook().id),
  },
  deliveries: {
    insert: (deliveries) => deliveries.insert(account.id, delivery),
    update: (deliveries) => deliveries.update(account.id, { ...delivery, attemptCount: 1 }),
    claim: (deliveries) =>
      deliveries.claim([{ webhookId: webhook.id, limit: 5 }], { id: 'mine', nowMs: startMs, endsMs: startMs + 1_000 }),
    release: (deliveries) => deliveries.release('mine', [delivery.id]),
    insertAttempt: (deliveries) => deliveries.insertAttempt(delivery.id, 1, sampleAttempt()),
    prune: (deliveries) => deliveries.prune(startMs - 1_000, 10),
  },
  documents: {
    insert: (documents) => documents.insert(account.id, { id: 'a', text: '{ __typename }', createdAt: start }),
    remove: (documents) => documents.remove(account.id, 'a'),
  },
  idempotencyRecords: {
    put: (idempotencyRecords) =>
      idempotencyRecords.put(account.id, 'key', {
        fingerprint: hash,
        result: '{}',
        conversationId: conversation.id,
        createdAtMs: startMs,
      }),
    prune: (idempotencyRecords) => idempotencyRecords.prune(startMs, 10),
  },
  analytics: {
    add: (analytics) => analytics.add(account.id, 7, { leads: 1, firstResponseMs: 5, resolutionMs: 5_000 }),
  },
  search: {
    index: (search) => search.index(),
  },
  rateWindows: {
    setClock: (rateWindows) => rateWindows.setClock({ atMs: 1, wallMs: 1, uptimeMs: 1, boot: 'boot' }),
    add: (rateWindows) => rateWindows.add(account.id, 7, 1),
    prune: (rateWindows) => rateWindows.prune(account.id, 5),
  },
};

async function callAll<Sections extends object>(calls: Calls<Sections>, sections: Sections): Promise<void> {
  for (const name of Object.keys(calls) as (keyof Sections)[]) {
    for (const call of Object.values<(section: Sections[typeof name]) => unknown>(calls[name])) {
      await Promise.all([call(sections[name])].flat()); // a method may be called in several ways
    }
  }
}

describe('the queries', () => {
  test.each([
    ['an account that has nothing', empty],
    ['one that has much', filled],
  ])('of every read seek in an index that has the requested order: of %s', async (_, file) => {
    const explained = await explain(({ read }) => callAll(reads, read), file);
    expect(explained.length).toBeGreaterThan(100);
    expectNoneSlow(explained);
  });

  test('are planned once, and not for each bound value', async () => {
    const queries = await queriesOf(({ read }) => callAll(reads, read), empty);
    expect(queries.length).toBeGreaterThan(100);
    // The values are filled in: one that is bound bare is a literal, and the statements' own are these.
    const ownLiterals = /\b(removed|status|enabled|count) (=|>) ('(pending|failed)'|0|1\b)|LIMIT 1$/gm;
    const bare = / (=|[<>]=?|[<>] \(|limit|offset) ?(x?'|\d)/i;
    expect(queries.filter((sql) => bare.test(sql.replaceAll(ownLiterals, '')))).toEqual([]);
  });

  test('of every write seek in an index, too', async () => {
    const explained = await explain((storage) => storage.write((tx) => callAll<Writes>(writes, tx)));
    expect(explained.length).toBeGreaterThan(10);
    expectNoneSlow(explained);
  });

  test('of erasing seek in an index, in the first transaction and in further ones', async () => {
    const explained = await explain(async (storage) => {
      await storage.write(async (tx) => {
        await tx.accounts.insert(account);
        await tx.webhooks.insert(account.id, webhook);
        await tx.conversations.insert(account.id, conversation);
        for (let sequence = 1; sequence <= 200; sequence++) {
          await tx.messages.insert(account.id, sampleMessage(conversation.id, sequence));
        }
        await tx.leads.insert(account.id, sampleLead({ conversationId: conversation.id }));
        const event = sampleEvent(conversation);
        await tx.events.append(account.id, [event]);
        const sent = sampleDelivery(webhook.id, { eventId: event.id });
        await tx.deliveries.insert(account.id, sent);
        await tx.deliveries.insertAttempt(sent.id, 1, sampleAttempt());
        await tx.conversations.erase(account.id, conversation);
        while (!(await tx.conversations.eraseMore(account.id, conversation.id)));
      });
    });
    const erasing = explained.filter(({ sql }) => !/^insert into (?!erasing)/i.test(sql));
    const tables = ['conversations', 'messages', 'leads', 'events', 'attempts', 'kept_results', 'erasing', 'meta'];
    for (const table of tables) {
      const changed = erasing.filter(({ sql }) => new RegExp(`^(update|delete from) ${table}\\b`, 'i').test(sql));
      expect(changed.length, table).toBeGreaterThan(0);
    }
    expectNoneSlow(erasing);
  });

  test('for all accounts read them in order', async () => {
    const [list] = await explain(({ read }) => read.accounts.list());
    expect(list?.plan).toEqual([expect.stringMatching(/^SCAN accounts USING INDEX/)]);
  });

  test('of the sender find the first due delivery of each enabled webhook, and read no other', async () => {
    const [due, leases] = await explain(({ read }) => read.deliveries.due(startMs));
    expect(due?.plan).toEqual([
      expect.stringMatching(/^SCAN webhooks USING INDEX webhooks_enabled/),
      expect.stringMatching(/^CORRELATED SCALAR SUBQUERY/),
      expect.stringMatching(/^SEARCH deliveries USING COVERING INDEX deliveries_due \(webhook_key=\?\)/),
      expect.stringMatching(/^CORRELATED SCALAR SUBQUERY/),
      'SEARCH delivery_leases USING INTEGER PRIMARY KEY (rowid=?)',
    ]);
    expect(leases?.plan[0], 'one for each attempt that is underway').toBe('SCAN delivery_leases');
  });

  test('that count waiting deliveries count entries of an index, and read no delivery', async () => {
    const explained = await explain(({ read }) => read.deliveries.backlog(startMs, 100));
    expect(explained).toHaveLength(3);
    const deliveries = explained.map(({ plan }) => plan.filter((step) => step.includes(' deliveries ')));
    for (const steps of deliveries)
      expect(steps).toEqual([expect.stringMatching(/^SEARCH deliveries USING COVERING INDEX deliveries_due /)]);
  });

  test('of search look up texts by their numbers and by their partitions, waiting and indexed', async () => {
    const explained = await explain(async ({ read, write }) => {
      await write(async (tx) => {
        await tx.accounts.insert(account);
        await tx.conversations.insert(account.id, conversation);
        for (let sequence = 1; sequence <= 20; sequence++) {
          const content = `message m${sequence} 中文字`;
          await tx.messages.insert(account.id, sampleMessage(conversation.id, sequence, { content }));
        }
      });
      const searchAll = async () => {
        for (const query of searches) {
          await read.search.page(account.id, { ...query, limit: 10 });
          await read.search.count(account.id, query, 10);
        }
      };
      await searchAll();
      await write(async (tx) => tx.search.index());
      await searchAll();
    });
    const queries = explained.filter(({ sql }) => /^select.*\bsearch_/is.test(sql));
    for (const table of ['search_words', 'search_vocabulary', 'search_texts', 'search_partitions']) {
      expect(queries.filter(({ sql }) => sql.includes(table)).length, table).toBeGreaterThan(0);
    }
    expectNoneSlow(queries);
  });

  test('of the event log begin at the position of the reader, also among the events of one conversation', async () => {
    const plansOf = async (filter: EventFilter) => {
      const asked = { filter, limit: 10, span: 100 };
      const [, , page] = await explain(({ read }) => read.events.after(account.id, 5, asked));
      return page?.plan[0];
    };
    const plansOfPlaces = async (filter: EventFilter) => {
      const asked = { filter, limit: 10, span: 100, among: 5 };
      const [, , places] = await explain(({ read }) => read.events.after(account.id, 5, asked));
      return places?.plan;
    };
    const types = ['message.received', 'lead.captured'] as const;
    const log = 'SEARCH events USING INDEX sqlite_autoindex_events_1 (account_id=? AND sequence>? AND sequence<?)';
    const ofConversation =
      'SEARCH events USING INDEX events_by_conversation (account_id=? AND conversation_id=? AND sequence>? AND sequence<?)';
    expect(await plansOf({})).toBe(log);
    expect(await plansOf({ types })).toBe(log);
    expect(await plansOf({ conversationId: conversation.id })).toBe(ofConversation);
    expect(await plansOf({ conversationId: conversation.id, types })).toBe(ofConversation);
    // Where looking ends is found by the index alone.
    const covering = (plan: string) => plan.replace('USING INDEX', 'USING COVERING INDEX');
    expect(await plansOfPlaces({ conversationId: conversation.id, visitorHash: 'of Ada', types })).toEqual([
      covering(ofConversation),
    ]);
    expect(await plansOfPlaces({ visitorHash: 'of Ada', types })).toEqual([
      covering(
        'SEARCH events USING INDEX events_by_visitor (account_id=? AND visitor_hash=? AND sequence>? AND sequence<?)',
      ),
    ]);
  });

  test('of pruning begin at the oldest event of all, and read and remove from the front of its log', async () => {
    const explained = await explain((storage) =>
      storage.write(async (tx) => {
        await tx.accounts.insert(account);
        await tx.events.append(account.id, [sampleEvent(conversation)]);
        await tx.events.prune(startMs + 1_000_000, 10);
      }),
    );
    const pruning = explained.slice(explained.findIndex(({ sql }) => /\btimestamp < /.test(sql)));
    expect(pruning.map(({ plan }) => plan[0])).toEqual([
      'SEARCH events USING INDEX events_by_time (timestamp<?)',
      'SEARCH events USING INDEX sqlite_autoindex_events_1 (account_id=?)',
      'SEARCH events USING COVERING INDEX sqlite_autoindex_events_1 (account_id=? AND sequence<?)',
    ]);
  });

  test('of pruning do not walk over old events behind a newer one, but check the first event of each account', async () => {
    const [stuck, other] = [account, sampleAccount()];
    const [old, young] = [0, 1_000].map((ms) => sampleEvent(conversation, { timestamp: timestamp(startMs + ms) }));
    if (old === undefined || young === undefined) expect.fail();
    const explained = await explain((storage) =>
      storage.write(async (tx) => {
        for (const each of [stuck, other]) await tx.accounts.insert(each);
        await tx.events.append(stuck.id, [young, old, old]);
        await tx.events.append(other.id, [old]);
        expect(await tx.events.prune(startMs + 1, 10)).toBe(1);
      }),
    );
    const pruning = explained.slice(explained.findIndex(({ sql }) => /\btimestamp < /.test(sql)));
    const fronts = [
      'SEARCH accounts USING COVERING INDEX sqlite_autoindex_accounts_1 (id>?)',
      expect.stringMatching(/^CORRELATED SCALAR SUBQUERY/),
      'SEARCH events USING INDEX sqlite_autoindex_events_1 (account_id=?)',
    ];
    expect(pruning.map(({ plan }) => plan)).toEqual([
      ['SEARCH events USING INDEX events_by_time (timestamp<?)'],
      ['SEARCH events USING INDEX sqlite_autoindex_events_1 (account_id=?)'],
      fronts,
      ['SEARCH events USING INDEX sqlite_autoindex_events_1 (account_id=?)'],
      ['SEARCH events USING COVERING INDEX sqlite_autoindex_events_1 (account_id=? AND sequence<?)'],
      // The first of what is left lies behind a young one still.
      ['SEARCH events USING INDEX sqlite_autoindex_events_1 (account_id=?)'],
      fronts,
    ]);
  });

  test('of a report read ranges of counters and of histograms', async () => {
    const explained = await explain(async ({ read, write }) => {
      await write(async (tx) => {
        await tx.accounts.insert(account);
        await tx.analytics.add(account.id, 100, { firstResponseMs: 5 });
      });
      await read.analytics.sums(account.id, [{ from: 1, to: 3_000 }]);
    });
    const ranges = explained.filter(({ sql }) => / analytics_\w+\b.*\bquarter >= /s.test(sql));
    expect(new Set(ranges.map(({ plan }) => plan.join()))).toEqual(
      new Set([
        'SEARCH analytics_counters USING PRIMARY KEY (account_id=? AND quarter>? AND quarter<?)',
        'SEARCH analytics_histograms USING PRIMARY KEY (account_id=? AND name=? AND width=? AND quarter>? AND quarter<?)',
      ]),
    );
  });

  test('of a page after a cursor begin at the cursor, whatever the filter', async () => {
    // In the index: the last of the columns that it is entered by, and the direction from there.
    const entries: Record<ConversationSort, RegExp> = {
      createdAt: /\bid>\?/,
      '-createdAt': /\bid<\?/,
      lastActivityAt: /\(last_activity_at,id\)>\(\?,\?\)/,
      '-lastActivityAt': /\(last_activity_at,id\)<\(\?,\?\)/,
    };
    const after = { id: conversation.id, lastActivityAtMs: startMs };
    for (const sort of conversationSorts) {
      // An external id leaves one row at most: there is nothing to begin in.
      const explained = await explain(async ({ read }) => {
        for (const filter of filters.filter(({ externalId }) => externalId === undefined)) {
          await read.conversations.page(account.id, { filter, sort, limit: 20, offset: 0, after });
        }
      }, filled);
      // Not the places that parts of them end at, nor those of few, all of which are sorted.
      const pages = explained.filter(({ sql }) => /\bversion\b/.test(sql) && !/ AS some\b/.test(sql));
      expect(pages.length).toBeGreaterThan(10);
      for (const { sql, plan } of pages) {
        const begins = plan.filter((step) => step.startsWith('SEARCH conversations'));
        expect({ sql, begins }).toEqual({ sql, begins: begins.map(() => expect.stringMatching(entries[sort])) });
        for (const part of sql.split('UNION ALL')) expectOneBoundAtEachSide(part);
      }
    }
  });

  test('of a page of leads after a cursor begin at the cursor in the index of a filter, and end where the filter does', async () => {
    for (const filter of leadFilters) {
      const column = filter.conversationId !== undefined ? 'conversation_id' : filter.email && 'comparable_email';
      const entry = `(account_id=? AND ${column === undefined ? '' : `${column}=? AND `}id>? AND id<?)`;
      const explained = await explain(async ({ read }) => {
        for (const after of [undefined, sampleLead().id]) {
          await read.leads.page(account.id, { filter, limit: 20, offset: 0, after });
        }
      }, filled);
      expect(explained.length).toBeGreaterThan(1);
      for (const { sql, plan } of explained) {
        const begins = plan.filter((step) => / leads /.test(step));
        expect({ sql, begins }).toEqual({ sql, begins: [expect.stringContaining(entry)] });
        expectOneBoundAtEachSide(sql);
      }
    }
  });

  /** Of two bounds on one side SQLite would begin at either, and walk over all up to the other. */
  function expectOneBoundAtEachSide(sql: string): void {
    expect(sql.split(/\bid >/).length - 1, sql).toBeLessThanOrEqual(1);
    expect(sql.split(/\bid </).length - 1, sql).toBeLessThanOrEqual(1);
  }
});
