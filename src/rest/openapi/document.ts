import { exampleEventCursor, exampleStartCursor } from '../../domain/event-cursor.ts';
import { idempotencyKeyDescription, idempotencyKeyPattern } from '../../domain/idempotency.ts';
import { deprecationReason, type OpenTo } from '../../domain/operation.ts';
import type { JsonSchema } from '../../http/json-schema.ts';
import { problemShape } from '../../http/problem.ts';
import { version } from '../../version.ts';
import { retryMs } from '../event-stream.ts';
import { fieldsInHeaders } from '../headers.ts';
import type { Route } from '../routes.ts';
import { deliveryOperation } from './deliveries.ts';
import { exampleOf } from './examples.ts';
import { headersNamed, limitHeaders, responseHeaders } from './headers.ts';
import { SchemaComponents } from './json-schema.ts';
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

Every request needs a credential, \`Authorization: Bearer cs_…\`. Its scopes determine what it may do.

Errors are problem details (RFC 9457) with a \`code\` for programs. An unknown path is \`NOT_FOUND\`, a method that a path does not support \`METHOD_NOT_ALLOWED\` with \`Allow\`. Undocumented fields and parameters are rejected with \`VALIDATION_FAILED\`.

Lists are paginated: get the next page with \`after\` and the \`nextCursor\` of the last one, or by the URL in the \`Link\` header. HEAD works wherever GET does, except for streams.

Every response to an authenticated request has the state of the account’s rate limit. \`/v1\` only grows: ignore fields and values that you do not know. Deprecations are announced at least twelve months before removal.`;

/** Descriptions of the tags; a tag is the first segment of a path. */
const tagDescriptions: Readonly<Record<string, string>> = {
  conversations: 'Conversations with visitors, and their messages.',
  messages: 'Messages, found by their ids alone.',
  search: 'Words in messages, subjects and visitors.',
  leads: 'Contact details of visitors.',
  events: 'The event log, in pages or as a live stream.',
  webhooks: 'URLs that events are delivered to.',
  analytics: 'Statistics of a period.',
  account: 'The account of the credential.',
  'api-keys': 'Credentials for programs.',
  tokens: 'Short-lived credentials for browser pages.',
  documents: 'GraphQL documents that clients call by their ids.',
};

/** Which bound tokens may call an operation, in words. */
const openToWords: Readonly<Record<OpenTo, string>> = {
  all: 'A token bound to a conversation or a visitor may call this operation for what it is bound to.',
  visitor: 'A token bound to a visitor may call this operation for that visitor.',
};

/** How a list is written in a URL, of which a document can say only one half. */
const listsInWords = 'Several are separated by commas, or the parameter is repeated.';

const requestIdParameter: OpenApiParameter = {
  name: 'X-Request-Id',
  in: 'header',
  description: 'An id for the request, chosen by the client. It is returned in the response and written to the logs.',
  required: false,
  schema: { type: 'string', minLength: 1, maxLength: 128, pattern: String.raw`^[\x21-\x7e]+$` },
};

const lastEventIdParameter: OpenApiParameter = {
  name: 'Last-Event-ID',
  in: 'header',
  description:
    'The last `id` received, which takes precedence over `after`. An EventSource sends it when it reconnects.',
  required: false,
  schema: { type: 'string' },
  example: exampleEventCursor,
};

const ifNoneMatchParameter: OpenApiParameter = {
  name: 'If-None-Match',
  in: 'header',
  description: 'The `ETag` of the client’s copy. If it is current, the response is 304 without a body.',
  required: false,
  schema: { type: 'string' },
  example: '"3.1"',
};

/** The parameters for input fields that REST takes from headers. */
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
      'One or several values of `ETag`. If none of them is the current one, nothing is changed and the response is 412.',
    required: false,
    schema: { type: 'string' },
    example: '"3"',
  },
};

/**
 * Generates the OpenAPI document from the routes and their operations.
 * @param publicUrl the URL of the service; without it, the server URL is relative to the document
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
      version,
      description,
      contact: { name: 'The operator of this installation', ...(publicUrl !== undefined && { url: publicUrl }) },
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
  description: 'An API key, or a token created with one. Each operation states the scope that it requires.',
};

/** The headers that anything refers to. */
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
      scope === 'any' ? 'Any credential may call this operation.' : `Requires the scope \`${scope}\`.`,
      ...(keysOnly ? ['Requires an API key; tokens are not accepted.'] : []),
      ...(openToBound === undefined ? [] : [openToWords[openToBound]]),
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
      const { description, examples, ...schema } = withoutNull(field);
      const takesList = schema.type === 'array';
      const isComposed = schema.format === 'date-time' || takesList;
      const [example] = examples ?? (isComposed ? [exampleOf(schema, components)] : []);
      return {
        name,
        in: inPath.includes(name) ? 'path' : 'query',
        ...(description !== undefined && { description: takesList ? `${description} ${listsInWords}` : description }),
        required: inPath.includes(name) || input.required?.includes(name) === true,
        ...(takesList && { style: 'form', explode: false }),
        schema,
        ...(example !== undefined && { example }),
      };
    }),
    ...(route.streams ? [lastEventIdParameter] : []),
    ...(route.version !== undefined && route.method === 'GET' ? [ifNoneMatchParameter] : []),
    { $ref: '#/components/parameters/RequestId' },
  ];
}

/** A path or a query is text, so null cannot be sent. */
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
  description: 'Not modified: the client’s copy is current.',
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
    ...(operation.deprecated === undefined ? [] : ['Deprecation', 'Sunset']),
  ]);
  if (operation.repeatable) Object.assign(headers, headersNamed(['Idempotent-Replayed'], { always: false }));
  if (answers === undefined) return { description: 'Done, no content.', headers };
  const schema = components.of(answers, 'output');
  const example = exampleOf(schema, components);
  const description = components.resolve(schema).description ?? 'The requested resource.';
  if (!streams) return { description, headers, content: { 'application/json': { schema, example } } };
  return {
    description: `An endless stream of Server-Sent Events: \`id\` is the cursor, \`event\` the type, \`data\` the event as JSON. At the start, and after every 15 s without an event, there is a block with only an \`id\` to resume from, which also advances past events that the filter excludes. The first block has \`retry\`, too. ${description}`,
    headers,
    content: {
      'text/event-stream': {
        schema: { type: 'string', contentMediaType: 'application/json', contentSchema: schema },
        example: `retry: ${retryMs}\nid: ${exampleStartCursor}\n\nid: ${exampleEventCursor}\nevent: conversation.started\ndata: ${JSON.stringify(example)}\n\n`,
      },
    },
  };
}

/** Whether the response is a page with a link to the next one. */
function isList({ operation, streams }: Route): boolean {
  const { shape } = operation.input as unknown as { shape: object };
  return 'limit' in shape && 'after' in shape && !streams;
}
