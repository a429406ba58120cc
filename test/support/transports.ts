import type { Client, Json } from './client.ts';
import { RawSocket } from './subscribe.ts';
import { leftToYoga } from './yoga.ts';

/** A client, and with what it reaches the server by itself. */
export interface Asking {
  readonly client: Client;
  readonly url: string;
  /** Its key or token. */
  readonly secret: string;
}

/** The parameters of GraphQL over HTTP. */
export interface Asked {
  readonly query?: string;
  readonly documentId?: string;
  readonly operationName?: string;
  readonly variables?: object;
  readonly extensions?: object;
}

/** What persisted queries send in place of the text of a document, or beside it. */
export const persisted = (sha256Hash: string, others: object = {}): Asked => ({
  extensions: { persistedQuery: { version: 1, sha256Hash, ...others } },
});

/** The query string of a GET request. */
export function parametersOf(asked: Asked): string {
  const values = Object.entries(asked).map(([name, value]) => [
    name,
    typeof value === 'string' ? value : JSON.stringify(value),
  ]);
  return new URLSearchParams(Object.fromEntries(values)).toString();
}

export interface Transport {
  readonly transport: string;
  /** @returns the result, whatever it comes in */
  ask(by: Asking, asked: Asked): Promise<Json>;
}

/** Every way to ask for a query. */
export const transports: readonly Transport[] = [
  { transport: 'POST', ask: async ({ client }, asked) => (await client.post(asked)).body },
  {
    transport: 'POST, left to Yoga',
    ask: async ({ client }, asked) => (await client.post(asked, { headers: leftToYoga() })).body,
  },
  {
    transport: 'GET',
    ask: async ({ url, secret }, asked) => {
      const headers = { authorization: `Bearer ${secret}` };
      return (await (await fetch(`${url}/graphql?${parametersOf(asked)}`, { headers })).json()) as Json;
    },
  },
  {
    transport: 'a batch',
    ask: async ({ client }, asked) => {
      const { body } = await client.post([{ query: '{ __typename }' }, asked]);
      return body[1];
    },
  },
  {
    transport: 'a socket',
    ask: async ({ url, secret }, asked) => {
      const socket = await new RawSocket(url).init(secret);
      // graphql-ws demands a text.
      socket.send({ id: '1', type: 'subscribe', payload: { query: '', ...asked } });
      const { type, payload } = await socket.first('1');
      socket.socket.terminate();
      return type === 'error' ? { errors: payload } : payload;
    },
  },
];
