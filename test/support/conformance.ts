import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { JsonSchema } from '../../src/http/json-schema.ts';
import { openApiDocument } from '../../src/rest/openapi/document.ts';
import type {
  OpenApiDocument,
  OpenApiOperation,
  OpenApiParameter,
  OpenApiResponse,
} from '../../src/rest/openapi/types.ts';
import { routes } from '../../src/rest/routes.ts';
import type { ReceivedWebhook } from './receiver.ts';

/** What went over the wire, as a client saw it. */
export interface Seen {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  /** What was sent as the body, if it was JSON. */
  readonly sent?: unknown;
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: unknown;
}

/** Headers of HTTP itself, or of every answer, which the document passes over. */
const passedOver = new Set([
  ...['connection', 'content-length', 'content-type', 'cache-control', 'date', 'keep-alive', 'transfer-encoding'],
  ...['vary', 'x-content-type-options', 'x-accel-buffering'],
  ...['access-control-allow-origin', 'access-control-expose-headers'],
]);

const passedOverInDeliveries = new Set(['connection', 'content-length', 'content-type', 'host', 'user-agent']);

/** What is answered to a request that no operation is for, or before it is known which one. */
const errorsOfNoOperation = [400, 401, 403, 404, 405, 429, 500, 503];

/** Holds answers against openapi.json. It is stricter than clients are to be: what is not documented fails. */
export class Conformance {
  readonly #document: OpenApiDocument;
  readonly #ajv: Ajv2020;
  readonly #paths: readonly { readonly path: string; readonly pattern: RegExp }[];
  readonly #compiled = new Map<string, ValidateFunction>();

  constructor(document: OpenApiDocument) {
    this.#document = document;
    this.#ajv = new Ajv2020({ strict: false, allErrors: true, validateSchema: false });
    formats(this.#ajv);
    this.#ajv.addSchema(closed(document) as object, 'openapi');
    // A path without parameters goes before one with.
    this.#paths = Object.keys(document.paths)
      .sort((a, b) => a.split('{').length - b.split('{').length)
      .map((path) => ({ path, pattern: new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`) }));
  }

  /** @throws Error that says what is not as documented */
  check(seen: Seen): void {
    const faults = this.faultsOf(seen);
    if (faults.length > 0) {
      const { method, path, status } = seen;
      throw new Error(`${method} ${path} was answered with ${status}, not as openapi.json says:\n${faults.join('\n')}`);
    }
  }

  faultsOf(seen: Seen): string[] {
    const { method, status, headers } = seen;
    if (method === 'OPTIONS' && status === 204) return headers['x-request-id'] === undefined ? ['no X-Request-Id'] : [];
    const [pathname = '', query = ''] = seen.path.split('?');
    const path = this.#paths.find(({ pattern }) => pattern.test(pathname))?.path;
    const verb = (method === 'HEAD' ? 'get' : method.toLowerCase()) as 'get';
    const operation = path === undefined ? undefined : this.#document.paths[path]?.[verb];
    if (path === undefined || operation === undefined || (method === 'HEAD' && isStream(operation))) {
      return this.#faultsOfRefusal(seen);
    }
    const at = ['paths', path, verb];
    const response = operation.responses[status];
    if (response === undefined) return [`the status is not documented: ${JSON.stringify(seen.body)}`];
    const [place, resolved] =
      '$ref' in response
        ? [response.$ref.slice(2).split('/'), this.#resolve<OpenApiResponse>(response.$ref)]
        : [[...at, 'responses', String(status)], response];
    return [
      ...this.#faultsOfHeaders(resolved, headers),
      ...this.#faultsOfBody(resolved, place, seen),
      ...(status < 300 ? this.#faultsOfRequest(operation, at, query, seen.sent) : []),
    ];
  }

  /** @throws Error when an event of a stream is not as documented */
  checkEvent(event: unknown): void {
    const faults = this.#faults(['components', 'schemas', 'Event'], event);
    if (faults.length > 0) throw new Error(`An event is not as openapi.json says:\n${faults.join('\n')}`);
  }

  /** What of a delivery to a webhook is not as documented. */
  faultsOfDelivery({ headers, event }: Pick<ReceivedWebhook, 'headers' | 'event'>): string[] {
    const at = ['webhooks', 'event', 'post'];
    const parameters = (this.#document.webhooks['event']?.post.parameters ?? []) as readonly OpenApiParameter[];
    const ofHeaders = parameters.flatMap(({ name, required, schema }) => {
      const value = headers[name];
      if (value === undefined) return required ? [`no header ${name}`] : [];
      return this.#ajv.validate(schema, value) ? [] : [`${name}: ${value} ${this.#ajv.errorsText()}`];
    });
    const known = new Set(parameters.map(({ name }) => name));
    return [
      ...ofHeaders,
      ...Object.keys(headers).flatMap((name) =>
        known.has(name) || passedOverInDeliveries.has(name) ? [] : [`the header ${name} is not documented`],
      ),
      ...(headers['content-type'] === 'application/json' ? [] : ['it is no JSON']),
      ...this.#faults([...at, 'requestBody', 'content', 'application/json', 'schema'], event),
    ];
  }

  #faultsOfRefusal({ method, status, headers, body }: Seen): string[] {
    if (!errorsOfNoOperation.includes(status)) return ['no operation is documented'];
    return [
      ...(status === 405 && headers['allow'] === undefined ? ['no Allow'] : []),
      ...(headers['x-request-id'] === undefined ? ['no X-Request-Id'] : []),
      ...(headers['content-type'] === 'application/problem+json' ? [] : [`${headers['content-type']} is no problem`]),
      ...(method === 'HEAD' ? [] : this.#faults(['components', 'schemas', 'Problem'], body)),
      ...(method === 'HEAD' || (body as { status?: unknown }).status === status ? [] : ['it names another status']),
    ];
  }

  #faultsOfHeaders({ headers }: OpenApiResponse, seen: Seen['headers']): string[] {
    const documented = Object.entries(headers).flatMap(([name, header]) => {
      const value = seen[name.toLowerCase()];
      const { required, schema } =
        '$ref' in header ? this.#resolve<{ required?: boolean; schema: object }>(header.$ref) : header;
      if (value === undefined) return required === true ? [`no header ${name}`] : [];
      const given = 'type' in schema && schema.type === 'integer' ? Number(value) : value;
      return this.#ajv.validate(schema, given) ? [] : [`${name}: ${String(value)} ${this.#ajv.errorsText()}`];
    });
    const known = new Set(Object.keys(headers).map((name) => name.toLowerCase()));
    const others = Object.keys(seen).filter((name) => !known.has(name) && !passedOver.has(name));
    return [...documented, ...others.map((name) => `the header ${name} is not documented`)];
  }

  #faultsOfBody(
    { content = {} }: OpenApiResponse,
    place: readonly string[],
    { method, headers, body }: Seen,
  ): string[] {
    const type = String(headers['content-type'] ?? '').split(';')[0] ?? '';
    if (Object.keys(content).length === 0)
      return body === '' && type === '' ? [] : ['there is a body, and none is documented'];
    if (content[type] === undefined) return [`the media type ${type} is not documented`];
    return method === 'HEAD' || type === 'text/event-stream'
      ? []
      : this.#faults([...place, 'content', type, 'schema'], body);
  }

  /** What was taken must be something that could be sent by the document. */
  #faultsOfRequest(
    { parameters, requestBody }: OpenApiOperation,
    at: readonly string[],
    query: string,
    sent: unknown,
  ): string[] {
    const known = parameters.flatMap((parameter) => ('in' in parameter && parameter.in === 'query' ? [parameter] : []));
    const given = Map.groupBy(new URLSearchParams(query), ([name]) => name);
    const unknown = [...given.keys()].filter((name) => !known.some((parameter) => parameter.name === name));
    return [
      ...unknown.map((name) => `the parameter ${name} was taken and is not documented`),
      ...known.flatMap(({ name, required, schema }) => {
        const values = given.get(name)?.map(([, value]) => value);
        if (values === undefined) return required ? [`it was taken without the parameter ${name}`] : [];
        return this.#ajv.validate(schema, typed(values, schema)) ? [] : [`taken: ${name} ${this.#ajv.errorsText()}`];
      }),
      ...(requestBody === undefined || sent === undefined
        ? []
        : this.#faults([...at, 'requestBody', 'content', 'application/json', 'schema'], sent).map(
            (fault) => `taken: ${fault}`,
          )),
    ];
  }

  #resolve<T>(ref: string): T {
    return ref
      .slice(2)
      .split('/')
      .reduce<unknown>((part, key) => (part as Record<string, unknown>)[key], this.#document) as T;
  }

  #faults(place: readonly string[], value: unknown): string[] {
    const ref = `openapi#/${place.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`;
    let validate = this.#compiled.get(ref);
    if (validate === undefined) {
      validate = this.#ajv.compile({ $ref: ref });
      this.#compiled.set(ref, validate);
    }
    if (validate(value)) return [];
    return (validate.errors ?? []).map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    );
  }
}

/** What a parameter stands for: one value, or the items of a list. */
function typed(values: readonly string[], { type }: JsonSchema): unknown {
  if (type === 'array') return values.flatMap((value) => value.split(','));
  const [value = '', ...others] = values;
  if (others.length > 0) return values; // it is none
  if (type === 'integer' && value.trim() !== '') return Number(value);
  return type === 'boolean' && (value === 'true' || value === 'false') ? value === 'true' : value;
}

function isStream({ responses }: OpenApiOperation): boolean {
  const answer = responses[200];
  return answer !== undefined && 'content' in answer && 'text/event-stream' in (answer.content ?? {});
}

/** Clients are to pass over fields that they do not know; here there must be none. */
function closed(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(closed);
  if (typeof part !== 'object' || part === null) return part;
  const copy = Object.fromEntries(Object.entries(part).map(([key, value]) => [key, closed(value)]));
  const isOpen =
    copy['type'] === 'object' && copy['properties'] !== undefined && copy['additionalProperties'] === undefined;
  return isOpen ? { ...copy, additionalProperties: false } : copy;
}

let own: Conformance | undefined;

/** That of the service's own routes. */
export function serviceConformance(): Conformance {
  own ??= new Conformance(openApiDocument(routes));
  return own;
}
