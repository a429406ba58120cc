import type { JsonSchema } from '../../src/http/json-schema.ts';
import type { OpenApiDocument, OpenApiOperation, OpenApiParameter } from '../../src/rest/openapi/types.ts';
import type { Random } from '../support/random.ts';
import { oddBytes, oddJson, oddTexts } from './odd-values.ts';

/** A request as it is sent. */
export interface Hostile {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | undefined;
}

/** Names of things that a request may be about: its sender's, and a stranger's. */
export interface Names {
  readonly own: readonly string[];
  readonly foreign: readonly string[];
}

interface Known {
  readonly method: string;
  readonly path: string;
  readonly operation: OpenApiOperation;
}

/** Makes requests of what a service says of itself, and spoils them. */
export class RestAttacks {
  readonly #document: OpenApiDocument;
  readonly #names: Names;
  readonly #operations: readonly Known[];

  constructor(document: OpenApiDocument, names: Names) {
    this.#document = document;
    this.#names = names;
    this.#operations = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.entries(item).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
    );
  }

  next(random: Random): Hostile {
    const { method, path, operation } = random.pick(this.#operations);
    const body = this.#body(random, operation);
    return {
      method: random.chance(0.03)
        ? random.pick(['PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE', 'POST'])
        : method,
      path: this.#path(random, path) + this.#query(random, operation),
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(random.chance(0.15) ? oddHeaders(random) : {}),
      },
      body,
    };
  }

  #id(random: Random): string {
    const { own, foreign } = this.#names;
    const kind = random.next();
    return kind < 0.6 ? random.pick(own) : kind < 0.85 ? random.pick(foreign) : random.pick(oddTexts);
  }

  #path(random: Random, path: string): string {
    const filled = path.replaceAll(/\{\w+\}/g, () => encodeURIComponent(this.#id(random).toWellFormed()));
    if (!random.chance(0.03)) return filled;
    return random.pick([`${filled}/`, `/${filled}`, filled.toUpperCase(), `${filled}%00`, `${filled}/../account`]);
  }

  #query(random: Random, { parameters }: OpenApiOperation): string {
    const pairs: string[] = [];
    for (const parameter of parameters) {
      const known = '$ref' in parameter ? this.#resolve<OpenApiParameter>(parameter.$ref) : parameter;
      if (known.in !== 'query' || random.chance(0.5)) continue;
      const value = random.chance(0.5) ? this.#plain(random, known.schema) : random.pick(oddTexts);
      pairs.push(`${known.name}=${encodeURIComponent(value.slice(0, 2_000).toWellFormed())}`);
      if (random.chance(0.05)) pairs.push(`${known.name}=again`);
    }
    if (random.chance(0.1))
      pairs.push(random.pick(['unknown=1', '%=1', '&&', '__proto__=1', '=', 'limit[]=1', 'a=%ff']));
    return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
  }

  #plain(random: Random, schema: JsonSchema): string {
    const value = this.#value(random, schema, 0);
    return value.startsWith('"') ? (JSON.parse(value) as string) : value;
  }

  #body(random: Random, { requestBody }: OpenApiOperation): string | Uint8Array | undefined {
    if (requestBody === undefined) return random.chance(0.05) ? random.pick(oddJson) : undefined;
    const schema = requestBody.content['application/json']?.schema ?? {};
    const kind = random.next();
    if (kind < 0.04) return undefined;
    if (kind < 0.08) return random.pick(oddBytes);
    if (kind < 0.12) return random.pick(oddJson);
    if (kind < 0.13) return huge(random);
    const text = this.#value(random, schema, random.pick([0, 0.05, 0.3]));
    return kind < 0.17 ? text.slice(0, random.below(text.length)) : text;
  }

  /** A value of a schema as JSON, spoiled here and there. */
  #value(random: Random, schema: JsonSchema, spoiled: number): string {
    if (random.chance(spoiled))
      return random.chance(0.5) ? random.pick(oddJson) : JSON.stringify(random.pick(oddTexts));
    if (schema.$ref !== undefined) return this.#value(random, this.#resolve(schema.$ref), spoiled);
    const choices = schema.anyOf ?? schema.oneOf ?? schema.allOf;
    if (choices !== undefined) return this.#value(random, random.pick(choices), spoiled);
    if (schema.enum !== undefined) return JSON.stringify(random.pick(schema.enum));
    switch (typeof schema.type === 'object' ? random.pick(schema.type) : schema.type) {
      case 'object':
        return this.#object(random, schema, spoiled);
      case 'array':
        return `[${Array.from({ length: random.below(4) }, () => this.#value(random, schema.items ?? {}, spoiled))}]`;
      case 'integer':
      case 'number':
        return String(random.pick([0, 1, 20, 100, 101, 2 ** 31, -1, 900]));
      case 'boolean':
        return String(random.chance(0.5));
      case 'null':
        return 'null';
      case 'string':
        return JSON.stringify(this.#string(random, schema.format));
      default:
        return random.pick(['"text"', '7', 'true']);
    }
  }

  #string(random: Random, format: string | undefined): string {
    if (format === 'date-time') return random.pick(['2026-11-21T06:12:00Z', '2031-01-01T00:00:00.000Z', 'today']);
    // Nothing is to be sent to anybody: no name ends in `invalid` (RFC 6761).
    if (format === 'uri')
      return random.pick(['https://hooks.invalid/a', 'http://hooks.invalid', 'https://', 'ftp://a.invalid']);
    return random.chance(0.3)
      ? this.#id(random)
      : random.pick(['Parcel', 'Where is it?', 'ada@example.com', 'Europe/Berlin', 'é📦']);
  }

  #object(random: Random, { properties = {}, required = [] }: JsonSchema, spoiled: number): string {
    const members = Object.entries(properties).flatMap(([name, schema]) => {
      const wanted = required.includes(name) ? !random.chance(spoiled / 3) : random.chance(0.4);
      return wanted ? [`${JSON.stringify(name)}:${this.#value(random, schema, spoiled)}`] : [];
    });
    if (random.chance(spoiled)) members.push(`${JSON.stringify(random.pick(oddTexts))}:${random.pick(oddJson)}`);
    if (random.chance(spoiled / 2) && members[0] !== undefined) members.push(members[0]);
    return `{${members.join()}}`;
  }

  #resolve<T>(ref: string): T {
    const path = ref.slice(2).split('/');
    return path.reduce<unknown>((part, key) => (part as Record<string, unknown>)[key], this.#document) as T;
  }
}

/** About a mebibyte, and at times more. */
export function huge(random: Random): string {
  return random.pick([
    () => `{${Array.from({ length: 70_000 }, (_, index) => `"k${index}":1`).join()}}`,
    () => `{"metadata":{${Array.from({ length: 60_000 }, (_, index) => `"k${index}":null`).join()}}}`,
    () => `{"name":"x","scopes":[${'"x",'.repeat(200_000)}"x"]}`,
    () => `{"content":"${'x'.repeat(1_000_000)}"}`,
    () => `{"subject":${'['.repeat(500_000)}${']'.repeat(500_000)}}`,
    () => ' '.repeat(1_200_000),
  ])();
}

export function oddHeaders(random: Random): Record<string, string> {
  return random.pick<Record<string, string>>([
    { 'idempotency-key': random.pick(['a', 'b', 'x'.repeat(256), ' ', 'key with spaces', 'é']) },
    { 'if-match': random.pick(['"1"', '*', 'W/"1"', '"1", "2"', 'x', '"99999999999999999999"']) },
    { 'if-none-match': random.pick(['"1"', '*', '"1", W/"2"', ','.repeat(5_000)]) },
    {
      'content-type': random.pick([
        'text/plain',
        'application/json; charset=utf-7',
        'multipart/form-data',
        ';',
        'a'.repeat(2_000),
      ]),
    },
    { 'content-encoding': random.pick(['gzip', 'br', 'identity']) },
    { 'x-request-id': random.pick(['mine', 'x'.repeat(200), 'a b', '"']) },
    { 'last-event-id': random.pick(['x', 'a'.repeat(5_000)]) },
    {
      traceparent: random.pick([
        '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        '00-0-0-0',
        'x'.repeat(500),
      ]),
    },
    { accept: random.pick(['*/*', 'text/html', 'application/graphql-response+json', ';q=', ','.repeat(1_000)]) },
    { origin: random.pick(['https://evil.example', 'null', 'x']) },
    {
      authorization: random.pick([
        'Bearer',
        'Basic eDp5',
        'Bearer eyJhbGciOiJub25lIn0.e30.',
        `Bearer ${'a'.repeat(8_000)}`,
      ]),
    },
    { 'x-forwarded-for': random.pick(['::1', '1.2.3.4, 5.6.7.8', ','.repeat(1_000)]) },
    { 'accept-encoding': 'gzip' },
    { cookie: 'a=b' },
    { 'x-http-method-override': 'DELETE' },
    { host: random.pick(['evil.example', 'a:b:c', '%', 'localhost:99999']) },
  ]);
}
