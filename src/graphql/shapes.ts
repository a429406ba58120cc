import { accountShape } from '../domain/accounts.ts';
import { analyticsShape } from '../domain/analytics-shape.ts';
import { newApiKeyShape } from '../domain/api-keys.ts';
import { conversationWithMessagesShape } from '../domain/conversations.ts';
import { recoveryShape } from '../domain/deliveries.ts';
import { deliveryWithAttemptsShape } from '../domain/delivery.ts';
import { flatEventShapes } from '../domain/event-shape.ts';
import { leadShape } from '../domain/leads.ts';
import { newTokenShape } from '../domain/tokens.ts';
import { webhookWithSecretShape } from '../domain/webhook.ts';
import type { Shapes } from './deprecation.ts';

/** What the types are shown of, where the domain says so. The types within these come with them. */
export const shapes: Shapes = {
  Account: accountShape,
  Analytics: analyticsShape,
  ApiKey: newApiKeyShape,
  Conversation: conversationWithMessagesShape,
  ConversationClosedEvent: flatEventShapes.closed,
  ConversationStartedEvent: flatEventShapes.started,
  Delivery: deliveryWithAttemptsShape,
  Event: flatEventShapes.common,
  Lead: leadShape,
  LeadCapturedEvent: flatEventShapes.captured,
  MessageReceivedEvent: flatEventShapes.received,
  RecoverWebhookPayload: recoveryShape,
  Token: newTokenShape,
  Webhook: webhookWithSecretShape,
};
