import { getAccount } from './accounts.ts';
import { getAnalytics } from './analytics.ts';
import { createApiKey, listApiKeys, revokeApiKey } from './api-keys.ts';
import {
  createConversation,
  deleteConversation,
  getConversation,
  listConversations,
  updateConversation,
} from './conversations.ts';
import { getDelivery, listDeliveries, recoverWebhook, redeliver, testWebhook } from './deliveries.ts';
import { deleteDocument, listDocuments, registerDocuments } from './documents.ts';
import { getEventCursor, listEvents, streamEvents } from './events.ts';
import { captureLead, getLead, listLeads } from './leads.ts';
import { getMessage, listMessages, sendMessage } from './messages.ts';
import { markRead } from './read-positions.ts';
import { search } from './search.ts';
import { createToken } from './tokens.ts';
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateWebhookSecret,
  updateWebhook,
} from './webhooks.ts';

/** The operations that both REST and GraphQL offer: test/generated.test.ts fails if one is missing on either. */
export const operations = {
  listConversations,
  getConversation,
  createConversation,
  updateConversation,
  listMessages,
  sendMessage,
  getMessage,
  markRead,
  search,
  deleteConversation,
  captureLead,
  listLeads,
  getLead,
  listEvents,
  streamEvents,
  createWebhook,
  listWebhooks,
  getWebhook,
  updateWebhook,
  deleteWebhook,
  rotateWebhookSecret,
  testWebhook,
  recoverWebhook,
  listDeliveries,
  getDelivery,
  redeliver,
  getAnalytics,
  getAccount,
  createApiKey,
  listApiKeys,
  revokeApiKey,
  createToken,
  registerDocuments,
  listDocuments,
  deleteDocument,
} as const;

/** The operations that only GraphQL offers. REST returns the end of the event log as a field of the account. */
export const graphqlOnlyOperations = { getEventCursor } as const;

export type OperationName = keyof typeof operations;
