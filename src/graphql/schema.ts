import { accountShape } from '../domain/accounts.ts';
import { analyticsFiguresShape } from '../domain/analytics-shape.ts';
import { apiKeyShape } from '../domain/api-keys.ts';
import { conversationShape } from '../domain/conversation.ts';
import { attemptShape, deliveryShape } from '../domain/delivery.ts';
import { leadShape } from '../domain/leads.ts';
import { messageShape } from '../domain/messages.ts';
import { operations } from '../domain/operations.ts';
import { webhookShape } from '../domain/webhook.ts';
import { builder } from './builder.ts';
import { withDeprecations } from './deprecation.ts';
import './scalars.ts';
import './node.ts';
import './conversations.ts';
import './messages.ts';
import './create-conversation.ts';
import './leads.ts';
import './events.ts';
import './webhooks.ts';
import './deliveries.ts';
import './analytics.ts';
import './account.ts';
import './api-keys.ts';
import './tokens.ts';

/** The whole GraphQL schema. `schema.graphql` is printed from it. */
export const schema = withDeprecations(builder.toSchema(), Object.values(operations), {
  Account: accountShape,
  AnalyticsFigures: analyticsFiguresShape,
  ApiKey: apiKeyShape,
  Attempt: attemptShape,
  Conversation: conversationShape,
  Delivery: deliveryShape,
  Lead: leadShape,
  Message: messageShape,
  Webhook: webhookShape,
});
