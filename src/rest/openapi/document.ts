import { deprecationReason } from '../../domain/deprecation.ts';
import { exampleEventCursor, exampleStartCursor } from '../../domain/events.ts';
import { idempotencyKeyDescription, idempotencyKeyPattern } from '../../domain/idempotency.ts';
import { retryMs } from '../event-stream.ts';
import { fieldsInHeaders } from '../headers.ts';
import type { Route } from '../routes.ts';
import { problemShape } from '../shapes.ts';
import { deliveryOperation } from './deliveries.ts';
import { exampleOf } from './examples.ts';
import { deprecationHeaders, headersNamed, limitHeaders, responseHeaders } from './headers.ts';
import { type JsonSchema, SchemaComponents } from './json-schema.ts';
import { problemsOf } from './problems.ts';
import type {
  OpenApiDocument,
  OpenApiOperation,
  OpenApiParameter,
  OpenApiResponse,
  PathItem,
  Reference,
} from './types.ts';

const description = `Conversations, messages and events for client programs. The same operations can be called through GraphQL at \`/graphql\`.

Every request carries a credential, \`Authorization: Bearer cs_…\`, which may do what its scopes say.

What cannot be done is answered with a problem (RFC 9457) that has a \`code\` to act on. An unknown path is \`NOT_FOUND\`, a method that a path does not know \`METHOD_NOT_ALLOWED\` with \`Allow\`. A field or parameter that is not documented is refused with \`VALIDATION_FAILED\`.

Lists come in pages: go on with \`after\` and the last page’s \`nextCursor\`, or with the address in the \`Link\` header. HEAD works wherever GET does, except on streams.

Every answer says what is left of the account’s requests. \`/v1\` only grows: pass over fields and values that you do not know. What is deprecated says so twelve months before it goes.`;

/** What the resources are, by the first part of their paths. */
const tagDescriptions: Readonly<Record<string, string>> = {
  conversations: 'Conversations with visitors, and their messages.',
  leads: 'Contact information that visitors have left.',
  events: 'The log of what happened, in pages or as it grows.',
  webhooks: 'Addresses that events are delivered to.',
  analytics: 'Figures of a period.',
  account: 'The account that the credential belongs to.',
  'api-keys': 'The credentials of programs.',
  tokens: 'The credentials of browser pages.',
};

const requestIdParameter: OpenApiParameter = {
  name: 'X-Request-Id',
  in: 'header',
  description: 'An id of the caller’s own for the request: it is in the answer and in the logs.',
  required: false,
  schema: { type: 'string', minLength: 1, maxLength: 128, pattern: String.raw`^[\x21-\x7e]+$` },
};

const lastEventIdParameter: OpenApiParameter = {
  name: 'Last-Event-ID',
  in: 'header',
  description: 'The last `id` that was seen, which goes before `after`: an EventSource sends it when it comes back.',
  required: false,
  schema: { type: 'string' },
  example: exampleEventCursor,
};

const ifNoneMatchParameter: OpenApiParameter = {
  name: 'If-None-Match',
  in: 'header',
  description: 'The `ETag` that the caller has: if it is still right, the answer is 304 and has no body.',
  required: false,
  schema: { type: 'string' },
  example: '"3"',
};

/** The fields of an input that REST has in headers, as they are written there. */
const headerParameters: Readonly<Record<'Idempotency-Key' | 'If-Match', OpenApiParameter>> = {
  'Idempotency-Key': {
    name: 'Idempotency-Key',
    in: 'header',
    description: idempotencyKeyDescription,
    required: false,
    schema: { type: 'string', pattern: idempotencyKeyPattern.source },
    example: 'f3c1b9e2-7a54-4a8e-9a55-0f1f4a0c7d21',
  },
  'If-Match': {
    name: 'If-Match',
    in: 'header',
    description:
      'The `ETag` that the caller has seen, or several: with any other, nothing is changed and the answer is 412.',
    required: false,
    schema: { type: 'string' },
    example: '"3"',
  },
};

/**
 * Describes the routes: all that it says comes from them and from the operations that they call.
 * @param publicUrl where the service is reached; without it the document says that it is where the document is
 */
export function openApiDocument(routes: readonly Route[], publicUrl?: string): OpenApiDocument {
  const components = new SchemaComponents();
  components.of(problemShape, 'output');
  const responses: Record<string, OpenApiResponse> = {};
  const paths: Record<string, PathItem> = {};
  for (const route of routes) {
    const path = `/v1${route.path.replaceAll(/:(\w+)/g, '{$1}')}`;
    const item = paths[path] ?? {};
    item[route.method.toLowerCase() as keyof PathItem] = operationOf(route, components, responses);
    paths[path] = item;
  }
  const webhooks = { event: { post: deliveryOperation(components) } };
  const tags = [...new Set(routes.map(tagOf))].map((name) => ({ name, description: tagDescriptions[name] ?? '' }));
  return {
    openapi: '3.1.1',
    info: {
      title: 'Conversation service',
      version: 'v1',
      description,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: publicUrl?.replace(/\/$/, '') ?? '/' }],
    tags,
    paths,
    webhooks,
    components: {
      securitySchemes: { bearer: bearerScheme },
      schemas: components.schemas,
      responses,
      headers: usedHeaders([paths, responses]),
      parameters: { RequestId: requestIdParameter },
    },
  };
}

const bearerScheme = {
  type: 'http',
  scheme: 'bearer',
  description:
    'An API key, or a token that was made with one. What it may do are its scopes; each operation names the one that it needs.',
};

/** A component that nothing refers to is left out. */
function usedHeaders(parts: unknown): OpenApiDocument['components']['headers'] {
  const text = JSON.stringify(parts);
  return Object.fromEntries(
    Object.entries(responseHeaders).filter(([name]) => text.includes(`"#/components/headers/${name}"`)),
  );
}

function tagOf({ path }: Route): string {
  return path.split('/')[1] ?? '';
}

function operationOf(
  route: Route,
  components: SchemaComponents,
  problems: Record<string, OpenApiResponse>,
): OpenApiOperation {
  const { operation } = route;
  const { scope, deprecated, openToBound, keysOnly } = operation;
  const input = components.of(operation.input, 'input');
  const inPath = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => name ?? '');
  return {
    operationId: operation.name,
    summary: operation.summary,
    description: [
      scope === 'any' ? 'Any credential may call it.' : `Needs the scope \`${scope}\`.`,
      ...(keysOnly ? ['Only an API key may call it, not a token.'] : []),
      ...(openToBound ? ['A token that is bound to a conversation may call it for that one.'] : []),
      ...(deprecated === undefined ? [] : [deprecationReason(deprecated)]),
    ].join(' '),
    ...(deprecated !== undefined && { deprecated: true }),
    tags: [tagOf(route)],
    security: [{ bearer: scope === 'any' ? [] : [scope] }],
    parameters: parametersOf(route, input, inPath, components),
    ...(route.body !== 'none' && { requestBody: bodyOf(route, input, inPath, components) }),
    responses: {
      [route.status]: answerOf(route, components),
      ...(route.version !== undefined && route.method === 'GET' && { 304: notModified }),
      ...problemsOf(route, problems),
    },
  };
}

function parametersOf(
  route: Route,
  input: JsonSchema,
  inPath: readonly string[],
  components: SchemaComponents,
): (OpenApiParameter | Reference)[] {
  const fields = Object.entries(input.properties ?? {}).filter(
    ([name]) => route.body === 'none' || inPath.includes(name) || fieldsInHeaders.has(name),
  );
  return [
    ...fields.map(([name, field]): OpenApiParameter => {
      const header = fieldsInHeaders.get(name);
      if (header !== undefined) return headerParameters[header];
      const { description, deprecated, examples, ...schema } = withoutNull(field);
      const [example] = examples ?? (schema.format === 'date-time' ? [exampleOf(schema, components)] : []);
      return {
        name,
        in: inPath.includes(name) ? 'path' : 'query',
        ...(description !== undefined && { description }),
        required: inPath.includes(name),
        ...(deprecated === true && { deprecated }),
        // A list is one parameter, with commas.
        ...(schema.type === 'array' && { style: 'form', explode: false }),
        schema,
        ...(example !== undefined && { example }),
      };
    }),
    ...(route.streams ? [lastEventIdParameter] : []),
    ...(route.version !== undefined && route.method === 'GET' ? [ifNoneMatchParameter] : []),
    { $ref: '#/components/parameters/RequestId' },
  ];
}

/** In a path or a query everything is text: null cannot be sent. */
function withoutNull(schema: JsonSchema): JsonSchema {
  const { anyOf, type, ...rest } = schema;
  const others = anyOf?.filter((alternative) => alternative.type !== 'null');
  if (others?.length === 1) return { ...others[0], ...rest };
  return Array.isArray(type) ? { ...schema, type: type.find((word) => word !== 'null') } : schema;
}

function bodyOf(
  { operation, body }: Route,
  { properties = {}, required = [], ...input }: JsonSchema,
  inPath: readonly string[],
  components: SchemaComponents,
): NonNullable<OpenApiOperation['requestBody']> {
  const elsewhere = new Set([...inPath, ...fieldsInHeaders.keys()]);
  const own = required.filter((name) => !elsewhere.has(name));
  const schema = components.name(`${operation.name.replace(/^./, (first) => first.toUpperCase())}Input`, {
    ...input,
    properties: Object.fromEntries(Object.entries(properties).filter(([name]) => !elsewhere.has(name))),
    ...(own.length > 0 && { required: own }),
  });
  return {
    required: body === 'required',
    content: { 'application/json': { schema, example: exampleOf(schema, components) } },
  };
}

const notModified: OpenApiResponse = {
  description: 'It is still as the caller has it.',
  headers: headersNamed(['X-Request-Id', ...limitHeaders, 'ETag']),
};

function answerOf(route: Route, components: SchemaComponents): OpenApiResponse {
  const { answers, streams, operation } = route;
  const headers = headersNamed([
    'X-Request-Id',
    ...limitHeaders,
    ...(route.location === undefined ? [] : ['Location']),
    ...(isList(route) ? ['Link'] : []),
    ...(route.version === undefined ? [] : ['ETag']),
  ]);
  if (operation.repeatable) Object.assign(headers, headersNamed(['Idempotent-Replayed'], { always: false }));
  Object.assign(headers, deprecationHeaders(operation, { always: operation.deprecated !== undefined }));
  if (answers === undefined) return { description: 'It is done.', headers };
  const schema = components.of(answers, 'output');
  const example = exampleOf(schema, components);
  const description = components.resolve(schema).description ?? 'What was asked for.';
  if (!streams) return { description, headers, content: { 'application/json': { schema, example } } };
  return {
    description: `Server-Sent Events without an end: \`id\` is the cursor, \`event\` the type, \`data\` the event as JSON. First, and then every 15 s, comes a block with an \`id\` alone, to resume from: it moves on with what the filter leaves out. The first has \`retry\`, too. ${description}`,
    headers,
    content: {
      'text/event-stream': {
        schema: { type: 'string', contentMediaType: 'application/json', contentSchema: schema },
        example: `retry: ${retryMs}\nid: ${exampleStartCursor}\n\nid: ${exampleEventCursor}\nevent: conversation.started\ndata: ${JSON.stringify(example)}\n\n`,
      },
    },
  };
}

/** Whether the answer is a page, with the address of the next one. */
function isList({ operation, streams }: Route): boolean {
  const { shape } = operation.input as unknown as { shape: object };
  return 'limit' in shape && 'after' in shape && !streams;
}
