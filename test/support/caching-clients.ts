import { ApolloClient, ApolloLink, HttpLink, type InMemoryCache } from '@apollo/client';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { createClient, fetchExchange, subscriptionExchange } from '@urql/core';
import type { cacheExchange } from '@urql/exchange-graphcache';
import type { DocumentNode } from 'graphql';
import type { Client as SocketClient } from 'graphql-ws';
import {
  createOperationDescriptor,
  type Environment,
  fetchQuery,
  Network,
  Observable,
  requestSubscription,
} from 'relay-runtime';
import type { Json } from './client.ts';
import { cacheSettings } from './inbox.ts';
import { compileForRelay } from './relay.ts';
import { socketClient } from './subscribe.ts';

// Stock GraphQL clients with a normalising cache, on a server's HTTP and WebSocket, with the settings of the GUIDE.

type Variables = Record<string, unknown>;

export interface CachingClient {
  /** Asks the server, and returns what the cache then holds. */
  query(document: DocumentNode, variables?: Variables): Promise<Json>;
  /** What a page that has asked this shows now: nothing is asked. */
  cached(document: DocumentNode, variables?: Variables): Json;
  subscribe(document: DocumentNode, variables: Variables, take: (data: Json) => void): { stop(): void };
  dispose(): Promise<void>;
}

/** Relay brings none of its own. */
function relayNetwork(url: string, secret: string, socket: SocketClient) {
  return Network.create(
    async ({ text }, variables) => {
      const response = await fetch(`${url}/graphql`, {
        method: 'POST',
        headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
        body: JSON.stringify({ query: text, variables }),
      });
      return (await response.json()) as Json;
    },
    ({ text }, variables) =>
      Observable.create<Json>((sink) =>
        socket.subscribe(
          { query: text ?? '', variables },
          {
            next: (result) => sink.next(result),
            error: (error) => sink.error(error as Error),
            complete: () => sink.complete(),
          },
        ),
      ),
  );
}

interface Caches {
  readonly apollo: InMemoryCache;
  readonly graphcache: ReturnType<typeof cacheExchange>;
  readonly relay: Environment;
}

const cachesOfGuide = (url: string, secret: string, socket: SocketClient): Promise<Caches> =>
  cacheSettings<Caches>('{ apollo, graphcache, relay }', { network: relayNetwork(url, secret, socket) });

const disposing = (socket: SocketClient) => async (): Promise<void> => void (await socket.dispose());

export async function apolloClient(url: string, secret: string): Promise<CachingClient> {
  const socket = socketClient(url, secret);
  const { apollo: cache } = await cachesOfGuide(url, secret, socket);
  const http = new HttpLink({ uri: `${url}/graphql`, headers: { authorization: `Bearer ${secret}` } });
  const client = new ApolloClient({
    cache,
    link: ApolloLink.split(({ operationType }) => operationType === 'subscription', new GraphQLWsLink(socket), http),
  });
  return {
    async query(query, variables = {}) {
      await client.query({ query, variables, fetchPolicy: 'network-only' });
      return cache.readQuery({ query, variables });
    },
    cached: (query, variables = {}) => cache.readQuery({ query, variables }),
    subscribe(query, variables, take) {
      const subscription = client.subscribe<Json>({ query, variables }).subscribe(({ data }) => take(data));
      return { stop: () => subscription.unsubscribe() };
    },
    dispose: disposing(socket),
  };
}

export async function urqlClient(url: string, secret: string): Promise<CachingClient> {
  const socket = socketClient(url, secret);
  const { graphcache } = await cachesOfGuide(url, secret, socket);
  const client = createClient({
    url: `${url}/graphql`,
    preferGetMethod: false,
    fetchOptions: { headers: { authorization: `Bearer ${secret}` } },
    exchanges: [
      graphcache,
      fetchExchange,
      subscriptionExchange({
        forwardSubscription: ({ query = '', variables }) => ({
          subscribe: (sink) => ({
            unsubscribe: socket.subscribe({ query, variables: variables as Variables }, sink as Json),
          }),
        }),
      }),
    ],
  });
  const cached = (query: DocumentNode, variables: Variables): Json =>
    client.readQuery(query, variables, { requestPolicy: 'cache-only' })?.data;
  return {
    async query(query, variables = {}) {
      const { error } = await client.query(query, variables, { requestPolicy: 'network-only' }).toPromise();
      if (error) throw error;
      return cached(query, variables);
    },
    cached: (query, variables = {}) => cached(query, variables),
    subscribe(query, variables, take) {
      const subscription = client.subscription(query, variables).subscribe(({ data }) => take(data));
      return { stop: () => subscription.unsubscribe() };
    },
    dispose: disposing(socket),
  };
}

export async function relayClient(url: string, secret: string): Promise<CachingClient> {
  const socket = socketClient(url, secret);
  const { relay: environment } = await cachesOfGuide(url, secret, socket);
  const cached = (document: DocumentNode, variables: Variables): Json => {
    const { fragment } = createOperationDescriptor(compileForRelay(document), variables);
    const { data, isMissingData } = environment.lookup(fragment);
    if (isMissingData) throw new Error('The cache lacks data.');
    return data;
  };
  return {
    async query(document, variables = {}) {
      const request = compileForRelay(document);
      environment.retain(createOperationDescriptor(request, variables));
      await fetchQuery(environment, request, variables, { fetchPolicy: 'network-only' }).toPromise();
      return cached(document, variables);
    },
    cached: (document, variables = {}) => cached(document, variables),
    subscribe(document, variables, take) {
      const subscription = requestSubscription(environment, {
        subscription: compileForRelay(document),
        variables,
        onNext: (data) => take(data),
      });
      return { stop: () => subscription.dispose() };
    },
    dispose: disposing(socket),
  };
}
