import { describe, expect, test } from 'vitest';
import type { JsonSchema } from '../src/http/json-schema.ts';
import { openApiDocument } from '../src/rest/openapi/document.ts';
import type { OpenApiDocument, OpenApiOperation, PathItem } from '../src/rest/openapi/types.ts';
import { routes } from '../src/rest/routes.ts';
import { openApiChanges } from './support/openapi-changes.ts';

// What the comparison of two documents says of each kind of change: the guard of our promise needs one itself.

type Verdict = 'breaking' | 'risky' | 'safe';

const text = { type: 'string' };
const count = { type: 'integer' };
const nothing = { type: 'null' };

const object = (
  properties: Record<string, JsonSchema>,
  required: string[] = [],
  more: JsonSchema = {},
): JsonSchema => ({
  type: 'object',
  properties,
  required,
  ...more,
});

const list = (items: JsonSchema): JsonSchema => ({ type: 'array', items });
const map = (additionalProperties: JsonSchema): JsonSchema => ({ type: 'object', additionalProperties });
const union = (...oneOf: JsonSchema[]): JsonSchema => ({ oneOf });
/** One of the kinds of a union. */
const kind = (type: string, data: Record<string, JsonSchema> = {}): JsonSchema =>
  object({ type: { type: 'string', const: type }, ...data }, ['type', ...Object.keys(data)]);
const oneOfTwo = object({ a: text, b: text }, [], { anyOf: [{ required: ['a'] }, { required: ['b'] }] });
const tree: JsonSchema = object({ value: text, next: { $ref: '#/components/schemas/Tree' } });
const components = { Named: object({ a: text, b: text }), Other: object({ a: text }), Tree: tree };

interface Given {
  readonly operation?: Partial<OpenApiOperation> | undefined;
  readonly schemas?: Readonly<Record<string, JsonSchema>>;
  readonly paths?: Readonly<Record<string, PathItem>>;
  readonly webhooks?: OpenApiDocument['webhooks'];
  readonly more?: Partial<OpenApiDocument['components']>;
}

const sending: OpenApiOperation = {
  operationId: 'send',
  summary: 'Sends.',
  description: '',
  tags: [],
  security: [{ bearer: ['write'] }],
  parameters: [],
  responses: { 200: { description: '', headers: {} } },
};

function documentOf({ operation, schemas = components, paths, webhooks = {}, more }: Given): OpenApiDocument {
  return {
    openapi: '3.1.1',
    info: {
      title: 'A service',
      version: '1',
      description: '',
      contact: { name: 'Somebody' },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [],
    tags: [],
    paths: paths ?? { '/things': { post: { ...sending, ...operation } } },
    webhooks,
    components: { securitySchemes: {}, schemas, responses: {}, headers: {}, parameters: {}, ...more },
  };
}

const json = (schema: JsonSchema) => ({ 'application/json': { schema } });
const answering = (schema: JsonSchema, headers = {}) => ({
  responses: { 200: { description: '', headers, content: json(schema) } },
});
const taking = (schema: JsonSchema, required = true) => ({ requestBody: { required, content: json(schema) } });
const parameter = (schema: JsonSchema, more: object = {}) => ({
  parameters: [{ name: 'limit', in: 'query' as const, required: false, schema, ...more }],
});

const hook = (operation: Partial<OpenApiOperation>) => ({ event: { post: { ...sending, ...operation } } });

function verdict(before: Given, after: Given): { verdict: Verdict; texts: string[] } {
  const changes = openApiChanges(documentOf(before), documentOf(after));
  const weights = new Set<Verdict>(changes.map(({ weight }) => weight));
  const worst = (['breaking', 'risky'] as const).find((weight) => weights.has(weight)) ?? 'safe';
  return { verdict: worst, texts: changes.map((change) => change.text) };
}

/** Each kind of change of a schema, and what it means in what clients send, and in what they are answered. */
const schemaCases: readonly (readonly [
  change: string,
  from: JsonSchema,
  to: JsonSchema,
  inRequests: Verdict,
  inAnswers: Verdict,
])[] = [
  ['nothing changes', object({ a: text }, ['a']), object({ a: text }, ['a']), 'safe', 'safe'],
  ['words change', { ...text, description: 'A' }, { ...text, description: 'B', examples: ['b'] }, 'safe', 'safe'],

  ['a property is removed', object({ a: text, b: text }), object({ a: text }), 'breaking', 'breaking'],
  ['a property is renamed', object({ a: text }), object({ b: text }), 'breaking', 'breaking'],
  ['a property is added', object({ a: text }), object({ a: text, b: text }), 'safe', 'safe'],
  ['a required property is added', object({}), object({ a: text }, ['a']), 'breaking', 'safe'],
  ['a property becomes required', object({ a: text }), object({ a: text }, ['a']), 'breaking', 'safe'],
  ['a property becomes optional', object({ a: text }, ['a']), object({ a: text }), 'safe', 'breaking'],
  [
    'a nested property is removed',
    object({ a: object({ b: text }) }),
    object({ a: object({}) }),
    'breaking',
    'breaking',
  ],
  ['a property of items is removed', list(object({ a: text })), list(object({})), 'breaking', 'breaking'],
  ['items get another type', list(text), list(count), 'breaking', 'breaking'],
  ['items are no longer described', list(text), { type: 'array' }, 'safe', 'breaking'],

  ['the type is another', text, count, 'breaking', 'breaking'],
  ['an integer becomes a number', count, { type: 'number' }, 'safe', 'breaking'],
  ['a number becomes an integer', { type: 'number' }, count, 'breaking', 'safe'],
  ['null is added', text, { type: ['string', 'null'] }, 'safe', 'breaking'],
  ['null is removed', { type: ['string', 'null'] }, text, 'breaking', 'safe'],
  ['null is written as an alternative', { type: ['string', 'null'] }, { anyOf: [text, nothing] }, 'safe', 'safe'],
  ['null is added as an alternative', text, { anyOf: [text, nothing] }, 'safe', 'breaking'],
  ['a type is no longer given', text, {}, 'safe', 'breaking'],
  ['a type is given', {}, text, 'breaking', 'safe'],

  ['a value is added', { enum: ['a'] }, { enum: ['a', 'b'] }, 'safe', 'risky'],
  ['a value is removed', { enum: ['a', 'b'] }, { enum: ['a'] }, 'breaking', 'breaking'],
  ['a constant becomes one of several', { const: 'a' }, { enum: ['a', 'b'] }, 'safe', 'risky'],
  ['a constant is another', { type: 'string', const: 'a' }, { type: 'string', const: 'b' }, 'breaking', 'breaking'],
  ['values are no longer listed', { ...text, enum: ['a'] }, text, 'safe', 'breaking'],
  ['values are listed', text, { ...text, enum: ['a'] }, 'breaking', 'safe'],
  ['null is added to values', { enum: ['a'] }, { enum: ['a', null] }, 'safe', 'breaking'],

  ['a maximum is lowered', { ...count, maximum: 9 }, { ...count, maximum: 5 }, 'breaking', 'safe'],
  ['a maximum is raised', { ...count, maximum: 5 }, { ...count, maximum: 9 }, 'safe', 'risky'],
  ['a maximum is set', count, { ...count, maximum: 0 }, 'breaking', 'safe'],
  ['a minimum is raised', { ...count, minimum: 0 }, { ...count, minimum: 1 }, 'breaking', 'safe'],
  ['a text may be longer', { ...text, maxLength: 5 }, { ...text, maxLength: 9 }, 'safe', 'risky'],
  ['a text must be longer', text, { ...text, minLength: 1 }, 'breaking', 'safe'],
  ['a list may be shorter', { ...list(text), minItems: 2 }, { ...list(text), minItems: 1 }, 'safe', 'risky'],
  ['a pattern is set', text, { ...text, pattern: '^a' }, 'breaking', 'safe'],
  ['a pattern is another', { ...text, pattern: '^a' }, { ...text, pattern: '^b' }, 'breaking', 'risky'],
  ['a format is set', text, { ...text, format: 'uri' }, 'breaking', 'safe'],
  ['a format is gone', { ...text, format: 'date-time' }, text, 'safe', 'breaking'],
  ['a default is another', { ...count, default: 20 }, { ...count, default: 50 }, 'risky', 'safe'],
  ['a default is set', count, { ...count, default: 20 }, 'safe', 'safe'],

  ['other properties are refused', object({}), object({}, [], { additionalProperties: false }), 'breaking', 'safe'],
  ['other properties are taken', object({}, [], { additionalProperties: false }), object({}), 'safe', 'safe'],
  ['the values of a map get another type', map(text), map(count), 'breaking', 'breaking'],
  ['the values of a map may be of more types', map(text), map({ type: ['string', 'number'] }), 'safe', 'breaking'],
  ['the values of a map may be anything', map(text), { type: 'object' }, 'safe', 'breaking'],

  ['an alternative is added', { anyOf: [text] }, { anyOf: [text, count] }, 'safe', 'breaking'],
  ['an alternative is removed', { anyOf: [text, count] }, { anyOf: [text] }, 'breaking', 'safe'],
  [
    'an alternative of a type is narrowed',
    { anyOf: [text, count] },
    { anyOf: [{ ...text, maxLength: 5 }, count] },
    'breaking',
    'safe',
  ],
  ['alternatives change places', { anyOf: [text, count] }, { oneOf: [count, text] }, 'safe', 'safe'],
  [
    'a kind is added',
    union(kind('a'), kind('b')),
    union(kind('a'), kind('b'), kind('c', { d: text })),
    'safe',
    'risky',
  ],
  ['a kind is removed', union(kind('a'), kind('b')), union(kind('a')), 'breaking', 'breaking'],
  [
    'a kind loses a property',
    union(kind('a', { d: text }), kind('b')),
    union(kind('a'), kind('b')),
    'breaking',
    'breaking',
  ],
  ['a kind gets a property', union(kind('a'), kind('b')), union(kind('a', { d: text }), kind('b')), 'breaking', 'safe'],
  [
    'a part of a whole loses a property',
    { allOf: [object({ a: text }), object({ b: text })] },
    { allOf: [object({ a: text })] },
    'breaking',
    'breaking',
  ],
  [
    'parts are written as one',
    { allOf: [object({ a: text }), object({ b: text }, ['b'])] },
    object({ a: text, b: text }, ['b']),
    'safe',
    'safe',
  ],
  [
    'a part narrows a property',
    object({ a: { enum: ['x', 'y'] } }),
    { allOf: [object({ a: { enum: ['x', 'y'] } }), { properties: { a: { enum: ['x'] } } }] },
    'breaking',
    'breaking',
  ],
  ['one of two becomes required', object({ a: text, b: text }), oneOfTwo, 'breaking', 'safe'],
  ['one of two is no longer required', oneOfTwo, object({ a: text, b: text }), 'safe', 'breaking'],
  ['a second of two becomes required', oneOfTwo, object({ a: text, b: text }, ['a', 'b']), 'breaking', 'safe'],

  ['a reference is written out', { $ref: '#/components/schemas/Named' }, components.Named, 'safe', 'safe'],
  [
    'a reference leads to less',
    { $ref: '#/components/schemas/Named' },
    { $ref: '#/components/schemas/Other' },
    'breaking',
    'breaking',
  ],
  ['a reference leads to itself', { $ref: '#/components/schemas/Tree' }, tree, 'safe', 'safe'],
  [
    'a reference may be null',
    { $ref: '#/components/schemas/Named' },
    { anyOf: [{ $ref: '#/components/schemas/Named' }, nothing] },
    'safe',
    'breaking',
  ],
];

describe.each(schemaCases)('when %s', (_, from, to, inRequests, inAnswers) => {
  test(`that is ${inRequests} in what clients send`, () => {
    const { verdict: said, texts } = verdict({ operation: taking(from) }, { operation: taking(to) });
    expect([said, texts]).toEqual([inRequests, texts]);
    const ofParameter = verdict({ operation: parameter(from) }, { operation: parameter(to) });
    expect(ofParameter.verdict).toBe(inRequests);
  });

  test(`that is ${inAnswers} in what they are answered`, () => {
    const { verdict: said, texts } = verdict({ operation: answering(from) }, { operation: answering(to) });
    expect([said, texts]).toEqual([inAnswers, texts]);
    const headers = (schema: JsonSchema) => answering(text, { Total: { description: '', schema } });
    expect(verdict({ operation: headers(from) }, { operation: headers(to) }).verdict).toBe(inAnswers);
    const delivered = verdict({ webhooks: hook(taking(from)) }, { webhooks: hook(taking(to)) });
    expect(delivered.verdict).toBe(inAnswers);
  });
});

/** Each kind of change of a document beside those of schemas. */
const documentCases: readonly (readonly [change: string, from: Given, to: Given, verdict: Verdict])[] = [
  [
    'a path is removed',
    { paths: { '/a': { get: sending }, '/b': { get: sending } } },
    { paths: { '/a': { get: sending } } },
    'breaking',
  ],
  [
    'a path is added',
    { paths: { '/a': { get: sending } } },
    { paths: { '/a': { get: sending }, '/b': { get: sending } } },
    'safe',
  ],
  [
    'a method is removed',
    { paths: { '/a': { get: sending, put: sending } } },
    { paths: { '/a': { get: sending } } },
    'breaking',
  ],
  [
    'a method is added',
    { paths: { '/a': { get: sending } } },
    { paths: { '/a': { get: sending, put: sending } } },
    'safe',
  ],
  ['an operation has another name', {}, { operation: { operationId: 'post' } }, 'breaking'],
  ['an operation is deprecated', {}, { operation: { deprecated: true } }, 'safe'],
  ['an operation needs another scope', {}, { operation: { security: [{ bearer: ['manage'] }] } }, 'breaking'],
  ['an operation needs one more scope', {}, { operation: { security: [{ bearer: ['write', 'read'] }] } }, 'breaking'],
  ['an operation needs no scope any more', {}, { operation: { security: [{ bearer: [] }] } }, 'safe'],
  [
    'an operation can be called with another scope, too',
    {},
    { operation: { security: [{ bearer: ['write'] }, { bearer: ['manage'] }] } },
    'safe',
  ],
  [
    'a credential is another',
    { more: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } } },
    { more: { securitySchemes: { bearer: { type: 'http', scheme: 'basic' } } } },
    'breaking',
  ],

  ['a parameter is removed', { operation: parameter(count) }, {}, 'breaking'],
  ['a parameter is added', {}, { operation: parameter(count) }, 'safe'],
  ['a required parameter is added', {}, { operation: parameter(count, { required: true }) }, 'breaking'],
  [
    'a parameter becomes required',
    { operation: parameter(count) },
    { operation: parameter(count, { required: true }) },
    'breaking',
  ],
  ['a parameter moves', { operation: parameter(count) }, { operation: parameter(count, { in: 'header' }) }, 'breaking'],
  [
    'a parameter is written in another style',
    { operation: parameter(list(text), { explode: false }) },
    { operation: parameter(list(text), { explode: true }) },
    'breaking',
  ],
  [
    'a parameter is described elsewhere',
    { operation: parameter(count) },
    {
      operation: { parameters: [{ $ref: '#/components/parameters/Limit' }] },
      more: { parameters: { Limit: { name: 'limit', in: 'query', required: false, schema: count } } },
    },
    'safe',
  ],

  ['a body is required', {}, { operation: taking(object({})) }, 'breaking'],
  ['a body may be sent', {}, { operation: taking(object({}), false) }, 'safe'],
  ['a body may be left out', { operation: taking(object({})) }, { operation: taking(object({}), false) }, 'safe'],
  [
    'a body may no longer be left out',
    { operation: taking(object({}), false) },
    { operation: taking(object({})) },
    'breaking',
  ],
  ['a body is no longer taken', { operation: taking(object({})) }, {}, 'breaking'],
  [
    'a body has another media type',
    { operation: taking(text) },
    { operation: { requestBody: { required: true, content: { 'text/plain': { schema: text } } } } },
    'breaking',
  ],

  ['a status is gone', {}, { operation: { responses: { 201: { description: '', headers: {} } } } }, 'breaking'],
  [
    'a status is added',
    {},
    { operation: { responses: { ...sending.responses, 409: { description: '', headers: {} } } } },
    'risky',
  ],
  ['an answer is empty', { operation: answering(text) }, {}, 'breaking'],
  ['an answer has a body', {}, { operation: answering(text) }, 'safe'],
  [
    'a header is gone',
    { operation: answering(text, { Total: { description: '', schema: count } }) },
    { operation: answering(text) },
    'breaking',
  ],
  [
    'a header may be missing',
    { operation: answering(text, { Total: { description: '', required: true, schema: count } }) },
    { operation: answering(text, { Total: { description: '', schema: count } }) },
    'breaking',
  ],
  [
    'an answer is described elsewhere',
    { operation: answering(text) },
    {
      operation: { responses: { 200: { $ref: '#/components/responses/Text' } } },
      more: { responses: { Text: { description: '', headers: {}, content: json(text) } } },
    },
    'safe',
  ],

  ['a webhook is gone', { webhooks: hook({}) }, {}, 'breaking'],
  ['a webhook is added', {}, { webhooks: hook({}) }, 'safe'],
  [
    'a header of a webhook is gone',
    { webhooks: hook(parameter(count, { required: true })) },
    { webhooks: hook({}) },
    'breaking',
  ],
  [
    'a header of a webhook may be missing',
    { webhooks: hook(parameter(count, { required: true })) },
    { webhooks: hook(parameter(count)) },
    'breaking',
  ],
  [
    'a webhook has one more header',
    { webhooks: hook({}) },
    { webhooks: hook(parameter(count, { required: true })) },
    'safe',
  ],
  ['a component that nothing uses is gone', {}, { schemas: {} }, 'safe'],
];

test.each(documentCases)('when %s, the verdict is right', (_, from, to, expected) => {
  const { verdict: said, texts } = verdict(from, to);
  expect([said, texts]).toEqual([expected, texts]);
});

test('a keyword that it does not know is an error, and not passed over', () => {
  const unknown = { operation: taking({ type: 'object', patternProperties: {} }) };
  expect(() => verdict(unknown, unknown)).toThrow('patternProperties');
});

test('a change is reported once, where it is described', () => {
  const named = { $ref: '#/components/schemas/Named' };
  const given = { operation: { ...taking(list(named)), ...answering(object({ one: named, other: named })) } };
  const { texts } = verdict(given, { ...given, schemas: { ...components, Named: components.Other } });
  expect(texts).toEqual(['Named: b is gone']);
});

test('in our own openapi.json, it reaches every schema: one that loses a field breaks clients, and more fields do not', () => {
  const document: OpenApiDocument = JSON.parse(JSON.stringify(openApiDocument(routes)));
  const objects = Object.entries(document.components.schemas).filter(
    ([, { properties = {} }]) => Object.keys(properties).length > 0,
  );
  type Named = (typeof objects)[number];
  const lostBy = (name: string) => `what ${name} loses`;
  /** The document before these lost a field. */
  const before = (losing: readonly Named[]): OpenApiDocument => {
    const larger = losing.map(([name, schema]) => [
      name,
      { ...schema, properties: { ...schema.properties, [lostBy(name)]: text } },
    ]);
    const schemas = { ...document.components.schemas, ...Object.fromEntries(larger) };
    return { ...document, components: { ...document.components, schemas } };
  };
  const unnoticedOf = (losing: readonly Named[]): readonly Named[] => {
    const changes = openApiChanges(before(losing), document).filter(({ weight }) => weight === 'breaking');
    return losing.filter(([name]) => !changes.some((change) => change.text.endsWith(`: ${lostBy(name)} is gone`)));
  };
  expect(objects.length).toBeGreaterThan(40);
  // Where several alternatives lose something, what one of them loses may not be told.
  const unnoticed = unnoticedOf(objects).flatMap((each) => unnoticedOf([each]));
  expect(unnoticed.map(([name]) => name)).toEqual([]);
  expect(openApiChanges(document, before(objects))).toEqual([]);
});
