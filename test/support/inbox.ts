import { ApolloClient, ApolloLink, gql, HttpLink, InMemoryCache } from '@apollo/client';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { cacheExchange } from '@urql/exchange-graphcache';
import { type IntrospectionQuery, introspectionFromSchema } from 'graphql';
import { type ClientOptions, createClient } from 'graphql-ws';
import { Environment, Network, RecordSource, Store } from 'relay-runtime';
import type { Json } from './client.ts';
import { runGuide } from './guide.ts';
import { schema } from './relay.ts';

let introspection: IntrospectionQuery | undefined;

/** The settings that the GUIDE gives to caches. Relay's environment needs what is to be in it. */
export async function cacheSettings<Result>(
  result: string,
  { network = Network.create(() => Promise.reject()), store = new Store(new RecordSource()) } = {},
): Promise<Result> {
  const modules = {
    '@apollo/client': { InMemoryCache },
    '@urql/exchange-graphcache': { cacheExchange },
    'relay-runtime': { Environment },
  };
  introspection ??= introspectionFromSchema(schema);
  return await runGuide<Result>('Events and caches', result, modules, { introspection, network, store });
}

/** The page's `fetch`, with an endpoint of the page's own server, which makes tokens with the account's key. */
export function fetchOfPage(url: string, secret: string, endpoint: string, token: object): typeof fetch {
  return (input, init) =>
    input === endpoint
      ? fetch(`${url}/v1/tokens`, {
          method: 'POST',
          headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
          body: JSON.stringify(token),
        })
      : fetch(input, init);
}

/** An event that a page was given. */
export interface Received {
  readonly id: string;
  readonly message?: { readonly content: string };
  readonly receivedMs: number;
}

/** An agent's page, as the GUIDE builds it with Apollo Client. */
export interface Inbox {
  /** The rows that it shows. */
  rows(): Json[];
  /** Reads the messages of a conversation, which are then read by the agent. */
  open(id: string): Promise<unknown>;
  /** Marks what it shows of a conversation as read. */
  seen(id: string): Promise<unknown>;
  /** The messages that it shows. */
  shown(id: string): Json[];
  send(id: string, content: string, clientId?: string): Promise<void>;
  take(id: string): Promise<unknown>;
  tag(id: string, ...tags: string[]): Promise<unknown>;
  close(id: string): Promise<unknown>;
  /** The events that it has been given, and when. */
  readonly received: Received[];
  dispose(): Promise<void>;
}

/** @param revise changes parts of what comes over the socket, as for `JSON.parse` */
export async function openInbox(
  url: string,
  secret: string,
  agent = { id: 'agent-3', name: 'Grace' },
  revise?: (key: string, value: unknown) => unknown,
): Promise<Inbox> {
  const settings = await cacheSettings<object>('{ possibleTypes, typePolicies }');
  const scopes = ['conversations:read', 'conversations:write', 'events:read'];
  return await runGuide<Inbox>(
    'Build an inbox',
    `{
      open, seen, shown, send, take, tag, close, received,
      rows: () => cache.readQuery(list).conversations.nodes,
      dispose: async () => { client.stop(); await socket.dispose(); },
    }`,
    {
      '@apollo/client': { ApolloClient, ApolloLink, gql, HttpLink, InMemoryCache },
      '@apollo/client/link/subscriptions': { GraphQLWsLink },
      'graphql-ws': {
        createClient: (options: ClientOptions) =>
          createClient({ ...options, ...(revise && { jsonMessageReviver: revise }) }),
      },
    },
    {
      ...settings,
      received: [],
      fetch: fetchOfPage(url, secret, '/agent-token', { scopes }),
      setTimeout: (go: () => void) => setTimeout(go, 20),
    },
    (code) =>
      impatient(code)
        .replace(/^const service = .*$/m, `const service = '${url}';`)
        .replace(/^const me = .*$/m, `const me = ${JSON.stringify(agent)};`)
        .replace('function fold(event) {', '$&\n  received.push({ ...event, receivedMs: performance.now() });'),
  );
}

/** The code of a page that connects again without the wait of a second or more, which spares a server that starts. */
export function impatient(code: string): string {
  const retryWait = 'retryWait: () => new Promise((go) => setTimeout(go, 20)),';
  return code.replace('retryAttempts: Infinity,', `$& ${retryWait}`);
}
