import {
  type GraphQLInterfaceType,
  type GraphQLNamedType,
  type GraphQLObjectType,
  getNamedType,
  isInterfaceType,
  isObjectType,
} from 'graphql';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { accountShape } from '../../src/domain/accounts.ts';
import { analyticsShape } from '../../src/domain/analytics-shape.ts';
import { newApiKeyShape } from '../../src/domain/api-keys.ts';
import { conversationShape } from '../../src/domain/conversation-record.ts';
import { conversationWithMessagesShape } from '../../src/domain/conversations.ts';
import { recoveryShape } from '../../src/domain/deliveries.ts';
import { deliveryWithAttemptsShape } from '../../src/domain/delivery-record.ts';
import { documentShape } from '../../src/domain/documents.ts';
import { type eventShape, eventShapes } from '../../src/domain/event-shape.ts';
import { leadShape } from '../../src/domain/leads.ts';
import { searchResultShape } from '../../src/domain/search.ts';
import { newTokenShape } from '../../src/domain/tokens.ts';
import { webhookWithSecretShape } from '../../src/domain/webhook-record.ts';
import { schema } from '../../src/graphql/schema.ts';

type Field = z.ZodType;
type Shape = z.ZodObject;
type EventShape = (typeof eventShape.options)[number];

/** An event as in GraphQL: with what all events have, and the fields of its `data`. */
function common(event: EventShape): Shape {
  const [, erased] = event.shape.data.options;
  return (event as Shape).omit({ data: true }).extend(erased.shape);
}

function flat(event: EventShape): Shape {
  const [data] = event.shape.data.options;
  const { conversation, changes, ...fields } = data.shape as Record<string, Field>;
  return common(event).extend({
    ...fields,
    ...(conversation && { conversation: snapshotShape }),
    ...(changes && { changes: z.array(changeShape) }),
  });
}

/** A conversation in an event: its id has another name, under which caches pass it over. */
const snapshotShape = conversationShape.omit({ id: true }).extend({ conversationId: conversationShape.shape.id });

/** Changes are a list, each under the name of its field. */
const changeShape = z.object({ field: z.string(), key: z.string(), from: z.json(), to: z.json() });

/** The shapes of the domain by the types that show them. The types nested in these are found from them. */
const shapes: Readonly<Record<string, Shape>> = {
  Account: accountShape,
  Analytics: analyticsShape,
  ApiKey: newApiKeyShape,
  TrustedDocument: documentShape,
  Conversation: conversationWithMessagesShape,
  ConversationClosedEvent: flat(eventShapes['conversation.closed']),
  ConversationDeletedEvent: flat(eventShapes['conversation.deleted']),
  ConversationReadEvent: flat(eventShapes['conversation.read']),
  ConversationReopenedEvent: flat(eventShapes['conversation.reopened']),
  ConversationStartedEvent: flat(eventShapes['conversation.started']),
  ConversationUpdatedEvent: flat(eventShapes['conversation.updated']),
  Delivery: deliveryWithAttemptsShape,
  Event: common(eventShapes['conversation.started']),
  Lead: leadShape,
  LeadCapturedEvent: flat(eventShapes['lead.captured']),
  MessageReceivedEvent: flat(eventShapes['message.received']),
  MessageSentEvent: flat(eventShapes['message.sent']),
  RecoverWebhookPayload: recoveryShape,
  SearchResult: searchResultShape,
  Token: newTokenShape,
  Webhook: webhookWithSecretShape,
};

type Shown = readonly [type: GraphQLObjectType | GraphQLInterfaceType, shape: Shape];

/** A type and those nested in it, each with the shape that it shows. */
function shownWithin([type, shape]: Shown): Shown[] {
  const fields = type.getFields();
  const nested = Object.entries(shape.shape as Record<string, Field>).flatMap(([name, field]): Shown[] => {
    const inner = fields[name] && itemOf(getNamedType(fields[name].type));
    return isObjectType(inner) ? objectsIn(field).map((object) => [inner, object]) : [];
  });
  return [[type, shape], ...nested.flatMap(shownWithin)];
}

/** The item type of a connection, which stands for a list within a shape; any other type as it is. */
function itemOf(type: GraphQLNamedType): GraphQLNamedType {
  const nodes = isObjectType(type) ? type.getFields()['nodes'] : undefined;
  return nodes === undefined ? type : getNamedType(nodes.type);
}

/** The objects in a field's schema, however wrapped. */
function objectsIn(field: Field): Shape[] {
  if (field instanceof z.ZodObject) return [field];
  const parts: unknown[] = Object.values(field.def).flat();
  return parts.filter((part): part is Field => part instanceof z.ZodType).flatMap(objectsIn);
}

test('every type except connections, edges and payloads has all fields of its shape in the domain', () => {
  const shown = Object.entries(shapes).flatMap(([name, shape]) => {
    const type = schema.getType(name);
    if (!isObjectType(type) && !isInterfaceType(type)) throw new Error(`There is no type ${name}`);
    return shownWithin([type, shape]);
  });
  const names = new Set(shown.map(([{ name }]) => name));
  const roots = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()];
  const others = Object.values(schema.getTypeMap())
    .filter(
      (type) => isObjectType(type) && !roots.includes(type) && !type.name.startsWith('__') && !names.has(type.name),
    )
    .map(({ name }) => name);
  expect(others.filter((name) => !/(Connection|Edge|Payload|^PageInfo)$/.test(name))).toEqual([]);
  const missing = shown.flatMap(([type, { shape }]) =>
    Object.keys(shape)
      .filter((key) => type.getFields()[key] === undefined)
      .map((key) => `${type.name}.${key}`),
  );
  expect(missing).toEqual([]);
});
