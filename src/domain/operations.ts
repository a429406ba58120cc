import { getAccount } from './accounts.ts';
import { createApiKey, listApiKeys, revokeApiKey } from './api-keys.ts';
import { createConversation, getConversation, listConversations, updateConversation } from './conversations.ts';
import { getDelivery, listDeliveries, recoverWebhook, redeliver, testWebhook } from './deliveries.ts';
import { listEvents, streamEvents } from './events.ts';
import { captureLead, getLead, listLeads } from './leads.ts';
import { listMessages, sendMessage } from './messages.ts';
import { createToken } from './tokens.ts';
import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listWebhooks,
  rotateWebhookSecret,
  updateWebhook,
} from './webhooks.ts';

/** Every operation of the service. Each has to be on both faces; a test walks this list. */
export const operations = {
  listConversations,
  getConversation,
  createConversation,
  updateConversation,
  listMessages,
  sendMessage,
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
  getAccount,
  createApiKey,
  listApiKeys,
  revokeApiKey,
  createToken,
} as const;

export type OperationName = keyof typeof operations;
