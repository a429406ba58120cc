import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { listConversations } from '../../src/domain/conversations.ts';
import { type ErrorCode, errorCodes } from '../../src/domain/errors.ts';
import type { Json, RestResponse } from '../support/client.ts';
import { effort } from '../support/effort.ts';
import { inArguments, inInput } from '../support/pointers.ts';
import * as select from '../support/selections.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// One table of bad inputs, each sent through both faces. Both have to refuse it with the same code and the
// same pointers, and neither may have changed anything.
//
// Bodies are written as JSON text, since some of what is sent no JSON.stringify would write. Values of
// enumerations are marked with an `@`: they are written small on REST and in capitals on GraphQL.

let server: TestServer;
let client: TestAccount;
/** A conversation with messages, as it was made. */
let conversation: Json;
let cursors: Record<'conversations' | 'byActivity' | 'messages' | 'newestMessages' | 'apiKeys' | 'events', string>;
let untouched: Json;

beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
  for (let index = 0; index < 3; index++) {
    await client.rest('POST', '/conversations', { body: { externalId: `order-${index}` } });
    await client.rest('POST', '/api-keys', { body: { name: 'spare', scopes: ['leads:read'] } });
  }
  const message = { content: 'Hello', sender: 'visitor' };
  const { id } = (await client.rest('POST', '/conversations', { body: { metadata: { a: 1 }, message } })).body;
  for (const sender of ['agent', 'bot']) {
    await client.rest('POST', `/conversations/${id}/messages`, { body: { content: 'Hi', sender } });
  }
  conversation = (await client.rest('GET', `/conversations/${id}`)).body;
  const next = async (path: string): Promise<string> => (await client.rest('GET', path)).body.pagination.nextCursor;
  cursors = {
    conversations: await next('/conversations?limit=1'),
    byActivity: await next('/conversations?limit=1&sort=-lastActivityAt'),
    messages: await next(`/conversations/${id}/messages?limit=1`),
    newestMessages: await next(`/conversations/${id}/messages?limit=1&sort=-sequence`),
    apiKeys: await next('/api-keys?limit=1'),
    events: (await client.rest('GET', '/account')).body.eventCursor,
  };
  untouched = await state();
});
afterAll(() => server.close());

/** Everything of the account that a request could change, besides its budget and when a key was used. */
async function state(): Promise<Json> {
  const { data, errors } = await client.graphql(
    `query ($id: ID!) {
      account { name plan eventCursor }
      conversations(first: 100) { totalCount nodes { ${select.conversation} } }
      active: conversations(status: ACTIVE) { totalCount }
      pending: conversations(status: PENDING) { totalCount }
      closed: conversations(status: CLOSED) { totalCount }
      conversation(id: $id) { messages(first: 100) { totalCount nodes { ${select.message} } } }
      apiKeys(first: 100) { totalCount nodes { id name scopes expiresAt revokedAt } }
    }`,
    { id: conversation.id },
  );
  expect(errors).toBeUndefined();
  return data;
}

interface Expected {
  readonly code: ErrorCode;
  readonly pointers: readonly string[];
}

function sorted(pointers: readonly string[]): string[] {
  return pointers.toSorted();
}

function expectProblem({ status, body }: RestResponse, { code, pointers }: Expected): void {
  expect({ code: body.code, status }).toEqual({ code, status: errorCodes[code].status });
  const named = (body.errors ?? []).map((fault: Json) => fault.pointer ?? `/${fault.parameter}`);
  expect(sorted(named)).toEqual(sorted(pointers));
  for (const { detail } of body.errors ?? []) expect(detail).toMatch(/^[a-z].*[^.]$/s);
}

/** One error for all the faults, unless they are literals, which graphql-js refuses one by one. */
function expectErrors({ status, body }: RestResponse, { code, pointers }: Expected): void {
  expect(body.errors?.map((error: Json) => error.extensions.code)).toEqual([code]);
  expect(status).toBe(200); // for application/json
  const named = body.errors.flatMap((error: Json) => error.extensions.errors ?? []).map(({ pointer }: Json) => pointer);
  expect(sorted(named)).toEqual(sorted(pointers));
}

const invalid = (...pointers: string[]): Expected => ({ code: 'VALIDATION_FAILED', pointers });
const invalidInput = (...pointers: string[]): Expected => invalid(...inInput(pointers));
const invalidArguments = (...pointers: string[]): Expected => invalid(...inArguments(pointers));
const missing: Expected = { code: 'NOT_FOUND', pointers: [] };

// ── Bodies ─────────────────────────────────────────────────────────────────────────────────────

const operations = {
  createConversation: {
    method: 'POST',
    path: () => '/conversations',
    type: 'CreateConversationInput',
    select: 'conversation { id }',
    inPath: () => '',
  },
  updateConversation: {
    method: 'PATCH',
    path: () => `/conversations/${conversation.id}`,
    type: 'UpdateConversationInput',
    select: 'conversation { id }',
    inPath: () => `"id":"${conversation.id}"`,
  },
  sendMessage: {
    method: 'POST',
    path: () => `/conversations/${conversation.id}/messages`,
    type: 'SendMessageInput',
    select: 'message { id }',
    inPath: () => `"conversationId":"${conversation.id}"`,
  },
  markRead: {
    method: 'PUT',
    path: () => `/conversations/${conversation.id}/read-positions/agent-3`,
    type: 'MarkReadInput',
    select: 'readPosition { sequence }',
    inPath: () => `"conversationId":"${conversation.id}","reader":"agent-3"`,
  },
  createApiKey: {
    method: 'POST',
    path: () => '/api-keys',
    type: 'CreateApiKeyInput',
    select: 'apiKey { id }',
    inPath: () => '',
  },
} as const;
type OperationName = keyof typeof operations;

const rest = (name: OperationName, text: string): Promise<RestResponse> => {
  const { method, path } = operations[name];
  return client.rest(method, path(), { body: text.replace(/"@(\w+)"/g, '"$1"') });
};

const graphql = (name: OperationName, text: string): Promise<RestResponse> => {
  const { type, select, inPath } = operations[name];
  const query = `mutation ($input: ${type}!) { ${name}(input: $input) { ${select} } }`;
  const fields = text.replace(/"@(\w+)"/g, (marked) => marked.slice(2, -1).toUpperCase().replace(/^|$/g, '"'));
  const path = inPath();
  const input =
    path === '' ? fields : fields.replace(/^\{(.)/s, (_, next) => `{${path}${next === '}' ? '' : ','}${next}`);
  return client.post(`{"query":${JSON.stringify(query)},"variables":{"input":${input}}}`);
};

const quoted = (text: string): string => JSON.stringify(text);
const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
const keys = (count: number, value: string): string =>
  `{${Array.from({ length: count }, (_, index) => `"k${index}":${value}`).join(',')}}`;

const content = '"content":"x"';
const agent = '"sender":"@agent"';

/** What is wrong with a value, wherever a line of text is taken. `max` is its length. */
function badLines(max: number): [name: string, value: string][] {
  return [
    ['a number', '5'],
    ['a boolean', 'true'],
    ['a list', '[]'],
    ['a list of text', '["x"]'],
    ['an object', '{}'],
    ['a character too long', quoted('x'.repeat(max + 1))],
    ['a character beyond the BMP too long', quoted('📦'.repeat(max + 1))],
    ['lists as deep as can be', nested(58)],
    ['U+0000', '"a\\u0000b"'],
    ['a line break', '"a\\nb"'],
    ['DEL', '"a\\u007fb"'],
    ['a C1 control character', '"a\\u0085b"'],
    ['a lone high surrogate', '"a\\ud83d"'],
    ['a lone low surrogate', '"\\udce6a"'],
    ['surrogates in the wrong order', '"\\udce6\\ud83d"'],
  ];
}

/** In GraphQL what is missing is told before the rules are looked at: then only some are told of. */
type BodyCase = readonly [
  operation: OperationName,
  name: string,
  text: string,
  expected: Expected,
  onGraphQL?: readonly string[],
];

/** One of each kind of what is wrong with a line. The others are tried in one place, and by the trials everywhere. */
const kinds = ['a number', 'an object', 'a character beyond the BMP too long', 'a line break', 'a lone high surrogate'];

/** A line of text in its place in the input of an operation. */
function lines(operation: OperationName, pointer: string, max: number, around: (value: string) => string): BodyCase[] {
  const all = badLines(max);
  const tried = effort(pointer === '/subject' ? all : all.filter(([name]) => kinds.includes(name)), all);
  return tried.map(([name, value]) => [operation, `${pointer}: ${name}`, around(value), invalid(pointer)] as const);
}

const cases: BodyCase[] = [
  // Lines of text
  ...lines('createConversation', '/subject', 200, (value) => `{"subject":${value}}`),
  ...lines('createConversation', '/externalId', 128, (value) => `{"externalId":${value}}`),
  ...lines('createConversation', '/visitor/id', 128, (value) => `{"visitor":{"id":${value}}}`),
  ...lines('createConversation', '/visitor/name', 200, (value) => `{"visitor":{"name":${value}}}`),
  ...lines('createConversation', '/visitor/email', 320, (value) => `{"visitor":{"email":${value}}}`),
  ...lines('createConversation', '/assignee/id', 128, (value) => `{"assignee":{"id":${value}}}`),
  ...lines('createConversation', '/assignee/name', 128, (value) => `{"assignee":{"id":"a","name":${value}}}`),
  ...lines('createConversation', '/tags/0', 50, (value) => `{"tags":[${value}]}`),
  ...lines('updateConversation', '/addTags/1', 50, (value) => `{"addTags":["a",${value}]}`),
  ...lines('updateConversation', '/removeTags/1', 50, (value) => `{"removeTags":["a",${value}]}`),
  ...lines('updateConversation', '/subject', 200, (value) => `{"subject":${value}}`),
  ...lines('updateConversation', '/visitor/name', 200, (value) => `{"visitor":{"name":${value}}}`),
  ...lines('sendMessage', '/author/id', 128, (value) => `{${content},${agent},"author":{"id":${value}}}`),
  ...lines('sendMessage', '/author/name', 128, (value) => `{${content},${agent},"author":{"name":${value}}}`),
  ...lines('createApiKey', '/name', 200, (value) => `{"name":${value}}`),
  ['createConversation', '/externalId: empty', '{"externalId":""}', invalid('/externalId')],
  ['createApiKey', '/name: empty', '{"name":""}', invalid('/name')],

  ...lines('sendMessage', '/clientId', 64, (value) => `{${content},${agent},"clientId":${value}}`),
  ...['""', '"a b"', '"é"', '"a\\tb"'].flatMap((value): BodyCase[] => [
    ['sendMessage', `/clientId: ${value}`, `{${content},${agent},"clientId":${value}}`, invalid('/clientId')],
    [
      'createConversation',
      `/message/clientId: ${value}`,
      `{"message":{${content},${agent},"clientId":${value}}}`,
      invalid('/message/clientId'),
    ],
  ]),
  ...['"a,b"', '" a"', '""'].flatMap((value): BodyCase[] => [
    ['createConversation', `/tags/0: ${value}`, `{"tags":[${value}]}`, invalid('/tags/0')],
    ['updateConversation', `/addTags/0: ${value}`, `{"addTags":[${value}]}`, invalid('/addTags/0')],
  ]),
  ['updateConversation', 'tags in both ways', '{"tags":["a"],"addTags":["b"]}', invalid('/tags')],

  // Sequences
  ...['-1', '1.5', '4', '2147483648', '1e300', '"1"', 'true', '[]', '{}'].map(
    (value): BodyCase => ['markRead', `/sequence: ${value}`, `{"sequence":${value}}`, invalid('/sequence')],
  ),
  ['markRead', 'no sequence', '{"sequence":null}', invalid('/sequence')],

  // Content
  ...(
    [
      ['a number', '5'],
      ['null', 'null'],
      ['a list', '["x"]'],
      ['an object', '{"text":"x"}'],
      ['empty', '""'],
      ['spaces', '"   "'],
      ['white space of many kinds', '" \\n\\t\\r\\u00a0\\u2003\\u3000\\u2028"'],
      ['16,385 characters', quoted('x'.repeat(16_385))],
      ['16,385 characters beyond the BMP', quoted('📦'.repeat(16_385))],
      ['a megabyte', quoted('x'.repeat(1_000_000))],
      ['U+0000', '"a\\u0000"'],
      ['a bell', '"a\\u0007"'],
      ['an escape sequence', '"\\u001b[31mred"'],
      ['a lone high surrogate', '"a\\ud800"'],
      ['a lone low surrogate', '"\\udc00"'],
      ['deeply nested', nested(58)],
    ] as const
  ).flatMap(([name, value]): BodyCase[] => [
    ['sendMessage', `/content: ${name}`, `{"content":${value},${agent}}`, invalid('/content')],
    [
      'createConversation',
      `/message/content: ${name}`,
      `{"message":{"content":${value},${agent}}}`,
      invalid('/message/content'),
    ],
  ]),

  // Enumerations
  ...['"robot"', '"agent "', '""', '"Agent"', '5', 'null', '[]', '{}', 'true', '"__proto__"', '"toString"'].map(
    (value): BodyCase => ['sendMessage', `/sender: ${value}`, `{${content},"sender":${value}}`, invalid('/sender')],
  ),
  ['updateConversation', '/status: null', '{"status":null}', invalid('/status')],
  ...['"open"', '""', '0', '[]', '["active"]', '{}', 'false', '"constructor"'].flatMap((value): BodyCase[] => [
    ['createConversation', `/status: ${value}`, `{"status":${value}}`, invalid('/status')],
    ['updateConversation', `/status: ${value}`, `{"status":${value}}`, invalid('/status')],
  ]),

  // Objects
  ...['"x"', '5', 'true', '[]', '[{}]'].flatMap((value): BodyCase[] => [
    ['createConversation', `/visitor: ${value}`, `{"visitor":${value}}`, invalid('/visitor')],
    ['createConversation', `/message: ${value}`, `{"message":${value}}`, invalid('/message')],
    ['createConversation', `/metadata: ${value}`, `{"metadata":${value}}`, invalid('/metadata')],
    ['updateConversation', `/metadata: ${value}`, `{"metadata":${value}}`, invalid('/metadata')],
    ['sendMessage', `/author: ${value}`, `{${content},${agent},"author":${value}}`, invalid('/author')],
    ['sendMessage', `/metadata: ${value}`, `{${content},${agent},"metadata":${value}}`, invalid('/metadata')],
  ]),
  ['createConversation', 'a list of 10,000 messages', `{"message":[${'1,'.repeat(9_999)}1]}`, invalid('/message')],

  // Missing fields
  ['sendMessage', 'nothing', '{}', invalid('/content', '/sender'), ['/content']],
  ['sendMessage', 'no content', `{${agent}}`, invalid('/content')],
  ['sendMessage', 'no sender', `{${content}}`, invalid('/sender')],
  [
    'createConversation',
    'an empty message',
    '{"message":{}}',
    invalid('/message/content', '/message/sender'),
    ['/message/content'],
  ],
  ['createApiKey', 'no name', '{}', invalid('/name')],

  // Unknown fields, and those that JavaScript knows
  ...['unknown', 'constructor', 'prototype', '__proto__', 'toString', 'hasOwnProperty', ''].flatMap(
    (name): BodyCase[] => [
      ['createConversation', `"${name}" at the top`, `{"${name}":{"subject":"x"}}`, invalid(`/${name}`)],
      [
        'createConversation',
        `"${name}" in the visitor`,
        `{"visitor":{"${name}":{"a":1}}}`,
        invalid(`/visitor/${name}`),
      ],
      [
        'createConversation',
        `"${name}" in the message`,
        `{"message":{${content},${agent},"${name}":1}}`,
        invalid(`/message/${name}`),
      ],
      [
        'createConversation',
        `"${name}" in the message’s author`,
        `{"message":{${content},${agent},"author":{"${name}":null}}}`,
        invalid(`/message/author/${name}`),
      ],
      ['updateConversation', `"${name}" at the top`, `{"${name}":1}`, invalid(`/${name}`)],
      ['sendMessage', `"${name}" at the top`, `{${content},${agent},"${name}":1}`, invalid(`/${name}`)],
      ['createApiKey', `"${name}" at the top`, `{"name":"x","${name}":1}`, invalid(`/${name}`)],
    ],
  ),
  [
    'createConversation',
    'what only the service sets',
    '{"version":7,"createdAt":null,"messages":[]}',
    invalid('/version', '/createdAt', '/messages'),
  ],
  [
    'createConversation',
    'names in other letters',
    '{"Subject":"x","external_id":"x"}',
    invalid('/Subject', '/external_id'),
  ],
  ['createConversation', 'a name that has to be escaped', '{"a/b~c":1}', invalid('/a~1b~0c')],
  ['createConversation', 'a name with a lone surrogate', '{"\\ud800":1}', invalid('/\ud800')],
  ['createConversation', 'a name with U+0000', '{"\\u0000":1}', invalid('/\0')],

  // Metadata
  ['createConversation', 'metadata of null', '{"metadata":{"a":null,"b":1}}', invalid('/metadata/a')],
  [
    'createConversation',
    'metadata of objects and lists',
    '{"metadata":{"a":{},"b":[],"c":[1],"d":{"e":1}}}',
    invalid('/metadata/a', '/metadata/b', '/metadata/c', '/metadata/d'),
  ],
  ['createConversation', 'metadata of 51 keys', `{"metadata":${keys(51, '1')}}`, invalid('/metadata')],
  [
    'createConversation',
    'metadata of 8 KiB and one',
    `{"metadata":{"a":"${'x'.repeat(8 * 1024 - 7)}"}}`,
    invalid('/metadata'),
  ],
  [
    'createConversation',
    'metadata of 8 KiB in UTF-8',
    `{"metadata":{"a":"${'é'.repeat(5_000)}"}}`,
    invalid('/metadata'),
  ],
  [
    'createConversation',
    'infinite metadata',
    '{"metadata":{"a":1e999,"b":-1e999}}',
    invalid('/metadata/a', '/metadata/b'),
  ],
  ['createConversation', 'deep metadata', `{"metadata":{"a":${nested(58)}}}`, invalid('/metadata/a')],
  ['createConversation', 'deep metadata itself', `{"metadata":${nested(58)}}`, invalid('/metadata')],
  [
    'createConversation',
    'metadata under __proto__',
    '{"metadata":{"__proto__":1,"a":"x"}}',
    invalid('/metadata/__proto__'),
  ],
  [
    'createConversation',
    'metadata with U+0000',
    '{"metadata":{"a":"\\u0000","b\\u0000":1}}',
    invalid('/metadata/a', '/metadata/b\0'),
  ],
  [
    'createConversation',
    'metadata with lone surrogates',
    '{"metadata":{"a":"\\ud800","\\udc00":1}}',
    invalid('/metadata/a', '/metadata/\udc00'),
  ],
  [
    'createConversation',
    'a message’s metadata',
    `{"message":{${content},${agent},"metadata":{"a":null,"__proto__":{}}}}`,
    invalid('/message/metadata/a', '/message/metadata/__proto__', '/message/metadata/__proto__'),
  ],
  [
    'sendMessage',
    'metadata of null and 1e999',
    `{${content},${agent},"metadata":{"a":null,"b":1e999}}`,
    invalid('/metadata/a', '/metadata/b'),
  ],
  [
    'updateConversation',
    'metadata of objects and lists',
    '{"metadata":{"a":{},"b":[],"c":null}}',
    invalid('/metadata/a', '/metadata/b'),
  ],
  ['updateConversation', 'metadata under __proto__', '{"metadata":{"__proto__":null}}', invalid('/metadata/__proto__')],
  ['updateConversation', 'metadata of 51 keys once merged', `{"metadata":${keys(50, '1')}}`, invalid('/metadata')],
  [
    'updateConversation',
    'metadata of 8 KiB once merged',
    `{"metadata":{"b":"${'x'.repeat(8 * 1024 - 10)}"}}`,
    invalid('/metadata'),
  ],

  // API keys
  ['createApiKey', 'a scope that is none', '{"name":"x","scopes":["everything"]}', invalid('/scopes/0')],
  [
    'createApiKey',
    'scopes of other types',
    '{"name":"x","scopes":[1,null,{}]}',
    invalid('/scopes/0', '/scopes/1', '/scopes/2'),
  ],
  ['createApiKey', 'no scope at all', '{"name":"x","scopes":[]}', invalid('/scopes')],
  ['createApiKey', 'scopes that are no list', '{"name":"x","scopes":{}}', invalid('/scopes')],
  ...[
    '"soon"',
    '""',
    '"2026-02-30T00:00:00Z"',
    '"2030-01-01"',
    '"2030-01-01T00:00:00"',
    '1893456000000',
    '[]',
    'true',
  ].map(
    (value): BodyCase => [
      'createApiKey',
      `/expiresAt: ${value}`,
      `{"name":"x","expiresAt":${value}}`,
      invalid('/expiresAt'),
    ],
  ),
  ['createApiKey', '/expiresAt: in the past', '{"name":"x","expiresAt":"2020-01-01T00:00:00Z"}', invalid('/expiresAt')],

  // All at once: of kind, and of rule
  [
    'createConversation',
    'every fault of kind at once',
    '{"subject":1,"status":"x","visitor":{"id":1,"name":[],"x":1},"externalId":{},"y":1,"message":{"sender":"x","author":{"id":1,"z":1}}}',
    invalid(
      '/subject',
      '/status',
      '/visitor/id',
      '/visitor/name',
      '/visitor/x',
      '/externalId',
      '/y',
      '/message/content',
      '/message/sender',
      '/message/author/id',
      '/message/author/z',
    ),
  ],
  [
    'createConversation',
    'every fault of rule at once',
    `{"subject":"\\n","visitor":{"id":"\\u0000","name":"${'x'.repeat(201)}"},"externalId":"","metadata":{"a":null,"b":[]},"message":{"content":" ",${agent},"author":{"name":"\\ud800"},"metadata":{"c":{}}}}`,
    invalid(
      '/subject',
      '/visitor/id',
      '/visitor/name',
      '/externalId',
      '/metadata/a',
      '/metadata/b',
      '/message/content',
      '/message/author/name',
      '/message/metadata/c',
    ),
  ],
];

describe('a bad body is refused alike on both faces, and changes nothing', () => {
  const filled = cases.map(
    ([operation, name, text, expected, onGraphQL = expected.pointers]) =>
      [operation, name, text, expected, onGraphQL] as const,
  );
  test.each(filled)('%s %s', async (operation, _, text, expected, onGraphQL) => {
    expectProblem(await rest(operation, text), expected);
    expectErrors(await graphql(operation, text), { ...expected, pointers: inInput(onGraphQL) });
  });

  test('no key of a body has changed an object that all others have', () => {
    expect(Object.keys(Object.prototype)).toEqual([]);
    expect(({} as Record<string, unknown>)['subject']).toBeUndefined();
  });

  // The one difference: GraphQL settles the types first, and looks at the rules when they are right.
  test('faults of kind and of rule together are all told by REST, those of kind by GraphQL', async () => {
    const text = '{"subject":5,"externalId":""}';
    expectProblem(await rest('createConversation', text), invalid('/subject', '/externalId'));
    expectErrors(await graphql('createConversation', text), invalidInput('/subject'));
  });

  test('what the path gives is not taken from a body', async () => {
    const inBody = `{"conversationId":"${conversation.id}",${content},${agent}}`;
    expectProblem(await rest('sendMessage', inBody), invalid('/conversationId'));
    expectProblem(await rest('updateConversation', '{"id":"conv_x"}'), invalid('/id'));
  });

  test('parameters beside a body are told with what is wrong in it', async () => {
    const response = await client.rest('POST', '/conversations?limit=1&limit=2&b=%zz', { body: { subject: 1 } });
    expect(response.body.errors).toEqual([
      { parameter: 'limit', detail: expect.any(String) },
      { parameter: 'b', detail: expect.any(String) },
      { pointer: '/subject', detail: 'must be a string' },
    ]);
  });
});

describe('as many faults as a body can hold are answered soon, and briefly', () => {
  const many: [operation: OperationName, name: string, text: string][] = [
    ['createConversation', '10,000 unknown fields', keys(10_000, '1')],
    ['createConversation', '10,000 unknown fields of the visitor', `{"visitor":${keys(10_000, '1')}}`],
    ['createConversation', '10,000 nulls in metadata', `{"metadata":${keys(10_000, 'null')}}`],
    ['createApiKey', '10,000 wrong scopes', `{"name":"x","scopes":[${'"x",'.repeat(9_999)}"x"]}`],
    ['createApiKey', '10,000 nulls for scopes', `{"name":"x","scopes":[${'null,'.repeat(9_999)}null]}`],
  ];
  test.each(many)('%s: %s', async (operation, _, text) => {
    for (const send of [rest, graphql]) {
      const started = performance.now();
      const { body } = await send(operation, text);
      // Far above what it takes, and far below what it took while each fault was told with the whole input.
      expect(performance.now() - started).toBeLessThan(10_000);
      expect(body.code ?? body.errors[0].extensions.code).toBe('VALIDATION_FAILED');
      const { length } = (body.code === undefined ? body.errors[0].extensions : body).errors;
      expect(length).toBeGreaterThan(0);
      expect(length).toBeLessThanOrEqual(100);
      expect(JSON.stringify(body).length).toBeLessThan(50_000);
    }
  });
});

// ── Lists ──────────────────────────────────────────────────────────────────────────────────────

const argumentTypes: Record<string, string> = {
  first: 'Int',
  offset: 'Int',
  after: 'String',
  sort: 'ConversationSort',
  status: 'ConversationStatus',
  statuses: '[ConversationStatus!]',
  externalId: 'String',
  visitorId: 'String',
  visitorEmail: 'String',
  assigneeId: 'String',
  unassigned: 'Boolean',
  unreadBy: 'String',
  tags: '[String!]',
  updatedAfter: 'DateTime',
  createdAfter: 'DateTime',
  createdBefore: 'DateTime',
};

/** A list of conversations over GraphQL, its arguments as variables or written into the document. */
function listByVariables(args: Record<string, unknown>): Promise<RestResponse> {
  const names = Object.keys(args);
  const definitions = names.map((name) => `$${name}: ${argumentTypes[name]}`).join(', ');
  const given = names.map((name) => `${name}: $${name}`).join(', ');
  return client.post({ query: `query (${definitions}) { conversations(${given}) { totalCount } }`, variables: args });
}

function listByLiterals(args: Record<string, unknown>): Promise<RestResponse> {
  const given = Object.entries(args).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  return client.post({ query: `{ conversations(${given.join(', ')}) { totalCount } }` });
}

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** `args` undefined: there is no such thing to say on GraphQL. */
type ListCase = [parameters: string, args: Record<string, unknown> | undefined, ...pointers: string[]];

const lists: ListCase[] = [
  ['limit=0', { first: 0 }, '/limit'],
  ['limit=101', { first: 101 }, '/limit'],
  ['limit=-1', { first: -1 }, '/limit'],
  ['limit=abc', { first: 'abc' }, '/limit'],
  ['limit=1e1', { first: '1e1' }, '/limit'],
  ['limit=1.5', { first: 1.5 }, '/limit'],
  ['limit=+1', { first: '+1' }, '/limit'],
  ['limit=%2B1', { first: '+1' }, '/limit'],
  ['limit=%20', { first: ' ' }, '/limit'],
  ['limit=%201', { first: ' 1' }, '/limit'],
  ['limit=', { first: '' }, '/limit'],
  ['limit', { first: '' }, '/limit'],
  ['limit=00', { first: '00' }, '/limit'],
  ['limit=0x10', { first: '0x10' }, '/limit'],
  ['limit=NaN', { first: 'NaN' }, '/limit'],
  ['limit=Infinity', { first: 'Infinity' }, '/limit'],
  ['limit=true', { first: true }, '/limit'],
  ['limit=null', { first: 'null' }, '/limit'],
  ['limit=%D9%A3', { first: '٣' }, '/limit'],
  ['limit=%EF%BC%91', { first: '１' }, '/limit'],
  ['limit=2147483648', { first: 2147483648 }, '/limit'],
  ['limit=9999999999999999999999', { first: 1e22 }, '/limit'],
  ['limit=-9999999999999999999999', { first: -1e22 }, '/limit'],
  ['limit[]=1', { first: [1, 2] }, '/limit[]'],
  ['offset=-1', { offset: -1 }, '/offset'],
  ['offset=2147483648', { offset: 2147483648 }, '/offset'],
  ['offset=abc', { offset: 'abc' }, '/offset'],
  ['offset=1.5', { offset: 1.5 }, '/offset'],
  ['offset=', { offset: '' }, '/offset'],
  ['limit=0&offset=-1&status=x', undefined, '/limit', '/offset', '/status'],
  ['limit=1&limit=1', undefined, '/limit'],
  ['externalId=a&externalId=', undefined, '/externalId'],
  ['total=exact', undefined, '/total'],
  ['total=', undefined, '/total'],
  ['unknown=1', undefined, '/unknown'],
  ['a=1&b=2&a=3', undefined, '/a', '/b'],
  ['Limit=1', undefined, '/Limit'],
  ['__proto__=1', undefined, '/__proto__'],
  ['constructor=1&toString=2', undefined, '/constructor', '/toString'],
  ['=1', undefined, '/'],
  ['%=1', undefined, '/%'],
  ['%zz=1&limit=0', undefined, '/%zz', '/limit'],
  ['%00=1', undefined, '/\0'],
  ['access_token=x', undefined, '/access_token'],
  ['id=conv_x', undefined, '/id'],
  ['sort=subject', { sort: 'subject' }, '/sort'],
  ['sort=', { sort: '' }, '/sort'],
  ['sort=%2BcreatedAt', { sort: '+createdAt' }, '/sort'],
  ['sort=createdAt,-lastActivityAt', { sort: ['CREATED_AT_ASC', 'x'] }, '/sort'],
  ['status=open', { status: 'open' }, '/status'],
  ['status=ACTIVE%20', { status: 'ACTIVE ' }, '/status'],
  ['status=', { status: '' }, '/status'],
  ['status=__proto__', { status: '__proto__' }, '/status'],
  ['status=active&status=x', undefined, '/status'],
  ['status=active,,closed', undefined, '/status'],
  ['status=active,active&status=active,active', undefined, '/status'],
  ['status=active&status=%FF', undefined, '/status'],
  ['statuses=active', undefined, '/statuses'],
  ['unreadBy=', { unreadBy: '' }, '/unreadBy'],
  ['unreadBy=..', { unreadBy: '..' }, '/unreadBy'],
  ['unreadBy=a%20b', { unreadBy: 'a b' }, '/unreadBy'],
  [`unreadBy=${'x'.repeat(129)}`, { unreadBy: 'x'.repeat(129) }, '/unreadBy'],
  ['unassigned=1', { unassigned: 1 }, '/unassigned'],
  ['unassigned=', { unassigned: '' }, '/unassigned'],
  ['unassigned=TRUE', { unassigned: 'TRUE' }, '/unassigned'],
  ['unassigned', { unassigned: 'null' }, '/unassigned'],
  ['unassigned=true&unassigned=false', undefined, '/unassigned'],
  ['unassigned=true,false', { unassigned: [true, false] }, '/unassigned'],
  ['tags=', undefined, '/tags'],
  ['tags=a,,b', undefined, '/tags'],
  ['tags=a%00', undefined, '/tags'],
  [`tags=${'x'.repeat(51)}`, undefined, '/tags'],
  [`tags=${Array.from({ length: 21 }, (_, index) => index).join()}`, undefined, '/tags'],
  [`tags=${','.repeat(5_000)}`, undefined, ...Array.from({ length: 100 }, () => '/tags')],
  ['tag=a', undefined, '/tag'],
  [`visitorId=${'x'.repeat(129)}`, { visitorId: 'x'.repeat(129) }, '/visitorId'],
  ['visitorId=a&visitorId=b', undefined, '/visitorId'],
  ['visitor.id=a', undefined, '/visitor.id'],
  [`visitorEmail=${'x'.repeat(321)}`, { visitorEmail: 'x'.repeat(321) }, '/visitorEmail'],
  ['visitorEmail=%00', { visitorEmail: '\0' }, '/visitorEmail'],
  [`assigneeId=${'x'.repeat(129)}`, { assigneeId: 'x'.repeat(129) }, '/assigneeId'],
  ['assigneeId=%ED%A0%80', { assigneeId: '\ud800' }, '/assigneeId'],
  [`externalId=${'x'.repeat(129)}`, { externalId: 'x'.repeat(129) }, '/externalId'],
  ['externalId=%00', { externalId: '\0' }, '/externalId'],
  ['externalId=a%0Ab', { externalId: 'a\nb' }, '/externalId'],
  ['externalId=100%', undefined, '/externalId'],
  ['externalId=%FF', undefined, '/externalId'],
  ['externalId=%ED%A0%80', { externalId: '\ud800' }, '/externalId'],
  ...[
    'yesterday',
    '',
    '0',
    '1795240320000',
    '2026-11-21',
    '2026-11-21T06:12:00',
    '2026-11-21 06:12:00Z',
    '2026-11-21T06:12Z',
    '2026-13-01T00:00:00Z',
    '2026-02-29T00:00:00Z',
    '2026-11-31T00:00:00Z',
    '2026-11-21T24:00:00Z',
    '2026-11-21T06:60:00Z',
    '2026-11-21T06:12:00+25:00',
    '+002026-11-21T06:12:00Z',
    '2026-11-21T06:12:00Z\0',
    '2026-11-21T06:12:00ZZ',
    '9999-12-31T23:59:59-00:01',
    '0000-01-01T00:00:00+00:01',
    '9'.repeat(5_000),
  ].flatMap((time, index) =>
    (index % effort(5, 1) === 0 ? ['createdAfter', 'createdBefore', 'updatedAfter'] : ['createdAfter']).map(
      (name): ListCase => [`${name}=${encodeURIComponent(time)}`, { [name]: time }, `/${name}`],
    ),
  ),
  ...[
    'garbage',
    '',
    ' ',
    'null',
    '..',
    '%',
    '\0',
    '📦',
    'x'.repeat(10_000),
    encode(null),
    encode({}),
    encode([]),
    encode(1),
    encode(['-createdAt']),
    encode(['-createdAt', 1]),
    encode(['-createdAt', 'conv_x', 'more']),
    encode(['subject', 'x']),
    encode(['__proto__', 'x']),
    encode([['-createdAt'], 'x']),
    encode(['sequence', 1]),
    encode(['-lastActivityAt', 'conv_x', 1]),
  ].map((after): ListCase => [`after=${encodeURIComponent(after)}`, { after }, '/after']),
  ...[1.5, -1, 2 ** 53, 1e308, '1', null].map((ms): ListCase => {
    const after = encode(['-lastActivityAt', 'conv_x', ms]);
    return [`sort=-lastActivityAt&after=${after}`, undefined, '/after'];
  }),
  ['offset=0&after=garbage', { offset: 0, after: 'garbage' }, '/after', '/after'],
  ['after=a&after=b', undefined, '/after', '/after'],
];

test.each([
  ['{ a: "A", vip: TRUE }', '/metadata/vip'],
  ['{ a: { b: [yes] } }', '/metadata/a/b/0'],
  ['none', '/metadata'],
])('metadata of %s, a word without quotes, is not taken for a text', async (literal, place) => {
  const query = `mutation { createConversation(input: { metadata: ${literal} }) { eventCursor } }`;
  expectErrors(await client.post({ query }), invalidInput(place));
});

describe('a value of another type is one fault, which says what it should be', () => {
  const lists = ['events:read', '', { length: 99 }].flatMap((value): [string, string, object][] => [
    ['createToken', '/tokens', { scopes: value }],
    ['createApiKey', '/api-keys', { name: 'reader', scopes: value }],
    ['createWebhook', '/webhooks', { url: 'https://example.com/hooks', events: value }],
  ]);
  test.each(lists)('%s takes a list: %s %j', async (name, path, body) => {
    const pointer = 'events' in body ? '/events' : '/scopes';
    const { errors } = (await client.rest('POST', path, { body })).body;
    expect(errors).toEqual([{ pointer, detail: 'must be a list' }]);
    expectErrors(await mutate(name, body), invalidInput(pointer));
  });

  test.each(['60', 60.5, true])('%j for a whole number', async (expiresInSeconds) => {
    const body = { scopes: ['events:read'], expiresInSeconds };
    const { errors } = (await client.rest('POST', '/tokens', { body })).body;
    expect(errors).toEqual([{ pointer: '/expiresInSeconds', detail: 'must be an integer' }]);
    const answer = await mutate('createToken', { scopes: ['EVENTS_READ'], expiresInSeconds });
    expectErrors(answer, invalidInput('/expiresInSeconds'));
    expect(answer.body.errors[0].extensions.errors[0].detail).toMatch(/^must be an integer/);
  });

  function mutate(name: string, input: object): Promise<RestResponse> {
    const type = `${name.replace(/^c/, 'C')}Input`;
    const query = `mutation ($input: ${type}!) { ${name}(input: $input) { eventCursor } }`;
    return client.post({ query, variables: { input } });
  }
});

describe('bad parameters of a list are refused alike on both faces', () => {
  const named = lists.map(([parameters, args, ...pointers]) => ({
    name: parameters.slice(0, 60),
    parameters,
    args,
    expected: invalid(...pointers),
    // `limit[]` is another parameter on REST, and a list where one number is due on GraphQL.
    onGraphQL: invalidArguments(...pointers.map((pointer) => pointer.replace('[]', ''))),
  }));

  test.each(named)('$name', async ({ parameters, args, expected, onGraphQL }) => {
    const response = await client.rest('GET', `/conversations?${parameters}`);
    expectProblem(response, expected);
    for (const fault of response.body.errors) expect(fault.parameter).toBeDefined();
    if (args === undefined) return;
    expectErrors(await listByVariables(args), onGraphQL);
    // A lone surrogate cannot be written in a document at all: that is a fault of its syntax.
    if (JSON.stringify(args).includes('\\ud800')) {
      expectErrors(await listByLiterals(args), { code: 'BAD_REQUEST', pointers: [] });
    } else {
      expectErrors(await listByLiterals(args), onGraphQL);
    }
  });

  test.each([
    ['status: ACTIVE, statuses: [ACTIVE], first: 0', '/statuses', '/first'],
    ['statuses: []', '/statuses'],
    ['statuses: [ACTIVE, ACTIVE, ACTIVE, ACTIVE]', '/statuses'],
    ['tags: []', '/tags'],
    ['tags: ["a", "", " b"]', '/tags/1', '/tags/2'],
    ['tags: ["a,b"]', '/tags/0'],
  ])('in GraphQL: %s', async (args, ...pointers) => {
    for (const field of [`conversations(${args})`, `search(q: "x", ${args})`]) {
      expectErrors(await client.post({ query: `{ ${field} { totalCount } }` }), invalid(...pointers));
    }
  });

  test('none of them has changed anything', async () => {
    expect(await state()).toEqual(untouched);
  });

  test('every parameter of the operation has been put to the test', () => {
    const shape = Object.keys((listConversations.input as unknown as { shape: object }).shape);
    for (const name of shape) expect(lists.some(([parameters]) => parameters.startsWith(`${name}=`))).toBe(true);
  });

  test.each([
    ['of another sort', () => [cursors.conversations, 'sort=createdAt', 'CREATED_AT_ASC']],
    ['of another sort, by activity', () => [cursors.byActivity, 'sort=-createdAt', 'CREATED_AT_DESC']],
    ['of a list of messages', () => [cursors.messages, 'sort=-createdAt', 'CREATED_AT_DESC']],
    ['of the event log', () => [cursors.events, 'sort=-createdAt', 'CREATED_AT_DESC']],
    ['cut short', () => [cursors.conversations.slice(0, -4), 'sort=-createdAt', 'CREATED_AT_DESC']],
    ['cut short at its start', () => [cursors.conversations.slice(4), 'sort=-createdAt', 'CREATED_AT_DESC']],
  ])('a cursor %s is refused', async (_, make) => {
    const [after = '', parameter = '', sort = ''] = make();
    expectProblem(await client.rest('GET', `/conversations?${parameter}&after=${after}`), invalid('/after'));
    expectErrors(await listByVariables({ sort, after }), invalid('/after'));
  });

  test('a cursor of a list of API keys is refused', async () => {
    expectProblem(await client.rest('GET', `/conversations?after=${cursors.apiKeys}`), invalid('/after'));
    expectProblem(await client.rest('GET', `/api-keys?after=${cursors.conversations}`), invalid('/after'));
  });

  test.each([
    ['limit=0', 'first: 0', '/limit'],
    ['limit=101', 'first: 101', '/limit'],
    ['limit=x', 'first: "x"', '/limit'],
    ['offset=-1', 'offset: -1', '/offset'],
    ['offset=2147483648', 'offset: 2147483648', '/offset'],
    ['after=garbage', 'after: "garbage"', '/after'],
    [`after=${'a'.repeat(9_000)}`, `after: "${'a'.repeat(9_000)}"`, '/after'],
    [`after=${encode(['sequence', 1.5])}`, `after: "${encode(['sequence', 1.5])}"`, '/after'],
    [`after=${encode(['sequence', -5])}`, `after: "${encode(['sequence', -5])}"`, '/after'],
    [`after=${encode(['sequence', 1e308])}`, `after: "${encode(['sequence', 1e308])}"`, '/after'],
    [`after=${encode(['-createdAt', 'conv_x'])}`, `after: "${encode(['-createdAt', 'conv_x'])}"`, '/after'],
  ])('messages: %s', async (parameters, args, pointer) => {
    expectProblem(
      await client.rest('GET', `/conversations/${conversation.id}/messages?${parameters}`),
      invalid(pointer),
    );
    const query = `{ conversation(id: "${conversation.id}") { messages(${args}) { totalCount } } }`;
    expectErrors(await client.post({ query }), invalidArguments(pointer));
  });

  test.each([
    ['last: 2, after: "x", before: "y", offset: -1', ['/after', '/after', '/before', '/offset']],
    ['first: 0, last: 2, before: "y"', ['/before', '/first', '/last']],
    ['first: null, last: 0, before: "y"', ['/before', '/last']],
  ])('messages(%s) tells all that is wrong', async (args, pointers) => {
    const query = `{ conversation(id: "${conversation.id}") { messages(${args}) { totalCount } } }`;
    expectErrors(await client.post({ query }), invalid(...pointers));
  });

  test('attempts of a delivery tell all that is wrong', async () => {
    const other = await server.account();
    const hook = (await other.rest('POST', '/webhooks', { body: { url: 'https://example.com/hooks' } })).body;
    const delivery = (await other.rest('POST', `/webhooks/${hook.id}/test`)).body;
    const query = `{ delivery(id: "${delivery.id}") { attempts(first: 0, after: "x") { totalCount } } }`;
    expectErrors(await other.post({ query }), invalidArguments('/after', '/limit'));
  });

  test('a cursor of messages in the other order is refused', async () => {
    const path = `/conversations/${conversation.id}/messages`;
    expectProblem(await client.rest('GET', `${path}?after=${cursors.newestMessages}`), invalid('/after'));
    expectProblem(await client.rest('GET', `${path}?sort=-sequence&after=${cursors.messages}`), invalid('/after'));
  });

  test('a list that knows no parameters, or one thing by its id, refuses them all', async () => {
    expectProblem(await client.rest('GET', '/account?limit=1'), invalid('/limit'));
    expectProblem(await client.rest('GET', `/conversations/${conversation.id}?limit=1&id=x`), invalid('/limit', '/id'));
    expectProblem(await client.rest('DELETE', '/api-keys/key_x?force=true'), invalid('/force'));
  });

  test('offset and after are refused together, each right by itself', async () => {
    const { conversations: after } = cursors;
    expectProblem(await client.rest('GET', `/conversations?offset=1&after=${after}`), invalid('/after'));
    expectErrors(await listByVariables({ offset: 1, after }), invalid('/after'));
    expectErrors(await listByLiterals({ offset: 1, after }), invalid('/after'));
  });
});

// ── Ids ────────────────────────────────────────────────────────────────────────────────────────

describe('an id that names nothing is NOT_FOUND on both faces, and changes nothing', () => {
  const ids: [name: string, make: () => string][] = [
    ['empty', () => ''],
    ['a space', () => ' '],
    ['nonsense', () => 'x'],
    ['a prefix only', () => 'conv_'],
    ['U+0000', () => '\0'],
    ['an id and U+0000', () => `${conversation.id}\0`],
    ['an id and a space', () => `${conversation.id} `],
    ['an id in capitals', () => conversation.id.toUpperCase()],
    ['another prefix', () => conversation.id.replace('conv_', 'msg_')],
    ['a message’s', () => conversation.messages[0].id],
    ['an account’s', () => client.account.id],
    ['one that nobody has', () => 'conv_01m7yzcf3tfz1aan3df712nas7'],
    ['SQL', () => "' OR 1=1 --"],
    ['a pattern', () => 'conv_%'],
    ['10 kB', () => 'conv_'.padEnd(10_000, '0')],
    ['another script', () => 'conv_📦'],
    ['__proto__', () => '__proto__'],
  ];

  test.each(ids)('%s', async (_, make) => {
    const id = make();
    const path = encodeURIComponent(id);
    const body = { content: 'x', sender: 'agent' };
    const overRest = [
      await client.rest('GET', `/conversations/${path}`),
      await client.rest('GET', `/conversations/${path}/messages`),
      await client.rest('PATCH', `/conversations/${path}`, { body: { status: 'closed' } }),
      await client.rest('POST', `/conversations/${path}/messages`, { body }),
      await client.rest('DELETE', `/api-keys/${path}`),
    ];
    for (const response of overRest) expectProblem(response, missing);

    const variables = {
      id,
      input: { id },
      update: { id, subject: 'x' },
      message: { conversationId: id, content: 'x', sender: 'AGENT' },
    };
    const overGraphQL: [query: string, type: string][] = [
      ['query ($id: ID!) { conversation(id: $id) { id } }', 'conversation'],
      ['mutation ($update: UpdateConversationInput!) { updateConversation(input: $update) { eventCursor } }', 'update'],
      ['mutation ($input: CloseConversationInput!) { closeConversation(input: $input) { eventCursor } }', 'close'],
      ['mutation ($input: ReopenConversationInput!) { reopenConversation(input: $input) { eventCursor } }', 'reopen'],
      ['mutation ($message: SendMessageInput!) { sendMessage(input: $message) { eventCursor } }', 'send'],
      ['mutation ($input: RevokeApiKeyInput!) { revokeApiKey(input: $input) { eventCursor } }', 'revoke'],
    ];
    for (const [query] of overGraphQL) {
      const response = await client.post({ query, variables });
      expectErrors(response, missing);
      expect(Object.values(response.body.data)).toEqual([null]);
    }
    const nodes = await client.post({
      query: 'query ($id: ID!) { node(id: $id) { id } nodes(ids: [$id]) { id } }',
      variables,
    });
    const found = [client.account.id, ...conversation.messages.map((message: Json) => message.id)];
    if (!found.includes(id)) {
      expect(nodes.body).toEqual({ data: { node: null, nodes: [null] } });
    }
  });

  test('a lone surrogate, which only GraphQL can be given', async () => {
    const query = 'query ($id: ID!) { conversation(id: $id) { id } }';
    expectErrors(await client.post(`{"query":${JSON.stringify(query)},"variables":{"id":"\\ud800"}}`), missing);
  });

  test.each(['{}', '[]', '["x","y"]', 'true', '1.5', 'null'])('an id of %s is VALIDATION_FAILED', async (id) => {
    const query = 'query ($id: ID!) { conversation(id: $id) { id } }';
    const response = await client.post(`{"query":${JSON.stringify(query)},"variables":{"id":${id}}}`);
    expectErrors(response, invalid('/id'));
  });
});

// ── What only GraphQL has ──────────────────────────────────────────────────────────────────────

describe('variables', () => {
  const query = 'mutation ($input: CreateConversationInput!) { createConversation(input: $input) { eventCursor } }';
  const send = (variables: string): Promise<RestResponse> =>
    client.post(`{"query":${JSON.stringify(query)},"variables":${variables}}`);

  test.each([
    ['none', '{}'],
    ['no variables at all', 'null'],
    ['null', '{"input":null}'],
    ['a list', '{"input":[]}'],
    ['a text', '{"input":"x"}'],
    ['a number', '{"input":1}'],
    ['one under __proto__', '{"__proto__":{"input":{}}}'],
    ['one of another name', '{"Input":{}}'],
  ])('in place of an input: %s', async (_, variables) => {
    expectErrors(await send(variables), invalid('/input'));
  });

  test.each(['"x"', '[]', '1', 'true', nested(100_000)])('that are no object', async (variables) => {
    const response = await send(variables);
    expect(response.status).toBe(400);
    expect(response.body.errors[0].extensions.code).toBe('BAD_REQUEST');
  });

  test('point to where they are used, whatever their names are', async () => {
    const inner = `mutation ($a: String, $b: [Scope!], $c: String) {
      createConversation(input: {subject: $a, visitor: {name: $c}}) { eventCursor }
      createApiKey(input: {name: "x", scopes: $b}) { eventCursor }
    }`;
    const response = await client.post({ query: inner, variables: { a: 1, b: ['x'], c: [] } });
    expectErrors(response, invalidInput('/subject', '/scopes/0', '/visitor/name'));
  });

  test('do not get back into the answer: they may be a megabyte, or what nobody else may read', async () => {
    const response = await send(
      `{"input":{"subject":"my secret","message":{"content":"${'secret '.repeat(10_000)}"}}}`,
    );
    expectErrors(response, invalidInput('/message/content', '/message/sender'));
    expect(JSON.stringify(response.body)).not.toContain('secret');
  });
});

describe('values that are written into the document', () => {
  const literals: [fields: string, ...pointers: string[]][] = [
    ['subject: 5', '/subject'],
    ['subject: ["x"]', '/subject'],
    ['subject: {}', '/subject'],
    ['subject: ACTIVE', '/subject'],
    ['status: "ACTIVE"', '/status'],
    ['status: active', '/status'],
    ['visitor: "x"', '/visitor'],
    ['visitor: {name: 5}', '/visitor/name'],
    ['visitor: {phone: "x"}', '/visitor/phone'],
    ['unknown: 1', '/unknown'],
    ['__proto__: {subject: "x"}', '/__proto__'],
    ['constructor: {prototype: 1}', '/constructor'],
    ['message: {sender: AGENT}', '/message/content'],
    ['message: {content: "x"}', '/message/sender'],
    ['message: {content: null, sender: AGENT}', '/message/content'],
    ['message: {content: " ", sender: AGENT}', '/message/content'],
    ['message: {content: "x", sender: AGENT, author: {id: 1}}', '/message/author/id'],
    ['metadata: 5', '/metadata'],
    ['metadata: [1]', '/metadata'],
    ['metadata: {a: null, b: [1], c: {}}', '/metadata/a', '/metadata/b', '/metadata/c'],
    ['metadata: {__proto__: 1}', '/metadata/__proto__'],
    ['metadata: {a: 1e999}', '/metadata/a'],
    [`metadata: {a: ${nested(900)}}`, '/metadata/a'],
    [`metadata: ${keys(51, '1').replaceAll('"', '')}`, '/metadata'],
    [`subject: "${'x'.repeat(201)}"`, '/subject'],
    ['subject: "\\u0000"', '/subject'],
    ['subject: """\n  two\n  lines\n"""', '/subject'],
    [`subject: ${nested(900)}`, '/subject'],
  ];
  const named = literals.map(([fields, ...pointers]) => ({ name: fields.slice(0, 60), fields, pointers }));
  test.each(named)('$name', async ({ fields, pointers }) => {
    const query = `mutation { createConversation(input: {${fields}}) { eventCursor } }`;
    expectErrors(await client.post({ query }), invalidInput(...pointers));
  });

  test('each fault is an error of its own', async () => {
    const query = 'mutation { createConversation(input: {subject: 5, a: 1, message: {}}) { eventCursor } }';
    const { body } = await client.post({ query });
    const told = body.errors.map(({ extensions }: Json) => `${extensions.code} ${extensions.errors[0].pointer}`);
    expect(told.toSorted()).toEqual([
      'VALIDATION_FAILED /input/a',
      'VALIDATION_FAILED /input/message/content',
      'VALIDATION_FAILED /input/subject',
    ]);
  });

  test('a long document is not sent back fifty times', async () => {
    const unknown = Array.from({ length: 90 }, (_, index) => `u${index}: 1`).join(' ');
    const query = `mutation { createConversation(input: {subject: "${'x'.repeat(100_000)}" ${unknown}}) { eventCursor } }`;
    const { body } = await client.post({ query });
    expect(new Set(body.errors.map((error: Json) => error.extensions.code))).toEqual(new Set(['VALIDATION_FAILED']));
    expect(JSON.stringify(body).length).toBeLessThan(200_000);
  });

  test.each(['\\ud800', '\\udc00', '\\udce6\\ud83d', '\\u{110000}', '\\u{d800}'])(
    'the escape %s is no character, and BAD_REQUEST',
    async (written) => {
      const query = `mutation { createConversation(input: {subject: "${written}"}) { eventCursor } }`;
      expectErrors(await client.post({ query }), { code: 'BAD_REQUEST', pointers: [] });
    },
  );
});

// ── The other side of each bound ───────────────────────────────────────────────────────────────

describe('what is just within the bounds is taken', () => {
  let other: TestAccount;
  beforeAll(async () => {
    other = await server.account();
  });

  const longest = '📦'.repeat(16_384);
  test('16,384 characters beyond the BMP, on both faces', async () => {
    const body = { message: { content: longest, sender: 'visitor' } };
    const created = await other.rest('POST', '/conversations', { body });
    expect(created.body.messages[0].content).toBe(longest);
    const query = `mutation { sendMessage(input: {conversationId: "${created.body.id}", sender: AGENT, content: "${longest}"}) { message { content } } }`;
    const { data } = await other.graphql(query);
    expect(data.sendMessage.message.content).toBe(longest);
  });

  test('lines of their full length', async () => {
    const body = {
      subject: '📦'.repeat(200),
      externalId: '📦'.repeat(128),
      assignee: { id: '📦'.repeat(128), name: '📦'.repeat(128) },
      tags: Array.from({ length: 20 }, (_, index) => String.fromCharCode(97 + index) + '📦'.repeat(49)),
      visitor: { id: 'x'.repeat(128), name: 'x'.repeat(200), email: 'x'.repeat(320) },
    };
    const { status, body: created } = await other.rest('POST', '/conversations', { body });
    expect(status).toBe(201);
    expect(created).toMatchObject(body);
  });

  test('white space around and within content', async () => {
    const content = ' \tHello\r\n\u00a0world\u2028 ';
    const { body } = await other.rest('POST', '/conversations', { body: { message: { content, sender: 'bot' } } });
    expect(body.messages[0].content).toBe(content);
  });

  test('metadata of 50 keys, of 8 KiB, and of names that JavaScript knows', async () => {
    const many = JSON.parse(keys(50, 'true'));
    const large = { a: 'x'.repeat(8 * 1024 - 8) };
    const known = { constructor: 'a', prototype: 1, toString: false, hasOwnProperty: 'b', '': 0, 'a/b~c': 1 };
    for (const metadata of [many, large, known]) {
      const { body } = await other.rest('POST', '/conversations', { body: { metadata } });
      expect(body.metadata).toEqual(metadata);
      const { data } = await other.graphql('query ($id: ID!) { conversation(id: $id) { metadata } }', { id: body.id });
      expect(data.conversation.metadata).toEqual(metadata);
    }
  });

  test('metadata in a document, with variables within it', async () => {
    const { data } = await other.graphql(
      'mutation ($x: String) { createConversation(input: {metadata: {a: $x, b: 1.5, c: true, constructor: "d"}}) { conversation { metadata } } }',
      { x: 'given' },
    );
    expect(data.createConversation.conversation.metadata).toEqual({ a: 'given', b: 1.5, c: true, constructor: 'd' });
  });

  test('the largest offset gives an empty page, on both faces', async () => {
    const { body } = await other.rest('GET', '/conversations?offset=2147483647');
    expect(body.data).toEqual([]);
    expect(body.pagination).toMatchObject({ offset: 2147483647, hasMore: false, nextCursor: null });
    expect(body.pagination.total).toBeGreaterThan(0);
    const { data } = await other.graphql(
      '{ conversations(offset: 2147483647) { nodes { id } pageInfo { hasNextPage } } }',
    );
    expect(data.conversations).toEqual({ nodes: [], pageInfo: { hasNextPage: false } });
    const { id } = (await other.rest('POST', '/conversations', { body: { message: { content: 'x', sender: 'bot' } } }))
      .body;
    for (const sort of ['sequence', '-sequence']) {
      const messages = await other.rest('GET', `/conversations/${id}/messages?offset=2147483647&sort=${sort}`);
      expect(messages.body.data).toEqual([]);
    }
  });

  test('the first and the last page size', async () => {
    for (const limit of [1, 100]) {
      expect((await other.rest('GET', `/conversations?limit=${limit}`)).body.pagination.limit).toBe(limit);
      expect((await other.graphql(`{ conversations(first: ${limit}) { nodes { id } } }`)).errors).toBeUndefined();
    }
  });

  test.each([
    '0000-01-01T00:00:00Z',
    '9999-12-31T23:59:59.999999999Z',
    '2024-02-29T00:00:00+14:00',
    '2026-11-21T06:12:00-00:00',
  ])('the time %s', async (time) => {
    for (const name of ['createdAfter', 'createdBefore', 'updatedAfter']) {
      expect((await other.rest('GET', `/conversations?${name}=${encodeURIComponent(time)}`)).status).toBe(200);
    }
  });

  test('a parameter that takes a list, separated by commas, repeated, or both', async () => {
    const client = await server.account();
    for (const status of ['active', 'pending']) {
      await client.rest('POST', '/conversations', { body: { status, tags: ['a', 'b & c'] } });
    }
    for (const query of [
      'status=active,pending',
      'status=active&status=pending',
      'status=active,pending&tags=a&status=closed&tags=b+%26%20c',
      'tags=a%2Cb%20%26%20c,a',
    ]) {
      expect((await client.rest('GET', `/conversations?${query}`)).body.pagination.total).toBe(2);
    }
    expect((await client.rest('GET', '/conversations?status=active&status=active')).body.pagination.total).toBe(1);
  });

  test('empty pairs in a query string, and characters that are encoded without need', async () => {
    expect((await other.rest('GET', '/conversations?&limit=1&&')).status).toBe(200);
    expect((await other.rest('GET', '/conversations?%6Cimit=%31')).body.pagination.limit).toBe(1);
    await other.rest('POST', '/conversations', { body: { externalId: 'a b+c&d=é' } });
    for (const encoded of ['a+b%2Bc%26d%3D%C3%A9', 'a%20b%2Bc%26d=%C3%A9']) {
      expect((await other.rest('GET', `/conversations?externalId=${encoded}`)).body.pagination.total).toBe(1);
    }
  });
});

test('nothing of all this has changed anything', async () => {
  // Versions, counts and the log only grow: what any of it had changed would show here.
  expect(await state()).toEqual(untouched);
});

test('nothing of all this was an error of the server’s own', () => {
  expect(server.logLines.filter(({ level }) => level !== 'info')).toEqual([]);
});
