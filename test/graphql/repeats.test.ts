import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../support/client.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// Validation compares each place that selects a name of the response with each other one, so repeats are counted before.

let server: TestServer;
let client: TestAccount;
beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
});
afterAll(() => server.close());

const many = (count: number, made: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => made(index)).join(' ');

async function errorOf(query: string): Promise<Json> {
  const { status, body } = await client.post({ query }, { headers: { accept: 'application/graphql-response+json' } });
  expect([200, 400]).toContain(status);
  return body.errors?.[0];
}

/** Ways to select `id` of the account so often. */
const ways: [name: string, query: (count: number) => string][] = [
  ['in one selection set', (count) => `{ account { ${many(count, () => 'id')} } }`],
  ['by selecting the account again', (count) => `{ ${many(count, () => 'account { id }')} }`],
  ['in sets of two', (count) => `{ ${many(count / 2, () => 'account { id id }')} }`],
  ['in inline fragments', (count) => `{ account { ${many(count, () => '... { id }')} } }`],
  ['in nested inline fragments', (count) => `{ account { ${'... { id '.repeat(count)}${'}'.repeat(count)} } }`],
  [
    'in as many fragments',
    (count) =>
      `{ account { ${many(count, (i) => `...F${i}`)} } } ${many(count, (i) => `fragment F${i} on Account { id }`)}`,
  ],
  [
    'in fragments of fragments',
    (count) =>
      `{ account { ...F1 } } ${many(count, (i) => `fragment F${i + 1} on Account { id ...F${i + 2} }`)} fragment F${count + 1} on Account { name }`,
  ],
  [
    'in fragments in accounts',
    (
      count,
    ) => `{ ${many(count / 2, () => 'account { ...F id }')} ${many(count / 2, () => '...G')} ${many(count / 2 - 1, (i) => `...G${i}`)} }
      fragment F on Account { id } ${many(count / 2 - 1, (i) => `fragment G${i} on Query { account { id } }`)}
      fragment G on Query { account { name } }`,
  ],
  ['as another operation', (count) => `query A { account { ${many(count, () => 'id')} } } query B { account { id } }`],
  [
    'in a fragment that nobody spreads',
    (count) => `{ account { id } } fragment F on Account { ${many(count, () => 'id')} }`,
  ],
];

describe.each(ways)('a name of the response, selected %s', (_, query) => {
  test('is allowed 20 times, and not more often', async () => {
    expect((await errorOf(query(20)))?.extensions.code).not.toBe('QUERY_TOO_COMPLEX');
    const { message, extensions } = await errorOf(query(22));
    expect(extensions.code).toBe('QUERY_TOO_COMPLEX');
    expect(message).toMatch(/^`(?:id|account)` is selected 2\d times in one selection set; at most 20 are allowed\.$/);
  });
});

test('a fragment counts once in a selection set, however often it is spread there', async () => {
  expect(await errorOf(`{ account { ${many(100, () => '...F')} } } fragment F on Account { id }`)).toBeUndefined();
});

test('names in different places are not the same', async () => {
  const query = `{ ${many(40, (i) => `a${i}: account { id ...F }`)} } fragment F on Account { id }`;
  expect(await errorOf(query)).toBeUndefined();
});

test('a document with more than 10,000 fields, once its fragments are in place, is refused', async () => {
  const nested = (count: number) =>
    `{ ${many(count, (i) => `a${i}: account { ...F }`)} } fragment F on Account { ${many(100, (i) => `b${i}: id`)} }`;
  expect(await errorOf(nested(95))).toBeUndefined();
  expect((await errorOf(nested(100))).extensions.code).toBe('QUERY_TOO_COMPLEX');
});

test.each([
  ['more than 2,000 lines', `${'\n'.repeat(2_000)}{ account { id } }`, 'at most 2,000 lines'],
  ['more than 2,000 comments', `${'#\n'.repeat(2_000)}{ account { id } }`, 'at most 2,000 lines'],
  ['more than 128 KiB', `{ account { id } }${' '.repeat(131_072)}`, 'at most 131,072 characters'],
  ['more than 2,000 tokens', `{ ${many(667, (i) => `a${i}: __typename`)} }`, 'at most 2,000 tokens'],
])('a document of %s is refused, with the limit', async (_, query, limit) => {
  const { message, extensions } = await errorOf(query);
  expect(extensions.code).toBe('QUERY_TOO_COMPLEX');
  expect(message).toContain(limit);
});

test('a syntax error at the beginning of a long document is a syntax error', async () => {
  const { message, extensions } = await errorOf(`{ ] ${many(2_000, (i) => `a${i}`)} }`);
  expect(extensions.code).toBe('BAD_REQUEST');
  expect(message).toContain('Syntax Error');
});

test('fragments that contain themselves are told apart from what is too large', async () => {
  const direct = '{ account { ...A } } fragment A on Account { ...B } fragment B on Account { ...A }';
  expect((await errorOf(direct)).extensions.code).toBe('VALIDATION_FAILED');
  const below =
    '{ conversations { nodes { ...A } } } fragment A on Conversation { messages { nodes { conversation { ...A } } } }';
  expect((await errorOf(below)).message).toContain('within itself');
});
