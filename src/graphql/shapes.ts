import { accountShape } from '../domain/accounts.ts';
import { analyticsShape } from '../domain/analytics-shape.ts';
import { newApiKeyShape } from '../domain/api-keys.ts';
import { conversationWithMessagesShape } from '../domain/conversations.ts';
import { recoveryShape } from '../domain/deliveries.ts';
import { deliveryWithAttemptsShape } from '../domain/delivery-record.ts';
import { flatEventShapes } from '../domain/event-shape.ts';
import { leadShape } from '../domain/leads.ts';
import { newTokenShape } from '../domain/tokens.ts';
import { webhookWithSecretShape } from '../domain/webhook-record.ts';
import type { Shapes } from './deprecation.ts';

/** The shapes of the domain that types expose. The types nested in these are found from them. */
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
