import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { Client, Json } from '../support/client.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { openWire, requestText } from './wire.ts';

// A response never shows an earlier state than the one at its request, however often the same was asked before.

let server: TestServer;
let client: TestAccount;
let id: string;
beforeEach(async () => {
  server = await startTestServer();
  onTestFinished(() => server.close());
  client = await server.account();
  id = (await client.rest('POST', '/conversations', { body: { subject: 'first' } })).body.id;
  await client.rest('GET', '/account'); // so that the use of the key is noted, which is a write
});

const list = '{ conversations { totalCount nodes { id subject } } }';
const one = 'query ($id: ID!) { conversation(id: $id) { subject messages { nodes { content } } } }';

/** Asks twice, so that whatever could be reused of the first response would be. */
async function asked(question: object, who: Client = client): Promise<Json> {
  const first = (await who.post(question)).body.data;
  expect((await who.post(question)).body.data).toEqual(first);
  return first;
}

/** The subjects in a list. */
async function subjects(who: Client = client): Promise<string[]> {
  const { conversations } = await asked({ query: list }, who);
  return conversations.nodes.map(({ subject }: { subject: string }) => subject);
}

/** One conversation. */
async function read(which = id, who: Client = client): Promise<Json> {
  return (await asked({ query: one, variables: { id: which } }, who)).conversation;
}

describe('the same request is answered anew', () => {
  test('after a write through either face', async () => {
    expect(await subjects()).toEqual(['first']);
    await client.rest('PATCH', `/conversations/${id}`, { body: { subject: 'second' } });
    expect(await subjects()).toEqual(['second']);
    await client.graphql(
      'mutation ($id: ID!) { updateConversation(input: { id: $id, subject: "third" }) { eventCursor } }',
      {
        id,
      },
    );
    expect(await subjects()).toEqual(['third']);
    expect((await read()).subject).toBe('third');
    await client.rest('DELETE', `/conversations/${id}`);
    expect(await subjects()).toEqual([]);
    expect(await read()).toBeNull();
  });

  test('after an erasure that was before the question was complete', async () => {
    await read();
    const question = JSON.stringify({ query: one, variables: { id } });
    const headers = { Authorization: `Bearer ${client.secret}`, Expect: '100-continue' };
    const request = requestText('POST', '/graphql', { headers, body: question });
    const wire = openWire(server.url);
    await wire.send(request.slice(0, 5 - question.length));
    expect((await wire.response()).status).toBe(100); // it is being let in
    await client.rest('DELETE', `/conversations/${id}`);
    await wire.send(request.slice(5 - question.length));
    const { data, errors } = JSON.parse((await wire.response()).body);
    expect(data).toEqual({ conversation: null });
    expect(errors).toMatchObject([{ extensions: { code: 'NOT_FOUND' } }]);
  });

  test('after a write through another process on the file', async () => {
    const beside = await startTestServer({ databasePath: server.databasePath, clock: server.clock });
    onTestFinished(() => beside.close());
    for (const subject of ['second', 'third']) {
      await subjects();
      await beside.clientFor(client.secret).rest('PATCH', `/conversations/${id}`, { body: { subject } });
      expect(await subjects()).toEqual([subject]);
    }
  });

  test('with other variables, another name of its operation, and for another account', async () => {
    const other = (await client.rest('POST', '/conversations', { body: { subject: 'other' } })).body.id;
    for (const [which, subject] of [
      [id, 'first'],
      [other, 'other'],
      [id, 'first'],
    ]) {
      expect((await read(which)).subject).toBe(subject);
    }
    const two = `query A { conversations(first: 1) { nodes { subject } } } query B { conversations { totalCount } }`;
    for (const [operationName, found] of [
      ['A', { nodes: [{ subject: 'other' }] }],
      ['B', { totalCount: 2 }],
      ['A', { nodes: [{ subject: 'other' }] }],
    ]) {
      expect((await asked({ query: two, operationName })).conversations).toEqual(found);
    }
    expect(await subjects(await server.account())).toEqual([]);
  });

  test('with a number that is too large to be one', async () => {
    const query = 'query ($first: Int) { conversations(first: $first) { nodes { id } } }';
    await asked({ query, variables: { first: null } });
    for (const first of ['1e400', '-1e400']) {
      const { body } = await client.post(`{ "query": "${query}", "variables": { "first": ${first} } }`);
      expect(body.errors).toMatchObject([{ extensions: { code: 'VALIDATION_FAILED' } }]);
    }
  });

  test('for another key, which may see less', async () => {
    await subjects();
    const leadsOnly = await client.withScopes('leads:read');
    for (let again = 0; again < 2; again++) {
      await subjects();
      expect((await leadsOnly.graphql(list)).errors).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }]);
    }
  });

  test('for a token, which may see one conversation only', async () => {
    await client.rest('POST', '/conversations', { body: { subject: 'other' } });
    const { body } = await client.rest('POST', '/tokens', {
      body: { scopes: ['conversations:read'], conversationId: id, sender: 'visitor', expiresInSeconds: 600 },
    });
    const bound = server.clientFor(body.token);
    await subjects();
    expect((await bound.graphql(list)).errors).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }]);
    expect((await read(id, bound)).subject).toBe('first');
  });

  test('where more than the storage comes into it: the limit, and the time', async () => {
    const remaining = '{ account { rateLimit { remaining } } conversations { totalCount } }';
    const [first, second] = [(await client.graphql(remaining)).data, (await client.graphql(remaining)).data];
    expect(second.account.rateLimit.remaining).toBe(first.account.rateLimit.remaining - 1);
    const analytics = '{ analytics { period { to } } }';
    const before = (await asked({ query: analytics })).analytics.period.to;
    server.clock.advance(3_600_000);
    expect((await client.graphql(analytics)).data.analytics.period.to).not.toBe(before);
  });

  test('when its key has ended: then not at all', async () => {
    await subjects();
    const { data } = await client.graphql('{ apiKeys { nodes { id } } }');
    await client.rest('DELETE', `/api-keys/${data.apiKeys.nodes[0].id}`);
    expect((await client.graphql(list)).errors).toMatchObject([{ extensions: { code: 'UNAUTHENTICATED' } }]);
  });
});
