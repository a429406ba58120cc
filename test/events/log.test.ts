import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Caller } from '../../src/domain/caller.ts';
import { type EventType, eventTypes } from '../../src/domain/event-types.ts';
import { listEvents } from '../../src/domain/events.ts';
import { timestamp } from '../../src/domain/time.ts';
import { scheduler } from '../../src/runtime/scheduler.ts';
import type { Json, RestResponse } from '../support/client.ts';
import { dayMs, TestClock } from '../support/clock.ts';
import { inFormOfRest } from '../support/event-data.ts';
import { temporaryFolder } from '../support/files.ts';
import { isOnPostgres } from '../support/postgres.ts';
import { sampleConversation, sampleEvent } from '../support/samples.ts';
import * as select from '../support/selections.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// The event log and the leads as both faces show them: what is written, in which form, how it is paged,
// how long it stays, and what is said about a place that it no longer has.

let server: TestServer;
let onStatement = (_sql: string): void => {};
beforeAll(async () => {
  server = await startTestServer({ onStatement: (sql) => onStatement(sql) });
});
afterAll(() => server.close());

const eventsQuery = `query ($first: Int, $after: String, $types: [EventType!], $conversationId: ID) {
  events(first: $first, after: $after, types: $types, conversationId: $conversationId) {
    nodes { ${select.event} } edges { cursor node { id } }
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
  }
}`;

const spelling = (type: string): string => type.toUpperCase().replace('.', '_');

/** One event of each kind, and the resources that they are about as REST has answered them. */
async function makeEvents(client: TestAccount) {
  const metadata = { source: 'shop' };
  const created = await client.rest('POST', '/conversations', {
    body: { subject: 'Parcel', visitor: { name: 'Ada' }, metadata, message: { content: 'hello', sender: 'visitor' } },
  });
  const { messages, readPositions: _, ...started } = created.body;
  server.clock.advance(1_000);
  const lead = await client.rest('POST', '/leads', {
    body: { conversationId: started.id, name: 'Ada', email: 'ada@example.com', metadata },
  });
  server.clock.advance(1_000);
  const { body: patched } = await client.rest('PATCH', `/conversations/${started.id}`, { body: { status: 'closed' } });
  const { readPositions: __, ...closed } = patched;
  return { id: started.id as string, started, message: messages[0], lead: lead.body, closed };
}

async function listed(client: TestAccount, query = 'limit=100'): Promise<Json[]> {
  return (await client.rest('GET', `/events?${query}`)).body.data;
}

async function pageInfoAfter(client: TestAccount, after: string): Promise<Json> {
  return (await client.graphql(eventsQuery, { after })).data.events.pageInfo;
}

/** Appends events without making what they tell of. */
async function append(client: TestAccount, count: number, facts: Parameters<typeof sampleEvent>[1] = {}) {
  const events = Array.from({ length: count }, () => sampleEvent(sampleConversation(), facts));
  return await server.storage.write(async (tx) => tx.events.append(client.account.id, events));
}

/** What both faces answer to a place, and the stream to the place in its query and in its header. */
async function answersTo(client: TestAccount, after: string) {
  const query = new URLSearchParams({ after });
  const rest = [await client.rest('GET', `/events?${query}`), await client.rest('GET', `/events/stream?${query}`)];
  // A header has no white space at its ends, and an empty one is none.
  if (/^[!-~]+$/.test(after)) {
    rest.push(await client.rest('GET', '/events/stream', { headers: { 'last-event-id': after } }));
  }
  const graphql = await client.graphql(eventsQuery, { after });
  return { rest, graphql: graphql.errors?.[0]?.extensions };
}

async function endOf(client: TestAccount): Promise<string> {
  return (await client.graphql('{ eventCursor }')).data.eventCursor;
}

describe('an event', () => {
  test('of each type has the form of the contract and a snapshot of its resources', async () => {
    const client = await server.account();
    const startedAt = timestamp(server.clock.now());
    const { started, message, lead, closed } = await makeEvents(client);
    const events = await listed(client);
    const head = { apiVersion: 'v1', accountId: client.account.id, id: expect.stringMatching(/^evt_[0-9a-z]{26}$/) };
    const cursor = expect.stringMatching(/^[\w-]+$/);
    expect(events).toEqual([
      {
        ...head,
        type: 'conversation.started',
        timestamp: startedAt,
        sequence: 1,
        cursor,
        data: { conversation: started },
      },
      {
        ...head,
        type: 'message.received',
        timestamp: startedAt,
        sequence: 2,
        cursor,
        data: { message, conversation: started },
      },
      {
        ...head,
        type: 'lead.captured',
        timestamp: lead.createdAt,
        sequence: 3,
        cursor,
        data: { lead, conversation: started },
      },
      {
        ...head,
        type: 'conversation.closed',
        timestamp: closed.closedAt,
        sequence: 4,
        cursor,
        data: { conversation: closed },
      },
    ]);
    for (const event of events) {
      expect(Object.keys(event)).toEqual([
        'id',
        'type',
        'timestamp',
        'sequence',
        'cursor',
        'apiVersion',
        'accountId',
        'data',
      ]);
    }
    expect(new Set(events.map(({ cursor }) => cursor)).size).toBe(4);
    expect(events.map(({ id }) => id)).toEqual(events.map(({ id }) => id).sort());
  });

  test('is the same on both faces, field for field', async () => {
    const client = await server.account();
    await makeEvents(client);
    const { data, errors } = await client.graphql(eventsQuery, { first: 100 });
    expect(errors).toBeUndefined();
    const spelt = (part: Json): Json =>
      JSON.parse(JSON.stringify(part), (name, value) =>
        name === 'status' || name === 'sender' ? value.toLowerCase() : value,
      );
    const fromGraphql = data.events.nodes.map(inFormOfRest).map(spelt);
    const fromRest = await listed(client);
    expect(fromGraphql).toEqual(fromRest.map((event) => ({ ...event, type: spelling(event.type) })));
    expect(data.events.nodes.map(({ __typename }: Json) => __typename)).toEqual([
      'ConversationStartedEvent',
      'MessageReceivedEvent',
      'LeadCapturedEvent',
      'ConversationClosedEvent',
    ]);
  });

  test('is created by every change of a conversation and by each lead, and by nothing else', async () => {
    const client = await server.account();
    const create = async (body: object): Promise<string> =>
      (await client.rest('POST', '/conversations', { body })).body.id;
    const send = (id: string, sender: string) =>
      client.rest('POST', `/conversations/${id}/messages`, { body: { content: 'text', sender } });
    const patch = (id: string, body: object) => client.rest('PATCH', `/conversations/${id}`, { body });
    const typesAfter = async (work: () => Promise<unknown>) => {
      const after = await endOf(client);
      await work();
      return (await listed(client, `after=${after}`)).map(({ type }) => type);
    };

    expect(await typesAfter(() => create({}))).toEqual(['conversation.started']);
    const agent = { message: { content: 'text', sender: 'agent' } };
    expect(await typesAfter(() => create(agent))).toEqual(['conversation.started', 'message.sent']);
    const visitor = { message: { content: 'text', sender: 'visitor' } };
    expect(await typesAfter(() => create(visitor))).toEqual(['conversation.started', 'message.received']);
    const id = await create({});
    expect(await typesAfter(() => send(id, 'visitor'))).toEqual(['message.received']);
    for (const sender of ['agent', 'bot']) {
      expect(await typesAfter(() => send(id, sender))).toEqual(['message.sent']);
    }
    const changes = { subject: 'New', visitor: {}, assignee: { id: 'a' }, tags: ['b'], metadata: { a: 1 } };
    expect(await typesAfter(() => patch(id, changes))).toEqual(['conversation.updated']);
    expect(await typesAfter(() => patch(id, changes)), 'to what it is').toEqual([]);
    expect(await typesAfter(() => patch(id, { status: 'pending' }))).toEqual(['conversation.updated']);
    expect(await typesAfter(() => send(id, 'bot')), 'a bot to a pending one').toEqual(['message.sent']);
    expect(await typesAfter(() => send(id, 'agent')), 'an agent to a pending one').toEqual([
      'conversation.updated',
      'message.sent',
    ]);
    expect(await typesAfter(() => patch(id, { status: 'closed' }))).toEqual(['conversation.closed']);
    expect(await typesAfter(() => patch(id, { status: 'closed' })), 'closed already').toEqual([]);
    expect(await typesAfter(() => patch(id, { status: 'active' }))).toEqual(['conversation.reopened']);
    expect(await typesAfter(() => patch(id, { status: 'closed', subject: 'Done' }))).toEqual([
      'conversation.updated',
      'conversation.closed',
    ]);
    expect(await typesAfter(() => patch(id, { status: 'active', tags: [] }))).toEqual([
      'conversation.updated',
      'conversation.reopened',
    ]);
    await patch(id, { status: 'closed' });
    expect(await typesAfter(() => send(id, 'agent')), 'refused').toEqual([]);
    expect(await typesAfter(() => send(id, 'visitor')), 'a reopening by the visitor').toEqual([
      'conversation.reopened',
      'message.received',
    ]);
    expect(await typesAfter(() => client.rest('DELETE', `/conversations/${id}`))).toEqual(['conversation.deleted']);
    expect(await typesAfter(() => client.rest('DELETE', `/conversations/${id}`)), 'deleted already').toEqual([]);
    expect(await typesAfter(() => client.rest('POST', '/leads', { body: { phone: '1' } }))).toEqual(['lead.captured']);
    expect(await typesAfter(() => client.rest('POST', '/leads', { body: {} })), 'refused').toEqual([]);
    expect(await typesAfter(() => client.rest('POST', '/api-keys', { body: { name: 'x' } }))).toEqual([]);
  });

  test('of a lead without a conversation has `conversation: null`', async () => {
    const client = await server.account();
    const { body } = await client.rest('POST', '/leads', { body: { phone: '+49 30 1234567' } });
    const [event] = await listed(client);
    expect(event.data).toEqual({ lead: body, conversation: null });
    const { data } = await client.graphql(eventsQuery);
    expect(data.events.nodes[0]).toMatchObject({ lead: { id: body.id }, conversation: null });
  });

  test('is numbered within the log of its account', async () => {
    const [one, other] = [await server.account(), await server.account()];
    for (let round = 0; round < 3; round++) {
      await one.rest('POST', '/conversations');
      await other.rest('POST', '/leads', { body: { phone: '1' } });
    }
    for (const client of [one, other]) {
      const events = await listed(client);
      expect(events.map(({ sequence }) => sequence)).toEqual([1, 2, 3]);
      expect(events.every(({ accountId }) => accountId === client.account.id)).toBe(true);
    }
  });
});

describe('the list of events', () => {
  test('goes from the oldest event to the newest, page by page, by cursors and by links', async () => {
    const client = await server.account();
    await append(client, 25);
    const seen: number[] = [];
    const pages: RestResponse[] = [];
    for (let path: string | undefined = '/events?limit=10'; path !== undefined; ) {
      const page: RestResponse = await client.rest('GET', path);
      pages.push(page);
      seen.push(...page.body.data.map(({ sequence }: Json) => sequence));
      path = /^<\/v1([^>]*)>; rel="next"$/.exec(page.headers['link'] ?? '')?.[1];
    }
    expect(seen).toEqual(Array.from({ length: 25 }, (_, index) => index + 1));
    expect(pages.map(({ body }) => body.pagination)).toEqual(
      pages.map(({ body }, index) => ({
        limit: 10,
        hasMore: index < 2,
        nextCursor: body.data.at(-1).cursor,
      })),
    );
    expect(pages.map(({ headers }) => headers['link'] !== undefined)).toEqual([true, true, false]);

    const fromGraphql: Json[] = [];
    let after: string | undefined;
    for (let hasNextPage = true; hasNextPage; ) {
      const { data } = await client.graphql(eventsQuery, { first: 10, after });
      const { nodes, edges, pageInfo } = data.events;
      expect(edges.map(({ cursor }: Json) => cursor)).toEqual(nodes.map(({ cursor }: Json) => cursor));
      expect(pageInfo).toMatchObject({ hasPreviousPage: after !== undefined, startCursor: nodes[0].cursor });
      fromGraphql.push(...nodes.map(({ id }: Json) => id));
      ({ hasNextPage, endCursor: after } = pageInfo);
    }
    expect(fromGraphql).toEqual(pages.flatMap(({ body }) => body.data.map(({ id }: Json) => id)));
  });

  test('has a cursor even on an empty page, from which later events are read', async () => {
    const client = await server.account();
    const empty = await client.rest('GET', '/events');
    expect(empty.body.data).toEqual([]);
    const start = empty.body.pagination.nextCursor;
    expect(empty.body.pagination).toEqual({ limit: 20, hasMore: false, nextCursor: await endOf(client) });
    expect(empty.headers['link']).toBeUndefined();
    const { data } = await client.graphql(eventsQuery);
    expect(data.events).toMatchObject({ nodes: [], pageInfo: { hasNextPage: false, endCursor: start } });
    expect(await pageInfoAfter(client, start)).toMatchObject({ hasPreviousPage: false, endCursor: start });

    await append(client, 2);
    const more = await client.rest('GET', `/events?after=${start}`);
    expect(more.body.data.map(({ sequence }: Json) => sequence)).toEqual([1, 2]);
    const end = await client.rest('GET', `/events?after=${more.body.pagination.nextCursor}`);
    expect(end.body).toEqual({ data: [], pagination: { ...more.body.pagination } });
    expect(await pageInfoAfter(client, start)).toMatchObject({ hasPreviousPage: false });
    expect(await pageInfoAfter(client, more.body.pagination.nextCursor)).toMatchObject({ hasPreviousPage: true });
  });

  test('is filtered by types, by conversation and by both, the same on both faces', async () => {
    const client = await server.account();
    const [one, other] = [await makeEvents(client), await makeEvents(client)];
    await client.rest('POST', `/conversations/${one.id}/messages`, { body: { content: 'x', sender: 'visitor' } });
    const all = await listed(client);
    expect(all).toHaveLength(10);
    const filters: { types?: EventType[]; conversationId?: string }[] = [
      ...eventTypes.map((type) => ({ types: [type] })),
      { types: ['message.received', 'lead.captured', 'message.received'] },
      { conversationId: one.id },
      { conversationId: other.id, types: ['conversation.closed', 'conversation.started'] },
      { conversationId: 'conv_01m7yzcf3tfz1aan3df712nas7' },
      { conversationId: 'nonsense' },
    ];
    for (const { types, conversationId } of filters) {
      const expected = all.filter(
        ({ type, data }) =>
          (types?.includes(type) ?? true) && (conversationId ?? data.conversation.id) === data.conversation.id,
      );
      const query = new URLSearchParams({
        ...(types && { types: types.join(',') }),
        ...(conversationId && { conversationId }),
      });
      expect(await listed(client, String(query))).toEqual(expected);
      const { data } = await client.graphql(eventsQuery, { types: types?.map(spelling), conversationId });
      expect(data.events.nodes.map(({ id }: Json) => id)).toEqual(expected.map(({ id }) => id));
    }
  });

  test('advances past events that its filter excludes, even if a page stays empty', async () => {
    const client = await server.account();
    const early = await append(client, 1, { type: 'lead.captured' });
    for (let round = 0; round < 3; round++) await append(client, 4_000);
    const late = await append(client, 1, { type: 'lead.captured' });
    await append(client, 5);
    const first = await client.rest('GET', '/events?types=lead.captured&limit=1');
    expect(first.body.data.map(({ sequence }: Json) => sequence)).toEqual([early]);
    // One request looks through a part of the log only, whatever it finds there.
    const second = await client.rest('GET', `/events?types=lead.captured&after=${first.body.data[0].cursor}`);
    expect(second.body).toMatchObject({ data: [], pagination: { hasMore: true } });
    expect(second.headers['link']).toContain(encodeURIComponent('lead.captured'));
    const { nextCursor } = second.body.pagination;
    const third = await client.rest('GET', `/events?types=lead.captured&after=${nextCursor}`);
    expect(third.body.data.map(({ sequence }: Json) => sequence)).toEqual([late]);
    expect(third.body.pagination).toEqual({ limit: 20, hasMore: false, nextCursor: await endOf(client) });
    const { data } = await client.graphql(eventsQuery, { types: ['LEAD_CAPTURED'], after: first.body.data[0].cursor });
    expect(data.events).toMatchObject({ nodes: [], pageInfo: { hasNextPage: true, endCursor: nextCursor } });
  });

  test('rejects unknown parameters and names them', async () => {
    const client = await server.account();
    const refusals: [string, Json][] = [
      ['limit=0', [expect.objectContaining({ parameter: 'limit' })]],
      ['limit=101', [expect.objectContaining({ parameter: 'limit' })]],
      ['offset=1', [expect.objectContaining({ parameter: 'offset' })]],
      ['type=lead.captured', [expect.objectContaining({ parameter: 'type' })]],
      ['types=lead.captured,lead.lost', [expect.anything()]],
      ['types=', [expect.anything()]],
      ['after=x&after=x', Array(2).fill(expect.objectContaining({ parameter: 'after' }))],
    ];
    for (const [query, errors] of refusals) {
      const { status, body } = await client.rest('GET', `/events?${query}`);
      expect({ query, status, code: body.code }).toEqual({ query, status: 400, code: 'VALIDATION_FAILED' });
      expect(body.errors).toEqual(errors);
    }
  });

  test('needs the scope events:read on both faces', async () => {
    const client = await server.account();
    const without = await client.withScopes('conversations:read', 'leads:read');
    expect((await without.rest('GET', '/events')).body).toMatchObject({ code: 'FORBIDDEN' });
    const { data, errors } = await without.graphql(eventsQuery);
    expect([data, errors?.[0]?.extensions.code]).toEqual([{ events: null }, 'FORBIDDEN']);
    const reader = await client.withScopes('events:read');
    await makeEvents(client);
    const read = await reader.graphql(eventsQuery);
    expect(read.errors, 'the snapshots need no scope of their own').toBeUndefined();
    expect(read.data.events.nodes).toHaveLength(4);
  });

  test('shows a token bound to a conversation only that one, without metadata', async () => {
    const client = await server.account();
    const [mine, other] = [await makeEvents(client), await makeEvents(client)];
    const all = await listed(client);
    const caller: Caller = {
      account: client.account,
      keyId: 'test',
      credential: 'token',
      scopes: new Set(['events:read']),
      conversationId: mine.id,
    };
    const read = (input: object) => listEvents.execute(server.app.ports, caller, input);
    const blank = (event: Json): Json =>
      JSON.parse(JSON.stringify({ ...event, sequence: null }), (key, value) =>
        key === 'metadata' ? {} : key === 'externalId' ? null : value,
      );
    const page = await read({});
    const visible = all.slice(0, 4).filter(({ type }: Json) => type !== 'lead.captured');
    expect(page.items.map(({ json }) => ({ ...JSON.parse(json), cursor: '' }))).toEqual(
      visible.map(blank).map((event: Json) => ({ ...event, cursor: '' })),
    );
    expect(page.items[0]?.data.conversation?.metadata).toEqual({});
    expect((await read({ conversationId: mine.id })).items).toHaveLength(3);
    await expect(read({ conversationId: other.id })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    // What others are given is not blanked by it.
    expect(await listed(client)).toEqual(all);
  });
});

describe('a cursor', () => {
  const encoded = (text: string) => Buffer.from(text).toString('base64url');
  test.each([
    { name: 'nothing', after: '' },
    { name: 'a word', after: 'nonsense' },
    { name: 'one of another list', after: encoded('["-createdAt","lead_01m7yzcf3tfz1aan3df712nas7"]') },
    { name: 'a negative number', after: encoded('abc.-1') },
    { name: 'a number in another notation', after: encoded('abc.1e3') },
    { name: 'a number with zeros before it', after: encoded('abc.01') },
    { name: 'a number that no log reaches', after: encoded(`abc.${'9'.repeat(16)}`) },
    { name: 'a number of no log', after: encoded('.1') },
    { name: 'no ASCII', after: '\u{1f4e6}' },
    { name: 'very long', after: 'x'.repeat(5_000) },
  ])('that is malformed is rejected: $name', async ({ after }) => {
    const client = await server.account();
    const { rest, graphql } = await answersTo(client, after);
    const inQuery = { parameter: 'after' };
    const places = [inQuery, inQuery, { pointer: '/after', header: 'Last-Event-ID' }];
    for (const [index, { status, body }] of rest.entries()) {
      expect(status).toBe(400);
      expect(body).toMatchObject({
        code: 'VALIDATION_FAILED',
        errors: [{ ...places[index], detail: 'is not a cursor of the event log' }],
      });
    }
    expect(graphql).toMatchObject({ code: 'VALIDATION_FAILED', errors: [{ pointer: '/after' }] });
  });

  test('is accepted only unchanged: with anything added it is malformed', async () => {
    const client = await server.account();
    const cursor = await endOf(client);
    expect((await client.rest('GET', `/events?after=${cursor}`)).status).toBe(200);
    for (const after of [`${cursor}=`, `${cursor}!`, ` ${cursor}`, `${cursor}A`]) {
      const { rest } = await answersTo(client, after);
      for (const { body } of rest) expect({ after, code: body.code }).toEqual({ after, code: 'VALIDATION_FAILED' });
    }
  });

  test('beyond the end of the log is expired, not silently waited for', async () => {
    const client = await server.account();
    const other = await server.account();
    await append(other, 9);
    await append(client, 5);
    const { rest, graphql } = await answersTo(client, await endOf(other));
    const oldestCursor = rest[0]?.body.oldestCursor;
    const { body } = await client.rest('GET', '/events');
    for (const answer of rest) {
      expect(answer.status).toBe(410);
      expect(answer.body.code).toBe('CURSOR_EXPIRED');
      const again = await client.rest('GET', `/events?after=${answer.body.oldestCursor}`);
      expect(again.body.data).toEqual(body.data);
    }
    expect(graphql).toMatchObject({ code: 'CURSOR_EXPIRED', oldestCursor });
  });

  test.skipIf(isOnPostgres)(
    'from before the restore of a backup is expired, and the `oldestCursor` of the error works',
    async () => {
      const databasePath = `${temporaryFolder()}/test.db`;
      const before = await startTestServer({ databasePath });
      const client = await before.account();
      for (let round = 0; round < 3; round++) await client.rest('POST', '/conversations');
      const { body } = await client.rest('GET', '/events?limit=1');
      const old = body.pagination.nextCursor;
      await before.close();
      const database = new Database(databasePath);
      database.exec(`UPDATE meta SET value = 'feedfacefeedface' WHERE name = 'epoch'`);
      database.close();

      const after = await startTestServer({ databasePath });
      const again = { ...client, ...after.clientFor(client.secret) };
      const { rest, graphql } = await answersTo(again, old);
      const oldestCursor = rest[0]?.body.oldestCursor;
      for (const answer of rest) {
        expect(answer.status).toBe(410);
        expect(answer.body).toMatchObject({ code: 'CURSOR_EXPIRED', oldestCursor });
      }
      expect(graphql).toMatchObject({ code: 'CURSOR_EXPIRED', oldestCursor });
      const read = await again.rest('GET', `/events?after=${oldestCursor}`);
      expect(read.body.data.map(({ sequence }: Json) => sequence)).toEqual([1, 2, 3]);
      expect(read.body.data[0].cursor).not.toBe(old);
      await after.close();
    },
  );
});

describe('old events', () => {
  test('stay for exactly thirty days, to the millisecond', async () => {
    const clock = new TestClock();
    const own = await startTestServer({ clock });
    const client = await own.account();
    await client.rest('POST', '/conversations');
    clock.advance(1);
    await client.rest('POST', '/leads', { body: { phone: '1' } });
    const sequences = async () => {
      await own.app.tick();
      return (await listed(client)).map(({ sequence }) => sequence);
    };
    clock.advance(30 * dayMs - 1);
    expect(await sequences()).toEqual([1, 2]);
    clock.advance(1);
    expect(await sequences()).toEqual([2]);
    clock.advance(1);
    expect(await sequences()).toEqual([]);
    await client.rest('POST', '/conversations');
    expect(await sequences(), 'the numbers go on').toEqual([3]);
    await own.close();
  });

  test('stay for the configured retention', async () => {
    const clock = new TestClock();
    const own = await startTestServer({ clock, config: { eventRetentionMs: dayMs } });
    const client = await own.account();
    await client.rest('POST', '/conversations');
    clock.advance(dayMs + 1);
    await own.app.tick();
    expect(await listed(client)).toEqual([]);
    await own.close();
  });

  // By which statements this one and the following are done, only SQLite’s are looked at.
  test.skipIf(isOnPostgres)('are removed in small steps, for all accounts, and newer ones stay', async () => {
    const [one, other] = [await server.account(), await server.account()];
    const old = timestamp(server.clock.now() - 31 * dayMs);
    const young = timestamp(server.clock.now() - 29 * dayMs);
    await append(one, 1_200, { timestamp: old });
    await append(one, 3, { timestamp: young });
    await append(other, 40, { timestamp: old });
    await append(other, 2, { timestamp: young });
    const steps: string[] = [];
    onStatement = (sql) => {
      if (/^(DELETE FROM events|COMMIT)/.test(sql)) steps.push(sql.slice(0, 6).toUpperCase());
    };
    const ticking = server.app.tick();
    const [between] = await Promise.all([one.rest('POST', '/leads', { body: { phone: '1' } }), ticking]);
    onStatement = () => {};
    expect(between.status).toBe(201);
    // No transaction removes more than 500, so none of them holds up the others for long.
    expect(steps.filter((step) => step === 'DELETE').length).toBeGreaterThanOrEqual(3);
    expect(steps.filter((step) => step === 'COMMIT').length).toBeGreaterThanOrEqual(3);
    expect((await listed(one)).map(({ sequence }) => sequence)).toEqual([1_201, 1_202, 1_203, 1_204]);
    expect((await listed(other)).map(({ sequence }) => sequence)).toEqual([41, 42]);
  });

  test('leave their cursors expired on both faces, and the `oldestCursor` of the error works', async () => {
    const client = await server.account();
    await append(client, 10, { timestamp: timestamp(server.clock.now() - 31 * dayMs) });
    await append(client, 5, { timestamp: timestamp(server.clock.now() - dayMs) });
    const before = await listed(client);
    await server.app.tick();
    const { rest, graphql } = await answersTo(client, before[3].cursor);
    for (const answer of rest) {
      expect(answer.status).toBe(410);
      expect(answer.headers['content-type']).toBe('application/problem+json');
      expect(answer.body).toMatchObject({ code: 'CURSOR_EXPIRED', oldestCursor: before[9].cursor });
    }
    expect(graphql).toMatchObject({ code: 'CURSOR_EXPIRED', oldestCursor: before[9].cursor });
    for (const after of [before[9].cursor, undefined]) {
      const query = after === undefined ? 'limit=100' : `after=${after}`;
      expect(await listed(client, query)).toEqual(before.slice(10));
      const { data } = await client.graphql(eventsQuery, { after });
      expect(data.events.nodes.map(({ id }: Json) => id)).toEqual(before.slice(10).map(({ id }) => id));
    }
  });

  test('that were all removed leave the end of the log as the oldest cursor', async () => {
    const client = await server.account();
    await append(client, 10, { timestamp: timestamp(server.clock.now() - 31 * dayMs) });
    const before = await listed(client);
    await server.app.tick();
    const end = await endOf(client);
    expect(end).toBe(before[9].cursor);
    const { body } = await client.rest('GET', '/events');
    expect(body).toEqual({ data: [], pagination: { limit: 20, hasMore: false, nextCursor: end } });
    const { rest } = await answersTo(client, before[8].cursor);
    expect(rest[0]?.body).toMatchObject({ code: 'CURSOR_EXPIRED', oldestCursor: end });
    expect(await pageInfoAfter(client, end)).toMatchObject({ hasPreviousPage: false });
    await client.rest('POST', '/conversations');
    expect((await listed(client, `after=${end}`)).map(({ sequence }) => sequence)).toEqual([11]);
  });

  test.skipIf(isOnPostgres)('that are removed while a page is read leave no gap in it', async () => {
    const client = await server.account();
    await append(client, 10);
    const [first] = await listed(client, 'limit=1');
    const other = new Database(server.databasePath);
    let removed = false;
    onStatement = (sql) => {
      if (removed || !/sequence > \(SELECT 1\.0\) .*LIMIT \(SELECT 5\.0\)/s.test(sql)) return;
      removed = true;
      other.exec(`DELETE FROM events WHERE account_id = '${client.account.id}' AND sequence <= 4`);
    };
    const page = await listed(client, `after=${first.cursor}&limit=5`);
    onStatement = () => {};
    other.close();
    expect(removed).toBe(true);
    expect(
      page.map(({ sequence }) => sequence),
      'as it was before',
    ).toEqual([2, 3, 4, 5, 6]);
    const { body } = await client.rest('GET', `/events?after=${first.cursor}&limit=5`);
    expect(body).toMatchObject({ code: 'CURSOR_EXPIRED' });
    expect((await listed(client, `after=${body.oldestCursor}`)).map(({ sequence }) => sequence)).toEqual([
      5, 6, 7, 8, 9, 10,
    ]);
  });
});

describe('a lead', () => {
  const leadQuery = `query ($id: ID!) { lead(id: $id) { ${select.lead} } node(id: $id) { __typename ... on Lead { ${select.lead} } } }`;

  test('is found at its Location once captured, and reads the same everywhere', async () => {
    const client = await server.account();
    const conversation = await client.rest('POST', '/conversations');
    const input = {
      conversationId: conversation.body.id,
      name: 'Ada Lovelace',
      email: 'ada@example.com',
      phone: '+44 20 7946 0000',
      company: 'Engines',
      metadata: { score: 4.5, vip: true, source: 'shop' },
    };
    const { status, headers, body } = await client.rest('POST', '/leads', { body: input });
    expect(status).toBe(201);
    expect(headers['location']).toBe(`/v1/leads/${body.id}`);
    expect(body).toEqual({
      id: expect.stringMatching(/^lead_[0-9a-z]{26}$/),
      ...input,
      createdAt: timestamp(server.clock.now()),
    });
    expect((await client.rest('GET', `/leads/${body.id}`)).body).toEqual(body);
    expect((await client.rest('GET', '/leads')).body.data).toEqual([body]);
    const { data } = await client.graphql(leadQuery, { id: body.id });
    expect(data).toEqual({ lead: body, node: { __typename: 'Lead', ...body } });
    const after = await client.rest('GET', `/conversations/${conversation.body.id}`);
    expect(after.body, 'the conversation is not changed by it').toEqual(conversation.body);
  });

  test('captured over GraphQL comes with the event cursor after it', async () => {
    const client = await server.account();
    await client.rest('POST', '/conversations');
    const { data } = await client.graphql(
      `mutation { captureLead(input: { phone: "1" }) { lead { ${select.lead} } eventCursor } }`,
    );
    const { lead, eventCursor } = data.captureLead;
    expect((await client.rest('GET', `/leads/${lead.id}`)).body).toEqual(lead);
    expect(eventCursor).toBe((await listed(client)).at(-1).cursor);
    await client.rest('POST', '/conversations');
    expect((await listed(client, `after=${eventCursor}`)).map(({ sequence }) => sequence)).toEqual([3]);
  });

  test('needs an email address or a phone number, which is reported with all other faults', async () => {
    const client = await server.account();
    const capture = `mutation ($input: CaptureLeadInput!) { captureLead(input: $input) { lead { id } } }`;
    const required = { pointer: '/email', detail: 'is required unless `phone` is given' };
    const tooLong = { pointer: '/name', detail: 'must have at most 200 characters' };
    const blank = (pointer: string) => ({ pointer, detail: 'must not be empty or only white space' });
    const refusals: [object, { pointer: string; detail: string }[]][] = [
      [{}, [required]],
      [{ email: null, phone: null }, [required]],
      [{ name: 'x'.repeat(201) }, [tooLong, required]],
      [{ email: ' ' }, [blank('/email')]],
      [{ email: '', phone: '\u00a0' }, [blank('/email'), blank('/phone')]],
    ];
    for (const [input, errors] of refusals) {
      const { status, body } = await client.rest('POST', '/leads', { body: input });
      expect({ status, errors: body.errors }).toEqual({ status: 400, errors });
      const answer = await client.graphql(capture, { input });
      expect(answer.errors?.[0]?.extensions).toMatchObject({
        code: 'VALIDATION_FAILED',
        errors: errors.map(({ pointer, detail }) => ({ pointer: `/input${pointer}`, detail })),
      });
    }
    const wrongType = await client.rest('POST', '/leads', { body: { name: 5 } });
    expect(wrongType.body.errors).toEqual([{ pointer: '/name', detail: 'must be a string' }, required]);
    expect((await client.rest('GET', '/leads')).body.pagination.total).toBe(0);
    expect(await listed(client)).toEqual([]);
  });

  test('for an unknown conversation, or one of another account, is rejected and leaves nothing behind', async () => {
    const [client, other] = [await server.account(), await server.account()];
    const theirs = await other.rest('POST', '/conversations');
    for (const conversationId of ['conv_01m7yzcf3tfz1aan3df712nas7', 'nonsense', theirs.body.id]) {
      const { status, body } = await client.rest('POST', '/leads', { body: { conversationId, phone: '1' } });
      expect([status, body.code]).toEqual([404, 'NOT_FOUND']);
      const { errors } = await client.graphql(
        'mutation ($id: ID!) { captureLead(input: { conversationId: $id, phone: "1" }) { lead { id } } }',
        { id: conversationId },
      );
      expect(errors?.[0]?.extensions.code).toBe('NOT_FOUND');
    }
    expect((await client.rest('GET', '/leads')).body.pagination.total).toBe(0);
    expect(await listed(client)).toEqual([]);
  });

  test('is listed newest first, by offset and by cursor, with the total, the same on both faces', async () => {
    const client = await server.account();
    const ids: string[] = [];
    for (let index = 0; index < 25; index++) {
      ids.unshift((await client.rest('POST', '/leads', { body: { phone: String(index) } })).body.id);
      if (index % 3 === 0) server.clock.advance(1);
    }
    const seen: string[] = [];
    for (let path: string | undefined = '/leads?limit=10'; path !== undefined; ) {
      const { body, headers }: RestResponse = await client.rest('GET', path);
      expect(body.pagination).toMatchObject({ limit: 10, total: 25, hasMore: seen.length + 10 < 25 });
      seen.push(...body.data.map(({ id }: Json) => id));
      path = /^<\/v1([^>]*)>; rel="next"$/.exec(headers['link'] ?? '')?.[1];
    }
    expect(seen).toEqual(ids);
    const offset = await client.rest('GET', '/leads?offset=20&limit=100');
    expect(offset.body.data.map(({ id }: Json) => id)).toEqual(ids.slice(20));

    const page = 'nodes { id } totalCount pageInfo { hasNextPage endCursor }';
    const first = await client.graphql(`{ leads(first: 10) { ${page} } }`);
    expect(first.data.leads).toMatchObject({ totalCount: 25, pageInfo: { hasNextPage: true } });
    const second = await client.graphql(`query ($after: String) { leads(first: 100, after: $after) { ${page} } }`, {
      after: first.data.leads.pageInfo.endCursor,
    });
    expect([...first.data.leads.nodes, ...second.data.leads.nodes].map(({ id }: Json) => id)).toEqual(ids);
    expect(second.data.leads.pageInfo.hasNextPage).toBe(false);
    const both = await client.rest('GET', `/leads?offset=1&after=${first.data.leads.pageInfo.endCursor}`);
    expect(both.body).toMatchObject({ code: 'VALIDATION_FAILED', errors: [{ parameter: 'after' }] });
  });

  test('that is unknown is NOT_FOUND, and null as a node', async () => {
    const client = await server.account();
    const theirs = await (await server.account()).rest('POST', '/leads', { body: { phone: '1' } });
    for (const id of ['lead_01m7yzcf3tfz1aan3df712nas7', 'nonsense', theirs.body.id]) {
      expect((await client.rest('GET', `/leads/${id}`)).body.code).toBe('NOT_FOUND');
      const { data, errors } = await client.graphql(leadQuery, { id });
      expect(data).toEqual({ lead: null, node: null });
      expect(errors?.map(({ path, extensions }) => [path, extensions.code])).toEqual([[['lead'], 'NOT_FOUND']]);
    }
  });

  test('is returned to its creator, read only with leads:read, and its conversation only with the scope of that', async () => {
    const client = await server.account();
    const conversation = await client.rest('POST', '/conversations');
    const writer = await client.withScopes('leads:write');
    const { data, errors } = await writer.graphql(
      `mutation ($id: ID!) { captureLead(input: { conversationId: $id, phone: "1" }) {
        lead { id phone conversation { id } } eventCursor } }`,
      { id: conversation.body.id },
    );
    const { lead } = data.captureLead;
    expect(lead).toEqual({ id: expect.any(String), phone: '1', conversation: null });
    expect(errors?.map(({ path, extensions }) => [path, extensions.code])).toEqual([
      [['captureLead', 'lead', 'conversation'], 'FORBIDDEN'],
    ]);
    const refused = await writer.graphql(leadQuery, { id: lead.id });
    expect(refused.data).toEqual({ lead: null, node: null });
    expect(refused.errors?.map(({ extensions }) => extensions.code)).toEqual(['FORBIDDEN', 'FORBIDDEN']);
    expect((await writer.rest('GET', '/leads')).body.code).toBe('FORBIDDEN');
    const reader = await client.withScopes('leads:read');
    const found = await reader.graphql(leadQuery, { id: lead.id });
    expect(found.errors).toBeUndefined();
    expect(found.data.node).toMatchObject({ __typename: 'Lead', id: lead.id });
    expect((await reader.rest('POST', '/leads', { body: { phone: '1' } })).body.code).toBe('FORBIDDEN');
    const both = await client.withScopes('leads:read', 'conversations:read');
    const edge = await both.graphql('query ($id: ID!) { lead(id: $id) { conversation { id status } } }', {
      id: lead.id,
    });
    expect(edge.data.lead.conversation).toEqual({ id: conversation.body.id, status: 'ACTIVE' });
  });
});

test('a query for a hundred pages, each of which scans thousands of events, blocks nobody', async () => {
  const client = await server.account();
  const started = Array.from({ length: 4_000 }, () => sampleEvent(sampleConversation()));
  await server.storage.write(async (tx) => tx.events.append(client.account.id, started));
  const pages = Array.from({ length: 100 }, (_, index) => `p${index}: events(types: [LEAD_CAPTURED]) { nodes { id } }`);
  let turns = 0;
  let next = setImmediate(function count() {
    turns++;
    next = setImmediate(count);
  });
  const before = process.threadCpuUsage();
  const { errors } = await client.graphql(`{ ${pages.join(' ')} }`);
  clearImmediate(next);
  expect(errors).toBeUndefined();
  const { user, system } = process.threadCpuUsage(before); // what the machine does besides does not count
  expect(turns, 'a turn takes a few milliseconds').toBeGreaterThan((user + system) / 1_000 / 20);
});

test.skipIf(isOnPostgres)(
  'a page of types that the log does not have is looked for in steps, between which others have theirs',
  async () => {
    const client = await server.account();
    const started = Array.from({ length: 10_000 }, () => sampleEvent(sampleConversation()));
    await server.storage.write(async (tx) => tx.events.append(client.account.id, started));
    let scans = 0;
    onStatement = (sql) => void (/\bFROM events\b.*\btype IN\b/s.test(sql) && scans++);
    const scansBefore = new Set<number>();
    let isDone = false;
    const asked = client.rest('GET', '/events?types=lead.captured').finally(() => {
      isDone = true;
    });
    while (!isDone) {
      await scheduler.step('another account');
      scansBefore.add(scans);
    }
    onStatement = () => {};
    const { data, pagination } = (await asked).body;
    expect([data, pagination.hasMore]).toEqual([[], false]);
    expect(scansBefore.size).toBeGreaterThan(5);
  },
);
