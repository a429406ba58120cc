import fc from 'fast-check';
import type { JsonSchema } from '../../src/http/json-schema.ts';
import type { OpenApiDocument, OpenApiOperation, OpenApiParameter } from '../../src/rest/openapi/types.ts';

/** One operation of a document. */
export interface Documented {
  readonly name: string;
  readonly method: string;
  /** With its parameters in braces. */
  readonly path: string;
  readonly operation: OpenApiOperation;
}

/** Stands for something that exists when the request is sent: an id by its prefix, a document, a cursor. */
export class Drawn {
  readonly kind: string;
  readonly nth: number;

  constructor(kind: string, nth: number) {
    this.kind = kind;
    this.nth = nth;
  }

  [fc.toStringMethod](): string {
    return `<${this.kind} ${this.nth}>`;
  }
}

/** A request as a document allows it. Its values may hold `Drawn`. */
export interface Draft {
  readonly path: Readonly<Record<string, unknown>>;
  readonly query: Readonly<Record<string, unknown>>;
  /** How a list is written in a URL. */
  readonly lists: 'with commas' | 'repeated';
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: unknown;
}

export function documentedOperations({ paths }: OpenApiDocument): Documented[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      name: operation.operationId,
      method: method.toUpperCase(),
      path,
      operation,
    })),
  );
}

const drawn = (kind: string): fc.Arbitrary<Drawn> => fc.nat({ max: 1_000 }).map((nth) => new Drawn(kind, nth));

const words = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 10 }).filter((text) => text.trim() === text);
const texts = fc.oneof(fc.constantFrom('Parcel 1042', 'Where is my parcel?', 'é 📦 荷物'), words);
const emails = fc.constantFrom('ada@example.com', 'Ada@Example.com', 'grace@example.com');
const readers = fc.constantFrom('agent-3', 'visitor', 'ada@example.com', 'x'.repeat(128));
const eventCursors = drawn('event cursor');
const someTags = fc.uniqueArray(fc.constantFrom('urgent', 'delivery', 'é', 'x'.repeat(50)), {
  minLength: 1,
  maxLength: 3,
});
const numbers = fc.oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }));
const keys = fc.constantFrom('plan', 'order', 'é', 'x'.repeat(50));

/** Fields of which the document says in words only what they hold. */
const inWords: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  conversationId: drawn('conv'),
  content: fc.oneof(texts, fc.constantFrom('two\nlines', '📦'.repeat(16_384))),
  // Some are given again, for which there are rules.
  externalId: fc.oneof(words, fc.constantFrom('ticket-1', 'ticket-2')),
  'Idempotency-Key': fc.oneof(fc.stringMatching(/^[\x21-\x7e]{1,255}$/), fc.constantFrom('key-1', 'key-2')),
  email: emails,
  visitorEmail: emails,
  phone: fc.constantFrom('+49 30 123456', '112'),
  reader: readers,
  unreadBy: readers,
  tags: someTags,
  addTags: someTags,
  removeTags: someTags,
  metadata: fc.option(fc.dictionary(keys, fc.oneof(texts, numbers, fc.boolean()))),
  text: fc.constantFrom('{ account { id } }', 'x'.repeat(16_384), 'é'.repeat(8_192)),
  q: fc.constantFrom('parcel', 'where is', 'é', '荷物', '"quoted" OR*', 'x'.repeat(256)),
  sequence: fc.constant(0),
  since: fc.oneof(fc.constant('2026-11-20T00:00:00Z'), eventCursors),
  from: fc.constantFrom('2026-11-01T00:00:00Z', '2026-11-10T12:15:00+01:00'),
  to: fc.constantFrom('2026-11-20T00:00:00Z', '2026-11-21T00:30:00.000Z'),
  expiresAt: fc.constantFrom('2031-01-01T00:00:00Z', '2031-01-01T00:00:00.5+02:00', null),
  timezone: fc.constantFrom('UTC', 'Europe/Berlin', 'America/St_Johns', 'Asia/Kathmandu'),
  // Nothing is sent to anybody: no name ends in `invalid` (RFC 6761).
  url: fc.constantFrom('https://hooks.invalid/a', `https://hooks.invalid/${'x'.repeat(2_000)}`),
  'If-Match': fc.constantFrom('*', '"1"', '"1.0", "2.0", "3.0"', '"1000000"'),
  'If-None-Match': fc.constantFrom('*', '"1.0"', 'W/"1.0", "2.0"'),
  'Last-Event-ID': eventCursors,
};

/** Fields of which the document says in words only that one of them goes without the other. */
const apart: readonly (readonly [string, string])[] = [
  ['after', 'offset'],
  ['tags', 'addTags'],
  ['tags', 'removeTags'],
  ['conversationId', 'visitor'],
];

/** The requests that the document allows for one of its operations. */
export class Drafts {
  readonly #document: OpenApiDocument;
  readonly #documented: Documented;

  constructor(document: OpenApiDocument, documented: Documented) {
    this.#document = document;
    this.#documented = documented;
  }

  /** Any of them. */
  any(): fc.Arbitrary<Draft> {
    return this.#drafts(1);
  }

  /** Those that hold what is required and nothing else. */
  bare(): fc.Arbitrary<Draft> {
    return this.#drafts(0);
  }

  /** @param weight how often a member that is not required is there, compared with 2 for its absence */
  #drafts(weight: number): fc.Arbitrary<Draft> {
    const { requestBody } = this.#documented.operation;
    const schema = requestBody?.content['application/json']?.schema;
    const body = schema === undefined ? fc.constant(undefined) : this.#value(schema, '', weight);
    return fc.record(
      {
        path: this.#parameters('path', weight),
        query: this.#parameters('query', weight),
        lists: fc.constantFrom<Draft['lists'][]>('with commas', 'repeated'),
        headers: this.#parameters('header', weight),
        body: requestBody?.required === true ? body : fc.oneof(fc.constant(undefined), body),
      },
      { noNullPrototype: true },
    );
  }

  #parameters(place: OpenApiParameter['in'], weight: number): fc.Arbitrary<Record<string, unknown>> {
    const { path, operation } = this.#documented;
    const parameters = operation.parameters
      .map((parameter) => ('$ref' in parameter ? this.#resolve<OpenApiParameter>(parameter.$ref) : parameter))
      .filter((parameter) => parameter.in === place);
    const values = parameters.map(({ name, schema, example }): [string, fc.Arbitrary<unknown>] => {
      if (place === 'path' && name !== 'reader') return [name, drawn(kindOf(example))];
      if (name === 'after') return [name, path.startsWith('/v1/events') ? eventCursors : drawn('cursor')];
      return [name, this.#value(schema, name, weight)];
    });
    const required = parameters.filter((parameter) => parameter.required).map(({ name }) => name);
    return membersOf(Object.fromEntries(values), required, weight);
  }

  #value(schema: JsonSchema, name: string, weight: number): fc.Arbitrary<unknown> {
    const known = inWords[name];
    if (known !== undefined) return known;
    if (schema.$ref !== undefined) return this.#value(this.#resolve(schema.$ref), name, weight);
    if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
    const choices = schema.anyOf ?? schema.oneOf;
    if (choices !== undefined) return fc.oneof(...choices.map((choice) => this.#value(choice, name, weight)));
    if (typeof schema.type === 'object') {
      return fc.oneof(...schema.type.map((type) => this.#value({ ...schema, type }, name, weight)));
    }
    const { properties = {}, required = [], items = {}, minItems, maxItems } = schema as JsonSchema & Bounds;
    switch (schema.type) {
      case 'object': {
        const entries = Object.entries(properties).map(([key, value]) => [key, this.#value(value, key, weight)]);
        const members: Record<string, fc.Arbitrary<unknown>> = Object.fromEntries(entries);
        const alternatives = schema.allOf?.[0]?.anyOf ?? [{}];
        const needed = alternatives.map((one) => [...required, ...(one.required ?? [])]);
        return fc.oneof(...needed.map((names) => membersOf(members, names, weight)));
      }
      case 'array':
        return fc.uniqueArray(this.#value(items, '', weight), {
          minLength: minItems ?? 0,
          maxLength: Math.min(maxItems ?? 3, 3),
          selector: nameOf,
        });
      case 'integer':
        return integers(schema as Bounds);
      case 'boolean':
        return fc.boolean();
      case 'null':
        return fc.constant(null);
      case 'string':
        return strings(schema as JsonSchema & Bounds);
      default:
        throw new Error(`no value is known for ${JSON.stringify(schema)}`);
    }
  }

  #resolve<T>(ref: string): T {
    const path = ref.slice(2).split('/');
    return path.reduce<unknown>((part, key) => (part as Record<string, unknown>)[key], this.#document) as T;
  }
}

interface Bounds {
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
}

/** What tells the items of a list apart: no two documents are registered under one id. */
function nameOf(item: unknown): unknown {
  return typeof item === 'object' && item !== null && 'id' in item ? item.id : item;
}

function kindOf(example: unknown): string {
  return /^([a-z]+)_/.exec(String(example))?.[1] ?? 'document';
}

function membersOf(
  members: Readonly<Record<string, fc.Arbitrary<unknown>>>,
  required: readonly string[],
  weight: number,
): fc.Arbitrary<Record<string, unknown>> {
  const absent = Symbol('absent');
  const entries = Object.entries(members).map(([name, value]): [string, fc.Arbitrary<unknown>] => {
    const maybe = fc.oneof({ arbitrary: fc.constant(absent), weight: 2 }, { arbitrary: value, weight });
    return [name, required.includes(name) ? value : maybe];
  });
  return fc
    .record(Object.fromEntries(entries))
    .map((object) => fitting(Object.fromEntries(Object.entries(object).filter(([, value]) => value !== absent))));
}

/** Made such that its fields go together. */
function fitting(object: Record<string, unknown>): Record<string, unknown> {
  const without = apart.flatMap(([one, other]) => (object[one] == null ? [] : [other]));
  // Only a token that is bound has a share of its own.
  if ((object['conversationId'] ?? object['visitor']) == null) without.push('requestsPerHour');
  const rest = Object.fromEntries(Object.entries(object).filter(([name]) => !without.includes(name)));
  // Only with a token can it be left out.
  return rest['content'] === undefined ? rest : { sender: 'agent', ...rest };
}

function integers({ minimum = 0, maximum = 1_000 }: Bounds): fc.Arbitrary<number> {
  return fc.oneof(fc.integer({ min: minimum, max: maximum }), fc.constantFrom(minimum, maximum));
}

function strings({ format, pattern, minLength = 0, maxLength }: JsonSchema & Bounds): fc.Arbitrary<string> {
  if (format === 'date-time') {
    return fc.constantFrom('2026-11-21T06:12:00Z', '2026-11-21T07:12:00.5+01:00', '2031-01-01T00:00:00.000Z');
  }
  if (typeof pattern === 'string') return fc.stringMatching(new RegExp(pattern));
  const edges = [...(minLength === 0 ? [''] : []), ...(maxLength === undefined ? [] : ['📦'.repeat(maxLength)])];
  return edges.length === 0 ? texts : fc.oneof({ arbitrary: texts, weight: 4 }, fc.constantFrom(...edges));
}
