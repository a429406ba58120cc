import { getAccount } from '../domain/accounts.ts';
import { getAnalytics } from '../domain/analytics.ts';
import { createApiKey, listApiKeys, revokeApiKey } from '../domain/api-keys.ts';
import type { Conversation } from '../domain/conversation.ts';
import {
  createConversation,
  deleteConversation,
  getConversation,
  listConversations,
  updateConversation,
} from '../domain/conversations.ts';
import { getDelivery, listDeliveries, recoverWebhook, redeliver, testWebhook } from '../domain/deliveries.ts';
import type { Delivery } from '../domain/delivery.ts';
import { type EventPage, listEvents, streamEvents } from '../domain/events.ts';
import { captureLead, getLead, listLeads } from '../domain/leads.ts';
import { listMessages, sendMessage } from '../domain/messages.ts';
import type { Operation } from '../domain/operation.ts';
import { type List, nextCursor } from '../domain/paging.ts';
import { createToken } from '../domain/tokens.ts';
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateWebhookSecret,
  updateWebhook,
} from '../domain/webhooks.ts';

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

/** What a route answers with: `body` undefined is no content. */
export interface Answer {
  readonly status: number;
  readonly body?: unknown;
  /** A body that is JSON already. */
  readonly json?: string;
  readonly location?: string;
  /** The place to go on from, for the `Link` header of a list. */
  readonly next?: string | null;
  /** The version of the one resource that it is, for its `ETag`. */
  readonly version?: number;
}

/** One operation as REST has it. Paths are relative to `/v1`. */
export interface Route {
  readonly method: Method;
  /** With `:name` for the part that goes into the input's field of that name. */
  readonly path: string;
  readonly operation: Operation;
  /** Whether the rest of the input comes in a body, which may be left out if it is `optional`. */
  readonly body: 'required' | 'optional' | 'none';
  /** Whether the answer is an event stream, which goes on for as long as its client stays. */
  readonly streams: boolean;
  answer(output: unknown): Answer | Promise<Answer>;
}

interface Binding<Output> {
  readonly body?: 'required' | 'optional';
  answer(output: Output): Answer | Promise<Answer>;
}

/** Ties an operation to a method and a path, with the types of both. */
function route<Output>(
  method: Method,
  path: string,
  operation: Operation<never, Output> | Operation<unknown, Output>,
  { body, answer }: Binding<Output>,
): Route {
  return {
    method,
    path,
    operation: operation as Operation,
    body: body ?? 'none',
    streams: false,
    answer: answer as Route['answer'],
  };
}

async function listAnswer<T>(list: List<T>): Promise<Answer> {
  const next = nextCursor(list);
  return {
    status: 200,
    next,
    body: {
      data: list.items,
      pagination: {
        limit: list.limit,
        offset: list.offset,
        total: await list.total(),
        hasMore: list.hasMore,
        nextCursor: next,
      },
    },
  };
}

/** A page of the log. Its cursor is there on an empty page too, to go on from when there is more. */
function eventsAnswer({ items, limit, hasMore, nextCursor }: EventPage): Answer {
  const pagination = JSON.stringify({ limit, hasMore, nextCursor });
  return {
    status: 200,
    next: hasMore ? nextCursor : null,
    json: `{"data":[${items.map((event) => event.json).join(',')}],"pagination":${pagination}}`,
  };
}

const ok = (body: unknown): Answer => ({ status: 200, body });

const versioned = (status: number, conversation: Conversation): Answer => ({
  status,
  body: conversation,
  version: conversation.version,
});

/** Something that goes on after the answer. */
const accepted = (body: unknown, location?: string): Answer => ({
  status: 202,
  body,
  ...(location === undefined ? {} : { location }),
});

const deliveryPath = ({ webhookId, id }: Delivery): string => `/v1/webhooks/${webhookId}/deliveries/${id}`;

export const routes: readonly Route[] = [
  route('GET', '/conversations', listConversations, { answer: listAnswer }),
  route('POST', '/conversations', createConversation, {
    body: 'optional',
    answer: ({ conversation }) => ({
      ...versioned(201, conversation),
      location: `/v1/conversations/${conversation.id}`,
    }),
  }),
  route('GET', '/conversations/:id', getConversation, { answer: (conversation) => versioned(200, conversation) }),
  route('PATCH', '/conversations/:id', updateConversation, {
    body: 'required',
    answer: ({ conversation }) => versioned(200, conversation),
  }),
  route('DELETE', '/conversations/:id', deleteConversation, { answer: () => ({ status: 204 }) }),
  route('GET', '/conversations/:conversationId/messages', listMessages, { answer: listAnswer }),
  route('POST', '/conversations/:conversationId/messages', sendMessage, {
    body: 'required',
    answer: ({ message }) => ({ status: 201, body: message }),
  }),
  route('POST', '/leads', captureLead, {
    body: 'required',
    answer: ({ lead }) => ({ status: 201, body: lead, location: `/v1/leads/${lead.id}` }),
  }),
  route('GET', '/leads', listLeads, { answer: listAnswer }),
  route('GET', '/leads/:id', getLead, { answer: ok }),
  route('GET', '/events', listEvents, { answer: eventsAnswer }),
  // Its output is written by `event-stream.ts`, not answered.
  { ...route('GET', '/events/stream', streamEvents, { answer: ok }), streams: true },
  route('POST', '/webhooks', createWebhook, {
    body: 'required',
    answer: ({ webhook }) => ({ status: 201, body: webhook, location: `/v1/webhooks/${webhook.id}` }),
  }),
  route('GET', '/webhooks', listWebhooks, { answer: listAnswer }),
  route('GET', '/webhooks/:id', getWebhook, { answer: ok }),
  route('PATCH', '/webhooks/:id', updateWebhook, { body: 'required', answer: ({ webhook }) => ok(webhook) }),
  route('DELETE', '/webhooks/:id', deleteWebhook, { answer: () => ({ status: 204 }) }),
  route('POST', '/webhooks/:id/rotate-secret', rotateWebhookSecret, {
    body: 'optional',
    answer: ({ webhook }) => ok(webhook),
  }),
  route('POST', '/webhooks/:id/test', testWebhook, {
    body: 'optional',
    answer: ({ delivery }) => accepted(delivery, deliveryPath(delivery)),
  }),
  route('POST', '/webhooks/:id/recover', recoverWebhook, {
    body: 'required',
    answer: ({ count }) => accepted({ count }),
  }),
  route('GET', '/webhooks/:webhookId/deliveries', listDeliveries, { answer: listAnswer }),
  route('GET', '/webhooks/:webhookId/deliveries/:id', getDelivery, { answer: ok }),
  route('POST', '/webhooks/:webhookId/deliveries/:id/redeliver', redeliver, {
    body: 'optional',
    answer: ({ delivery }) => accepted(delivery, deliveryPath(delivery)),
  }),
  route('GET', '/analytics', getAnalytics, { answer: ok }),
  route('GET', '/account', getAccount, { answer: ok }),
  route('POST', '/api-keys', createApiKey, {
    body: 'required',
    answer: ({ apiKey }) => ({ status: 201, body: apiKey }),
  }),
  route('GET', '/api-keys', listApiKeys, { answer: listAnswer }),
  route('DELETE', '/api-keys/:id', revokeApiKey, { answer: () => ({ status: 204 }) }),
  route('POST', '/tokens', createToken, { body: 'required', answer: ({ token }) => ({ status: 201, body: token }) }),
];
