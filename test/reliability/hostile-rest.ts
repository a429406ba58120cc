import type { JsonSchema } from '../../src/rest/openapi/json-schema.ts';
import type { OpenApiDocument, OpenApiOperation, OpenApiParameter } from '../../src/rest/openapi/types.ts';
import { type Dice, oddBytes, oddJson, oddTexts } from './dice.ts';

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

  next(dice: Dice): Hostile {
    const { method, path, operation } = dice.pick(this.#operations);
    const body = this.#body(dice, operation);
    return {
      method: dice.chance(0.03) ? dice.pick(['PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE', 'POST']) : method,
      path: this.#path(dice, path) + this.#query(dice, operation),
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(dice.chance(0.15) ? oddHeaders(dice) : {}),
      },
      body,
    };
  }

  #id(dice: Dice): string {
    const { own, foreign } = this.#names;
    const kind = dice.next();
    return kind < 0.6 ? dice.pick(own) : kind < 0.85 ? dice.pick(foreign) : dice.pick(oddTexts);
  }

  #path(dice: Dice, path: string): string {
    const filled = path.replaceAll(/\{\w+\}/g, () => encodeURIComponent(this.#id(dice).toWellFormed()));
    if (!dice.chance(0.03)) return filled;
    return dice.pick([`${filled}/`, `/${filled}`, filled.toUpperCase(), `${filled}%00`, `${filled}/../account`]);
  }

  #query(dice: Dice, { parameters }: OpenApiOperation): string {
    const pairs: string[] = [];
    for (const parameter of parameters) {
      const known = '$ref' in parameter ? this.#resolve<OpenApiParameter>(parameter.$ref) : parameter;
      if (known.in !== 'query' || dice.chance(0.5)) continue;
      const value = dice.chance(0.5) ? this.#plain(dice, known.schema) : dice.pick(oddTexts);
      pairs.push(`${known.name}=${encodeURIComponent(value.slice(0, 2_000).toWellFormed())}`);
      if (dice.chance(0.05)) pairs.push(`${known.name}=again`);
    }
    if (dice.chance(0.1)) pairs.push(dice.pick(['unknown=1', '%=1', '&&', '__proto__=1', '=', 'limit[]=1', 'a=%ff']));
    return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
  }

  #plain(dice: Dice, schema: JsonSchema): string {
    const value = this.#value(dice, schema, 0);
    return value.startsWith('"') ? (JSON.parse(value) as string) : value;
  }

  #body(dice: Dice, { requestBody }: OpenApiOperation): string | Uint8Array | undefined {
    if (requestBody === undefined) return dice.chance(0.05) ? dice.pick(oddJson) : undefined;
    const schema = requestBody.content['application/json']?.schema ?? {};
    const kind = dice.next();
    if (kind < 0.04) return undefined;
    if (kind < 0.08) return dice.pick(oddBytes);
    if (kind < 0.12) return dice.pick(oddJson);
    if (kind < 0.13) return huge(dice);
    const text = this.#value(dice, schema, dice.pick([0, 0.05, 0.3]));
    return kind < 0.17 ? text.slice(0, dice.below(text.length)) : text;
  }

  /** A value of a schema as JSON, spoiled here and there. */
  #value(dice: Dice, schema: JsonSchema, spoiled: number): string {
    if (dice.chance(spoiled)) return dice.chance(0.5) ? dice.pick(oddJson) : JSON.stringify(dice.pick(oddTexts));
    if (schema.$ref !== undefined) return this.#value(dice, this.#resolve(schema.$ref), spoiled);
    const choices = schema.anyOf ?? schema.oneOf ?? schema.allOf;
    if (choices !== undefined) return this.#value(dice, dice.pick(choices), spoiled);
    if (schema.enum !== undefined) return JSON.stringify(dice.pick(schema.enum));
    switch (typeof schema.type === 'object' ? dice.pick(schema.type) : schema.type) {
      case 'object':
        return this.#object(dice, schema, spoiled);
      case 'array':
        return `[${Array.from({ length: dice.below(4) }, () => this.#value(dice, schema.items ?? {}, spoiled))}]`;
      case 'integer':
      case 'number':
        return String(dice.pick([0, 1, 20, 100, 101, 2 ** 31, -1, 900]));
      case 'boolean':
        return String(dice.chance(0.5));
      case 'null':
        return 'null';
      case 'string':
        return JSON.stringify(this.#string(dice, schema.format));
      default:
        return dice.pick(['"text"', '7', 'true']);
    }
  }

  #string(dice: Dice, format: string | undefined): string {
    if (format === 'date-time') return dice.pick(['2026-11-21T06:12:00Z', '2031-01-01T00:00:00.000Z', 'today']);
    // Nothing is to be sent to anybody: no name ends in `invalid` (RFC 6761).
    if (format === 'uri')
      return dice.pick(['https://hooks.invalid/a', 'http://hooks.invalid', 'https://', 'ftp://a.invalid']);
    return dice.chance(0.3)
      ? this.#id(dice)
      : dice.pick(['Parcel', 'Where is it?', 'ada@example.com', 'Europe/Berlin', 'é📦']);
  }

  #object(dice: Dice, { properties = {}, required = [] }: JsonSchema, spoiled: number): string {
    const members = Object.entries(properties).flatMap(([name, schema]) => {
      const wanted = required.includes(name) ? !dice.chance(spoiled / 3) : dice.chance(0.4);
      return wanted ? [`${JSON.stringify(name)}:${this.#value(dice, schema, spoiled)}`] : [];
    });
    if (dice.chance(spoiled)) members.push(`${JSON.stringify(dice.pick(oddTexts))}:${dice.pick(oddJson)}`);
    if (dice.chance(spoiled / 2) && members[0] !== undefined) members.push(members[0]);
    return `{${members.join()}}`;
  }

  #resolve<T>(ref: string): T {
    const path = ref.slice(2).split('/');
    return path.reduce<unknown>((part, key) => (part as Record<string, unknown>)[key], this.#document) as T;
  }
}

/** About a mebibyte, and at times more. */
export function huge(dice: Dice): string {
  return dice.pick([
    () => `{${Array.from({ length: 70_000 }, (_, index) => `"k${index}":1`).join()}}`,
    () => `{"metadata":{${Array.from({ length: 60_000 }, (_, index) => `"k${index}":null`).join()}}}`,
    () => `{"name":"x","scopes":[${'"x",'.repeat(200_000)}"x"]}`,
    () => `{"content":"${'x'.repeat(1_000_000)}"}`,
    () => `{"subject":${'['.repeat(500_000)}${']'.repeat(500_000)}}`,
    () => ' '.repeat(1_200_000),
  ])();
}

export function oddHeaders(dice: Dice): Record<string, string> {
  return dice.pick<Record<string, string>>([
    { 'idempotency-key': dice.pick(['a', 'b', 'x'.repeat(256), ' ', 'key with spaces', 'é']) },
    { 'if-match': dice.pick(['"1"', '*', 'W/"1"', '"1", "2"', 'x', '"99999999999999999999"']) },
    { 'if-none-match': dice.pick(['"1"', '*', '"1", W/"2"', ','.repeat(5_000)]) },
    {
      'content-type': dice.pick([
        'text/plain',
        'application/json; charset=utf-7',
        'multipart/form-data',
        ';',
        'a'.repeat(2_000),
      ]),
    },
    { 'content-encoding': dice.pick(['gzip', 'br', 'identity']) },
    { 'x-request-id': dice.pick(['mine', 'x'.repeat(200), 'a b', '"']) },
    { 'last-event-id': dice.pick(['x', 'a'.repeat(5_000)]) },
    {
      traceparent: dice.pick(['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', '00-0-0-0', 'x'.repeat(500)]),
    },
    { accept: dice.pick(['*/*', 'text/html', 'application/graphql-response+json', ';q=', ','.repeat(1_000)]) },
    { origin: dice.pick(['https://evil.example', 'null', 'x']) },
    {
      authorization: dice.pick([
        'Bearer',
        'Basic eDp5',
        'Bearer eyJhbGciOiJub25lIn0.e30.',
        `Bearer ${'a'.repeat(8_000)}`,
      ]),
    },
    { 'x-forwarded-for': dice.pick(['::1', '1.2.3.4, 5.6.7.8', ','.repeat(1_000)]) },
    { 'accept-encoding': 'gzip' },
    { cookie: 'a=b' },
    { 'x-http-method-override': 'DELETE' },
    { host: dice.pick(['evil.example', 'a:b:c', '%', 'localhost:99999']) },
  ]);
}
