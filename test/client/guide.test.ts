import { ApolloClient, ApolloLink, gql, InMemoryCache, Observable } from '@apollo/client';
import { createClient, fetchExchange, mapExchange } from '@urql/core';
import { cacheExchange } from '@urql/exchange-graphcache';
import { createClient as createSocketClient, type Client as SocketClient } from 'graphql-ws';
import { map } from 'rxjs';
import { expect, onTestFinished, test } from 'vitest';
import * as own from '../../src/client/index.ts';
import { runGuide } from '../support/guide.ts';
import { fetchOfPage } from '../support/inbox.ts';
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

const query = 'query Q($late: Boolean) { conversation(id: "c1") { __typename id version status } }';
const answer = (version: number, status: string) => ({
  data: { conversation: { __typename: 'Conversation', id: 'c1', version, status } },
});
const newer = answer(2, 'CLOSED');
const older = answer(1, 'ACTIVE');

// Two answers to the same question: the older one arrives last.

test('with the guard, Apollo’s cache keeps the newer version of a conversation when an older one arrives later', async () => {
  const show = async (guard: <T>(data: T) => T) => {
    const answers = [newer, older];
    const network = new ApolloLink(
      () =>
        new Observable((observer) => {
          observer.next(answers.shift() ?? older);
          observer.complete();
        }),
    );
    const guarded = new ApolloLink((operation, forward) => forward(operation).pipe(map(guard)));
    const cache = new InMemoryCache();
    const client = new ApolloClient({ cache, link: guarded.concat(network) });
    for (const late of [false, true]) {
      await client.query({ query: gql(query), variables: { late }, fetchPolicy: 'network-only' });
    }
    return cache.extract()['Conversation:c1'];
  };
  expect(await show((data) => data)).toMatchObject({ version: 1 });
  expect(await show(own.newestOnly())).toMatchObject({ version: 2, status: 'CLOSED' });
});

test('with the guard, urql’s cache keeps the newer version of a conversation when an older one arrives later', async () => {
  const show = async (guard: <T>(data: T) => T) => {
    const answers = [newer, older];
    const client = createClient({
      url: 'http://service.example/graphql',
      preferGetMethod: false,
      exchanges: [
        cacheExchange({}),
        mapExchange({ onResult: (result) => ({ ...result, data: guard(result.data) }) }),
        fetchExchange,
      ],
      fetch: async () =>
        new Response(JSON.stringify(answers.shift()), { headers: { 'Content-Type': 'application/json' } }),
    });
    for (const late of [false, true]) {
      await client.query(query, { late }, { requestPolicy: 'network-only' }).toPromise();
    }
    const read = await client.query(query, { late: false }, { requestPolicy: 'cache-only' }).toPromise();
    return read.data.conversation;
  };
  expect(await show((data) => data)).toMatchObject({ version: 1 });
  expect(await show(own.newestOnly())).toMatchObject({ version: 2, status: 'CLOSED' });
});
