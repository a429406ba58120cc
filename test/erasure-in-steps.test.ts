import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { operatorOf } from '../src/domain/caller.ts';
import { captureLead } from '../src/domain/leads.ts';
import { sendMessage } from '../src/domain/messages.ts';
import { type Running, start } from './cli/program.ts';
import { type Client, clientOf, type Json } from './support/client.ts';
import { effort, longTest } from './support/effort.ts';
import { temporaryFolder } from './support/files.ts';
import { isOnPostgres } from './support/postgres.ts';
import { Receiver } from './support/receiver.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';
import { SseReader } from './support/sse.ts';
import { eventually, gate, until } from './support/wait.ts';
import { anywhere } from './support/webhook-policy.ts';

// A large conversation is erased in many transactions. Whatever happens between two of them, and whoever dies
// there, nobody is shown anything of it from the first one on, and nothing is left when the last is answered.

/** So many messages, with their leads, results and events, are more than any one transaction takes away. */
const size = effort(60, 300);

/**
 * A conversation that is full of a text in all that it consists of, each of it many times: without the way through HTTP,
 * which is not what is tested here.
 */
async function tell(
  client: TestAccount,
  text: string,
  { times = size, ports = server.app.ports } = {},
): Promise<{ id: string; leadId: string }> {
  const assignee = { id: text, name: text };
  const body = { subject: text, externalId: text, metadata: { text }, visitor: { name: text }, assignee, tags: [text] };
  const { id } = (await client.rest('POST', '/conversations', { body })).body;
  const caller = operatorOf(client.account);
  const messages = Array.from({ length: times }, (_, index) => {
    const input = { conversationId: id, ...message(text), idempotencyKey: keyOf(text, index) };
    return sendMessage.execute(ports, caller, input);
  });
  await Promise.all(messages);
  const leads = Array.from({ length: effort(20, times) }, () =>
    captureLead.execute(ports, caller, { conversationId: id, email: text }),
  );
  const [first] = await Promise.all(leads);
  return { id, leadId: first?.lead.id ?? '' };
}

const message = (text: string) => ({ content: text, sender: 'visitor', author: { id: text, name: text } });

/** It is kept for its 24 hours: it is not to say more than it has to. */
const keyOf = (text: string, index: number): string => `${text.slice(-6)}-${index}`;

type Database = Pick<TestServer, 'databasePath' | 'query'>;

/** How often the marker is found in the file of a database and its write-ahead log; in PostgreSQL, in how many rows. */
async function countTraces({ databasePath, query }: Database): Promise<number> {
  if (!isOnPostgres) {
    const files = [databasePath, `${databasePath}-wal`].filter((file) => existsSync(file));
    return files.reduce((sum, file) => sum + readFileSync(file).toString('latin1').split(marker).length - 1, 0);
  }
  const tables = await query(`SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'`);
  const found = await Promise.all(
    tables.map(({ name }) => query(`SELECT 1 FROM "${name}" AS kept WHERE kept::text LIKE ?`, `%${marker}%`)),
  );
  return found.flat().length;
}

async function countRows({ query }: Database, table: 'erasing' | 'messages'): Promise<number> {
  return (await query(`SELECT 1 FROM ${table}`)).length;
}

let server: TestServer;
let client: TestAccount;
let marker: string;

beforeEach(async () => {
  server = await startTestServer({ config: { webhookPolicy: anywhere } });
  onTestFinished(() => server.close());
  client = await server.account();
  marker = `marker-${randomUUID()}`;
});

/** Begins to erase a conversation and leaves it at that, as a process does that is killed in the midst of it. */
async function begin(id: string): Promise<void> {
  const accountId = client.account.id;
  await server.storage.write(async (tx) => {
    const conversation = await tx.conversations.find(accountId, id);
    if (conversation !== undefined) await tx.conversations.erase(accountId, conversation);
  });
  expect(await server.storage.read.conversations.erasing()).toEqual([{ accountId, id }]);
  expect(await countTraces(server)).toBeGreaterThan(size);
}

async function expectNothingLeft(id: string): Promise<void> {
  expect(await server.storage.read.conversations.erasing()).toEqual([]);
  await expectNoTrace();
  expect((await client.rest('GET', `/conversations/${id}`)).status).toBe(404);
}

/** Also in the write-ahead log: it is emptied as soon as the thread lets it that folds it into the file. */
async function expectNoTrace(database: Database = server): Promise<void> {
  await eventually(
    () => countTraces(database),
    (count) => count === 0,
  );
}

const totals = async () => {
  const lists = await Promise.all(['/conversations', '/conversations?status=pending', '/leads'].map(get));
  return { lists: lists.map(({ pagination }) => pagination.total), openNow: (await get('/analytics')).openNow };
};

const get = async (path: string): Promise<Json> => (await client.rest('GET', path)).body;

/** The sequences of the events, and what they say, over all pages. */
async function wholeLog(query = ''): Promise<Json[]> {
  const events: Json[] = [];
  for (let after = '', hasMore = true; hasMore; ) {
    const { data, pagination } = await get(`/events?limit=100${query}${after}`);
    events.push(...data);
    after = `&after=${pagination.nextCursor}`;
    hasMore = pagination.hasMore;
  }
  return events;
}

describe('from the first transaction on', () => {
  test('nobody is shown anything of it, on either face, in the log or by a key', async () => {
    const before = await totals();
    const { id, leadId } = await tell(client, marker);
    const count = (await wholeLog()).length;
    await begin(id);
    for (const path of [`/conversations/${id}`, `/conversations/${id}/messages`, `/leads/${leadId}`]) {
      expect((await client.rest('GET', path)).body.code, path).toBe('NOT_FOUND');
    }
    const send = (headers = {}) =>
      client.rest('POST', `/conversations/${id}/messages`, { body: message(marker), headers });
    expect((await send()).body.code).toBe('NOT_FOUND');
    expect((await send({ 'idempotency-key': keyOf(marker, 3) })).body.code).toBe('NOT_FOUND');
    const patch = { body: { subject: marker }, headers: { 'if-match': `"${size + 1}"` } };
    expect((await client.rest('PATCH', `/conversations/${id}`, patch)).body.code).toBe('NOT_FOUND');
    expect((await client.rest('POST', '/leads', { body: { conversationId: id, email: 'x' } })).body.code).toBe(
      'NOT_FOUND',
    );
    const { data } = await client.graphql(
      `query ($id: ID!, $lead: ID!) { conversation(id: $id) { id } node(id: $id) { id } lead(id: $lead) { id }
        conversations { totalCount nodes { id } } leads { totalCount nodes { id } } }`,
      { id, lead: leadId },
    );
    const empty = { totalCount: 0, nodes: [] };
    expect(data).toEqual({ conversation: null, node: null, lead: null, conversations: empty, leads: empty });
    expect(await totals()).toEqual(before);
    for (const query of ['', `&conversationId=${id}`]) {
      const events = await wholeLog(query);
      expect(events.map(({ sequence }) => sequence)).toEqual(Array.from({ length: count }, (_, index) => index + 1));
      expect(new Set(events.map((event) => JSON.stringify(event.data)))).toEqual(new Set(['{"erased":true}']));
    }
    // What it was called is free again.
    const again = await client.rest('POST', '/conversations', { body: { externalId: marker } });
    expect(again.status).toBe(201);
    await client.rest('DELETE', `/conversations/${again.body.id}`);
    await server.app.tick();
    await expectNothingLeft(id);
  });

  test('a stream that began before is given the rest of its events without what they told, here and beside', async () => {
    const first = (await get('/events')).pagination.nextCursor;
    const beside = await startTestServer({ databasePath: server.databasePath, clock: server.clock });
    onTestFinished(() => beside.close());
    const follow = async (url: string, after: string): Promise<SseReader> => {
      const reader = await SseReader.open(`${url}/v1/events/stream?after=${after}`, {
        authorization: `Bearer ${client.secret}`,
      });
      onTestFinished(() => reader.close());
      return reader;
    };
    const early = await Promise.all([server, beside].map(({ url }) => follow(url, first)));
    const { id } = await tell(client, marker);
    const count = (await wholeLog()).length;
    for (const reader of early) await reader.until(({ events }) => events.length === count);
    await begin(id);
    expect(await beside.storage.read.events.erasures()).toBe(1);
    // Who keeps the newest events in memory is told within 100 ms that they are to be forgotten.
    await sleep(100);
    for (const { url } of [server, beside]) {
      const late = await follow(url, first);
      await late.until(({ events }) => events.length === count);
      expect(JSON.stringify(late.events)).not.toContain(marker);
      expect(late.events.map(({ sequence }) => sequence)).toEqual(
        Array.from({ length: count }, (_, index) => index + 1),
      );
    }
  });

  test('webhooks are sent nothing of it, and what they have answered or answer now is not to be had', async () => {
    const answer = gate();
    const slow = await Receiver.open(server.clock, ({ body }) => ({ status: 200, body, after: answer.opened }));
    const echo = await Receiver.open(server.clock, ({ body }) => ({ status: 500, body }));
    const register = async (receiver: Receiver): Promise<string> => {
      const webhook = { url: `${receiver.url}/`, events: ['conversation.started'] };
      const { body } = await client.rest('POST', '/webhooks', { body: webhook });
      receiver.trust('/', body.secret);
      return body.id;
    };
    const [slowId, echoId] = [await register(slow), await register(echo)];
    const { id } = await tell(client, marker);
    const deliveryOf = async (webhookId: string): Promise<Json> => {
      const [{ id: deliveryId }] = (await get(`/webhooks/${webhookId}/deliveries`)).data;
      return await get(`/webhooks/${webhookId}/deliveries/${deliveryId}`);
    };
    const tried = await eventually(
      () => deliveryOf(echoId),
      ({ attemptCount }) => attemptCount === 1,
    );
    expect(tried.attempts[0].responseBody).toContain(marker);
    await until(() => slow.deliveries.length === 1);
    await begin(id);

    answer.open();
    const late = await eventually(
      () => deliveryOf(slowId),
      ({ status }) => status === 'succeeded',
    );
    expect(late.attempts).toMatchObject([{ responseStatus: 200, responseBody: null }]);
    expect((await deliveryOf(echoId)).attempts).toEqual([{ ...tried.attempts[0], responseBody: null }]);
    // Asked for again under a key, whose result is kept: with nothing in it that goes later.
    const redelivered = await client.rest('POST', `/webhooks/${echoId}/deliveries/${tried.id}/redeliver`, {
      headers: { 'idempotency-key': 'again' },
    });
    expect(redelivered.status).toBe(202);
    expect(JSON.stringify(redelivered.body)).not.toContain(marker);
    await until(() => echo.deliveries.length === 2);
    expect(echo.deliveries[1]?.event.data).toEqual({ erased: true });
    await eventually(
      () => deliveryOf(echoId),
      ({ attemptCount }) => attemptCount === 2,
    );

    await server.app.tick();
    await expectNothingLeft(id);
    expect((await deliveryOf(echoId)).attempts).toMatchObject([
      { responseStatus: 500, responseBody: null },
      { responseStatus: 500, responseBody: null },
    ]);
  });
});

describe('who asks for it again', () => {
  test('is told that there is none when all of it is gone, and not before', async () => {
    const { id } = await tell(client, marker);
    await begin(id);
    // Another version than it had is no conflict: there is none any more.
    const again = await client.rest('DELETE', `/conversations/${id}`, { headers: { 'if-match': '"1"' } });
    expect(again.body.code).toBe('NOT_FOUND');
    await expectNothingLeft(id);
  });

  test('at the same time, here or through another server on the file, has it erased once', async () => {
    const beside = await startTestServer({ databasePath: server.databasePath, clock: server.clock });
    onTestFinished(() => beside.close());
    const { id } = await tell(client, marker);
    const clients = [client, beside.clientFor(client.secret), client, beside.clientFor(client.secret)];
    const answers = await Promise.all(
      clients.map(async (each) => {
        const { status } = await each.rest('DELETE', `/conversations/${id}`);
        return { status, left: (await server.storage.read.conversations.erasing()).length };
      }),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([204, 404, 404, 404]);
    expect(answers.map(({ left }) => left)).toEqual([0, 0, 0, 0]);
    expect(await server.storage.read.events.erasures()).toBe(1);
    await expectNoTrace();
  });

  test('while the rest cannot be erased is told that it may have been deleted, and the rest is erased later', async () => {
    const { id } = await tell(client, marker);
    await begin(id);
    const release = await server.holdWrites();
    const { status, body } = await client.rest('DELETE', `/conversations/${id}`);
    expect([status, body.code, body.outcomeUnknown]).toEqual([503, 'UNAVAILABLE', true]);
    await release();
    expect((await client.rest('DELETE', `/conversations/${id}`)).status).toBe(404);
    await expectNothingLeft(id);
  });

  test('with the version that it has no more has changed nothing', async () => {
    const { id } = await tell(client, marker);
    const stale = await client.rest('DELETE', `/conversations/${id}`, { headers: { 'if-match': '"1"' } });
    expect(stale.body.code).toBe('VERSION_CONFLICT');
    expect((await get(`/conversations/${id}`)).messages).toHaveLength(size);
    expect(
      (await client.rest('DELETE', `/conversations/${id}`, { headers: { 'if-match': `"${size + 1}"` } })).status,
    ).toBe(204);
    await expectNothingLeft(id);
  });
});

longTest('requests of others are answered while a large one is erased', async () => {
  const { id } = await tell(client, marker, { times: effort(500, 1_000) });
  const other = (await client.rest('POST', '/conversations')).body;
  let isDone = false;
  const deleted = client.rest('DELETE', `/conversations/${id}`).then(({ status }) => {
    isDone = true;
    return status;
  });
  let answered = 0;
  while (!isDone) {
    const { status } = await client.rest('POST', `/conversations/${other.id}/messages`, { body: message('Hello') });
    expect(status).toBe(201);
    answered++;
  }
  expect(await deleted).toBe(204);
  // 500 messages, as many results and twice as many events are 16 transactions at least, and the words of the texts some
  // more; a request comes and goes in three or four of them. In a single one there would be one answer, or two.
  expect(answered).toBeGreaterThan(5);
  await expectNothingLeft(id);
});

longTest(
  'what a process was killed in the midst of, the next one finishes when it starts',
  {
    timeout: 60_000,
  },
  async () => {
    const path = join(temporaryFolder(), 'test.db');
    const filling = await startTestServer({ databasePath: path });
    const teller = await filling.account();
    const times = effort(500, 1_200);
    const { id, leadId } = await tell(teller, marker, { times, ports: filling.app.ports });
    await filling.close();
    async function serve(): Promise<{ process: Running; client: Client }> {
      const database = isOnPostgres ? filling.database : `file:${path}`;
      const process = start(['serve'], { environment: { PORT: '0', DATABASE_URL: database } });
      const printed = await process.printed('"listening"');
      return { process, client: clientOf(/"url":"([^"]+)"/.exec(printed)?.[1] ?? '', teller.secret) };
    }
    const first = await serve();
    const answered = first.client.rest('DELETE', `/conversations/${id}`).then(
      () => true,
      () => false,
    );
    await eventually(
      async () => (await countRows(filling, 'erasing')) === 1 && (await countRows(filling, 'messages')) < times,
      (isUnderWay) => isUnderWay,
    );
    first.process.signal('SIGKILL');
    await first.process.ended;
    expect(await answered).toBe(false);
    expect(await countRows(filling, 'erasing')).toBe(1);
    expect(await countTraces(filling)).toBeGreaterThan(times);

    const second = await serve();
    expect((await second.client.rest('GET', `/conversations/${id}`)).status).toBe(404);
    expect((await second.client.rest('GET', `/leads/${leadId}`)).status).toBe(404);
    const { body: log } = await second.client.rest('GET', '/events?limit=100');
    expect(log.data).toHaveLength(100);
    expect(JSON.stringify(log)).not.toContain(marker);
    await second.process.printed('finished erasing conversations');
    expect((await countRows(filling, 'erasing')) + (await countRows(filling, 'messages'))).toBe(0);
    expect((await second.client.rest('DELETE', `/conversations/${id}`)).status).toBe(404);
    await expectNoTrace(filling);
  },
);
