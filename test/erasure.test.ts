import { randomUUID } from 'node:crypto';
import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { operatorOf } from '../src/domain/caller.ts';
import { captureLead } from '../src/domain/leads.ts';
import { openSqliteStorage } from '../src/storage/sqlite/storage.ts';
import type { Json } from './support/client.ts';
import { temporaryFolder } from './support/files.ts';
import { isOnPostgres } from './support/postgres.ts';
import { Receiver, type Replies } from './support/receiver.ts';
import * as select from './support/selections.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';
import { SseReader } from './support/sse.ts';
import { RawSocket, socketClient } from './support/subscribe.ts';
import { TcpRelay } from './support/tcp-relay.ts';
import { gate, until } from './support/wait.ts';
import { anywhere } from './support/webhook-policy.ts';

// Whoever asks for a conversation to be deleted has promised somebody that it is gone. So it is looked
// for everywhere: on both faces, in the log and all that follow it, at receivers, and in the file's bytes.

let server: TestServer;
let client: TestAccount;
/** A text that is in everything that tells of the conversation, and in nothing else. */
let marker: string;

beforeAll(async () => {
  server = await startTestServer({ config: { webhookPolicy: anywhere } });
});
afterAll(() => server.close());
beforeEach(async () => {
  client = await server.account();
  marker = `marker-${randomUUID()}`;
});

/** A key is kept for its 24 hours: it is not to say more than it has to. */
const keyFor = (operation: string, text: string): string => `${operation}-of-${text.slice(0, 6)}`;

const range = (length: number) => Array.from({ length }, (_, index) => index + 1);

/** How many events each such conversation has. */
const toldEvents = 10;

/** What is sent of a conversation under keys, full of a text: the same again is a repeated request. */
const requestsOf = (text: string) => ({
  create: {
    subject: `subject ${text}`,
    visitor: { id: text, name: text, email: `é-${text}` },
    externalId: text,
    assignee: { id: text, name: text },
    tags: [text],
    metadata: { [text]: text },
    message: {
      content: `Hello ${text}`,
      sender: 'visitor',
      author: { id: text, name: text },
      clientId: text,
      metadata: { a: text },
    },
  },
  send: { content: `And ${text}`, sender: 'visitor', clientId: `2-${text}` },
  lead: { name: text, email: `é-${text}@example.com`, phone: text, company: text, metadata: { text } },
});

const keyed = (operation: string, text: string) => ({ headers: { 'idempotency-key': keyFor(operation, text) } });

/** A conversation that is full of a text, and the leads that were captured in it. */
async function tell(text: string): Promise<{ id: string; leads: string[]; messages: string[] }> {
  const { create, send, lead } = requestsOf(text);
  const started = await client.rest('POST', '/conversations', { body: create, ...keyed('create', text) });
  const { id } = started.body;
  const path = `/conversations/${id}`;
  const sent = await client.rest('POST', `${path}/messages`, { body: send, ...keyed('send', text) });
  const author = { id: `agent-${text}`, name: text };
  await client.rest('POST', `${path}/messages`, { body: { content: `Yes ${text}`, sender: 'agent', author } });
  const read = await client.rest('PUT', `${path}/read-positions/reader-${text}`, { body: { sequence: 1 } });
  expect(read.status).toBe(200);
  const leads: string[] = [];
  for (const name of [text, 'x']) {
    const body = { ...lead, name, conversationId: id };
    leads.push((await client.rest('POST', '/leads', { body, ...(name === text && keyed('lead', text)) })).body.id);
  }
  await client.rest('PATCH', path, { body: { status: 'closed', subject: `closed ${text}` } });
  return { id, leads, messages: [started.body.messages[0].id, sent.body.id] };
}

const erase = {
  REST: async (id: string) => {
    expect((await client.rest('DELETE', `/conversations/${id}`)).status).toBe(204);
  },
  GraphQL: async (id: string) => {
    const { data, errors } = await client.graphql(
      'mutation ($id: ID!) { deleteConversation(input: { id: $id }) { deletedConversationId eventCursor } }',
      { id },
    );
    expect(errors).toBeUndefined();
    expect(data.deleteConversation).toEqual({ deletedConversationId: id, eventCursor: expect.any(String) });
  },
};

const eventsNow = async (query = ''): Promise<Json[]> =>
  (await client.rest('GET', `/events?limit=100${query}`)).body.data;

const listTotals = async (): Promise<Json> => {
  const totals: Record<string, number> = {};
  for (const status of ['active', 'pending', 'closed']) {
    totals[status] = (await client.rest('GET', `/conversations?status=${status}`)).body.pagination.total;
  }
  totals['all'] = (await client.rest('GET', '/conversations')).body.pagination.total;
  totals['leads'] = (await client.rest('GET', '/leads')).body.pagination.total;
  const { data } = await client.graphql('{ conversations { totalCount } leads { totalCount } }');
  expect([data.conversations.totalCount, data.leads.totalCount]).toEqual([totals['all'], totals['leads']]);
  return totals;
};

/** Where a text is found in the files of a database, page by page. */
function placesOf(text: string, path = server.databasePath): string[] {
  return ['', '-wal', '-shm'].flatMap((suffix) => {
    const file = `${path}${suffix}`;
    const bytes = existsSync(file) ? readFileSync(file) : Buffer.alloc(0);
    const places: string[] = [];
    for (let at = bytes.indexOf(text); at !== -1; at = bytes.indexOf(text, at + 1)) places.push(`${suffix}@${at}`);
    return places;
  });
}

describe.each(['REST', 'GraphQL'] as const)('a conversation that was deleted through %s', (face) => {
  test('is found nowhere, nor are its messages and leads, and the totals are those of what is left', async () => {
    const other = await tell('another');
    await client.rest('POST', '/leads', { body: { email: 'nobody@example.com' } });
    const before = await listTotals();
    const { id, leads, messages } = await tell(marker);
    await client.rest('PATCH', `/conversations/${id}`, { body: { status: 'active' } });
    await erase[face](id);

    for (const path of [
      `/conversations/${id}`,
      `/conversations/${id}/messages`,
      ...messages.map((it) => `/messages/${it}`),
      ...leads.map((it) => `/leads/${it}`),
    ]) {
      expect((await client.rest('GET', path)).body.code, path).toBe('NOT_FOUND');
    }
    const send = { body: { content: 'x', sender: 'visitor' } };
    expect((await client.rest('POST', `/conversations/${id}/messages`, send)).body.code).toBe('NOT_FOUND');
    expect((await client.rest('DELETE', `/conversations/${id}`)).body.code).toBe('NOT_FOUND');
    const { data, errors } = await client.graphql(
      `query ($id: ID!, $ids: [ID!]!, $lead: ID!, $message: ID!) {
        conversation(id: $id) { id } message(id: $message) { id } lead(id: $lead) { id } node(id: $id) { id } nodes(ids: $ids) { id } }`,
      { id, ids: [id, ...messages, ...leads], lead: leads[0], message: messages[0] },
    );
    expect(data).toEqual({ conversation: null, message: null, lead: null, node: null, nodes: Array(5).fill(null) });
    expect(errors?.map(({ extensions }) => extensions.code)).toEqual(Array(3).fill('NOT_FOUND'));
    const lists = [await client.rest('GET', '/conversations'), await client.rest('GET', '/leads')];
    expect(JSON.stringify(lists.map(({ body }) => body))).not.toContain(marker);
    expect((await client.rest('GET', `/conversations?externalId=${marker}`)).body.pagination.total).toBe(0);
    expect(await listTotals()).toEqual(before);
    // And the neighbour is whole.
    expect((await client.rest('GET', `/conversations/${other.id}`)).body.messages).toHaveLength(3);
    expect((await client.rest('GET', `/leads/${other.leads[0]}`)).body.company).toBe('another');
    // What it was called is free again.
    expect((await client.rest('POST', '/conversations', { body: { externalId: marker } })).status).toBe(201);
  });

  test('leaves its events in the log, in their places, and nothing in them', async () => {
    const other = await tell('another');
    const { id } = await tell(marker);
    const before = await eventsNow();
    await erase[face](id);
    expect(before.map(({ sequence }) => sequence)).toEqual(range(2 * toldEvents));
    const ofOther = await eventsNow(`&conversationId=${other.id}`);
    const cut = ofOther.length;
    const deletion = { type: 'conversation.deleted', sequence: before.length + 1, data: { conversationId: id } };
    const all = before.map((event, index) => (index >= cut ? { ...event, data: { erased: true } } : event));
    all.push(expect.objectContaining(deletion));
    expect(await eventsNow()).toEqual(all);
    expect(await eventsNow(`&conversationId=${id}`)).toEqual(all.slice(cut));

    const start = (await client.rest('GET', '/events?limit=1')).body.data[0].cursor;
    const sse = await SseReader.open(`${server.url}/v1/events/stream?after=${start}`, {
      authorization: `Bearer ${client.secret}`,
    });
    await sse.until(({ events }) => events.length === all.length - 1);
    expect(sse.events).toEqual(all.slice(1));
    sse.close();

    const { data } = await client.graphql(`{ events(first: 100) { nodes { erased ${select.event} } } }`);
    for (const [index, node] of data.events.nodes.entries()) {
      const { erased, conversation, message, lead, conversationId, readPosition } = node;
      if (index === before.length) expect([erased, conversationId]).toEqual([false, id]);
      else if (index < cut) expect([erased, conversation?.id ?? conversationId]).toEqual([false, other.id]);
      else expect([erased, conversation ?? message ?? lead ?? readPosition ?? null]).toEqual([true, null]);
    }
    const socket = socketClient(server.url, client.secret);
    const got: Json[] = [];
    const selection = `subscription ($after: String) { messageReceived(after: $after) {
      erased sequence message { content } conversation { id: conversationId current { messages { totalCount } } } } }`;
    void (async () => {
      for await (const { data: one } of socket.iterate({ query: selection, variables: { after: start } }))
        got.push(one);
    })().catch(() => {});
    const received = all.slice(1).filter(({ type }) => type === 'message.received');
    await until(() => got.length === received.length);
    expect(got.map((one) => one.messageReceived)).toEqual(
      received.map(({ sequence, data: told }) =>
        told.erased
          ? { erased: true, sequence, message: null, conversation: null }
          : expect.objectContaining({ erased: false, sequence }),
      ),
    );
    await socket.dispose();
  });

  test('cannot be had again by the key of a request about it, and other keys are as they were', async () => {
    const { id } = await tell(marker);
    await tell('another');
    await erase[face](id);
    const again = async (text: string) => {
      const { create, send, lead } = requestsOf(text);
      const conversations = (await client.rest('GET', '/conversations?externalId=another')).body.data;
      const conversationId = text === marker ? id : conversations[0].id;
      return [
        await client.rest('POST', '/conversations', { body: create, ...keyed('create', text) }),
        await client.rest('POST', `/conversations/${conversationId}/messages`, { body: send, ...keyed('send', text) }),
        await client.rest('POST', '/leads', { body: { ...lead, conversationId }, ...keyed('lead', text) }),
      ];
    };
    for (const { status, body } of await again(marker)) {
      expect([status, body.code]).toEqual([404, 'NOT_FOUND']);
      expect(JSON.stringify(body)).not.toContain(marker);
    }
    for (const { status, headers } of await again('another')) {
      expect([status, headers['idempotent-replayed']]).toEqual([201, 'true']);
    }
    const { errors } = await client.graphql(
      'mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id } } }',
      {
        input: {
          ...requestsOf(marker).send,
          conversationId: id,
          sender: 'VISITOR',
          idempotencyKey: keyFor('send', marker),
        },
      },
    );
    expect(errors?.[0]?.extensions.code).toBe('NOT_FOUND');
    // Another request under the key is told apart still.
    const other = await client.rest('POST', '/leads', { body: { email: 'x' }, ...keyed('create', marker) });
    expect(other.body.code).toBe('IDEMPOTENCY_KEY_REUSED');
  });

  test('still counts in the reports of the past', async () => {
    const { id } = await tell(marker);
    const report = async () => {
      const { openNow: _, ...rest } = (await client.rest('GET', '/analytics')).body;
      return rest;
    };
    const before = await report();
    expect(before.totals).toMatchObject({ conversationsStarted: 1, leads: 2, messages: { visitor: 2, agent: 1 } });
    await erase[face](id);
    expect(await report()).toEqual(before);
    expect((await client.rest('GET', '/analytics')).body.openNow).toEqual({ active: 0, pending: 0 });
  });
});

describe('webhooks', () => {
  const deliveriesOf = async (webhookId: string): Promise<Json[]> => {
    const list = (await client.rest('GET', `/webhooks/${webhookId}/deliveries?limit=100`)).body.data;
    return await Promise.all(
      list.map(async ({ id }: Json) => (await client.rest('GET', `/webhooks/${webhookId}/deliveries/${id}`)).body),
    );
  };

  async function settled(webhookId: string, holds: (deliveries: Json[]) => boolean): Promise<Json[]> {
    for (;;) {
      const deliveries = await deliveriesOf(webhookId);
      if (holds(deliveries)) return deliveries;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Registers a webhook to a receiver, which verifies every delivery. */
  async function listen(replies: Replies, events: string[]) {
    const receiver = await Receiver.open(server.clock, replies);
    const { body } = await client.rest('POST', '/webhooks', { body: { url: `${receiver.url}/`, events } });
    receiver.trust('/', body.secret);
    return { receiver, id: body.id as string };
  }

  test('are sent, from then on, that it was erased, and forget what receivers have answered', async () => {
    let status = 500;
    const { receiver, id: webhookId } = await listen(
      ({ body }) => ({ status, body: `I have got ${body}` }),
      ['conversation.started', 'lead.captured'],
    );
    const { id } = await tell(marker);
    const other = await tell('another');
    const before = await settled(webhookId, (all) => all.every(({ attemptCount }) => attemptCount === 1));
    expect(before).toHaveLength(6);
    expect(JSON.stringify(before)).toContain(marker);
    await erase.REST(id);
    const after = await deliveriesOf(webhookId);
    expect(JSON.stringify(after)).not.toContain(marker);
    const events = await eventsNow();
    const erased = new Set(events.filter(({ data }) => data.erased).map((event) => event.id));
    for (const [index, delivery] of after.entries()) {
      const [attempt] = delivery.attempts;
      if (erased.has(delivery.eventId)) expect(attempt).toEqual({ ...before[index].attempts[0], responseBody: null });
      else expect(delivery).toEqual(before[index]);
    }

    // What is pending is tried again, with nothing in it.
    status = 200;
    receiver.deliveries.length = 0;
    server.clock.advance(10_000);
    await server.app.webhooks.look();
    const done = await settled(webhookId, (all) => all.every((delivery) => delivery.status === 'succeeded'));
    expect(receiver.deliveries).toHaveLength(6);
    for (const { event } of receiver.deliveries) expect(event).toEqual(events.find((one) => one.id === event.id));
    expect(receiver.deliveries.filter(({ event }) => event.data.erased)).toHaveLength(3);

    // So it is when somebody repeats one.
    receiver.deliveries.length = 0;
    const one = done.find(({ eventId }) => erased.has(eventId));
    await client.rest('POST', `/webhooks/${webhookId}/deliveries/${one.id}/redeliver`);
    await settled(webhookId, (all) => all.every((delivery) => delivery.status === 'succeeded'));
    expect(receiver.deliveries.map(({ event }) => event.data)).toEqual([{ erased: true }]);
    expect(JSON.stringify(await eventsNow(`&conversationId=${other.id}`))).toContain('another');
  });

  test('that were under way are not asked again what they have told: a late answer is not kept', async () => {
    const answer = gate();
    const { receiver, id: webhookId } = await listen(
      ({ body }) => ({ status: 200, body, after: answer.opened }),
      ['conversation.started'],
    );
    const { id } = await tell(marker);
    await until(() => receiver.deliveries.length === 1);
    expect(receiver.deliveries[0]?.body).toContain(marker);
    await erase.REST(id);
    answer.open();
    const [delivery] = await settled(webhookId, (all) => all.every(({ status }) => status === 'succeeded'));
    expect(delivery.attempts).toMatchObject([{ responseStatus: 200, responseBody: null }]);
    await until(() => placesOf(marker).length === 0);
  });

  test('whatever a receiver remembers of one that it is sent again, its answer is not kept', async () => {
    const { id: webhookId } = await listen(() => ({ status: 200, body: marker }), ['conversation.started']);
    const { id } = await tell(marker);
    const [delivery] = await settled(webhookId, (all) => all.every(({ status }) => status === 'succeeded'));
    await erase.REST(id);
    await client.rest('POST', `/webhooks/${webhookId}/deliveries/${delivery.id}/redeliver`);
    const [repeated] = await settled(webhookId, (all) => all.every(({ attemptCount }) => attemptCount === 2));
    expect(repeated.attempts).toMatchObject([{ responseBody: null }, { responseStatus: 200, responseBody: null }]);
  });

  test('that were repeated under a key are shown again as they were then, without what was answered', async () => {
    const { id: webhookId } = await listen(({ body }) => ({ status: 200, body }), ['conversation.started']);
    const { id } = await tell(marker);
    const [delivery] = await settled(webhookId, (all) => all.every(({ status }) => status === 'succeeded'));
    const repeat = () =>
      client.rest('POST', `/webhooks/${webhookId}/deliveries/${delivery.id}/redeliver`, {
        headers: { 'idempotency-key': 'again' },
      });
    const first = await repeat();
    expect(JSON.stringify(first.body)).toContain(marker);
    expect(Object.keys(first.body)).not.toContain('conversationId');
    await settled(webhookId, (all) => all.every(({ attemptCount }) => attemptCount === 2));
    expect((await repeat()).body).toEqual(first.body);
    await erase.REST(id);
    const [attempt] = first.body.attempts;
    expect((await repeat()).body).toEqual({ ...first.body, attempts: [{ ...attempt, responseBody: null }] });
  });
});

const columns = (table: string, ...names: string[]) => names.map((name) => `${table}.${name}`);
const inTables = (name: string, ...tables: string[]) => tables.map((table) => `${table}.${name}`);

/** The columns with what clients have given of a conversation: an erasure empties them. */
const columnsOfClients = [
  ...columns('conversations', 'subject', 'external_id', 'tags', 'metadata', 'last_message'),
  ...columns('conversations', 'visitor', 'visitor_id', 'visitor_email', 'folded_visitor_email'),
  ...columns('conversations', 'assignee', 'assignee_id'),
  ...columns('conversation_tags', 'tag'),
  ...columns('messages', 'content', 'author', 'client_id', 'metadata'),
  ...inTables('reader', 'read_positions', 'unread_conversations'),
  ...columns('leads', 'name', 'email', 'comparable_email', 'folded_email', 'phone', 'company', 'metadata'),
  ...columns('events', 'data'),
  ...columns('attempts', 'response_body'),
  ...columns('kept_results', 'result'),
];

/** All others that are not of integers, by why nothing that a client has given of a conversation is in them. */
const otherColumns = {
  'an id that the service makes': [
    ...inTables('id', 'accounts', 'api_keys', 'conversations', 'messages', 'events', 'leads'),
    ...inTables('id', 'webhooks', 'deliveries', 'attempts'),
    ...inTables('account_id', 'account_origins', 'account_totals', 'api_keys', 'conversations', 'conversation_tags'),
    ...columns('sign_ins', 'account_id', 'key_id'),
    ...inTables('account_id', 'events', 'leads', 'trusted_documents'),
    ...inTables('account_id', 'unread_conversations', 'erasing', 'search_accounts', 'webhooks', 'kept_results'),
    ...inTables('account_id', 'analytics_counters', 'analytics_histograms', 'rate_windows'),
    ...inTables('conversation_id', 'conversation_tags', 'unread_conversations', 'events', 'leads'),
    ...inTables('conversation_id', 'erasing', 'kept_results'),
    ...['deliveries.event_id', 'delivery_leases.lease'],
  ],
  'one of a few words': [
    ...['accounts.plan', 'conversations.status', 'messages.sender', 'events.type', 'analytics_histograms.name'],
    ...['webhooks.disabled_reason', 'deliveries.event_type', 'deliveries.status'],
    ...inTables('trigger', 'deliveries', 'attempts'),
  ],
  'of the account, its keys and its webhooks': [
    ...['accounts.name', 'account_origins.origin', ...columns('api_keys', 'name', 'prefix', 'secret_hash', 'scopes')],
    'sign_ins.secret_hash',
    ...columns('webhooks', 'url', 'events', 'description', 'secrets'),
    ...columns('trusted_documents', 'id', 'text'),
  ],
  'of the file and the machine': [...columns('meta', 'name', 'value'), 'rate_clock.boot'],
  'a hash with a key, by which visitors find their events': ['events.visitor_hash'],
  'kept for 24 hours, so that a repeated request does not pass for a new one': [
    ...columns('kept_results', 'idempotency_key', 'fingerprint'),
  ],
  'made up, to test a webhook': ['deliveries.sample'],
  'the trace of a request': ['deliveries.traceparent'],
  'a sentence of the service': ['attempts.error'],
  'counts of durations': ['analytics_histograms.counts'],
};

describe.skipIf(isOnPostgres)('the file', () => {
  test('holds text of clients in these columns, all of which are emptied, and in no others', async () => {
    const receiver = await Receiver.open(server.clock, ({ body }) => ({ status: 200, body }));
    const { body: webhook } = await client.rest('POST', '/webhooks', { body: { url: `${receiver.url}/` } });
    receiver.trust('/', webhook.secret);
    const { id } = await tell(marker);
    const database = new Database(server.databasePath, { readonly: true });
    onTestFinished(() => void database.close());
    const all = database
      .prepare<[], { table: string; column: string }>(
        `SELECT tables.name AS "table", columns.name AS "column"
          FROM pragma_table_list AS tables, pragma_table_xinfo(tables.name) AS columns
          WHERE tables.type = 'table' AND columns.type <> 'INTEGER'
            AND tables.name NOT LIKE 'sqlite%' AND tables.name <> '__drizzle_migrations'`,
      )
      .all();
    const holds = ({ table, column }: (typeof all)[0]) =>
      database.prepare(`SELECT 1 FROM ${table} WHERE instr(${column}, ?)`).get(marker) !== undefined;
    const named = (some: typeof all) => some.map(({ table, column }) => `${table}.${column}`).sort();
    // A new column belongs into one of the lists; into the first if it has to be emptied, and then `tell` has to fill it.
    expect(named(all)).toEqual([...columnsOfClients, ...Object.values(otherColumns).flat()].sort());
    await until(() => holds({ table: 'attempts', column: 'response_body' }));
    expect(named(all.filter(holds))).toEqual(columnsOfClients.toSorted());
    await erase.REST(id);
    await until(() => placesOf(marker).length === 0); // an answer that was on its way is not kept
    expect(named(all.filter(holds))).toEqual([]);
  });

  test('holds nothing of it after the answer: neither rows nor their indexes, the log of writes, or what was freed', async () => {
    const receiver = await Receiver.open(server.clock, ({ body }) => ({ status: 200, body }));
    const { body: webhook } = await client.rest('POST', '/webhooks', { body: { url: `${receiver.url}/` } });
    receiver.trust('/', webhook.secret);
    const { id } = await tell(marker);
    const long = `${marker} `.repeat(350);
    for (const content of [long.slice(0, 1_500), long.slice(0, 6_000), long, marker]) {
      await client.rest('POST', `/conversations/${id}/messages`, { body: { content, sender: 'visitor' } });
    }
    for (const subject of [marker, `${marker} ${marker}`, 'short', `${marker} again`]) {
      await client.rest('PATCH', `/conversations/${id}`, {
        body: { subject, externalId: subject, metadata: { note: long.slice(0, 8_000), [subject]: 1 } },
      });
      await client.rest('PATCH', `/conversations/${id}`, { body: { metadata: null } });
    }
    await until(() => receiver.deliveries.length === 10);
    expect(placesOf(marker).length).toBeGreaterThan(50);
    await erase.REST(id);
    // An answer that was on its way is not kept, either.
    await until(() => placesOf(marker).length === 0);
  });

  test('is cleaned as soon as another process lets it be', async () => {
    const { id } = await tell(marker);
    const reader = new Database(server.databasePath, { readonly: true });
    onTestFinished(() => void reader.close());
    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM messages').get();
    await erase.REST(id);
    expect(placesOf(marker).length).toBeGreaterThan(0);
    reader.exec('COMMIT');
    await until(() => placesOf(marker).length === 0);
  });

  test('is cleaned by the other server when the one that deleted was stopped before it could', async () => {
    const stopping = await startTestServer({ databasePath: server.databasePath, clock: server.clock });
    const { id } = await tell(marker);
    const reader = new Database(server.databasePath, { readonly: true });
    onTestFinished(() => void reader.close());
    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM messages').get();
    const { status } = await stopping.clientFor(client.secret).rest('DELETE', `/conversations/${id}`);
    await stopping.close();
    expect(status).toBe(204);
    expect(placesOf(marker).length).toBeGreaterThan(0);
    reader.exec('COMMIT');
    await until(() => placesOf(marker).length === 0);
  });

  test('is cleaned when it is opened again after a crash right behind the deletion', async () => {
    const { id } = await tell(marker);
    const reader = new Database(server.databasePath, { readonly: true });
    onTestFinished(() => void reader.close());
    reader.exec('BEGIN');
    reader.prepare('SELECT count(*) FROM messages').get();
    await erase.REST(id);
    const path = join(temporaryFolder(), 'left-behind.db');
    for (const suffix of ['', '-wal']) copyFileSync(`${server.databasePath}${suffix}`, `${path}${suffix}`);
    expect(placesOf(marker, path).length).toBeGreaterThan(0);
    const storage = openSqliteStorage(path);
    onTestFinished(() => storage.close());
    expect(placesOf(marker, path)).toEqual([]);
  });
});

describe('who follows the log', () => {
  const follow = async (url: string, after: string): Promise<SseReader> => {
    const reader = await SseReader.open(`${url}/v1/events/stream?after=${after}`, {
      authorization: `Bearer ${client.secret}`,
    });
    onTestFinished(() => reader.close());
    return reader;
  };

  test('is not told of it any more once the deletion was answered, though others were just before', async () => {
    const start = (await client.rest('GET', '/events')).body.pagination.nextCursor;
    const early = await follow(server.url, start); // keeps the newest events in memory
    const { id } = await tell(marker);
    await early.until(({ events }) => events.length === toldEvents);
    expect(JSON.stringify(early.events)).toContain(marker);
    await erase.REST(id);
    const late = await follow(server.url, start);
    await late.until(({ events }) => events.length === toldEvents + 1);
    expect(late.events.map(({ sequence, data }) => [sequence, data])).toEqual([
      ...range(toldEvents).map((sequence) => [sequence, { erased: true }]),
      [toldEvents + 1, { conversationId: id }],
    ]);
    // Those of before hear no more than that it was deleted, and go on.
    await client.rest('POST', '/conversations');
    await Promise.all([early, late].map((reader) => reader.until(({ events }) => events.length === toldEvents + 2)));
    expect(early.events.at(-1).sequence).toBe(toldEvents + 2);
  });

  test('in another process is not told of it any more either', async () => {
    const other = await startTestServer({ databasePath: server.databasePath, clock: server.clock });
    onTestFinished(() => other.close());
    const start = (await client.rest('GET', '/events')).body.pagination.nextCursor;
    const early = await follow(other.url, start);
    const { id } = await tell(marker);
    await early.until(({ events }) => events.length === toldEvents);
    await erase.REST(id);
    const late = await follow(other.url, start);
    await late.until(({ events }) => events.length === toldEvents + 1);
    expect(late.events.slice(0, -1).map(({ data }) => data)).toEqual(Array(toldEvents).fill({ erased: true }));
  });

  test.each([
    { answers: 'that are there at once', scopes: ['events:read'], more: '' },
    {
      answers: 'that are looked up',
      scopes: ['events:read', 'conversations:read'],
      more: 'current { messages { totalCount } }',
    },
    { answers: 'of which a part is refused', scopes: ['events:read'], more: 'current { messages { totalCount } }' },
  ])(
    'and is slow to take answers $answers is not told of it any more, whatever it was about to be sent',
    async ({ scopes, more }) => {
      const key = await client.rest('POST', '/api-keys', { body: { name: 'slow', scopes } });
      const metadata = { note: 'x'.repeat(8_000) };
      const leads = 60;
      const after = (await client.rest('GET', '/account')).body.eventCursor;
      const other = await client.rest('POST', '/conversations', { body: { metadata } });
      // Each answer has nearly 256 KiB: together more than what lies on the way to the client.
      const caller = operatorOf(client.account);
      const lead = { conversationId: other.body.id, email: 'other@example.com' };
      await Promise.all(Array.from({ length: leads }, () => captureLead.execute(server.app.ports, caller, lead)));
      const { id } = await tell(marker);
      const { socket } = await new RawSocket(server.url).init(key.body.secret);
      onTestFinished(() => socket.terminate());
      const told: string[] = [];
      socket.removeAllListeners('message').on('message', (data) => told.push(String(data)));
      socket.once('message', () => socket.pause());
      const often = Array.from({ length: 30 }, (_, index) => `f${index}: metadata`).join(' ');
      const query = `subscription ($after: String) { events(after: $after) {
        sequence ... on LeadCapturedEvent { lead { email } conversation { ${more} ${often} } } } }`;
      socket.send(JSON.stringify({ id: 's', type: 'subscribe', payload: { query, variables: { after } } }));
      await until(() => told.length === 1);
      await erase.REST(id);
      socket.resume();
      // Beside the start of the other one, and the deletion of this.
      await until(() => told.length === leads + toldEvents + 2);
      expect(told.filter((text) => text.includes('other@example.com'))).toHaveLength(leads);
      expect(told.filter((text) => text.includes(marker))).toEqual([]);
    },
  );

  const found = { answers: 'answers', selected: 'id', text: 'FROM conversations WHERE account_id = $1 AND id = ANY' };
  const failing = {
    answers: 'answers of which a part fails',
    selected: 'messages(first: 1) { nodes { content } }',
    text: 'JOIN messages',
  };
  test.runIf(isOnPostgres).each([
    { transport: 'a socket', ...found },
    { transport: 'a socket', ...failing },
    { transport: 'SSE', ...found },
    { transport: 'SSE', ...failing },
  ])(
    'over $transport is not told of it any more by $answers for which the database is read meanwhile',
    async ({ transport, selected, text }) => {
      const relay = await TcpRelay.open(server.database);
      const relayed = { url: relay.through(server.database), directUrl: undefined };
      const { databasePath, clock } = server;
      const other = await startTestServer({ databasePath, clock, config: { postgres: relayed } });
      onTestFinished(() => other.close());
      const after = (await client.rest('GET', '/account')).body.eventCursor;
      const { id } = (await client.rest('POST', '/conversations', { body: requestsOf(marker).create })).body;
      const held = relay.holdAt(text);
      const query = `subscription ($after: String) { events(after: $after) {
        sequence ... on ConversationStartedEvent { conversation { subject current { ${selected} } } } } }`;
      const variables = { after };
      const told: Json[] = [];
      if (transport === 'SSE') {
        const parameters = new URLSearchParams({ query, variables: JSON.stringify(variables) });
        const headers = { authorization: `Bearer ${client.secret}` };
        const reader = await SseReader.open(`${other.url}/graphql?${parameters}`, headers, (event) => told.push(event));
        onTestFinished(() => reader.close());
      } else {
        const { socket } = await new RawSocket(other.url).init(client.secret);
        onTestFinished(() => socket.terminate());
        socket.on('message', (data) => told.push(JSON.parse(String(data)).payload));
        socket.send(JSON.stringify({ id: 's', type: 'subscribe', payload: { query, variables } }));
      }
      const release = await held;
      expect((await other.clientFor(client.secret).rest('DELETE', `/conversations/${id}`)).status).toBe(204);
      release();
      await until(() => told.some(({ data }) => data.events.sequence === 3));
      expect(told).toEqual([
        { data: { events: { sequence: 1, conversation: null } } },
        { data: { events: { sequence: 2 } } },
        { data: { events: { sequence: 3 } } },
      ]);
    },
  );
});
