import { ApolloClient, ApolloLink, gql, InMemoryCache, Observable, type TypePolicies } from '@apollo/client';
import { createClient, fetchExchange, mapExchange } from '@urql/core';
import { cacheExchange } from '@urql/exchange-graphcache';
import { createClient as createSocketClient, type Client as SocketClient } from 'graphql-ws';
import { map } from 'rxjs';
import { describe, expect, onTestFinished, test } from 'vitest';
import * as own from '../../src/client/index.ts';
import type { Json } from '../support/client.ts';
import { runGuide } from '../support/guide.ts';
import { cacheSettings, fetchOfPage } from '../support/inbox.ts';
import { startTestServer } from '../support/server.ts';

test('what the GUIDE shows of the client works', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const account = await server.account();
  await account.rest('POST', '/conversations', { body: { status: 'pending', subject: 'Waiting' } });
  const shown: unknown[][] = [];
  const scopes = ['conversations:read', 'conversations:write', 'events:read'];
  await runGuide(
    'A client for TypeScript',
    'undefined',
    { 'conversation-service/client': own },
    {
      fetch: fetchOfPage(server.url, account.secret, '/agent-token', { scopes }),
      show: (...all: unknown[]) => shown.push(all),
    },
    (code) => code.replace('http://127.0.0.1:4000', server.url),
  );
  expect(shown).toEqual([
    [expect.stringMatching(/^conv_/), 'Parcel 1042'],
    [expect.stringMatching(/^conv_/), 'Waiting'],
    [expect.any(String), 'It is on its way.'],
  ]);
});

test('what the GUIDE shows of live events over a socket works', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const account = await server.account();
  let client: SocketClient | undefined;
  const create: typeof createSocketClient = (options) => {
    client = createSocketClient(options);
    return client;
  };
  const shown: unknown[] = [];
  const running = runGuide(
    'Live events',
    'undefined',
    { 'graphql-ws': { createClient: create } },
    {
      fetch: fetchOfPage(server.url, account.secret, '/chat-token', { scopes: ['conversations:read', 'events:read'] }),
      show: (event: unknown) => {
        shown.push(event);
        void client?.dispose();
      },
    },
    (code) => code.replace('ws://127.0.0.1:4000', server.url.replace('http', 'ws')),
  );
  const message = { sender: 'visitor', content: 'Hello' };
  const { id } = (await account.rest('POST', '/conversations', { body: { subject: 'Parcel 1042' } })).body;
  // Until the page listens; it begins at whatever was the last event then.
  while (shown.length === 0) await account.rest('POST', `/conversations/${id}/messages`, { body: message });
  await running;
  expect(shown[0]).toEqual({
    cursor: expect.any(String),
    message: { content: 'Hello' },
    conversation: { conversationId: id, subject: 'Parcel 1042' },
  });
});

// What a cache holds in the end, of two questions about a conversation: the answer to the second is of the older version.
const questions = [
  'query A { conversation(id: "c1") { __typename id version status visitor { __typename name } } }',
  `query B { late: conversation(id: "c1") {
    __typename id version state: status tags visitor { __typename who: name email }
  } }`,
] as const;
const conversation = (version: number, fields: object) => ({
  __typename: 'Conversation',
  id: 'c1',
  version,
  ...fields,
});
const visitor = (fields: object) => ({ visitor: { __typename: 'Visitor', ...fields } });
const email = 'ada@example.com';
const answersOf = () => [
  { data: { conversation: conversation(2, { status: 'CLOSED', ...visitor({ name: 'Ada' }) }) } },
  { data: { late: conversation(1, { state: 'ACTIVE', tags: ['a'], ...visitor({ who: 'Ada', email }) }) } },
];
const allOf = (version: number, status: string) => ({
  first: conversation(version, { status, ...visitor({ name: 'Ada' }) }),
  second: conversation(version, { state: status, tags: ['a'], ...visitor({ who: 'Ada', email }) }),
});

interface Given {
  readonly guard: <T>(data: T, document?: own.ParsedDocument) => T;
}

describe.each([
  ['Apollo’s', showInApollo],
  ['urql’s', showInUrql],
] as const)('with the guard, %s cache', (_, show) => {
  test('keeps the newer version of what an older answer repeats, under an alias, and gets what only that has', async () => {
    expect(await show({ guard: (data) => data })).toMatchObject({ first: { version: 1, status: 'ACTIVE' } });
    expect(await show({ guard: own.newestOnly() })).toEqual(allOf(2, 'CLOSED'));
  });
});

async function showInApollo({ guard }: Given) {
  const answers = answersOf();
  const network = new ApolloLink(
    () =>
      new Observable((observer) => {
        observer.next(answers.shift() ?? {});
        observer.complete();
      }),
  );
  const guarded = new ApolloLink((operation, forward) =>
    forward(operation).pipe(map((result) => ({ ...result, data: guard(result.data ?? null, operation.query) }))),
  );
  const { typePolicies } = await cacheSettings<{ typePolicies: TypePolicies }>('{ typePolicies }');
  const cache = new InMemoryCache({ typePolicies });
  const client = new ApolloClient({ cache, link: guarded.concat(network) });
  for (const query of questions) await client.query({ query: gql(query), fetchPolicy: 'network-only' });
  const [first, second] = questions.map((query) => cache.readQuery<Json>({ query: gql(query) }));
  return { first: first?.conversation, second: second?.late };
}

async function showInUrql({ guard }: Given) {
  const answers = answersOf();
  const client = createClient({
    url: 'http://service.example/graphql',
    preferGetMethod: false,
    exchanges: [
      cacheExchange({ keys: { Visitor: () => null } }),
      mapExchange({ onResult: (result) => ({ ...result, data: guard(result.data, result.operation.query) }) }),
      fetchExchange,
    ],
    fetch: async () =>
      new Response(JSON.stringify(answers.shift()), { headers: { 'Content-Type': 'application/json' } }),
  });
  for (const query of questions) await client.query(query, {}, { requestPolicy: 'network-only' }).toPromise();
  const [first, second] = await Promise.all(
    questions.map((query) => client.query(query, {}, { requestPolicy: 'cache-only' }).toPromise()),
  );
  return { first: first?.data?.conversation, second: second?.data?.late };
}
