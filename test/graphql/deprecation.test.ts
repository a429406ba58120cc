import {
  type GraphQLField,
  type GraphQLInputField,
  type GraphQLSchema,
  graphqlSync,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
  validateSchema,
} from 'graphql';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { type Deprecation, deprecated } from '../../src/domain/deprecation.ts';
import { operations } from '../../src/domain/operations.ts';
import { type Shapes, shownShapes } from '../../src/graphql/deprecation.ts';
import { schemaOf } from '../../src/graphql/schema.ts';
import { shapes } from '../../src/graphql/shapes.ts';
import type { Json } from '../support/client.ts';

// The service's schema with deprecations of this test only: of an operation, of every optional input, and of some fields
// of resources. The note of each deprecation names what is deprecated.

const given = Object.values(operations).flatMap(({ name, input }) =>
  Object.entries((input as unknown as z.ZodObject).shape)
    .filter(([, field]) => (field as z.ZodType).isOptional())
    .map(([key]) => `${name}.${key}`),
);
function noting(note: string): Deprecation {
  return { since: '2026-11-21', sunset: '2027-11-21', note: `${note}!` };
}

const ofOperations = Object.values(operations).map(({ name, input }) => {
  const { shape } = input as unknown as z.ZodObject;
  const fields = Object.entries(shape as Record<string, z.ZodType>).map(([key, field]) => {
    const note = `${name}.${key}`;
    return [key, given.includes(note) ? deprecated(field, noting(note)) : field];
  });
  return {
    name,
    input: z.strictObject(Object.fromEntries(fields)),
    deprecated: name === 'listLeads' ? noting(name) : undefined,
  };
});

/** A shape in which the field at a path is deprecated, also inside nullable, read-only and array types. */
function deprecateField<Schema extends z.ZodType>(shape: Schema, path: string, note = path): Schema {
  const [key = '', ...rest] = path.split('.');
  if (shape instanceof z.ZodNullable)
    return deprecateField(shape.unwrap() as z.ZodType, path, note).nullable() as never;
  if (shape instanceof z.ZodReadonly) return deprecateField(shape.unwrap() as z.ZodType, path, note) as never;
  if (shape instanceof z.ZodArray) return z.array(deprecateField(shape.element as z.ZodType, path, note)) as never;
  const object = shape as unknown as z.ZodObject;
  const field = object.shape[key] as z.ZodType;
  const changed = rest.length === 0 ? deprecated(field, noting(note)) : deprecateField(field, rest.join('.'), note);
  return object.extend({ [key]: changed }) as unknown as Schema;
}

function withFields(name: string, ...paths: string[]): Shapes {
  return { [name]: paths.reduce((shape, path) => deprecateField(shape, path), shapes[name] as z.ZodObject) };
}

const schema = schemaOf(ofOperations, {
  ...shapes,
  ...withFields('Conversation', 'subject', 'visitor.email', 'messages.author.name'),
  ...withFields('Delivery', 'attempts.error'),
  ...withFields('Analytics', 'series.firstResponseSeconds.p90', 'openNow'),
  ...withFields('Token', 'sender'),
  ...withFields('Event', 'apiVersion'),
  ...withFields('MessageReceivedEvent', 'apiVersion', 'message'),
});

type Part = [at: string, reason: string | null | undefined];

/** Every field, argument and input field of a schema, with its deprecation reason. */
function parts(whole: GraphQLSchema): Part[] {
  return Object.values(whole.getTypeMap()).flatMap((type) => {
    if (!isObjectType(type) && !isInterfaceType(type) && !isInputObjectType(type)) return [];
    return Object.values<GraphQLField<unknown, unknown> | GraphQLInputField>(type.getFields()).flatMap((field) => [
      [`${type.name}.${field.name}`, field.deprecationReason],
      ...('args' in field ? field.args : []).map(
        (argument): Part => [`${type.name}.${field.name}(${argument.name})`, argument.deprecationReason],
      ),
    ]);
  });
}

/** The notes of the deprecations in the schema, by place. */
const notes: Readonly<Record<string, string>> = Object.fromEntries(
  parts(schema).flatMap(([at, reason]) => (reason == null ? [] : [[at, reason.slice(0, reason.indexOf('!'))]])),
);
const placesOf = (note: string): string[] => Object.keys(notes).filter((at) => notes[at] === note);

test('a field that calls a deprecated operation is deprecated, with both dates', () => {
  expect(placesOf('listLeads')).toEqual(['Query.leads']);
  expect(schema.getQueryType()?.getFields()['leads']?.deprecationReason).toBe(
    'listLeads! Deprecated since 2026-11-21; it may be gone from 2027-11-21 on.',
  );
});

test('a deprecated input is deprecated on every field that takes it, under its name in GraphQL', () => {
  expect(placesOf('listConversations.externalId')).toEqual(['Query.conversations(externalId)']);
  expect(placesOf('listConversations.limit')).toEqual(['Query.conversations(first)']);
  expect(placesOf('listMessages.limit')).toEqual(['Conversation.messages(first)', 'Conversation.messages(last)']);
  expect(placesOf('sendMessage.author')).toEqual(['SendMessageInput.author']);
  expect(placesOf('updateConversation.expectedVersion').sort()).toEqual([
    'CloseConversationInput.expectedVersion',
    'ReopenConversationInput.expectedVersion',
    'UpdateConversationInput.expectedVersion',
  ]);
});

test('every deprecated input that GraphQL has is deprecated in the schema', () => {
  const unseen = given.filter((note) => placesOf(note).length === 0);
  // In GraphQL `first` and `last` replace the sort of messages, and a delivery is found by its id alone.
  expect(unseen).toEqual(['listMessages.sort', 'getDelivery.webhookId']);
});

test('a deprecated field of a resource is deprecated in its type, also when nested or in a list', () => {
  const fields = Object.entries(notes).filter(([, note]) => !given.includes(note) && note !== 'listLeads');
  expect(Object.fromEntries(fields)).toEqual({
    'Conversation.subject': 'subject',
    'Visitor.email': 'visitor.email',
    'MessageAuthor.name': 'messages.author.name',
    'Attempt.error': 'attempts.error',
    'DurationFigures.p90': 'series.firstResponseSeconds.p90',
    'Analytics.openNow': 'openNow',
    'Token.sender': 'sender',
    'Event.apiVersion': 'apiVersion',
    'MessageReceivedEvent.apiVersion': 'apiVersion',
    'MessageReceivedEvent.message': 'message',
  });
});

test('every type except connections, edges and payloads has all fields of its shape in the domain', () => {
  const shown = shownShapes(schema, shapes);
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

test('the schema stays valid, and introspection shows the deprecations', () => {
  expect(validateSchema(schema)).toEqual([]);
  const source = '{ __type(name: "Query") { fields(includeDeprecated: true) { name isDeprecated } } }';
  const { data } = graphqlSync({ schema, source }) as { data: Json };
  expect(data.__type.fields.filter((field: Json) => field.isDeprecated)).toEqual([
    { name: 'leads', isDeprecated: true },
  ]);
});
