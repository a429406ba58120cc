import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operatorOf } from '../src/domain/caller.ts';
import { createConversation } from '../src/domain/conversations.ts';
import { recoverWebhook } from '../src/domain/deliveries.ts';
import { sendMessage } from '../src/domain/messages.ts';
import { operations } from '../src/domain/operations.ts';
import type { Storage } from '../src/domain/storage-port.ts';
import { type Client, clientOf, type Json } from './support/client.ts';
import { hourMs } from './support/clock.ts';
import { effort } from './support/effort.ts';
import { inInput } from './support/pointers.ts';
import { isOnPostgres } from './support/postgres.ts';
import { Receiver } from './support/receiver.ts';
import {
  type Answered,
  type Asked,
  faces,
  type Repeatable,
  repeatables,
  viaGraphql,
  viaRest,
} from './support/repeatables.ts';
import { sampleDelivery, start, startMs } from './support/samples.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';
import { anywhere } from './support/webhook-policy.ts';

// A request that is sent again under its key has happened once, whichever face, credential, race or
// time lies between, and whoever sent it sees what was answered first.

let server: TestServer;
let receiver: Receiver;
beforeAll(async () => {
  server = await startTestServer({ config: { webhookPolicy: anywhere } });
  receiver = await Receiver.start(server.clock);
});
afterAll(async () => {
  await server.close();
  receiver.close();
});

let keys = 0;
const newKey = (): string => `key-${keys++}`;

/** Everything of an account that a request can add to, as it is stored. */
function effects(accountId: string): Promise<Json> {
  const parts = [
    'SELECT count(*) AS conversations, sum(version) AS versions FROM conversations WHERE account_id = ?',
    isOnPostgres
      ? 'SELECT count(*) AS messages FROM messages WHERE account_id = ?'
      : 'SELECT count(*) AS messages FROM messages JOIN conversations ON key = conversation_key WHERE account_id = ?',
    'SELECT count(*) AS leads FROM leads WHERE account_id = ?',
    'SELECT count(*) AS events, max(sequence) AS sequence FROM events WHERE account_id = ?',
    'SELECT count(*) AS webhooks FROM webhooks WHERE account_id = ?',
    isOnPostgres
      ? 'SELECT count(*) AS deliveries FROM deliveries WHERE account_id = ?'
      : 'SELECT count(*) AS deliveries FROM deliveries JOIN webhooks ON webhooks.key = webhook_key WHERE account_id = ?',
    'SELECT active, pending, closed, leads AS leads_total, event_sequence FROM account_totals WHERE account_id = ?',
    `SELECT sum(conversations_started) AS started, sum(visitor_messages) AS visitor, sum(agent_messages) AS agent,
      sum(leads) AS captured FROM analytics_counters WHERE account_id = ?`,
  ];
  const joined = parts.map((part, index) => `(${part}) AS part${index}`); // a row each
  return server.query(`SELECT * FROM ${joined.join(', ')}`, ...parts.map(() => accountId));
}

/** The same data in another order of its keys. */
function reversed(value: Json): Json {
  if (Array.isArray(value)) return value.map(reversed);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([name, part]) => [name, reversed(part)]),
  );
}

const replayed = ({ headers }: Answered): string | undefined => headers['idempotent-replayed'];

test('the operations that take a key are these, on both faces', () => {
  const taking = Object.values(operations).filter(({ repeatable }) => repeatable);
  expect(taking.map(({ name }) => name).sort()).toEqual(Object.keys(repeatables).sort());
});

describe.each(Object.entries(repeatables))('%s, sent again under its key,', (name, { scope, ...operation }) => {
  async function begin(): Promise<{ client: TestAccount; made: Json; asked: Asked; key: string }> {
    const client = await server.account();
    const made = await operation.given(client, receiver.url);
    return { client, made, asked: operation.ask(made), key: newKey() };
  }

  test.each(['REST', 'GraphQL'] as const)('gives the first result, which %s has given, on both faces', async (face) => {
    const { client, asked, key } = await begin();
    const first = await faces[face](client, asked, key);
    expect([first.code, replayed(first)]).toEqual([undefined, undefined]);
    const after = await effects(client.account.id);

    const [rest, graphql] = [await viaRest(client, asked, key), await viaGraphql(client, asked, key)];
    const again = face === 'REST' ? rest : graphql;
    const shown = name === 'createWebhook' ? withoutSecret(first.result) : first.result;
    expect(again.result).toEqual(shown);
    expect(again.status).toBe(first.status);
    expect([rest.essence, graphql.essence]).toEqual([first.essence, first.essence]);
    expect(replayed(rest)).toBe('true');
    if (face === 'REST') {
      expect([rest.headers['location'], rest.headers['etag']]).toEqual([
        first.headers['location'],
        first.headers['etag'],
      ]);
    }
    expect(await effects(client.account.id)).toEqual(after);
  });

  test('does not depend on the order of keys, nor on whether what is left out is said to be null', async () => {
    const { client, asked, key } = await begin();
    const first = await viaRest(client, asked, key);
    const inReverse = { ...asked, body: reversed(asked.body), input: reversed(asked.input) };
    expect(await viaRest(client, inReverse, key)).toMatchObject({ code: undefined, essence: first.essence });
    expect(await viaGraphql(client, inReverse, key)).toMatchObject({ code: undefined, essence: first.essence });
    // As generated clients send it.
    const fields = fieldsOf(await typeOf(client, asked));
    const nulls = Object.fromEntries(fields.map((field) => [field, null]));
    const spelledOut = { ...asked, input: { ...nulls, ...asked.input } };
    expect(await viaGraphql(client, spelledOut, key)).toMatchObject({ code: undefined, essence: first.essence });
  });

  test('by another key of the account gives the same, and without the scope is refused', async () => {
    const { client, asked, key } = await begin();
    const first = await viaRest(client, asked, key);
    const colleague = await client.withScopes(scope);
    const stranger = await client.withScopes('analytics:read');
    for (const send of Object.values(faces)) {
      expect((await send(colleague, asked, key)).essence).toEqual(first.essence);
      expect((await send(stranger, asked, key)).code).toBe('FORBIDDEN');
    }
  });

  test('for something else is refused, and changes nothing', async () => {
    const { client, made, asked, key } = await begin();
    await viaRest(client, asked, key);
    const others = [operation.askElse(made), ...(operation.askElsewhere ? [operation.askElsewhere(made)] : [])];
    const another = Object.values(repeatables).find((each) => each.ask !== operation.ask && each.scope === scope);
    if (another !== undefined) others.push(another.ask(await another.given(client, receiver.url)));
    const before = await effects(client.account.id);
    for (const other of others) {
      expect(await viaRest(client, other, key)).toMatchObject({ code: 'IDEMPOTENCY_KEY_REUSED', status: 422 });
      // GraphQL names a delivery without its webhook.
      if (name === 'redeliver' && other.input.id === asked.input.id) continue;
      expect(await viaGraphql(client, other, key)).toMatchObject({ code: 'IDEMPOTENCY_KEY_REUSED', status: 200 });
    }
    expect(await effects(client.account.id)).toEqual(before);
  });

  test('touches no other account', async () => {
    const [one, other] = [await begin(), await begin()];
    const first = await viaRest(one.client, one.asked, one.key);
    const theirs = await viaRest(other.client, other.asked, one.key);
    expect([theirs.code, replayed(theirs)]).toEqual([undefined, undefined]);
    if (name !== 'recoverWebhook') expect(theirs.essence).not.toEqual(first.essence);
  });

  test('is new after 24 hours, and not before', async () => {
    const { client, asked, key } = await begin();
    await viaRest(client, asked, key);
    server.clock.advance(24 * hourMs - 1);
    expect(replayed(await viaRest(client, asked, key))).toBe('true');
    server.clock.advance(1);
    const anew = await viaRest(client, asked, key);
    expect([anew.code, replayed(anew)]).toEqual([undefined, undefined]);
    // And it holds from there.
    const again = await viaGraphql(client, asked, key);
    expect(again.essence).toEqual(anew.essence);
  });

  test('with a key that is none is refused, at the same place on both faces', async () => {
    const { client, asked } = await begin();
    const before = await effects(client.account.id);
    const malformed = ['', 'x'.repeat(256), 'two words', 'schlüssel', 'tab\tbed'];
    for (const key of malformed) {
      const code = 'VALIDATION_FAILED';
      const faults = ['/idempotencyKey'];
      expect(await viaRest(client, asked, key), key).toMatchObject({ code, faults });
      expect(await viaGraphql(client, asked, key), key).toMatchObject({ code, faults: inInput(faults) });
    }
    const inBody = await viaRest(client, { ...asked, body: { ...asked.body, idempotencyKey: 'mine' } });
    expect(inBody).toMatchObject({ code: 'VALIDATION_FAILED', faults: ['/idempotencyKey'] });
    expect(inBody.result.errors[0].detail).toContain('`Idempotency-Key`');
    expect(await effects(client.account.id)).toEqual(before);
    expect((await viaRest(client, asked, `!~${'x'.repeat(253)}`)).code).toBeUndefined();
    expect((await viaGraphql(client, asked, null)).code).toBeUndefined();
  });

  const times = ['createConversation', 'sendMessage', 'captureLead'].includes(name) ? effort(60, 200) : 30;
  test(`${times} times at once through both faces, happens once`, async () => {
    const { client, asked, key } = await begin();
    const before = await effects(client.account.id);
    const answers = await Promise.all(
      Array.from({ length: times }, (_, index) => (index % 2 === 0 ? viaRest : viaGraphql)(client, asked, key)),
    );
    expect(new Set(answers.map(({ code }) => code))).toEqual(new Set([undefined]));
    expect(new Set(answers.map(({ essence }) => JSON.stringify(essence))).size).toBe(1);
    const after = await effects(client.account.id);
    const once = await begin();
    const onceBefore = await effects(once.client.account.id);
    expect(onceBefore).toEqual(before);
    await viaRest(once.client, once.asked);
    expect(after).toEqual(await effects(once.client.account.id));
    const [graphql, rest] = [
      answers.filter((_, index) => index % 2 === 1),
      answers.filter((_, index) => index % 2 === 0),
    ];
    const alike = (group: Answered[]) => new Set(group.map(({ result }) => JSON.stringify(withoutSecret(result)))).size;
    expect([alike(rest), alike(graphql)]).toEqual([1, 1]);
    if (name === 'createWebhook') {
      const secrets = answers.map(({ result }) => result.secret ?? result.webhook?.secret ?? null);
      expect(secrets.filter((secret) => secret !== null)).toHaveLength(1);
    }
  });
});

test('one key for messages to two conversations at the same time sends one of them', async () => {
  const { account } = await server.account();
  const caller = operatorOf(account);
  const { ports } = server.app;
  const create = () => createConversation.execute(ports, caller, {});
  const made = [await create(), await create(), await create()];
  for (let round = 0; round < 5; round++) {
    const idempotencyKey = newKey();
    const ahead = [create(), create(), create()]; // for which all have to wait: so they wait together
    const sent = await Promise.allSettled(
      made.map(({ conversation }) =>
        sendMessage.execute(ports, caller, {
          ...{ conversationId: conversation.id, content: 'only once', sender: 'agent' },
          idempotencyKey,
        }),
      ),
    );
    await Promise.all(ahead);
    const refused = sent.flatMap((each) => (each.status === 'rejected' ? [each.reason.code] : []));
    expect(refused).toEqual(['IDEMPOTENCY_KEY_REUSED', 'IDEMPOTENCY_KEY_REUSED']);
  }
});

function withoutSecret(result: Json): Json {
  if (result?.webhook?.secret !== undefined) return { ...result, webhook: { ...result.webhook, secret: null } };
  return result?.secret === undefined ? result : { ...result, secret: null };
}

async function typeOf(client: Client, { field }: Asked): Promise<Json> {
  const type = `${field[0]?.toUpperCase()}${field.slice(1)}Input`;
  return (await client.graphql(`{ __type(name: "${type}") { inputFields { name type { kind } } } }`)).data.__type;
}

/** The fields that can be null. */
function fieldsOf({ inputFields }: Json): string[] {
  return inputFields
    .filter(({ name, type }: Json) => type.kind !== 'NON_NULL' && name !== 'idempotencyKey')
    .map(({ name }: Json) => name);
}

describe('a key', () => {
  test('of a request that failed is free for the next', async () => {
    const client = await server.account();
    const { id } = (await client.rest('POST', '/conversations')).body;
    await client.rest('PATCH', `/conversations/${id}`, { body: { status: 'closed' } });
    const send = (content: string, key: string) =>
      client.rest('POST', `/conversations/${id}/messages`, {
        body: { content, sender: 'agent' },
        headers: { 'idempotency-key': key },
      });
    const codes = [
      (await send(' ', 'k')).body.code,
      (await send('Hello', 'k')).body.code,
      (await client.rest('PATCH', `/conversations/${id}`, { body: { status: 'active' } })).body.code,
    ];
    expect(codes).toEqual(['VALIDATION_FAILED', 'CONVERSATION_CLOSED', undefined]);
    const sent = await send('Hello', 'k');
    expect([sent.status, sent.headers['idempotent-replayed']]).toEqual([201, undefined]);
    expect((await send('Hello', 'k')).body).toEqual(sent.body);
  });

  test('gives what was answered first, also when the thing has changed since', async () => {
    const client = await server.account();
    const begin = () =>
      client.rest('POST', '/conversations', { body: { subject: 'First' }, headers: { 'idempotency-key': 'k' } });
    const first = await begin();
    await client.rest('PATCH', `/conversations/${first.body.id}`, { body: { subject: 'Second' } });
    const again = await begin();
    expect(again.body).toEqual(first.body);
    expect(again.headers['etag']).toBe(first.headers['etag']);
  });

  test('gives the read positions that were answered first, through GraphQL, too', async () => {
    const client = await server.account();
    const body = { message: { content: 'Hello', sender: 'visitor' } };
    const headers = { 'idempotency-key': 'k' };
    const first = (await client.rest('POST', '/conversations', { body, headers })).body;
    await client.rest('PUT', `/conversations/${first.id}/read-positions/agent-3`, { body: { sequence: 1 } });
    const again = await client.graphql(
      `mutation { createConversation(input: { message: { content: "Hello", sender: VISITOR }, idempotencyKey: "k" }) {
        conversation {
          readPositions { reader sequence readAt }
          ofVisitor: readPositions(readers: ["visitor"]) { reader }
          ofAgent: readPositions(readers: ["agent-3"]) { reader }
          unreadByVisitor: unreadCount(reader: "visitor")
          unreadByAgent: unreadCount(reader: "agent-3")
        } } }`,
    );
    expect(again.data.createConversation.conversation).toEqual({
      readPositions: first.readPositions,
      ofVisitor: [{ reader: 'visitor' }],
      ofAgent: [],
      unreadByVisitor: 0,
      unreadByAgent: null,
    });
  });

  test('comes before the version that was expected: a repetition is no conflict', async () => {
    const client = await server.account();
    const { id } = (await client.rest('POST', '/conversations')).body;
    const send = () =>
      client.rest('POST', `/conversations/${id}/messages`, {
        body: { content: 'Hello', sender: 'agent' },
        headers: { 'idempotency-key': 'k', 'if-match': '"1"' },
      });
    const first = await send();
    expect(first.status).toBe(201);
    expect((await send()).body).toEqual(first.body);
  });

  test('is one thing to a token bound to a conversation and another to everybody else: neither learns of the other’s', async () => {
    const client = await server.account();
    const { id } = (await client.rest('POST', '/conversations')).body;
    const grant = { scopes: ['conversations:write', 'conversations:read'], conversationId: id };
    const { token } = (await client.rest('POST', '/tokens', { body: grant })).body;
    const bound = clientOf(server.url, token);
    const send = (by: Client, key: string) =>
      by.rest('POST', `/conversations/${id}/messages`, {
        body: { content: 'Hello', sender: 'visitor', metadata: { inner: 'secret' } },
        headers: { 'idempotency-key': key },
      });
    expect((await send(client, 'one')).body.metadata).toEqual({ inner: 'secret' });
    const sent = await send(bound, 'one');
    expect(sent).toMatchObject({ status: 201, body: { sequence: 2, metadata: {} } });
    expect((await send(client, 'one')).body).toMatchObject({ sequence: 1, metadata: { inner: 'secret' } });
    // For the conversation, not for the token: a renewed one repeats.
    const renewed = clientOf(server.url, (await client.rest('POST', '/tokens', { body: grant })).body.token);
    expect((await send(renewed, 'one')).body).toEqual(sent.body);
  });

  test('does not let a token speak as somebody else', async () => {
    const client = await server.account();
    const { id } = (await client.rest('POST', '/conversations')).body;
    const { token } = (
      await client.rest('POST', '/tokens', { body: { scopes: ['conversations:write'], sender: 'visitor' } })
    ).body;
    const send = (by: Client) =>
      by.rest('POST', `/conversations/${id}/messages`, {
        body: { content: 'Hello', sender: 'agent' },
        headers: { 'idempotency-key': 'k' },
      });
    expect((await send(client)).status).toBe(201);
    expect((await send(clientOf(server.url, token))).body.code).toBe('FORBIDDEN');
  });

  test('is refused where a credential is given out', async () => {
    const client = await server.account();
    const { id } = (await client.rest('POST', '/webhooks', { body: { url: receiver.url } })).body;
    const bodies = {
      '/api-keys': { name: 'server' },
      '/tokens': { scopes: ['leads:read'] },
      [`/webhooks/${id}/rotate-secret`]: {},
    };
    for (const [path, body] of Object.entries(bodies)) {
      const inHeader = await client.rest('POST', path, { body, headers: { 'idempotency-key': 'k' } });
      expect(inHeader.body, path).toMatchObject({
        code: 'VALIDATION_FAILED',
        detail: 'The header `Idempotency-Key` is not a header of this request.',
        errors: [{ pointer: '/idempotencyKey', header: 'Idempotency-Key', detail: 'is not a header of this request' }],
      });
      const inBody = await client.rest('POST', path, { body: { ...body, idempotencyKey: 'k' } });
      expect(inBody.body, path).toMatchObject({ code: 'VALIDATION_FAILED', errors: [{ pointer: '/idempotencyKey' }] });
    }
    const inputs = {
      createApiKey: 'name: "server"',
      createToken: 'scopes: [LEADS_READ]',
      rotateWebhookSecret: `id: "${id}"`,
    };
    for (const [field, input] of Object.entries(inputs)) {
      const { errors } = await client.graphql(
        `mutation { ${field}(input: { ${input}, idempotencyKey: "k" }) { eventCursor } }`,
      );
      expect(errors?.[0]?.extensions, field).toMatchObject({
        code: 'VALIDATION_FAILED',
        errors: [{ pointer: '/input/idempotencyKey' }],
      });
    }
  });

  /** A webhook with so many deliveries that have failed for good. It is disabled, so that nobody tries them again. */
  async function failing(client: TestAccount, count: number): Promise<string> {
    const { id } = (await client.rest('POST', '/webhooks', { body: { url: receiver.url } })).body;
    await client.rest('PATCH', `/webhooks/${id}`, { body: { enabled: false } });
    const failed = { status: 'failed', dueAt: null, completedAt: start, attemptCount: 10 } as const;
    await server.app.ports.storage.write(async (tx) => {
      for (let index = 0; index < count; index++)
        await tx.deliveries.insert(client.account.id, sampleDelivery(id, failed, startMs));
    });
    return id;
  }

  test('of a recovery in many steps counts all of them in each answer, however many ask at once', async () => {
    const client = await server.account();
    const asked = (repeatables['recoverWebhook'] as Repeatable).ask({ id: await failing(client, 650) });
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) => (index % 2 === 0 ? viaRest : viaGraphql)(client, asked, 'k')),
    );
    expect(answers.map(({ essence }) => essence)).toEqual(Array(10).fill({ count: 650 }));
    expect((await viaRest(client, asked, 'another')).essence).toEqual({ count: 0 });
  });

  test('of a recovery in many steps is no repeat to one of those that ask at once, however they share the work', async () => {
    const client = await server.account();
    const caller = operatorOf(client.account);
    const input = { id: await failing(client, 650), since: '2026-11-01T00:00:00Z', idempotencyKey: 'k' };
    let replays = 0;
    const recover = () => recoverWebhook.run(server.app.ports, caller, recoverWebhook.parse(input), () => replays++);
    const answers = await Promise.all(Array.from({ length: 10 }, recover));
    expect(answers).toEqual(Array(10).fill(expect.objectContaining({ count: 650 })));
    expect(replays).toBe(9);
  });

  test('of a recovery that broke off goes on with it, and counts what was done before', async () => {
    const client = await server.account();
    const id = await failing(client, 650);
    const { ports } = server.app;
    const caller = operatorOf(client.account);
    let steps = 0;
    const breaking: Storage = {
      ...ports.storage,
      write: (work) => (steps++ < 2 ? ports.storage.write(work) : Promise.reject(new Error('it broke off'))),
    };
    const input = { id, since: '2026-11-01T00:00:00Z', idempotencyKey: 'k' };
    await expect(recoverWebhook.execute({ ...ports, storage: breaking }, caller, input)).rejects.toThrow('broke off');
    expect(await recoverWebhook.execute(ports, caller, input)).toMatchObject({ count: 650 });
  });

  test('of another process is given as such, though this one had worked at it in a transaction that was lost', async () => {
    const client = await server.account();
    const { ports } = server.app;
    const caller = operatorOf(client.account);
    const input = createConversation.parse({ subject: 'Once', idempotencyKey: 'k' });
    let theirs: unknown;
    const losing: Storage = {
      ...ports.storage,
      async write(work) {
        const lost = new Error('lost');
        const attempt = ports.storage.write(async (tx) => {
          await work(tx);
          throw lost;
        });
        await expect(attempt).rejects.toBe(lost);
        theirs = await createConversation.run(ports, caller, input);
        return await ports.storage.write(work);
      },
    };
    let replays = 0;
    const result = await createConversation.run({ ...ports, storage: losing }, caller, input, () => replays++);
    expect(result).toEqual(theirs);
    expect(replays).toBe(1);
  });

  test('is forgotten by the tick once it is a day old', async () => {
    const client = await server.account();
    const keptKeys = async (): Promise<unknown[]> => {
      const statement = 'SELECT idempotency_key FROM kept_results WHERE account_id = ? ORDER BY 1';
      return (await server.query(statement, client.account.id)).map((row) => row['idempotency_key']);
    };
    const begin = (key: string) => client.rest('POST', '/conversations', { headers: { 'idempotency-key': key } });
    await begin('old');
    server.clock.advance(hourMs);
    await begin('young');
    server.clock.advance(23 * hourMs);
    await server.app.tick();
    expect(await keptKeys()).toEqual(['old', 'young']);
    server.clock.advance(1);
    await server.app.tick();
    expect(await keptKeys()).toEqual(['young']);
  });

  test('of many, mixed over operations, inputs and faces at once, has one effect and one answer each', async () => {
    const request = fc.record({
      key: fc.nat(3),
      kind: fc.constantFrom('create', 'send', 'lead'),
      input: fc.nat(1),
      face: fc.constantFrom('REST', 'GraphQL'),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(request, { minLength: 2, maxLength: 30 }), async (requests) => {
        const client = await server.account();
        const { id } = (await client.rest('POST', '/conversations')).body;
        const askedFor = ({ kind, input }: (typeof requests)[number]): Asked => {
          const [create, send, lead] = ['createConversation', 'sendMessage', 'captureLead'].map(
            (name) => repeatables[name] as (typeof repeatables)[string],
          );
          const operation = { create, send, lead }[kind] as (typeof repeatables)[string];
          return input === 0 ? operation.ask({ id }) : operation.askElse({ id });
        };
        const answers = await Promise.all(
          requests.map((each) => faces[each.face](client, askedFor(each), `k${each.key}`)),
        );
        const seen = new Map<number, { asked: string; essence: Json }>();
        const made = { create: 0, send: 0, lead: 0 };
        for (const [index, each] of requests.entries()) {
          const { code, essence } = answers[index] as Answered;
          if (code !== undefined) continue;
          const asked = `${each.kind} ${each.input}`;
          if (!seen.has(each.key)) {
            seen.set(each.key, { asked, essence });
            made[each.kind]++;
          }
          expect({ asked, essence }).toEqual(seen.get(each.key));
        }
        for (const [index, each] of requests.entries()) {
          const won = seen.get(each.key)?.asked === `${each.kind} ${each.input}`;
          expect(answers[index]?.code).toBe(won ? undefined : 'IDEMPOTENCY_KEY_REUSED');
        }
        expect(await effects(client.account.id)).toMatchObject([
          {
            conversations: 1 + made.create,
            messages: made.create + made.send,
            leads: made.lead,
            events: 1 + 2 * made.create + made.send + made.lead,
            leads_total: made.lead,
            started: 1 + made.create,
            visitor: made.create + made.send,
          },
        ]);
      }),
      { numRuns: 10 },
    );
  });
});
