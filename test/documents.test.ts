import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Json } from './support/client.ts';
import { longestTurnMs } from './support/cpu-time.ts';
import { start } from './support/samples.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';

// What an account can register. How documents are called is in test/graphql/trusted-documents.test.ts.

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

const named = (id: string | number, text = '{ __typename }') => ({ id: `d${id}`, text });
const range = (from: number, count: number): number[] => Array.from({ length: count }, (_, index) => from + index);

async function register(client: TestAccount, documents: object[]): Promise<Json> {
  const { status, body } = await client.rest('POST', '/documents', { body: { documents } });
  return status === 200 ? body.documents : body;
}

/** Keeps as many as would be registered in many requests. */
function store({ account }: TestAccount, documents: readonly ReturnType<typeof named>[]): Promise<void> {
  return server.storage.write(async (tx) => {
    for (const each of documents) await tx.documents.insert(account.id, { ...each, createdAt: start });
  });
}

const total = async (client: TestAccount): Promise<number> =>
  (await client.rest('GET', '/documents?limit=1')).body.pagination.total;

test('an account registers 5,000 documents, and the next is QUOTA_EXCEEDED on both faces until one is deleted', async () => {
  const client = await server.account();
  await store(
    client,
    range(0, 4_900).map((id) => named(id)),
  );
  expect(
    await register(
      client,
      range(4_900, 100).map((id) => named(id)),
    ),
  ).toHaveLength(100);
  const refused = await register(client, [named(0), named(5_000)]);
  expect(refused).toMatchObject({ code: 'QUOTA_EXCEEDED', detail: expect.stringContaining('5,000') });
  const { errors } = await client.graphql(
    'mutation ($documents: [TrustedDocumentInput!]!) { registerDocuments(input: { documents: $documents }) { eventCursor } }',
    { documents: [named(5_000)] },
  );
  expect(errors).toMatchObject([{ extensions: { code: 'QUOTA_EXCEEDED' } }]);
  expect(await register(client, [named(0), named(4_999)]), 'those that are there need no room').toHaveLength(2);
  await client.rest('DELETE', '/documents/d17');
  expect(await register(client, [named(5_000)])).toHaveLength(1);
  expect(await total(client)).toBe(5_000);
});

test('an account registers 16 MiB of texts, counted in bytes of UTF-8', async () => {
  const client = await server.account();
  const largest = `#${'é'.repeat(8_191)}${'x'.repeat(1)}`; // 16 KiB
  await store(
    client,
    range(0, 1_020).map((id) => named(id, largest)),
  );
  expect(
    await register(
      client,
      range(1_020, 3).map((id) => named(id, largest)),
    ),
  ).toHaveLength(3);
  expect(await register(client, [named('short', '#'), named(1_023, largest)])).toMatchObject({
    code: 'QUOTA_EXCEEDED',
    detail: expect.stringContaining('16 MiB'),
  });
  expect(await register(client, [named(1_023, largest)])).toHaveLength(1);
  expect(await register(client, [named('short', '#')])).toMatchObject({ code: 'QUOTA_EXCEEDED' });
}, 60_000);

test('all of what is registered at once is, or nothing', async () => {
  const client = await server.account();
  await register(client, [named('known')]);
  for (const refused of [named('known', '{ eventCursor }'), named('x'.repeat(128)), { id: '', text: '{ a }' }]) {
    expect(await register(client, [named(1), refused, named(2)])).toHaveProperty('code');
  }
  expect(await total(client)).toBe(1);
});

test('of two texts that come for one id at the same time, one is registered', async () => {
  const client = await server.account();
  const answers = await Promise.all(
    range(0, 8).map((n) => register(client, [named('same', `# ${n}\n{ __typename }`)])),
  );
  const refused = answers.filter(({ code }) => code === 'ALREADY_EXISTS');
  expect(refused).toHaveLength(7);
  expect(refused[0].detail).toContain('`dsame`');
  const { data } = (await client.rest('GET', '/documents')).body;
  expect(data).toEqual(answers.find((answer) => answer.code === undefined));
});

test('an id is free again once its document is deleted', async () => {
  const client = await server.account();
  await register(client, [named('a')]);
  expect((await client.rest('DELETE', '/documents/da')).status).toBe(204);
  expect((await client.rest('DELETE', '/documents/da')).body.code).toBe('NOT_FOUND');
  expect(await register(client, [named('a', '{ eventCursor }')])).toMatchObject([{ text: '{ eventCursor }' }]);
});

test('a path that cannot be decoded names no document, not even one whose id it looks like', async () => {
  const client = await server.account();
  const ids = ['%zz', '%C3'];
  await register(
    client,
    ids.map((id) => ({ id, text: '{ __typename }' })),
  );
  for (const id of ids) {
    expect((await client.rest('DELETE', `/documents/${id}`)).body.code).toBe('NOT_FOUND');
  }
  expect(await total(client)).toBe(2);
  for (const id of ids) {
    expect((await client.rest('DELETE', `/documents/${encodeURIComponent(id)}`)).status).toBe(204);
  }
});

test('a list is continued from its cursors, newest first, also when documents come and go meanwhile', async () => {
  const client = await server.account();
  await register(
    client,
    range(0, 10).map((id) => named(id)),
  );
  const { data, pagination } = (await client.rest('GET', '/documents?limit=4')).body;
  expect(data.map(({ id }: Json) => id)).toEqual(['d9', 'd8', 'd7', 'd6']);
  expect(pagination).toMatchObject({ total: 10, hasMore: true });
  await client.rest('DELETE', '/documents/d6');
  await client.rest('DELETE', '/documents/d4');
  await register(client, [named(10)]);
  const next = (await client.rest('GET', `/documents?limit=4&after=${pagination.nextCursor}`)).body;
  expect(next.data.map(({ id }: Json) => id)).toEqual(['d5', 'd3', 'd2', 'd1']);
  const { documents } = (
    await client.graphql(
      'query ($after: String) { documents(after: $after) { nodes { id } pageInfo { hasNextPage } } }',
      {
        after: next.pagination.nextCursor,
      },
    )
  ).data;
  expect(documents).toEqual({ nodes: [{ id: 'd0' }], pageInfo: { hasNextPage: false } });
});

test('an answer that would repeat the same megabyte again and again is refused before anything is registered', async () => {
  const client = await server.account();
  const fields = range(0, 100).map(
    (index) => `m${index}: registerDocuments(input: { documents: $documents }) { documents { id text } }`,
  );
  const documents = range(0, 60).map((id) => named(id, 'x'.repeat(16_384)));
  const ask = (mutations: string[]) =>
    client.graphql(`mutation ($documents: [TrustedDocumentInput!]!) { ${mutations.join(' ')} }`, { documents });
  expect((await ask(fields)).errors).toMatchObject([{ extensions: { code: 'QUERY_TOO_COMPLEX' } }]);
  expect(await total(client)).toBe(0);
  expect((await ask(fields.slice(0, 1))).data.m0.documents).toHaveLength(60);
});

test.each<[string, (n: number) => object]>([
  [
    'ids that are not those of their texts',
    (n: number) => ({ id: n.toString(16).padStart(64, '0'), text: 'x'.repeat(9_000) }),
  ],
  ['one id for different texts', (n: number) => ({ id: 'same', text: `${n} ${'x'.repeat(9_000)}` })],
  ['texts that are too long', (n: number) => named(n, 'x'.repeat(n < 50 ? 16_385 : 100))],
  ['characters that no text may have', (n: number) => named(n, '\u0001'.repeat(1_500))],
  ['several faults each', () => ({ id: '', text: 1, ['k'.repeat(8_000)]: 1 })],
])(
  'what is wrong with a hundred documents at once is told in a hundred faults, and no step of it takes long: %s',
  async (_, made) => {
    const client = await server.account();
    const documents = range(0, 100).map(made);
    const mutation = 'registerDocuments(input: { documents: $documents }) { eventCursor }';
    const query = `mutation ($documents: [TrustedDocumentInput!]!) { ${range(0, 20).map((n) => `m${n}: ${mutation}`)} }`;
    for (const ask of [
      () => client.rest('POST', '/documents', { body: { documents } }),
      () => client.post({ query, variables: { documents } }),
    ]) {
      let leastMs = Number.POSITIVE_INFINITY;
      // One attempt may meet a collection of garbage.
      for (let attempt = 0; attempt < 3 && leastMs >= 100; attempt++) {
        const longestMs = await longestTurnMs(async () => {
          const { body } = await ask();
          const errors: Json[] = body.errors.flatMap(({ extensions, ...fault }: Json) => extensions?.errors ?? [fault]);
          expect(errors.length).toBeGreaterThan(40);
          for (const one of body.errors) expect(JSON.stringify(one.extensions ?? body).length).toBeLessThan(50_000);
        });
        leastMs = Math.min(leastMs, longestMs);
      }
      expect(leastMs).toBeLessThan(100);
    }
    expect(await total(client)).toBe(0);
  },
);
