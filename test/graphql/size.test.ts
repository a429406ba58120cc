import { getIntrospectionQuery } from 'graphql';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../support/client.ts';
import {
  analytics,
  conversation,
  deliveryWithAttempts,
  event,
  message,
  snapshot,
  webhook,
} from '../support/selections.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';
import { leftToYoga } from '../support/yoga.ts';

// The number of values that a response could contain is computed before anything runs, over every transport.

let server: TestServer;
let client: TestAccount;
let id: string;
const statements: string[] = [];

beforeAll(async () => {
  server = await startTestServer({ onStatement: (sql) => void statements.push(sql) });
  client = await server.account();
  id = (await client.rest('POST', '/conversations', { body: { visitor: { name: 'Ada' } } })).body.id;
});
afterAll(() => server.close());

const many = (count: number, made: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => made(index)).join(' ');

const codesOf = ({ errors = [] }: Json): string[] => errors.map((error: Json) => error.extensions.code);

/** Every way to send a query, and the response to it. */
const ways: [name: string, ask: (query: string) => Promise<Json>][] = [
  ['POST', async (query) => (await client.post({ query })).body],
  ['POST, left to Yoga', async (query) => (await client.post({ query }, { headers: leftToYoga() })).body],
  [
    'GET',
    async (query) => {
      const headers = { authorization: `Bearer ${client.secret}` };
      return await (await fetch(`${server.url}/graphql?query=${encodeURIComponent(query)}`, { headers })).json();
    },
  ],
  ['a batch', async (query) => (await client.post([{ query: '{ __typename }' }, { query }])).body[1]],
  [
    'a socket',
    async (query) => {
      const socket = await new RawSocket(server.url).init(client.secret);
      socket.subscribe('1', query);
      const { type, payload } = await socket.first('1');
      socket.socket.terminate();
      return type === 'error' ? { errors: payload } : payload;
    },
  ],
];

/** Selects fields of a hundred messages of each of a hundred conversations. */
const pages = (fields: string, items = `nodes { ${fields} }`): string =>
  `{ conversations(first: 100) { nodes { messages(first: 100) { ${items} } } } }`;

const introspection = (fields: number, names: number): string =>
  `{ __schema { types { ...F } } } fragment F on __Type { ${many(fields, (i) => `a${i}:fields{type{...G}}`)} } fragment G on __Type { ${many(names, (i) => `b${i}:fields{name}`)} }`;

/** The fields of a type and of their types, fifty times. */
const type = `fragment T on __Type { ${many(50, (i) => `f${i}:fields{description type{...U ofType{...U}}}`)} } fragment U on __Type { fields { description args { description } } }`;

const tooLarge: [name: string, query: string][] = [
  [
    'what many readers have not read',
    `{ conversations(first: 100) { nodes { ${many(20, (i) => `r${i}: unreadCount(reader: "agent-${i}")`)} } } }`,
  ],
  ['one value under many aliases', pages(many(10, (i) => `a${i}: sequence`))],
  ['__typename under many aliases', pages(many(10, (i) => `a${i}: __typename`))],
  ['what each edge holds besides its node', pages('', `edges { cursor node { ${message} } }`)],
  ['types of types in introspection', introspection(30, 100)],
  ['types of types, as often as a document can select them', introspection(98, 160)],
  ['one __type under many aliases', `{ ${many(90, (i) => `t${i}: __type(name: "Query") { ...T }`)} } ${type}`],
  ['the whole __schema under many aliases', `{ ${many(10, (i) => `s${i}: __schema { types { ...T } }`)} } ${type}`],
];

describe.each(ways)('sent by %s', (_, ask) => {
  test.each(tooLarge)('a query for more than 100,000 values is QUERY_TOO_COMPLEX: %s', async (_, query) => {
    const answer = await ask(query);
    expect(codesOf(answer)).toEqual(['QUERY_TOO_COMPLEX']);
    expect(answer).not.toHaveProperty('data');
  });

  test('a query for fewer values is answered', async () => {
    expect(codesOf(await ask(pages(many(9, (i) => `a${i}: sequence`))))).toEqual([]);
    expect(codesOf(await ask(introspection(1, 1)))).toEqual([]);
  });
});

test('the errors say what was counted, and the limit', async () => {
  const messageOf = async (query: string): Promise<string> => (await client.post({ query })).body.errors[0].message;
  expect(await messageOf(pages(many(10, (i) => `a${i}: sequence`)))).toBe(
    'The answer could hold 100,202 values; at most 100,000 are allowed. Ask for fewer fields, or smaller pages.',
  );
  expect(await messageOf(pages('author { name }'))).toBe(
    'The answer could hold 20,201 objects; at most 11,000 are allowed. Ask for fewer fields, or smaller pages.',
  );
});

describe('the answer to an event', () => {
  const allowed = [
    `messageReceived { cursor message { ${message} } conversation { ${snapshot} } }`,
    `messageReceived { conversation { current { messages(last: 20) { nodes { ${message} } } } } }`,
    `events { ${event} }`,
  ];
  test.each(allowed)('is small enough: %s', async (fields) => {
    const socket = await new RawSocket(server.url).init(client.secret);
    const { eventCursor: after } = (await client.rest('GET', '/account')).body;
    socket.subscribe('1', `subscription ($after: String) { ${fields.replace(' {', '(after: $after) {')} }`, { after });
    await client.rest('POST', '/conversations', { body: { message: { content: 'hello', sender: 'visitor' } } });
    const { type, payload } = await socket.first('1');
    expect([type, payload.errors]).toEqual(['next', undefined]);
    socket.socket.terminate();
  });

  const tooLarge: [name: string, fields: string, counted: string][] = [
    ['a page', 'messageReceived { conversation { current { messages(first: 100) { nodes { id } } } } }', '104 objects'],
    [
      'pages of the default size',
      `conversationStarted { conversation { current { messages { nodes { conversation { messages { nodes { id } } } } } } } }`,
      '464 objects',
    ],
    [
      'pages of pages under many aliases',
      `messageReceived { conversation { current { messages(first: 100) { nodes { conversation { messages(first: 100) { nodes { ${many(90, (i) => `a${i}: sequence`)} } } } } } } } }`,
      '10,304 objects',
    ],
    [
      'a page with each value under many aliases',
      `messageReceived { conversation { current { messages(first: 50) { nodes { ${many(40, (i) => `a${i}: sequence`)} } } } } }`,
      '2,005 values',
    ],
  ];
  test.each(tooLarge)('is QUERY_TOO_COMPLEX when it subscribes, on both transports: %s', async (_, fields, counted) => {
    const query = `subscription { ${fields} }`;
    const socket = await new RawSocket(server.url).init(client.secret);
    socket.subscribe('1', query);
    const { payload } = await socket.first('1', 'error');
    expect(codesOf({ errors: payload })).toEqual(['QUERY_TOO_COMPLEX']);
    expect(payload[0].message).toContain(counted);
    socket.socket.terminate();
    const { body } = await client.post({ query }, { headers: { accept: 'text/event-stream' } });
    expect(body).toContain('"code":"QUERY_TOO_COMPLEX"');
  });
});

describe('reports, searches, lists of documents, lists that are searched through and totals of filtered lists', () => {
  const since = 'createdAfter: "2026-01-01T00:00:00Z"';
  const report = 'analytics { totals { leads } }';
  const total = `conversations(first: 1, ${since}) { totalCount }`;
  const allowed: [name: string, query: string, variables?: object][] = [
    ['five of them', `{ ${many(2, (i) => `r${i}: ${report}`)} ${many(3, (i) => `t${i}: ${total}`)} }`],
    ['many totals of lists by status', `{ ${many(30, (i) => `t${i}: conversations(status: ACTIVE) { totalCount }`)} }`],
    [
      'many totals of lists by several statuses',
      `{ ${many(30, (i) => `t${i}: conversations(statuses: [ACTIVE, CLOSED]) { totalCount }`)} }`,
    ],
    ['many pages at offsets of up to 10,000', `{ ${many(30, (i) => `t${i}: leads(offset: 10000) { nodes { id } }`)} }`],
    ['many filtered lists without totals', `{ ${many(30, (i) => `t${i}: conversations(${since}) { nodes { id } }`)} }`],
    ['twenty lists by a tag', `{ ${many(20, (i) => `t${i}: conversations(tags: ["a"]) { nodes { id } }`)} }`],
    [
      'five totals of lists by a tag, and their pages',
      `{ ${many(5, (i) => `t${i}: conversations(tags: ["a"]) { totalCount nodes { id } }`)} }`,
    ],
    [
      'many lists of an agent with a status',
      `{ ${many(30, (i) => `t${i}: conversations(assigneeId: "a", status: ACTIVE, sort: LAST_ACTIVITY_AT_DESC) { nodes { id } }`)} }`,
    ],
    [
      'many lists whose filters are null',
      `query ($none: DateTime) { ${many(30, (i) => `t${i}: conversations(createdAfter: $none, externalId: null) { totalCount }`)} }`,
    ],
    [
      'many that are left out',
      `query ($no: Boolean = false) { ${many(30, (i) => `r${i}: ${report.replace(' ', ' @include(if: $no) ')}`)} id: __typename }`,
    ],
  ];
  test.each(allowed)('are allowed: %s', async (_, query, variables) => {
    expect(codesOf((await client.post({ query, variables })).body)).toEqual([]);
  });

  test.each([
    ['six reports', `{ ${many(6, (i) => `r${i}: ${report}`)} }`],
    ['six totals', `{ ${many(6, (i) => `t${i}: ${total}`)} }`],
    ['six totals of lists by a tag', `{ ${many(6, (i) => `t${i}: conversations(tags: ["a"]) { totalCount }`)} }`],
    ['six lists of documents', `{ ${many(6, (i) => `d${i}: documents(first: 1) { nodes { id } }`)} }`],
    ['twenty-four lists by a tag', `{ ${many(24, (i) => `t${i}: conversations(tags: ["a"]) { nodes { id } }`)} }`],
    [
      'twenty-four lists by two filters',
      `query ($email: String = "a") { ${many(24, (i) => `t${i}: conversations(visitorEmail: $email, visitorId: "a") { nodes { id } }`)} }`,
    ],
    [
      'twenty-four lists of some time in the order of activity',
      `{ ${many(24, (i) => `t${i}: conversations(${since}, sort: LAST_ACTIVITY_AT_DESC) { nodes { id } }`)} }`,
    ],
    [
      'twenty-four lists of leads by two filters',
      `{ ${many(24, (i) => `t${i}: leads(conversationId: "${'conv_01h455vb4pex5vsknk084sn02q'}", email: "a") { nodes { id } }`)} }`,
    ],
    ['six totals of leads', `{ ${many(6, (i) => `t${i}: leads(email: "a") { totalCount }`)} }`],
    ['six pages far behind', `{ ${many(6, (i) => `t${i}: conversations(offset: 10001) { nodes { id } }`)} }`],
    [
      'what comes before six pages far behind, under a filter',
      `query ($far: Int = 2147483647) { ${many(6, (i) => `t${i}: conversations(tags: ["a"], offset: $far) { pageInfo { hasPreviousPage } }`)} }`,
    ],
    [
      'pages far behind, and their totals',
      `{ ${many(3, (i) => `t${i}: conversations(${since}, offset: 10001) { totalCount }`)} }`,
    ],
    ['six aliases of one total', `{ conversations(${since}) { ${many(6, (i) => `t${i}: totalCount`)} } }`],
    [
      'both together, by fragments',
      `{ ${many(3, (i) => `r${i}: ${report}`)} ...T } fragment T on Query { ${many(3, (i) => `t${i}: ${total}`)} }`,
    ],
  ])('are at most five in an operation: %s', async (_, query) => {
    const { body } = await client.post({ query });
    expect(codesOf(body)).toEqual(['QUERY_TOO_COMPLEX']);
    expect(body.errors[0].message).toContain(
      '6 reports, searches, lists of documents, totals of filtered lists, pages at offsets over 10,000 and lists that are searched through, four of which count as one; at most 5',
    );
  });

  test('a report of a year by day is allowed with all its fields', async () => {
    const year = 'from: "2025-11-01T00:00:00Z", to: "2026-11-01T00:00:00Z", interval: DAY';
    const { body } = await client.post({ query: `{ analytics(${year}) { ${analytics} } }` });
    expect(codesOf(body)).toEqual([]);
    expect(body.data.analytics.series).toHaveLength(365);
  });
});

describe('a subscription', () => {
  const text = 'subscription ($after: String) { events(after: $after) { id } }';
  const variables = { after: null };
  const most = 16 * 1024 - JSON.stringify(variables).length;
  const tooLong: [name: string, asked: { query: string; variables: object }][] = [
    ['text', { query: text.padEnd(most + 1), variables }],
    ['text of multi-byte characters', { query: `${text} #`.padEnd(most / 2 + text.length, 'é'), variables }],
    ['variables', { query: text, variables: { ...variables, other: 'x'.repeat(most) } }],
  ];

  test.each(tooLong)('of more than 16 KiB of text and variables is QUERY_TOO_COMPLEX: %s', async (_, asked) => {
    const socket = await new RawSocket(server.url).init(client.secret);
    socket.subscribe('most', text.padEnd(most), variables);
    socket.subscribe('more', asked.query, { ...asked.variables });
    expect(codesOf({ errors: (await socket.first('more', 'error')).payload })).toEqual(['QUERY_TOO_COMPLEX']);
    const { body } = await client.post(asked, { headers: { accept: 'text/event-stream' } });
    expect(body).toContain('"code":"QUERY_TOO_COMPLEX"');
    // The subscription of exactly 16 KiB continues.
    await client.rest('POST', '/conversations');
    expect((await socket.first('most')).type).toBe('next');
    socket.socket.terminate();
  });

  test('has a limit of length that queries and mutations do not have', async () => {
    const socket = await new RawSocket(server.url).init(client.secret);
    const other = { other: 'x'.repeat(40_000) };
    socket.subscribe('query', '{ account { id } }'.padEnd(20_000), other);
    expect((await socket.first('query')).payload.data).toEqual({ account: { id: client.account.id } });
    socket.subscribe(
      'mutation',
      'mutation { captureLead(input: { email: "ada@example.com" }) { eventCursor } }',
      other,
    );
    expect((await socket.first('mutation')).payload.errors).toBeUndefined();
    socket.socket.terminate();
  });
});

test('a refused operation of a batch spends nothing of the budget of the others', async () => {
  const tooMany = { query: pages(many(10, (i) => `a${i}: sequence`)) };
  const { body } = await client.post([tooMany, { query: '{ account { id } }' }]);
  expect(body.map(codesOf)).toEqual([['QUERY_TOO_COMPLEX'], []]);
});

test('the operations of a batch share one budget of objects and values', async () => {
  const one = { query: pages(many(6, (i) => `a${i}: sequence`)) };
  expect((await client.post([one])).body.map(codesOf)).toEqual([[]]);
  expect((await client.post([one, one])).body.map(codesOf)).toEqual([[], ['QUERY_TOO_COMPLEX']]);
});

test('a mutation whose payloads could be too long is refused before it runs', async () => {
  const own = (await client.rest('POST', '/conversations')).body.id;
  const variables = { input: { conversationId: own, content: 'x', sender: 'AGENT' } };
  const send = (count: number, fields: string) => ({
    query: `mutation ($input: SendMessageInput!) { ${many(count, (i) => `m${i}: sendMessage(input: $input) { ...P }`)} }
      fragment P on SendMessagePayload { eventCursor message { ${fields} } conversation { ${conversation} } }`,
    variables,
  });
  const countOf = async (): Promise<number> => (await client.rest('GET', `/conversations/${own}`)).body.messageCount;
  const before = await countOf();
  const aliases = many(200, (i) => `c${i}: content`);
  const inEdge = send(1, 'id');
  const refused = [
    await client.post(send(1, aliases)),
    await client.post({
      ...inEdge,
      query: inEdge.query.replace('message {', `messageEdge { node { ${aliases} } } message {`),
    }),
  ];
  expect(refused.map(({ body }) => codesOf(body))).toEqual([['QUERY_TOO_COMPLEX'], ['QUERY_TOO_COMPLEX']]);
  expect(await countOf()).toBe(before);
  const whole = await client.post(send(100, message));
  expect(codesOf(whole.body)).toEqual([]);
});

test('the introspection queries of tools are allowed, five times in a batch', async () => {
  const everything = {
    specifiedByUrl: true,
    directiveIsRepeatable: true,
    schemaDescription: true,
    inputValueDeprecation: true,
    oneOf: true,
  };
  for (const query of [getIntrospectionQuery(), getIntrospectionQuery(everything)]) {
    const { body } = await client.post(Array.from({ length: 5 }, () => ({ query })));
    expect(body.map(codesOf)).toEqual(Array.from({ length: 5 }, () => []));
  }
});

test.each([
  [
    'a hundred conversations with a hundred messages each, selected as Relay does',
    `{ conversations(first: 100) { pageInfo { hasNextPage endCursor } edges { cursor node { __typename id status subject
      messages(first: 100) { totalCount pageInfo { hasNextPage endCursor }
        edges { cursor node { id sequence sender content createdAt } } } } } } }`,
  ],
  [
    'a hundred conversations with twenty-five messages each, with all their fields',
    `{ conversations(first: 100) { pageInfo { hasNextPage endCursor } edges { cursor node { __typename ${conversation}
      messages(first: 25) { totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
        edges { cursor node { __typename ${message} conversation { __typename id } } } } } } } }`,
  ],
  [
    'all webhooks with twenty deliveries each',
    `{ webhooks { nodes { ${webhook} deliveries { nodes { ${deliveryWithAttempts.replace('(first: 100)', '')} } } } } }`,
  ],
])('a full page with all its fields is allowed: %s', async (_, query) => {
  expect(codesOf((await client.post({ query })).body)).toEqual([]);
});

describe('a response with more than 8 MiB', () => {
  const content = 'x'.repeat(16_384);
  const query = `query ($id: ID!) { account { name } conversation(id: $id) { messages(first: 100) { nodes { ${many(300, (i) => `a${i}: content`)} } } } }`;
  const short = `query ($id: ID!) { account { name } conversation(id: $id) { messages(first: 100) { nodes { ${many(200, (i) => `a${i}: content`)} } } } }`;
  beforeAll(async () => {
    for (let sent = 0; sent < 10; sent++) {
      await client.rest('POST', `/conversations/${id}/messages`, { body: { content, sender: 'agent' } });
    }
  });

  test('is a single error without data, on the fast path and from Yoga', async () => {
    const headers = { 'x-request-id': 'the-same' };
    for (const asked of [query, short]) {
      const [plain, ...others] = [
        await client.post({ query: asked, variables: { id } }, { headers }),
        await client.post({ query: asked, variables: { id } }, { headers: { ...headers, ...leftToYoga() } }),
      ];
      expect(plain?.body).toEqual({
        errors: [{ message: expect.any(String), extensions: { code: 'QUERY_TOO_COMPLEX', requestId: 'the-same' } }],
        data: null,
      });
      for (const { status, body } of others)
        expect({ status, body }).toEqual({ status: plain?.status, body: plain?.body });
    }
  });

  test('is not computed a second time by Yoga', async () => {
    statements.length = 0;
    await client.post({ query: short, variables: { id } });
    expect(statements.filter((sql) => /\bmessages\.content\b/.test(sql))).toHaveLength(1);
  });

  test('leaves the results of mutations in the same document and in the same batch', async () => {
    const update = (subject: string, fields: string): string =>
      `updateConversation(input: { id: "${id}", subject: "${subject}" }) { conversation { ${fields} } }`;
    const texts = `messages(first: 100) { nodes { ${many(200, (i) => `a${i}: content`)} } }`;
    const mutation = `mutation { first: ${update('One', 'subject')} second: ${update('Two', texts)} }`;
    const { status, body } = await client.post({ query: mutation });
    expect([status, codesOf(body)]).toEqual([200, ['QUERY_TOO_COMPLEX']]);
    expect(body.data).toEqual({
      first: { conversation: { subject: 'One' } },
      second: { conversation: { messages: null } },
    });
    const batch = [{ query: short, variables: { id } }, { query: `mutation { ${update('Three', 'subject')} }` }];
    const [tooLong, done] = (await client.post(batch)).body;
    expect([codesOf(tooLong), codesOf(done)]).toEqual([['QUERY_TOO_COMPLEX'], []]);
    expect(done.data.updateConversation.conversation.subject).toBe('Three');
  });
});

test('what is wrong with an input is told briefly on both faces, however long the names in it are', async () => {
  const name = '~'.repeat(900_000);
  const input = { metadata: { [name]: [] } };
  const query = `mutation ($metadata: Metadata!) { ${many(90, (i) => `c${i}: createConversation(input: { metadata: $metadata }) { eventCursor }`)} }`;
  const { body: graphql } = await client.post({ query, variables: input });
  const pointers = graphql.errors.map(({ extensions }: Json) => extensions.errors[0].pointer);
  expect(pointers).toHaveLength(90);
  expect(new Set(pointers)).toEqual(new Set([`/input/metadata/${'~0'.repeat(256)}…`]));
  expect(JSON.stringify(graphql).length).toBeLessThan(200_000);
  const { body: rest } = await client.rest('POST', '/conversations', { body: input });
  expect(rest.errors).toMatchObject([{ pointer: `/metadata/${'~0'.repeat(256)}…` }]);
  expect(rest.detail.length).toBeLessThan(1_000);
});
