import { createClient, type Client as SocketClient } from 'graphql-ws';
import { WebSocket } from 'ws';
import type { Json } from './client.ts';
import { until } from './wait.ts';

/** A stock graphql-ws client on the server's socket. */
export function socketClient(
  url: string,
  secret: string,
  options: Partial<Parameters<typeof createClient>[0]> = {},
): SocketClient {
  return createClient({
    url: `${url.replace('http', 'ws')}/graphql`,
    webSocketImpl: WebSocket,
    connectionParams: { authorization: `Bearer ${secret}` },
    retryAttempts: 1_000,
    retryWait: () => new Promise((resolve) => setTimeout(resolve, 5)),
    shouldRetry: () => true,
    ...options,
  });
}

export const eventFields = `__typename id type timestamp sequence cursor accountId
  ... on ConversationStartedEvent { conversation { id: conversationId status } }
  ... on MessageReceivedEvent { message { id content } conversation { id: conversationId } }
  ... on ConversationClosedEvent { conversation { id: conversationId } }
  ... on LeadCapturedEvent { lead { id email } }`;

/** A raw socket of the protocol, which says nothing by itself. */
export class RawSocket {
  readonly socket: WebSocket;
  readonly messages: Json[] = [];
  readonly closed: Promise<{ code: number; reason: string }>;

  constructor(
    url: string,
    { protocol = 'graphql-transport-ws', headers = {} }: { protocol?: string; headers?: Record<string, string> } = {},
  ) {
    this.socket = new WebSocket(`${url.replace('http', 'ws')}/graphql`, protocol, { headers });
    this.socket.on('message', (data) => this.messages.push(JSON.parse(String(data))));
    this.socket.on('error', () => {});
    this.closed = new Promise((resolve) => {
      this.socket.on('close', (code, reason) => resolve({ code, reason: String(reason) }));
    });
  }

  async opened(): Promise<this> {
    await until(() => this.socket.readyState !== WebSocket.CONNECTING);
    return this;
  }

  send(message: unknown): void {
    this.socket.send(typeof message === 'string' || message instanceof Uint8Array ? message : JSON.stringify(message));
  }

  /** Says hello and waits for the answer. */
  async init(secret: string): Promise<this> {
    await this.opened();
    this.send({ type: 'connection_init', payload: { authorization: `Bearer ${secret}` } });
    await until(() => this.messages.some(({ type }) => type === 'connection_ack'));
    return this;
  }

  subscribe(id: string, query: string, variables?: Record<string, unknown>): void {
    this.send({ id, type: 'subscribe', payload: { query, variables } });
  }

  /** The messages about one subscription. */
  of(id: string): Json[] {
    return this.messages.filter((message) => message.id === id);
  }

  /** The first message about a subscription, once it is there. */
  async first(id: string, type?: string): Promise<Json> {
    const find = () =>
      this.messages.find((message) => message.id === id && (type === undefined || message.type === type));
    await until(() => find() !== undefined);
    return find();
  }
}
