import fc from 'fast-check';
import { type ExecutionResult, execute, parse } from 'graphql';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Caller, type Scope, scopes } from '../../src/domain/caller.ts';
import { AnswerBudget } from '../../src/graphql/answer-budget.ts';
import { OperationContext } from '../../src/graphql/context.ts';
import { Documents, PreparedDocument } from '../../src/graphql/documents.ts';
import { run } from '../../src/graphql/requests.ts';
import { schema } from '../../src/graphql/schema.ts';
import { effort } from '../support/effort.ts';
import { fillForQueries, randomQuery } from '../support/random-queries.ts';
import { seed } from '../support/seed.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// The compiled operations give what graphql-js gives: the same data, and an error for each position that one made null.

let server: TestServer;
let client: TestAccount;
const ids = { conversation: '', message: '', lead: '', webhook: '' };

beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
  Object.assign(ids, await fillForQueries(client));
  ids.webhook = (await client.rest('POST', '/webhooks', { body: { url: 'https://hooks.example.com' } })).body.id;
});
afterAll(() => server.close());

function contextFor(granted: readonly Scope[], budget = new AnswerBudget()): OperationContext {
  const caller: Caller = { account: client.account, keyId: 'test', credential: 'operator', scopes: new Set(granted) };
  return new OperationContext(server.app.ports, caller, {
    onCall: () => {},
    budget,
  });
}

type Result = Pick<ExecutionResult, 'data' | 'errors' | 'extensions'>;

async function compiled(query: string, variables: object, context: OperationContext): Promise<Result> {
  const prepared = new PreparedDocument(schema, query);
  expect(prepared.errors).toEqual([]);
  const variableValues = variables as Record<string, unknown>;
  return await run(prepared, { variableValues, contextValue: context });
}

async function interpreted(query: string, variables: object, context: OperationContext): Promise<Result> {
  const variableValues = variables as Record<string, unknown>;
  return await execute({ schema, document: parse(query), variableValues, contextValue: context });
}

/** The data in its order, and the errors by their positions. */
function comparable({ data, errors = [] }: Result) {
  const positions = errors.map(({ path, message, locations }) => JSON.stringify([path, message, locations]));
  return { data: JSON.stringify(data), errors: positions.sort() };
}

async function expectTheSame(query: string, variables: object = {}, granted: readonly Scope[] = scopes): Promise<void> {
  const ours = await compiled(query, variables, contextFor(granted));
  expect(comparable(ours), query).toEqual(comparable(await interpreted(query, variables, contextFor(granted))));
}

test('random queries have the response of graphql-js', async () => {
  await fc.assert(
    fc.asyncProperty(randomQuery(ids), fc.subarray([...scopes]), async ({ query, variables }, granted) => {
      await expectTheSame(query, variables, granted);
    }),
    { numRuns: effort(40, 5_000), seed: effort(11, seed) },
  );
}, 600_000);

test.each([
  ['introspection', '{ __schema { queryType { name } directives { name args { name defaultValue } } } }'],
  ['introspection beside data', '{ __type(name: "Account") { fields { name } } account { name } __typename }'],
  ['a deprecated field that is asked for', '{ __type(name: "Query") { fields(includeDeprecated: true) { name } } }'],
  ['merged fields', '{ account { name } account { plan } ...A } fragment A on Query { account { id } }'],
  ['a key of objects’ own', '{ __proto__: account { name } constructor: account { id } }'],
  ['errors in a list', '{ nodes(ids: ["conv_x", "nothing"]) { id } }'],
  ['an error that makes its surroundings null', '{ conversations(first: 101) { nodes { id } } account { name } }'],
  ['a page beyond the end', '{ conversations(offset: 100) { nodes { id } pageInfo { hasPreviousPage } } }'],
])('%s: the response of graphql-js', async (_, query) => {
  await expectTheSame(query);
  await expectTheSame(query, {}, []);
});

test('errors of what is not asynchronous come in the order of graphql-js', async () => {
  const query =
    '{ a: conversations(first: 0) { totalCount } b: leads(first: 0) { totalCount } c: apiKeys(first: 0) { totalCount } }';
  const [ours, theirs] = await Promise.all([
    compiled(query, {}, contextFor(scopes)),
    interpreted(query, {}, contextFor(scopes)),
  ]);
  expect(ours.errors?.map(({ path }) => path)).toEqual(theirs.errors?.map(({ path }) => path));
});

test('the fields of a mutation run one after the other', async () => {
  const query = `mutation ($id: ID!) {
    a: updateConversation(input: { id: $id, subject: "first" }) { conversation { subject version } }
    b: closeConversation(input: { id: "conv_x" }) { conversation { status } }
    c: updateConversation(input: { id: $id, subject: "second" }) { conversation { subject version } }
  }`;
  const { data, errors } = await compiled(query, { id: ids.conversation }, contextFor(scopes));
  const [a, c] = [data?.['a'], data?.['c']] as { conversation: { subject: string; version: number } }[];
  expect([a?.conversation.subject, c?.conversation.subject]).toEqual(['first', 'second']);
  expect(c?.conversation.version).toBe((a?.conversation.version ?? 0) + 1);
  expect(data?.['b']).toBeNull();
  expect(errors?.map(({ path }) => path)).toEqual([['b']]);
});

test('an operation that is compiled for some conditions is not run for others', async () => {
  const names = ['a', 'b', 'c', 'd', 'e'];
  const fields = names.map((name) => `${name}: eventCursor @include(if: $${name})`).join(' ');
  const query = `query (${names.map((name) => `$${name}: Boolean!`).join(' ')}) { ${fields} __typename }`;
  const prepared = await new Documents(schema).prepare(client, query);
  for (let bits = 0; bits < 64; bits++) {
    const variableValues = Object.fromEntries(names.map((name, index) => [name, (bits & (1 << index)) !== 0]));
    const { data } = await run(prepared, { variableValues, contextValue: contextFor(scopes) });
    const expected = [...names.filter((name) => variableValues[name]), '__typename'];
    expect(Object.keys(data ?? {})).toEqual(expected);
  }
});

const times = (count: number, field: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => field(index)).join(' ');

const codes = ({ errors = [] }: Result): unknown[] =>
  errors.map(({ originalError }) => (originalError as { code?: string } | undefined)?.code);

test('a query with more than a hundred errors is refused whole', async () => {
  const query = (count: number) => `{ ${times(count, (index) => `f${index}: conversation(id: "conv_x") { id }`)} }`;
  expect(codes(await compiled(query(100), {}, contextFor(scopes)))).toEqual(Array(100).fill('NOT_FOUND'));
  const refused = await compiled(query(101), {}, contextFor(scopes));
  expect(codes(refused)).toEqual(['QUERY_TOO_COMPLEX']);
  expect(refused.data).toBeNull();
});

test('a mutation with more errors counts the others', async () => {
  const query = `mutation { ${times(103, (index) => `f${index}: closeConversation(input: { id: "conv_x" }) { eventCursor }`)} }`;
  const { data, errors, extensions } = await compiled(query, {}, contextFor(scopes));
  expect(Object.values(data ?? {})).toEqual(Array(103).fill(null));
  expect(errors).toHaveLength(100);
  expect(extensions).toEqual({ moreErrors: 3 });
});

test('a query whose answer becomes too long is refused whole', async () => {
  const query = `{ conversation(id: "${ids.conversation}") { messages { nodes { content } } } }`;
  const refused = await compiled(query, {}, contextFor(scopes, new AnswerBudget(60)));
  expect(codes(refused)).toEqual(['QUERY_TOO_COMPLEX']);
  expect(refused.data).toBeNull();
  expect((await compiled(query, {}, contextFor(scopes, new AnswerBudget(600)))).errors).toBeUndefined();
});

test('a mutation whose answer becomes too long leaves out its edges, and never what it has done', async () => {
  const query = `mutation ($id: ID!) {
    a: sendMessage(input: { conversationId: $id, content: "one", sender: AGENT }) { ...Sent }
    b: sendMessage(input: { conversationId: $id, content: "two", sender: AGENT }) { ...Sent }
  }
  fragment Sent on SendMessagePayload {
    eventCursor message { id content } conversation { id messages { nodes { content } } }
  }`;
  const { data, errors = [] } = await compiled(
    query,
    { id: ids.conversation },
    contextFor(scopes, new AnswerBudget(500)),
  );
  const sent = ['a', 'b'].map((key) => data?.[key]) as {
    message: { id: string; content: string };
    conversation: { messages: unknown };
  }[];
  expect(sent.map(({ message }) => message.content)).toEqual(['one', 'two']);
  expect(sent.at(-1)?.conversation.messages).toBeNull();
  expect(codes({ errors })).toEqual(['QUERY_TOO_COMPLEX']);
  expect(errors[0]?.path?.slice(0, 3)).toEqual(['b', 'conversation', 'messages']);
});

test('the bytes counted are those of the JSON, but for what escapes add', async () => {
  const budget = new AnswerBudget();
  const query = `{ conversation(id: "${ids.conversation}") { id subject metadata messages { nodes { id content sequence createdAt } } } }`;
  const { data } = await compiled(query, {}, contextFor(scopes, budget));
  const bytes = Buffer.byteLength(JSON.stringify(data));
  expect(budget.bytes).toBeGreaterThan(0.9 * bytes);
  expect(budget.bytes).toBeLessThan(1.1 * bytes);
});
