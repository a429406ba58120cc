import type { z } from 'zod';
import { accountShape, getAccount } from '../domain/accounts.ts';
import { getAnalytics } from '../domain/analytics.ts';
import { analyticsShape } from '../domain/analytics-shape.ts';
import { apiKeyShape, createApiKey, listApiKeys, newApiKeyShape, revokeApiKey } from '../domain/api-keys.ts';
import type { Caller } from '../domain/caller.ts';
import { type Conversation, conversationShape } from '../domain/conversation.ts';
import {
  type ConversationWithMessages,
  conversationWithMessagesShape,
  createConversation,
  deleteConversation,
  getConversation,
  listConversations,
  updateConversation,
} from '../domain/conversations.ts';
import {
  getDelivery,
  listDeliveries,
  recoverWebhook,
  recoveryShape,
  redeliver,
  testWebhook,
} from '../domain/deliveries.ts';
import { type Delivery, deliveryShape, deliveryWithAttemptsShape } from '../domain/delivery.ts';
import { eventShape } from '../domain/event-shape.ts';
import { type EventPage, listEvents, streamEvents } from '../domain/events.ts';
import { captureLead, getLead, leadShape, listLeads } from '../domain/leads.ts';
import { listMessages, messageShape, sendMessage } from '../domain/messages.ts';
import type { Operation } from '../domain/operation.ts';
import { type List, nextCursor } from '../domain/paging.ts';
import { createToken, newTokenShape } from '../domain/tokens.ts';
import { webhookShape, webhookWithSecretShape } from '../domain/webhook.ts';
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateWebhookSecret,
  updateWebhook,
} from '../domain/webhooks.ts';
import { eventPageShape, type ListOf, listOf } from './shapes.ts';
import type { WrittenJson } from './written-json.ts';

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

/** What a route answers with, if it is not without content. */
export interface Answer<Body = unknown> {
  readonly body?: Body;
  /** A body that is JSON already. */
  readonly json?: string;
  /** The place to go on from, for the `Link` header of a list. */
  readonly next?: string | null;
}

/** What an answer depends on beside the operation's output. */
export interface Asked {
  readonly caller: Caller;
  readonly json: WrittenJson;
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
  /** The status of its answer. */
  readonly status: number;
  /** The shape of its answer's body, if that has one: of each event, if it streams. */
  readonly answers: z.ZodType | undefined;
  /** The path of what was made, for the `Location` header. */
  readonly location: ((output: unknown) => string) | undefined;
  /** The version of the one resource that it answers with, for its `ETag`. */
  readonly version: ((output: unknown) => number) | undefined;
  answer(output: unknown, asked: Asked): Answer | Promise<Answer>;
}

interface Binding<Output, Body> {
  readonly body?: Route['body'];
  readonly streams?: boolean;
  readonly status?: number;
  readonly answers?: z.ZodType<Body>;
  location?(output: NoInfer<Output>): string;
  version?(output: NoInfer<Output>): number;
  answer?(output: NoInfer<Output>, asked: Asked): Answer<NoInfer<Body>> | Promise<Answer<NoInfer<Body>>>;
}

/** Ties an operation to a method and a path, with the types of both. */
export function route<Output, Body>(
  method: Method,
  path: string,
  operation: Operation<never, Output> | Operation<unknown, Output>,
  { body, streams, status, answers, location, version, answer }: Binding<Output, Body>,
): Route {
  return {
    method,
    path,
    operation: operation as Operation,
    body: body ?? 'none',
    streams: streams ?? false,
    status: status ?? 200,
    answers,
    location: location as Route['location'],
    version: version as Route['version'],
    answer: (answer ?? (() => ({}))) as Route['answer'],
  };
}

async function listAnswer<T>(list: List<T>): Promise<Answer<ListOf<T>>> {
  return { next: nextCursor(list), body: { data: list.items, pagination: await paginationOf(list) } };
}

async function paginationOf(list: List<unknown>): Promise<ListOf<unknown>['pagination']> {
  const { limit, offset, hasMore } = list;
  return { limit, offset, total: await list.total(), hasMore, nextCursor: nextCursor(list) };
}

async function conversationsAnswer(list: List<Conversation>, { json }: Asked): Promise<Answer<ListOf<Conversation>>> {
  const data = list.items.map((conversation) => json.conversation(conversation)).join(',');
  const pagination = JSON.stringify(await paginationOf(list));
  return { next: nextCursor(list), json: `{"data":[${data}],"pagination":${pagination}}` };
}

/** A conversation and its messages. A caller that is bound to it is shown less of it. */
function conversationAnswer(
  found: ConversationWithMessages,
  { caller, json }: Asked,
): Answer<ConversationWithMessages> {
  return caller.conversationId === undefined ? { json: json.withMessages(found) } : { body: found };
}

/** A page of the log. Its cursor is there on an empty page too, to go on from when there is more. */
function eventsAnswer({ items, limit, hasMore, nextCursor }: EventPage): Answer<never> {
  const pagination = JSON.stringify({ limit, hasMore, nextCursor });
  return {
    next: hasMore ? nextCursor : null,
    json: `{"data":[${items.map((event) => event.json).join(',')}],"pagination":${pagination}}`,
  };
}

const whole = <T>(body: T): Answer<T> => ({ body });

const deliveryPath = ({ delivery }: { delivery: Delivery }): string =>
  `/v1/webhooks/${delivery.webhookId}/deliveries/${delivery.id}`;

const versionOf = ({ conversation }: { conversation: Conversation }): number => conversation.version;

export const routes: readonly Route[] = [
  route('GET', '/conversations', listConversations, {
    answers: listOf(conversationShape),
    answer: conversationsAnswer,
  }),
  route('POST', '/conversations', createConversation, {
    body: 'optional',
    status: 201,
    answers: conversationWithMessagesShape,
    location: ({ conversation }) => `/v1/conversations/${conversation.id}`,
    version: versionOf,
    answer: ({ conversation }) => ({ body: conversation }),
  }),
  route('GET', '/conversations/:id', getConversation, {
    answers: conversationWithMessagesShape,
    version: ({ version }) => version,
    answer: conversationAnswer,
  }),
  route('PATCH', '/conversations/:id', updateConversation, {
    body: 'required',
    answers: conversationShape,
    version: versionOf,
    answer: ({ conversation }) => ({ body: conversation }),
  }),
  route('DELETE', '/conversations/:id', deleteConversation, { status: 204 }),
  route('GET', '/conversations/:conversationId/messages', listMessages, {
    answers: listOf(messageShape),
    answer: listAnswer,
  }),
  route('POST', '/conversations/:conversationId/messages', sendMessage, {
    body: 'required',
    status: 201,
    answers: messageShape,
    answer: ({ message }) => ({ body: message }),
  }),
  route('POST', '/leads', captureLead, {
    body: 'required',
    status: 201,
    answers: leadShape,
    location: ({ lead }) => `/v1/leads/${lead.id}`,
    answer: ({ lead }) => ({ body: lead }),
  }),
  route('GET', '/leads', listLeads, { answers: listOf(leadShape), answer: listAnswer }),
  route('GET', '/leads/:id', getLead, { answers: leadShape, answer: whole }),
  route('GET', '/events', listEvents, { answers: eventPageShape, answer: eventsAnswer }),
  // Its output is written by `event-stream.ts`, not answered.
  route('GET', '/events/stream', streamEvents, { streams: true, answers: eventShape }),
  route('POST', '/webhooks', createWebhook, {
    body: 'required',
    status: 201,
    answers: webhookWithSecretShape,
    location: ({ webhook }) => `/v1/webhooks/${webhook.id}`,
    answer: ({ webhook }) => ({ body: webhook }),
  }),
  route('GET', '/webhooks', listWebhooks, { answers: listOf(webhookShape), answer: listAnswer }),
  route('GET', '/webhooks/:id', getWebhook, { answers: webhookShape, answer: whole }),
  route('PATCH', '/webhooks/:id', updateWebhook, {
    body: 'required',
    answers: webhookShape,
    answer: ({ webhook }) => ({ body: webhook }),
  }),
  route('DELETE', '/webhooks/:id', deleteWebhook, { status: 204 }),
  route('POST', '/webhooks/:id/rotate-secret', rotateWebhookSecret, {
    body: 'optional',
    answers: webhookWithSecretShape,
    answer: ({ webhook }) => ({ body: webhook }),
  }),
  route('POST', '/webhooks/:id/test', testWebhook, {
    body: 'optional',
    status: 202,
    answers: deliveryWithAttemptsShape,
    location: deliveryPath,
    answer: ({ delivery }) => ({ body: delivery }),
  }),
  route('POST', '/webhooks/:id/recover', recoverWebhook, {
    body: 'required',
    status: 202,
    answers: recoveryShape,
    answer: ({ count }) => ({ body: { count } }),
  }),
  route('GET', '/webhooks/:webhookId/deliveries', listDeliveries, {
    answers: listOf(deliveryShape),
    answer: listAnswer,
  }),
  route('GET', '/webhooks/:webhookId/deliveries/:id', getDelivery, {
    answers: deliveryWithAttemptsShape,
    answer: whole,
  }),
  route('POST', '/webhooks/:webhookId/deliveries/:id/redeliver', redeliver, {
    body: 'optional',
    status: 202,
    answers: deliveryWithAttemptsShape,
    location: deliveryPath,
    answer: ({ delivery }) => ({ body: delivery }),
  }),
  route('GET', '/analytics', getAnalytics, { answers: analyticsShape, answer: whole }),
  route('GET', '/account', getAccount, { answers: accountShape, answer: whole }),
  route('POST', '/api-keys', createApiKey, {
    body: 'required',
    status: 201,
    answers: newApiKeyShape,
    answer: ({ apiKey }) => ({ body: apiKey }),
  }),
  route('GET', '/api-keys', listApiKeys, { answers: listOf(apiKeyShape), answer: listAnswer }),
  route('DELETE', '/api-keys/:id', revokeApiKey, { status: 204 }),
  route('POST', '/tokens', createToken, {
    body: 'required',
    status: 201,
    answers: newTokenShape,
    answer: ({ token }) => ({ body: token }),
  }),
];
