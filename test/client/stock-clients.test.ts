import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import {
  ApolloClient,
  HttpLink,
  InMemoryCache,
  type PossibleTypesMap,
  type TypePolicies,
  type TypePolicy,
} from '@apollo/client';
import { relayStylePagination } from '@apollo/client/utilities';
import { Client, type Exchange, fetchExchange, gql, subscriptionExchange } from '@urql/core';
import { type CacheExchangeOpts, cacheExchange } from '@urql/exchange-graphcache';
import { relayPagination } from '@urql/exchange-graphcache/extras';
import { createClient, type Client as SocketClient } from 'graphql-ws';
import * as relayRuntime from 'relay-runtime';
import { expect, onTestFinished, test } from 'vitest';
import type { Json } from '../support/client.ts';
import { temporaryFolder } from '../support/files.ts';
import { runGuide } from '../support/guide.ts';
import { cacheSettings, impatient } from '../support/inbox.ts';
import { compileForRelay } from '../support/relay.ts';
import { awkwardText } from '../support/samples.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

// What the GUIDE shows of each stock client, against a server.

const root = new URL('../../', import.meta.url);

async function startService(options: Parameters<typeof startTestServer>[0] = {}) {
  const server = await startTestServer(options);
  onTestFinished(() => server.close());
  return { server, account: await server.account() };
}

/** Runs a block of the GUIDE with what every page has. */
async function page<Result>(
  { url }: Pick<TestServer, 'url'>,
  heading: string,
  result: string,
  modules: Readonly<Record<string, object>>,
  globals: Readonly<Record<string, unknown>>,
): Promise<Result> {
  return await runGuide<Result>(heading, result, modules, globals, (code) =>
    impatient(code)
      .replaceAll('http://127.0.0.1:4000', url)
      .replaceAll('ws://127.0.0.1:4000', url.replace('http', 'ws')),
  );
}

const write = (account: Pick<TestAccount, 'rest'>, id: string, content: string) =>
  account.rest('POST', `/conversations/${id}/messages`, { body: { sender: 'visitor', content } });

const authorized = (secret: string) => async () => `Bearer ${secret}`;

/** An account of which nothing is left. */
async function spentAccount(server: TestServer): Promise<TestAccount> {
  const account = await server.account({ requestsPerHour: 1 });
  await account.rest('GET', '/account');
  return account;
}

const listQuery = gql`query List($after: String) {
  conversations(first: 2, after: $after, sort: CREATED_AT_ASC) {
    edges { node { id subject } } pageInfo { endCursor hasNextPage }
  }
}`;
const subjectsOf = ({ conversations }: Json): string[] => conversations.edges.map(({ node }: Json) => node.subject);

async function threeConversations({ rest }: TestAccount): Promise<void> {
  for (const subject of ['One', 'Two', 'Three']) await rest('POST', '/conversations', { body: { subject } });
}

test('with the policy that the GUIDE shows, the pages of a list are one in Apollo’s cache', async () => {
  const { server, account } = await startService();
  await threeConversations(account);
  const { Query } = await page<{ Query: TypePolicy }>(
    server,
    'Apollo Client',
    '{ Query }',
    { '@apollo/client/utilities': { relayStylePagination } },
    {},
  );
  const settings = await cacheSettings<{ possibleTypes: PossibleTypesMap; typePolicies: TypePolicies }>(
    '{ possibleTypes, typePolicies }',
  );
  const { possibleTypes, typePolicies } = settings;
  const client = new ApolloClient({
    cache: new InMemoryCache({ possibleTypes, typePolicies: { ...typePolicies, Query } }),
    link: new HttpLink({ uri: `${server.url}/graphql`, headers: { authorization: `Bearer ${account.secret}` } }),
  });
  const { data } = await client.query<Json>({ query: listQuery });
  const list = client.watchQuery<Json>({ query: listQuery });
  const watching = list.subscribe(() => {});
  onTestFinished(() => watching.unsubscribe());
  expect(subjectsOf(data)).toEqual(['One', 'Two']);
  await list.fetchMore({ variables: { after: data.conversations.pageInfo.endCursor } });
  expect(subjectsOf(client.readQuery<Json>({ query: listQuery }))).toEqual(['One', 'Two', 'Three']);
});

test('with the resolver that the GUIDE names, the pages of a list are one in Graphcache', async () => {
  const { server, account } = await startService();
  await threeConversations(account);
  const settings = await cacheSettings<CacheExchangeOpts>('{ schema: introspection, keys }');
  const client = new Client({
    url: `${server.url}/graphql`,
    fetchOptions: { headers: { authorization: `Bearer ${account.secret}` } },
    exchanges: [
      cacheExchange({ ...settings, resolvers: { Query: { conversations: relayPagination() } } }),
      fetchExchange,
    ],
  });
  const { data } = await client.query(listQuery, {}).toPromise();
  const { endCursor } = data.conversations.pageInfo;
  const both = await client.query(listQuery, { after: endCursor }).toPromise();
  expect(subjectsOf(both.data)).toEqual(['One', 'Two', 'Three']);
});

test('urql, as the GUIDE sets it up, reads by GET, follows events across a lost connection, and says how long to wait at 429', async () => {
  const { server, account } = await startService();
  const { id } = (await account.rest('POST', '/conversations', { body: { subject: 'Parcel' } })).body;
  const methods: string[] = [];
  const open = async (secret: string) => {
    const graphcache = await cacheSettings<Exchange>('graphcache');
    const made = await page<{ client: Client; socket: SocketClient; waitOf(result: Json): number | undefined }>(
      server,
      'urql',
      '{ client, socket, waitOf }',
      { '@urql/core': { Client, fetchExchange, subscriptionExchange }, 'graphql-ws': { createClient } },
      {
        graphcache,
        authorization: authorized(secret),
        fetch: (url: string, init: RequestInit = {}) => {
          methods.push(init.method ?? 'GET');
          return fetch(url, init);
        },
      },
    );
    onTestFinished(() => made.socket.dispose());
    return made;
  };
  const { client, socket, waitOf } = await open(account.secret);
  const query = gql`query ($id: ID!) { eventCursor conversation(id: $id) { id subject messageCount } }`;
  const first = await client.query(query, { id }).toPromise();
  expect([first.error, first.data.conversation.subject, waitOf(first)]).toEqual([undefined, 'Parcel', undefined]);
  const change = gql`mutation ($input: UpdateConversationInput!) { updateConversation(input: $input) { eventCursor } }`;
  await client.mutation(change, { input: { id, subject: 'Parcel 1042' } }).toPromise();
  expect(methods).toEqual(['GET', 'POST']);

  const received: string[] = [];
  const live = gql`subscription ($after: String) {
    event: messageReceived(after: $after) { cursor message { id content } conversation { current { id messageCount } } }
  }`;
  client.subscription(live, { after: first.data.eventCursor }).subscribe(({ data, error }) => {
    received.push(error ? String(error) : data.event.message.content);
  });
  await write(account, id, 'One');
  await until(() => received.length === 1);
  socket.terminate();
  await write(account, id, 'Two');
  await until(() => received.length === 2);
  expect(received).toEqual(['One', 'Two']);
  const cached = () => client.readQuery(query, { id }, { requestPolicy: 'cache-only' })?.data.conversation;
  expect(cached()).toMatchObject({ subject: 'Parcel', messageCount: 2 });

  const spent = await open((await spentAccount(server)).secret);
  const limited = await spent.client.query(query, { id }).toPromise();
  expect(limited.error?.response.status).toBe(429);
  expect(spent.waitOf(limited)).toBe(Number(limited.error?.response.headers.get('Retry-After')));
  const refused = new Promise<Json>((resolve) => {
    spent.client.subscription(live, { after: null }).subscribe(resolve);
  });
  expect(spent.waitOf(await refused)).toBeGreaterThan(0);
});

test('Relay, with the environment that the GUIDE shows, calls documents by their ids, follows events across a lost connection, and learns at 429 how long to wait', async () => {
  const { server, account } = await startService();
  const { id } = (await account.rest('POST', '/conversations', { body: { subject: 'Parcel' } })).body;
  /** A document as the compiler leaves it, and as `documents push` registers it. */
  const persisted = async (text: string) => {
    const request = compileForRelay(gql(text));
    const documentId = createHash('md5').update(text).digest('hex');
    await account.rest('POST', '/documents', { body: { documents: [{ id: documentId, text }] } });
    return { ...request, params: { ...request.params, id: documentId, text: null } } as relayRuntime.GraphQLTaggedNode;
  };
  const open = async (secret: string) => {
    const made = await page<{ environment: relayRuntime.Environment; socket: SocketClient }>(
      server,
      'Relay',
      '{ environment, socket }',
      { 'graphql-ws': { createClient }, 'relay-runtime': relayRuntime },
      { authorization: authorized(secret) },
    );
    onTestFinished(() => made.socket.dispose());
    return made;
  };
  const { environment, socket } = await open(account.secret);
  const query = await persisted('query Read($id: ID!) { eventCursor conversation(id: $id) { id subject } }');
  const read = await relayRuntime.fetchQuery(environment, query, { id }).toPromise();
  expect(read).toMatchObject({ conversation: { id, subject: 'Parcel' } });

  const received: string[] = [];
  const live = await persisted(
    'subscription Live($after: String) { event: messageReceived(after: $after) { cursor message { id content } } }',
  );
  const subscription = relayRuntime.requestSubscription(environment, {
    subscription: live,
    variables: { after: (read as Json).eventCursor },
    onNext: (data) => received.push((data as Json).event.message.content),
  });
  await write(account, id, 'One');
  await until(() => received.length === 1);
  socket.terminate();
  await write(account, id, 'Two');
  await until(() => received.length === 2);
  subscription.dispose();
  expect(received).toEqual(['One', 'Two']);

  const { environment: spent } = await open((await spentAccount(server)).secret);
  const refusals: Json[] = [
    await relayRuntime
      .fetchQuery(spent, query, { id })
      .toPromise()
      .catch((reason: Json) => reason),
    await new Promise((onError) => {
      relayRuntime.requestSubscription(spent, { subscription: live, variables: {}, onError });
    }),
  ];
  for (const { source } of refusals) {
    expect(source.errors[0].extensions).toMatchObject({
      code: 'RATE_LIMITED',
      retryAfterSeconds: expect.any(Number),
    });
  }
});

test('openapi-fetch, as the GUIDE sets it up, sends lists with commas, waits at 429, and tells errors by their code', async () => {
  const { server } = await startService();
  const account = await server.account({ requestsPerHour: 10 });
  for (const status of ['active', 'pending']) await account.rest('POST', '/conversations', { body: { status } });
  const { default: create } = createRequire(new URL('test/clients/typescript-5/package.json', root))(
    'openapi-fetch',
  ) as Json;
  const waitsMs: number[] = [];
  const { list } = await page<{ list(query: object): Promise<Json> }>(
    server,
    'openapi-fetch',
    '{ list }',
    { 'openapi-fetch': { default: create } },
    {
      authorization: authorized(account.secret),
      // The page's time is the server's.
      setTimeout: (go: () => void, ms: number) => {
        waitsMs.push(ms);
        server.clock.advance(ms);
        setImmediate(go);
      },
    },
  );
  expect((await list({ status: ['active', 'pending'] })).data).toHaveLength(2);
  await expect(list({ status: ['open'] })).rejects.toMatchObject({ code: 'VALIDATION_FAILED' });
  while ((await account.rest('GET', '/account')).status === 200);
  expect((await list({ status: ['pending'] })).data).toHaveLength(1);
  expect(waitsMs.length).toBeGreaterThan(0);
});

test('openapi-fetch, as the GUIDE sets it up, waits for 5 s where a proxy does not say in seconds for how long', async () => {
  const headers = [{}, { 'Retry-After': 'Sun, 29 Nov 2026 08:30:00 GMT' }];
  const proxy = createServer((_, response) => {
    const refused = headers.shift();
    if (refused) response.writeHead(503, { 'Content-Type': 'application/json', ...refused }).end('{}');
    else response.writeHead(200, { 'Content-Type': 'application/json' }).end('{ "data": [] }');
  });
  await new Promise<void>((listening) => proxy.listen(0, '127.0.0.1', listening));
  onTestFinished(() => void proxy.close());
  const { default: create } = createRequire(new URL('test/clients/typescript-5/package.json', root))(
    'openapi-fetch',
  ) as Json;
  const waitsMs: number[] = [];
  const setTimeout = (go: () => void, ms: number) => {
    waitsMs.push(ms);
    setImmediate(go);
  };
  const { list } = await page<{ list(query: object): Promise<Json> }>(
    { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` },
    'openapi-fetch',
    '{ list }',
    { 'openapi-fetch': { default: create } },
    { authorization: authorized('a token'), setTimeout },
  );
  expect(await list({})).toEqual({ data: [] });
  expect(waitsMs).toEqual([5_000, 5_000]);
});

test('the page that the GUIDE makes of fetch alone follows events across a restart behind a proxy, and ends where it must read anew', async () => {
  const databasePath = `${temporaryFolder()}/test.db`;
  const { server, account } = await startService({ databasePath });
  const { id } = (await account.rest('POST', '/conversations')).body;
  const { follow } = await page<{ follow(after?: string): AsyncGenerator<Json> }>(
    server,
    'Event streams with fetch alone',
    '{ follow }',
    {},
    { authorization: authorized(account.secret), setTimeout: (go: () => void) => setTimeout(go, 20) },
  );
  const { eventCursor } = (await account.rest('GET', '/account')).body;
  const events = follow(eventCursor);
  const next = async () => (await events.next()).value.data.message.content;
  await write(account, id, 'One');
  expect(await next()).toBe('One');
  await server.close();
  const { port } = new URL(server.url);
  let asked = 0;
  const proxy = createServer((_, response) => {
    asked++;
    response.writeHead(502, { 'Content-Type': 'text/html' }).end('<h1>Bad Gateway</h1>');
  }).listen(Number(port));
  const following = next();
  await Promise.race([following, until(() => asked > 1)]);
  proxy.closeAllConnections();
  await new Promise((closed) => proxy.close(closed));
  const again = await startTestServer({ databasePath, clock: server.clock, config: { port: Number(port) } });
  onTestFinished(() => again.close());
  await write(again.clientFor(account.secret), id, awkwardText);
  expect(await following).toBe(awkwardText);
  await events.return(undefined);

  const fromNow = follow();
  const first = fromNow.next();
  let isGiven = false;
  const given = (): void => {
    isGiven = true;
  };
  first.then(given, given);
  while (!isGiven) await write(again.clientFor(account.secret), id, 'Three'); // until it listens
  expect((await first).value.data.message.content).toBe('Three');
  await fromNow.return(undefined);

  again.clock.advance(1);
  await again.app.ports.storage.write(async (tx) => await tx.events.prune(again.clock.now(), 10_000));
  await expect(follow(eventCursor).next()).rejects.toThrow('CURSOR_EXPIRED');
});

test.each([
  ['Types of documents', ['typescript-5/gql-tada.ts', 'codegen/codegen.config.mjs']],
  ['hey-api', Array(3).fill('typescript-5/hey-api.ts')],
])('what the GUIDE shows of TypeScript under “%s” is in the programs that are run', (heading, programs) => {
  const guide = readFileSync(fileURLToPath(new URL('GUIDE.md', root)), 'utf8');
  const [, section = ''] = guide.split(`\n### ${heading}\n`);
  const blocks = [...(section.split(/^#{1,3} /m)[0] ?? '').matchAll(/^```ts\n([\s\S]*?)^```\n/gm)];
  expect(blocks).toHaveLength(programs.length);
  for (const [index, program] of programs.entries()) {
    expect(readFileSync(fileURLToPath(new URL(`test/clients/${program}`, root)), 'utf8')).toContain(blocks[index]?.[1]);
  }
});
