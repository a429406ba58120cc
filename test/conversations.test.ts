import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { isOnPostgres } from './support/postgres.ts';
import { sampleConversation } from './support/samples.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';

let server: TestServer;
let client: TestAccount;

beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
});
afterAll(() => server.close());

describe('a conversation', () => {
  test('gets an `externalId` that several ask for at once on either face, and the others are told that it is taken', async () => {
    const own = await server.account();
    const ids: string[] = [];
    for (let count = 0; count < 4; count++) ids.push((await own.rest('POST', '/conversations', { body: {} })).body.id);
    const externalId = 'ticket-1';
    const create = 'mutation ($input: CreateConversationInput!) { createConversation(input: $input) { eventCursor } }';
    const update = 'mutation ($input: UpdateConversationInput!) { updateConversation(input: $input) { eventCursor } }';
    const viaRest = async (method: string, path: string, headers = {}): Promise<string> => {
      const { status, body } = await own.rest(method, path, { body: { externalId }, headers });
      return status < 300 ? 'done' : body.code;
    };
    const viaGraphql = async (query: string, input: object): Promise<string> => {
      const { errors } = await own.graphql(query, { input: { ...input, externalId } });
      return errors?.[0]?.extensions.code ?? 'done';
    };
    const outcomes = await Promise.all([
      ...['a', 'b'].map((key) => viaRest('POST', '/conversations', { 'idempotency-key': key })),
      ...['a', 'b'].map(() => viaRest('POST', '/conversations')),
      ...ids.slice(0, 2).map((id) => viaRest('PATCH', `/conversations/${id}`)),
      ...ids.slice(2).map((id) => viaGraphql(update, { id })),
      ...['a', 'b'].map(() => viaGraphql(create, {})),
    ]);
    expect(outcomes.toSorted()).toEqual([...Array(9).fill('ALREADY_EXISTS'), 'done']);
    expect((await own.rest('GET', `/conversations?externalId=${externalId}`)).body.pagination.total).toBe(1);
  });

  test('started over REST is the same over GraphQL', async () => {
    const created = await client.rest('POST', '/conversations', {
      body: { subject: 'Parcel', visitor: { name: 'Ada' }, assignee: { id: 'agent-3' }, tags: ['urgent'] },
    });
    expect(created.status).toBe(201);
    expect(created.headers['location']).toBe(`/v1/conversations/${created.body.id}`);
    const { data } = await client.graphql(
      `query ($id: ID!) { conversation(id: $id) { id status subject visitor { id name email } externalId assignee { id name } tags metadata messageCount lastMessage { id }
        lastActivityAt firstResponseAt closedAt version createdAt updatedAt readPositions { reader sequence readAt } messages { nodes { id } totalCount } } }`,
      { id: created.body.id },
    );
    const { messages, ...conversation } = created.body;
    expect(messages).toEqual([]);
    expect(data.conversation).toEqual({ ...conversation, status: 'ACTIVE', messages: { nodes: [], totalCount: 0 } });
  });
});

describe('the last message of a conversation', () => {
  const content = `${'📦'.repeat(300)}!`;
  const message = {
    content,
    sender: 'agent',
    author: { id: 'agent-3' },
    clientId: 'draft-1',
    metadata: { draft: true },
  };
  const fields = 'id sequence sender author { id name } createdAt preview';

  test('is in every form of it, with the beginning of its text', async () => {
    const own = await server.account();
    const created = (await own.rest('POST', '/conversations', { body: { message: { content: 'a', sender: 'bot' } } }))
      .body;
    expect(created.lastMessage).toMatchObject({ id: created.messages[0].id, sequence: 1, preview: 'a' });
    const sent = (await own.rest('POST', `/conversations/${created.id}/messages`, { body: message })).body;
    const { content: _content, clientId: _clientId, metadata: _metadata, conversationId: _, ...shown } = sent;
    const last = { ...shown, preview: '📦'.repeat(200) };
    const changed = await own.rest('PATCH', `/conversations/${created.id}`, { body: { subject: 'Parcel' } });
    const found = await own.rest('GET', `/conversations/${created.id}`);
    const listed = (await own.rest('GET', '/conversations')).body.data[0];
    for (const { lastMessage } of [changed.body, found.body, listed]) expect(lastMessage).toEqual(last);
    const { data } = await own.graphql(`{ conversations { nodes { lastMessage { ${fields} } } } }`);
    expect(data.conversations.nodes).toEqual([{ lastMessage: { ...last, sender: 'AGENT' } }]);
  });

  test.skipIf(isOnPostgres)(
    'is in GraphQL a message like others: what its conversation does not hold of it is loaded, for a page at once',
    async () => {
      const statements: string[] = [];
      const watched = await startTestServer({ onStatement: (sql) => statements.push(sql) });
      onTestFinished(() => watched.close());
      const own = await watched.account();
      for (let count = 0; count < 3; count++) await own.rest('POST', '/conversations', { body: { message } });
      const query = (selection: string) => `{ conversations { nodes { lastMessage { ${selection} } } } }`;
      const messagesRead = async (selection: string) => {
        statements.length = 0;
        const { data } = await own.graphql(query(selection));
        return { data, count: statements.filter((sql) => /^SELECT .* FROM messages CROSS JOIN/s.test(sql)).length };
      };
      expect((await messagesRead(fields)).count).toBe(0);
      const { data, count } = await messagesRead('content clientId metadata conversation { id }');
      expect(count).toBe(1);
      const { content: text, clientId, metadata } = message;
      for (const { lastMessage } of data.conversations.nodes) {
        expect(lastMessage).toMatchObject({ content: text, clientId, metadata });
      }
      const full = await own.graphql('{ conversations { nodes { messages { nodes { preview } } } } }');
      expect(full.data.conversations.nodes[0].messages.nodes).toEqual([{ preview: '📦'.repeat(200) }]);
    },
  );

  test('shows a caller who may not read conversations no more than its payload does', async () => {
    const own = await server.account();
    const { id } = (await own.rest('POST', '/conversations', { body: { message } })).body;
    const writer = await own.withScopes('conversations:write');
    const change = (selection: string) =>
      writer.graphql(
        `mutation { closeConversation(input: { id: "${id}" }) { conversation { lastMessage { ${selection} } } } }`,
      );
    expect((await change('preview')).data.closeConversation.conversation.lastMessage).toEqual({
      preview: '📦'.repeat(200),
    });
    const { data, errors } = await change('content');
    expect(data.closeConversation.conversation.lastMessage).toBeNull();
    expect(errors?.map(({ extensions }) => extensions.code)).toEqual(['FORBIDDEN']);
  });
});

describe('a conversation that is read', () => {
  test('has as many of its newest messages as were asked for, or none, and the same tag', async () => {
    const { id } = (await client.rest('POST', '/conversations')).body;
    const read = async (query: string) => await client.rest('GET', `/conversations/${id}${query}`);
    expect((await read('?messages=last:3')).body.messages).toEqual([]);
    for (const content of ['1', '2', '3', '4']) {
      await client.rest('POST', `/conversations/${id}/messages`, { body: { sender: 'agent', content } });
    }
    const { body: whole, headers } = await read('');
    const shown = async (query: string) => {
      const { body, headers: own } = await read(query);
      expect(own['etag']).toBe(headers['etag']);
      const { messages, ...conversation } = body;
      expect({ ...conversation, messages: whole.messages }).toEqual(whole);
      return messages?.map(({ content }: { content: string }) => content);
    };
    expect(await shown('?messages=last:1')).toEqual(['4']);
    expect(await shown('?messages=last:3')).toEqual(['2', '3', '4']);
    expect(await shown('?messages=last:100')).toEqual(['1', '2', '3', '4']);
    expect(await shown('?messages=none')).toBeUndefined();
  });

  test.each(['', 'all', 'last', 'last:', 'last:0', 'last:01', 'last:101', 'last:-1', 'last:1.5', 'none,none', 'None'])(
    'with messages=%s is refused',
    async (messages) => {
      const { id } = (await client.rest('POST', '/conversations')).body;
      const { body } = await client.rest('GET', `/conversations/${id}?messages=${messages}`);
      expect([body.code, body.errors?.[0].parameter]).toEqual(['VALIDATION_FAILED', 'messages']);
    },
  );
});

describe('a list', () => {
  test('leaves its total out if it is not wanted, and does not count', async () => {
    const statements: string[] = [];
    const watched = await startTestServer({ onStatement: (sql) => statements.push(sql) });
    onTestFinished(() => watched.close());
    const own = await watched.account();
    const { id } = (await own.rest('POST', '/conversations', { body: { externalId: 'a' } })).body;
    const webhook = (await own.rest('POST', '/webhooks', { body: { url: 'https://example.com/' } })).body;
    const paths = [
      '/conversations?externalId=a',
      `/conversations/${id}/messages?`,
      '/leads?',
      '/api-keys?',
      '/webhooks?',
      '/search?q=a',
    ];
    for (const path of [...paths, `/webhooks/${webhook.id}/deliveries?`]) {
      const { pagination, data } = (await own.rest('GET', path)).body;
      statements.length = 0;
      const { body } = await own.rest('GET', `${path}&total=none`);
      const { total, totalIsMore: _, ...others } = pagination;
      expect(total, path).toBe(data.length);
      expect(body, path).toEqual({ data, pagination: others });
      expect(statements.filter((sql) => /\bcount\(|account_totals/.test(sql))).toEqual([]);
      expect((await own.rest('GET', `${path}&total=exact`)).body.errors).toMatchObject([{ parameter: 'total' }]);
    }
  });
});

describe('a page of messages', () => {
  const count = 5;
  let id: string;
  let cursors: string[];
  const query = `query ($id: ID!, $first: Int, $after: String, $last: Int, $before: String, $offset: Int) {
    conversation(id: $id) {
      messages(first: $first, after: $after, last: $last, before: $before, offset: $offset) {
        edges { cursor node { sequence } }
        pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
        totalCount
      }
    }
  }`;

  beforeAll(async () => {
    id = (await client.rest('POST', '/conversations')).body.id;
    for (let sequence = 1; sequence <= count; sequence++) {
      await client.rest('POST', `/conversations/${id}/messages`, { body: { sender: 'agent', content: 'Hi' } });
    }
    const { data } = await client.graphql(query, { id });
    cursors = data.conversation.messages.edges.map(({ cursor }: { cursor: string }) => cursor);
  });

  const size = fc.constantFrom(1, 2, 3, 100);
  const place = fc.option(fc.integer({ min: 1, max: count }), { nil: undefined });
  const skipped = fc.constantFrom(undefined, 0, 1, 2, 4, 9);
  const end = fc.oneof(
    fc.record({ first: fc.option(size, { nil: undefined }) }),
    fc.record({ last: size }),
  ) as fc.Arbitrary<{ first?: number; last?: number }>;

  test('is counted from the end that it is asked from, what is skipped as well, and says what lies around it', async () => {
    await fc.assert(
      fc.asyncProperty(end, skipped, place, place, async ({ first, last }, offset, after, before) => {
        const sequences = cursors.map((_, index) => index + 1);
        const isWithin = (sequence: number) => sequence > (after ?? 0) && sequence < (before ?? count + 1);
        const list = last === undefined ? sequences : sequences.toReversed();
        fc.pre(offset === undefined || after === undefined); // which are refused together
        const within = list.filter(isWithin);
        const passed = within.splice(0, offset ?? 0);
        const expected = within.splice(0, last ?? first ?? 20).sort((a, b) => a - b);
        const [earlier, later] = last === undefined ? [passed, within] : [within, passed];
        const { data } = await client.graphql(query, {
          ...{ id, first, last, offset },
          after: after && cursors[after - 1],
          before: before && cursors[before - 1],
        });
        const { edges, pageInfo, totalCount } = data.conversation.messages;
        expect(edges).toEqual(expected.map((sequence) => ({ cursor: cursors[sequence - 1], node: { sequence } })));
        expect([pageInfo.startCursor, pageInfo.endCursor, totalCount]).toEqual([
          edges.at(0)?.cursor ?? null,
          edges.at(-1)?.cursor ?? null,
          count,
        ]);
        const followers = sequences.filter((sequence) => sequence >= (before ?? count + 1) && sequence > (after ?? 0));
        expect(pageInfo.hasNextPage).toBe(later.length + followers.length > 0);
        expect(pageInfo.hasPreviousPage).toBe(earlier.length > 0 || after !== undefined);
      }),
    );
  });
});

describe('a page that is found by its offset or by a cursor', () => {
  const lists = ['conversations', 'leads', 'webhooks'];
  const previousOf = async (account: TestAccount, args: string): Promise<unknown> => {
    const fields = lists.map((list) => `${list}(${args}) { pageInfo { hasPreviousPage } }`);
    const { data } = await account.graphql(`{ ${fields.join(' ')} }`);
    return lists.map((list) => data[list].pageInfo.hasPreviousPage);
  };

  test('has something before it only if there is something', async () => {
    const account = await server.account();
    expect(await previousOf(account, 'offset: 5')).toEqual([false, false, false]);
    await account.rest('POST', '/conversations');
    await account.rest('POST', '/leads', { body: { phone: '1' } });
    await account.rest('POST', '/webhooks', { body: { url: 'https://example.com/' } });
    expect(await previousOf(account, 'offset: 0')).toEqual([false, false, false]);
    for (const args of ['offset: 1', 'offset: 5']) expect(await previousOf(account, args)).toEqual([true, true, true]);
    const page = 'pageInfo { hasPreviousPage endCursor }';
    const { all, none } = (
      await account.graphql(
        `{ all: conversations { ${page} } none: conversations(offset: 1, status: CLOSED) { ${page} } }`,
      )
    ).data;
    expect(none.pageInfo.hasPreviousPage).toBe(false);
    const { data } = await account.graphql(`{ conversations(after: "${all.pageInfo.endCursor}") { ${page} } }`);
    expect(data.conversations.pageInfo).toEqual({ hasPreviousPage: true, endCursor: null });
  });

  test.skipIf(isOnPostgres)('finds whether there is something before it without counting what there is', async () => {
    const statements: string[] = [];
    const watched = await startTestServer({ onStatement: (sql) => statements.push(sql) });
    onTestFinished(() => watched.close());
    const account = await watched.account();
    await watched.storage.write(async (tx) => {
      for (let count = 0; count < 4_000; count++) {
        const visitor = { id: 'ada', name: null, email: null };
        await tx.conversations.insert(account.account.id, sampleConversation({ visitor }));
      }
    });
    const statementsOf = async (fields: string): Promise<number> => {
      statements.length = 0;
      const { data } = await account.graphql(
        `{ conversations(visitorId: "ada", unassigned: true, offset: 9000) { ${fields} } }`,
      );
      expect(data.conversations).toMatchObject({ nodes: [] });
      return statements.filter((sql) => /\bFROM conversations\b/.test(sql)).length;
    };
    const ofPage = await statementsOf('nodes { id }');
    expect(await statementsOf('nodes { id } pageInfo { hasPreviousPage }')).toBeLessThanOrEqual(ofPage + 5);
    expect(await statementsOf('nodes { id } totalCount')).toBeGreaterThan(ofPage + 5);
  });
});
