import type * as z from 'zod';
import { accountShape, getAccount } from '../domain/accounts.ts';
import { getAnalytics } from '../domain/analytics.ts';
import { analyticsShape } from '../domain/analytics-shape.ts';
import { apiKeyShape, createApiKey, listApiKeys, newApiKeyShape, revokeApiKey } from '../domain/api-keys.ts';
import type { Caller } from '../domain/caller.ts';
import {
  type ConversationList,
  conversationWithMessagesShape,
  createConversation,
  deleteConversation,
  getConversation,
  type ListedConversation,
  listConversations,
  listedConversationShape,
  type OpenConversation,
  openConversationShape,
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
import { type Delivery, deliveryShape, deliveryWithAttemptsShape } from '../domain/delivery-record.ts';
import {
  type DocumentList,
  deleteDocument,
  documentShape,
  listDocuments,
  registerDocuments,
  type TrustedDocument,
} from '../domain/documents.ts';
import { eventShape } from '../domain/event-shape.ts';
import { type EventPage, listEvents, streamEvents } from '../domain/events.ts';
import { captureLead, getLead, leadShape, listLeads } from '../domain/leads.ts';
import { messageShape } from '../domain/message-record.ts';
import { getMessage, listMessages, sendMessage } from '../domain/messages.ts';
import type { Operation } from '../domain/operation.ts';
import { type List, nextCursor } from '../domain/paging.ts';
import { readPositionShape } from '../domain/read-position-record.ts';
import { markRead } from '../domain/read-positions.ts';
import { type SearchResults, search } from '../domain/search.ts';
import { createToken, newTokenShape } from '../domain/tokens.ts';
import { webhookShape, webhookWithSecretShape } from '../domain/webhook-record.ts';
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateWebhookSecret,
  updateWebhook,
} from '../domain/webhooks.ts';
import { piecesWithMessages } from './conversation-json.ts';
import { pageJson } from './page-json.ts';
import { eventPageShape, type ListOf, listOf, registeredDocumentsShape, searchResultsShape } from './shapes.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** The body of a successful response, if it has one, in one of three forms. */
export interface Answer<Body = unknown> {
  readonly body?: Body;
  /** The body as serialised JSON, in place of `body`. */
  readonly json?: string;
  /** The same in pieces, for one that is too large to be made at once. */
  readonly pieces?: AsyncIterable<string>;
  /** The cursor of the next page of a list, for its `Link` header. */
  readonly next?: string | null;
}

/** The REST binding of one operation. */
export interface Route {
  readonly method: Method;
  /** Relative to `/v1`; `:name` stands for the input's field of that name. */
  readonly path: string;
  readonly operation: Operation;
  /** Whether the rest of the input is in a body. If `optional`, a missing body counts as `{}`. */
  readonly body: 'required' | 'optional' | 'none';
  /** Whether the response is an event stream. */
  readonly streams: boolean;
  /** What each item of a page, as many as the input's `limit` says, can take of memory while the page is made, in bytes. */
  readonly itemBytes: number;
  /** The status of a successful response. */
  readonly status: number;
  /** The schema of the response body, if it has one; of a stream, that of each event. */
  readonly answers: z.ZodType | undefined;
  /** The path of the created resource, for the `Location` header. */
  readonly location: ((output: unknown) => string) | undefined;
  /** The version of the resource in the response, for its `ETag`. */
  readonly version: ((output: unknown) => string) | undefined;
  answer(output: unknown, caller: Caller): Answer | Promise<Answer>;
}

interface Binding<Output, Body> {
  readonly body?: Route['body'];
  readonly streams?: boolean;
  readonly itemBytes?: number;
  readonly status?: number;
  readonly answers?: z.ZodType<Body>;
  location?(output: NoInfer<Output>): string;
  version?(output: NoInfer<Output>): string;
  answer?(output: NoInfer<Output>, caller: Caller): Answer<NoInfer<Body>> | Promise<Answer<NoInfer<Body>>>;
}

/** Binds an operation to a method and a path; the types of its output and of the answer must agree. */
export function route<Output, Body>(
  method: Method,
  path: string,
  operation: Operation<never, Output> | Operation<unknown, Output>,
  { body, streams, itemBytes, status, answers, location, version, answer }: Binding<Output, Body>,
): Route {
  return {
    method,
    path,
    operation: operation as Operation,
    body: body ?? 'none',
    streams: streams ?? false,
    itemBytes: itemBytes ?? 0,
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

async function conversationsAnswer(list: ConversationList): Promise<Answer<ListOf<ListedConversation>>> {
  const [data, pagination] = await Promise.all([list.withReadPositions(), paginationOf(list)]);
  return { next: nextCursor(list), body: { data, pagination } };
}

async function documentsAnswer(list: DocumentList): Promise<Answer<ListOf<TrustedDocument>>> {
  const data = await list.withTexts();
  return { next: nextCursor(list), body: { data, pagination: await paginationOf(list) } };
}

async function paginationOf(list: List<unknown>): Promise<ListOf<unknown>['pagination']> {
  const { limit, offset, hasMore } = list;
  const total = list.wantsTotal ? { total: await list.total() } : {};
  return { limit, offset, ...total, hasMore, nextCursor: nextCursor(list) };
}

async function searchAnswer(list: SearchResults): Promise<Answer<z.output<typeof searchResultsShape>>> {
  const { limit, hasMore } = list;
  const total = list.wantsTotal ? { total: await list.total(), totalIsMore: await list.totalIsMore() } : {};
  const next = nextCursor(list);
  return { next, body: { data: list.items, pagination: { limit, ...total, hasMore, nextCursor: next } } };
}

/** Large conversations are serialised and sent in pieces. */
async function conversationAnswer(
  found: OpenConversation,
  caller: Caller,
): Promise<Answer<z.output<typeof openConversationShape>>> {
  const { conversation, newest, isLarge, messages } = found;
  if (newest === undefined) return { body: conversation };
  const { messageCount } = conversation;
  const from = messageCount - newest + 1;
  if (isLarge) return { pieces: piecesWithMessages(found, from, caller.account.id) };
  return { body: { ...conversation, messages: await messages(from, messageCount) } };
}

/** A page of the log. Even an empty page has a cursor, from which later events can be read. */
async function eventsAnswer({ items, limit, hasMore, nextCursor }: EventPage, caller: Caller): Promise<Answer<never>> {
  const page = { data: items, pagination: { limit, hasMore, nextCursor } };
  return { next: hasMore ? nextCursor : null, json: await pageJson(page, caller, (event) => event.json) };
}

const asIs = <T>(body: T): Answer<T> => ({ body });

const deliveryPath = ({ delivery }: { delivery: Delivery }): string =>
  `/v1/webhooks/${delivery.webhookId}/deliveries/${delivery.id}`;

/** With what of it is no new version: nobody's change is stale because somebody has read further. */
const versionOf = ({ conversation, moves }: { conversation: ListedConversation; moves: number }): string =>
  `${conversation.version}.${moves}`;

/** A message of 16,384 characters, with its conversation, as it is read and as JSON. */
const withText = 128 * 1024;
/** 8 KiB of metadata, as they are read and as JSON. */
const withMetadata = 16 * 1024;

export const routes: readonly Route[] = [
  route('GET', '/conversations', listConversations, {
    itemBytes: withMetadata,
    answers: listOf(listedConversationShape),
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
    answers: openConversationShape,
    version: versionOf,
    answer: conversationAnswer,
  }),
  route('PATCH', '/conversations/:id', updateConversation, {
    body: 'required',
    answers: listedConversationShape,
    version: versionOf,
    answer: ({ conversation }) => ({ body: conversation }),
  }),
  route('DELETE', '/conversations/:id', deleteConversation, { status: 204 }),
  route('GET', '/conversations/:conversationId/messages', listMessages, {
    itemBytes: withText,
    answers: listOf(messageShape),
    answer: listAnswer,
  }),
  route('POST', '/conversations/:conversationId/messages', sendMessage, {
    body: 'required',
    status: 201,
    answers: messageShape,
    location: ({ message }) => `/v1/messages/${message.id}`,
    answer: ({ message }) => ({ body: message }),
  }),
  route('GET', '/messages/:id', getMessage, { answers: messageShape, answer: asIs }),
  route('PUT', '/conversations/:conversationId/read-positions/:reader', markRead, {
    body: 'required',
    answers: readPositionShape,
    answer: ({ readPosition }) => ({ body: readPosition }),
  }),
  route('GET', '/search', search, { itemBytes: withText, answers: searchResultsShape, answer: searchAnswer }),
  route('POST', '/leads', captureLead, {
    body: 'required',
    status: 201,
    answers: leadShape,
    location: ({ lead }) => `/v1/leads/${lead.id}`,
    answer: ({ lead }) => ({ body: lead }),
  }),
  route('GET', '/leads', listLeads, { itemBytes: withMetadata, answers: listOf(leadShape), answer: listAnswer }),
  route('GET', '/leads/:id', getLead, { answers: leadShape, answer: asIs }),
  route('GET', '/events', listEvents, { itemBytes: withText, answers: eventPageShape, answer: eventsAnswer }),
  // The response is written by event-stream.ts.
  route('GET', '/events/stream', streamEvents, { streams: true, answers: eventShape }),
  route('POST', '/webhooks', createWebhook, {
    body: 'required',
    status: 201,
    answers: webhookWithSecretShape,
    location: ({ webhook }) => `/v1/webhooks/${webhook.id}`,
    answer: ({ webhook }) => ({ body: webhook }),
  }),
  route('GET', '/webhooks', listWebhooks, { answers: listOf(webhookShape), answer: listAnswer }),
  route('GET', '/webhooks/:id', getWebhook, { answers: webhookShape, answer: asIs }),
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
    answer: asIs,
  }),
  route('POST', '/webhooks/:webhookId/deliveries/:id/redeliver', redeliver, {
    body: 'optional',
    status: 202,
    answers: deliveryWithAttemptsShape,
    location: deliveryPath,
    answer: ({ delivery }) => ({ body: delivery }),
  }),
  route('GET', '/analytics', getAnalytics, { answers: analyticsShape, answer: asIs }),
  route('GET', '/account', getAccount, { answers: accountShape, answer: asIs }),
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
  // Some of them may have been registered before, so nothing of it is said to be created.
  route('POST', '/documents', registerDocuments, {
    body: 'required',
    answers: registeredDocumentsShape,
    answer: ({ documents }) => ({ body: { documents } }),
  }),
  route('GET', '/documents', listDocuments, { answers: listOf(documentShape), answer: documentsAnswer }),
  route('DELETE', '/documents/:id', deleteDocument, { status: 204 }),
];
