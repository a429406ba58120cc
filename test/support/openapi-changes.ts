import { isDeepStrictEqual } from 'node:util';
import type { JsonSchema } from '../../src/http/json-schema.ts';
import type {
  Content,
  OpenApiDocument,
  OpenApiOperation,
  OpenApiParameter,
  OpenApiResponse,
  Reference,
} from '../../src/rest/openapi/types.ts';

/** What clients of the version before may notice of a document. */
export interface Change {
  /** `breaking`: a client that followed the document before can fail. `risky`: one that does not expect new values can. */
  readonly weight: 'breaking' | 'risky';
  readonly text: string;
}

/**
 * What differs between two versions of an OpenAPI document, as far as it concerns who calls the API: what was accepted must
 * be accepted, and what is answered must be what could be answered before. New properties and values of answers are no
 * break, because clients are told to pass over those that they do not know. Where it cannot tell, it says `breaking`.
 * @throws Error for a keyword of JSON Schema that it does not know
 */
export function openApiChanges(before: OpenApiDocument, after: OpenApiDocument): Change[] {
  const changes = new Comparison(before, after).ofDocuments();
  // What is used in many places changes in all of them.
  return [...new Map(changes.map((change) => [change.text, change])).values()];
}

/** Who writes the value: the client, or the service. */
type Direction = 'request' | 'answer';

type Header = Pick<OpenApiParameter, 'schema'> & { readonly required?: boolean };

/** A schema without references and alternatives, and of one type, or of any. */
interface Plain {
  readonly type: string | undefined;
  /** The only values, if there are such. */
  readonly values: readonly unknown[] | undefined;
  readonly properties: Readonly<Record<string, JsonSchema>>;
  readonly required: readonly string[];
  readonly rest: Readonly<Record<string, unknown>>;
}

const annotations = ['title', 'description', 'examples', 'example', 'deprecated', 'discriminator', '$comment'];
const lowerBounds = ['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'];
const upperBounds = ['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'];
/** What a client decodes a value by, and what only limits it. */
const decoding = ['format', 'contentMediaType'];
const limiting = ['pattern', 'multipleOf', 'uniqueItems'];
/** Schemas of parts. */
const nested = ['items', 'contentSchema'];
const known = new Set([
  ...['$ref', 'type', 'enum', 'const', 'anyOf', 'oneOf', 'allOf', 'properties', 'required'],
  ...['additionalProperties', 'default', ...annotations, ...lowerBounds, ...upperBounds],
  ...[...decoding, ...limiting, ...nested],
]);

const breaking = (at: string, text: string): Change => ({ weight: 'breaking', text: `${at}: ${text}` });
const risky = (at: string, text: string): Change => ({ weight: 'risky', text: `${at}: ${text}` });

/** Compares what there was with what there is, name by name. A name that is gone breaks. */
function kept<T>(
  at: string,
  before: Readonly<Record<string, T>> = {},
  after: Readonly<Record<string, T>> = {},
  compare: (name: string, before: T, after: T) => Change[] = () => [],
): Change[] {
  return Object.entries(before).flatMap(([name, old]) => {
    const now = after[name];
    return now === undefined ? [breaking(at, `${name} is gone`)] : compare(name, old, now);
  });
}

class Comparison {
  readonly #before: OpenApiDocument;
  readonly #after: OpenApiDocument;
  /** What was found of two components. While they are being compared it is nothing: a schema may contain itself. */
  readonly #ofReferences = new Map<string, Change[]>();

  constructor(before: OpenApiDocument, after: OpenApiDocument) {
    this.#before = before;
    this.#after = after;
  }

  ofDocuments(): Change[] {
    const { paths, webhooks, components } = this.#before;
    const now = this.#after;
    const schemes = kept(
      'Security',
      components.securitySchemes,
      now.components.securitySchemes,
      (name, old, scheme) => {
        const isSame = ['type', 'scheme', 'in', 'name'].every(
          (key) => Reflect.get(old, key) === Reflect.get(scheme, key),
        );
        return isSame ? [] : [breaking('Security', `${name} is another scheme`)];
      },
    );
    return [
      ...schemes,
      ...kept('Paths', paths, now.paths, (path, old, item) =>
        kept(path, { ...old }, { ...item }, (method, a, b) =>
          this.#operations(`${method.toUpperCase()} ${path}`, a, b),
        ),
      ),
      ...kept('Webhooks', webhooks, now.webhooks, (name, { post: a }, { post: b }) => this.#deliveries(name, a, b)),
    ];
  }

  #operations(at: string, before: OpenApiOperation, after: OpenApiOperation): Change[] {
    const changes: Change[] = [];
    if (before.operationId !== after.operationId) {
      changes.push(breaking(at, `it is now called ${after.operationId}, not ${before.operationId}`));
    }
    for (const demands of before.security) {
      if (!after.security.some((others) => isWithin(others, demands))) {
        changes.push(breaking(at, `${JSON.stringify(demands)} is no longer enough to call it`));
      }
    }
    const [olds, news] = [this.#parametersOf(before, this.#before), this.#parametersOf(after, this.#after)];
    changes.push(...kept(at, olds, news, (name, a, b) => this.#parameters(`${at}, ${name}`, a, b)));
    for (const [name, { required }] of Object.entries(news)) {
      if (required && olds[name]?.required !== true) changes.push(breaking(at, `${name} is now required`));
    }
    const [body, newBody] = [before.requestBody, after.requestBody];
    if (newBody?.required && body?.required !== true) changes.push(breaking(at, 'a body is now required'));
    if (body !== undefined) changes.push(...this.#contents(`${at}, body`, body.content, newBody?.content, 'request'));
    return [...changes, ...this.#responses(at, before.responses, after.responses)];
  }

  #parameters(at: string, before: OpenApiParameter, after: OpenApiParameter): Change[] {
    const isWrittenAlike = before.style === after.style && before.explode === after.explode;
    return [
      ...(isWrittenAlike ? [] : [breaking(at, 'it is written in another style')]),
      ...this.#schemas(at, before.schema, after.schema, 'request'),
    ];
  }

  #responses(at: string, before: OpenApiOperation['responses'], after: OpenApiOperation['responses']): Change[] {
    const added = Object.keys(after).filter((status) => !(status in before));
    return [
      ...added.map((status) => risky(at, `it may now answer ${status}`)),
      ...kept(at, before, after, (status, old, now) =>
        this.#once(`${at}, ${status}`, old, now, 'answer', (place) => {
          const [a, b] = [inside<OpenApiResponse>(old, this.#before), inside<OpenApiResponse>(now, this.#after)];
          return [
            ...kept(place, a.headers, b.headers, (name, header, other) =>
              this.#once(`${place}, ${name}`, header, other, 'answer', (spot) => this.#headers(spot, header, other)),
            ),
            ...this.#contents(place, a.content, b.content, 'answer'),
          ];
        }),
      ),
    ];
  }

  /** What the service sends beside a body. */
  #headers(at: string, before: Header | Reference, after: Header | Reference): Change[] {
    const [a, b] = [inside<Header>(before, this.#before), inside<Header>(after, this.#after)];
    return [
      ...(a.required && !b.required ? [breaking(at, 'it may now be missing')] : []),
      ...this.#schemas(at, a.schema, b.schema, 'answer'),
    ];
  }

  /** A request that the service sends, to whoever implements it: what is asked of it is an answer, and the other way round. */
  #deliveries(at: string, before: OpenApiOperation, after: OpenApiOperation): Change[] {
    const [olds, news] = [this.#parametersOf(before, this.#before), this.#parametersOf(after, this.#after)];
    return [
      ...kept(at, olds, news, (name, a, b) => this.#headers(`${at}, ${name}`, a, b)),
      ...this.#contents(`${at}, body`, before.requestBody?.content, after.requestBody?.content, 'answer'),
      ...kept(at, before.responses, after.responses),
    ];
  }

  #parametersOf({ parameters }: OpenApiOperation, document: OpenApiDocument): Record<string, OpenApiParameter> {
    const found = parameters.map((each) => inside<OpenApiParameter>(each, document));
    return Object.fromEntries(found.map((each) => [`parameter ${each.name} in ${each.in}`, each]));
  }

  #contents(at: string, before: Content | undefined, after: Content | undefined, direction: Direction): Change[] {
    return kept(at, before, after, (_, a, b) => this.#schemas(at, a.schema, b.schema, direction));
  }

  #schemas(at: string, before: JsonSchema, after: JsonSchema, direction: Direction): Change[] {
    return this.#once(at, before, after, direction, (place) => this.#alternatives(place, before, after, direction));
  }

  /** Compares what is referred to when it is met first, under its own name. */
  #once(at: string, before: object, after: object, direction: Direction, compare: (at: string) => Change[]): Change[] {
    const [one, other] = [referenceOf(before), referenceOf(after)];
    if (one === undefined || other === undefined) return compare(at);
    const key = [one, other, direction].join(' ');
    if (!this.#ofReferences.has(key)) {
      this.#ofReferences.set(key, []);
      this.#ofReferences.set(key, compare(lastOf(one)));
    }
    return this.#ofReferences.get(key) ?? [];
  }

  /** Each alternative of what is written must be one of those of what is read. */
  #alternatives(at: string, before: JsonSchema, after: JsonSchema, direction: Direction): Change[] {
    const olds = alternativesOf(before, this.#before);
    const news = alternativesOf(after, this.#after);
    const [written, read] = direction === 'request' ? [olds, news] : [news, olds];
    const isUnion = olds.length > 1 || news.length > 1;
    const changes = written.flatMap((one) => {
      const ofItsType = read.filter((other) => other.type === undefined || combinedType(one, other) === one.type);
      const isKind = (other: Plain) => !isUnion || !areOfDifferentKinds(one, other);
      const sayings = ofItsType.filter(isKind).map((other) => {
        const [old, now] = direction === 'request' ? [one, other] : [other, one];
        return this.#plain(at, old, now, direction);
      });
      const [best] = sayings.sort((a, b) => weightOf(a) - weightOf(b));
      if (best !== undefined) return best;
      const name = ofItsType.length === 0 ? (one.type ?? 'anything') : kindOf(one);
      if (direction === 'request') return [breaking(at, `${name} is no longer accepted`)];
      return [(ofItsType.length === 0 ? breaking : risky)(at, `it may now be ${name}`)];
    });
    if (direction === 'request') return changes;
    const gone = olds.filter((old) => {
      const ofItsType = news.filter(({ type }) => type === old.type);
      return isUnion && ofItsType.length > 0 && ofItsType.every((now) => areOfDifferentKinds(old, now));
    });
    return [...changes, ...gone.map((old) => breaking(at, `${kindOf(old)} is gone`))];
  }

  #plain(at: string, before: Plain, after: Plain, direction: Direction): Change[] {
    const isRequest = direction === 'request';
    const [written, read] = isRequest ? [before, after] : [after, before];
    const changes = valueChanges(at, before, after, direction);

    const limit = isRequest ? breaking : risky;
    const isTighter = (name: string, sign: 1 | -1): boolean => {
      const [value, bound] = [written.rest[name], read.rest[name]];
      return bound !== undefined && (value === undefined || sign * Number(value) < sign * Number(bound));
    };
    const limited = [
      ...lowerBounds.filter((name) => isTighter(name, 1)),
      ...upperBounds.filter((name) => isTighter(name, -1)),
    ];
    const differs = (name: string) => read.rest[name] !== undefined && written.rest[name] !== read.rest[name];
    const became = (name: string) =>
      `its ${name} is now ${after.rest[name] ?? 'open'}, not ${before.rest[name] ?? 'open'}`;
    changes.push(...[...limited, ...limiting.filter(differs)].map((name) => limit(at, became(name))));
    changes.push(...decoding.filter(differs).map((name) => breaking(at, became(name))));
    const [preset, newPreset] = [before.rest['default'], after.rest['default']];
    if (isRequest && preset !== undefined && !isDeepStrictEqual(preset, newPreset)) {
      changes.push(risky(at, `without it, it is now ${JSON.stringify(newPreset)}, not ${JSON.stringify(preset)}`));
    }

    changes.push(
      ...kept(at, before.properties, after.properties, (name, a, b) => this.#schemas(`${at}/${name}`, a, b, direction)),
    );
    for (const name of read.required.filter((each) => !written.required.includes(each))) {
      if (isRequest) changes.push(breaking(`${at}/${name}`, 'it is now required'));
      else if (name in after.properties) changes.push(breaking(`${at}/${name}`, 'it may now be missing'));
    }

    for (const name of nested) {
      const [part, other] = [before.rest[name], after.rest[name]] as [JsonSchema | undefined, JsonSchema | undefined];
      if (part && other) changes.push(...this.#schemas(`${at}/*`, part, other, direction));
      else if (read.rest[name]) changes.push(breaking(at, became(name)));
    }
    const [given, taken] = [additionalOf(written), additionalOf(read)];
    if (typeof taken === 'object') {
      if (given === true) changes.push(breaking(at, 'the values of its properties may now be anything'));
      if (typeof given === 'object') {
        const [old, now] = isRequest ? [given, taken] : [taken, given];
        changes.push(...this.#schemas(`${at}/*`, old, now, direction));
      }
    } else if (isRequest && !taken && given !== false) {
      changes.push(breaking(at, 'other properties are no longer accepted'));
    }
    return changes;
  }
}

function valueChanges(at: string, before: Plain, after: Plain, direction: Direction): Change[] {
  const [olds, news] = [before.values, after.values];
  const missing = (from: readonly unknown[], all: readonly unknown[]) =>
    from.filter((value) => !all.some((other) => isDeepStrictEqual(value, other))).map((value) => JSON.stringify(value));
  if (olds === undefined || news === undefined) {
    if (news !== undefined && direction === 'request') return [breaking(at, 'only some values are accepted now')];
    return olds !== undefined && direction === 'answer' ? [breaking(at, 'it may now be any value')] : [];
  }
  const added = direction === 'answer' ? missing(news, olds) : [];
  return [
    ...missing(olds, news).map((value) => breaking(at, `the value ${value} is gone`)),
    ...added.map((value) => risky(at, `it may now be ${value}`)),
  ];
}

const weightOf = (changes: readonly Change[]): number =>
  changes.reduce((sum, { weight }) => sum + (weight === 'breaking' ? 1_000 : 1), 0);

/** Whether a credential that satisfies the demands satisfies others, too. */
function isWithin(others: Readonly<Record<string, readonly string[]>>, demands: typeof others): boolean {
  return Object.entries(others).every(([scheme, scopes]) => {
    const had = demands[scheme];
    return had !== undefined && scopes.every((scope) => had.includes(scope));
  });
}

/** What a reference leads to; anything else is returned as it is. */
function inside<T extends object>(part: T | Reference, document: OpenApiDocument): T {
  if (!('$ref' in part) || typeof part.$ref !== 'string') return part as T;
  const found = part.$ref
    .slice('#/'.length)
    .split('/')
    .reduce<unknown>((place, name) => Reflect.get(Object(place), name), document);
  if (typeof found !== 'object' || found === null) throw new Error(`${part.$ref} leads nowhere.`);
  return found as T;
}

/** The reference that something is, if it is nothing else. */
function referenceOf(part: object): string | undefined {
  const { $ref, ...others } = part as { readonly $ref?: unknown };
  const isAlone = Object.keys(others).every((key) => annotations.includes(key));
  return isAlone && typeof $ref === 'string' ? $ref : undefined;
}

const lastOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

function additionalOf({ type, rest }: Plain): boolean | JsonSchema {
  if (type !== undefined && type !== 'object') return true;
  return (rest['additionalProperties'] as boolean | JsonSchema | undefined) ?? true;
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

/** All that a schema allows, as a list of plain ones. */
function alternativesOf(schema: JsonSchema, document: OpenApiDocument): Plain[] {
  const unknown = Object.keys(schema).filter((key) => !known.has(key));
  if (unknown.length > 0) throw new Error(`The comparison does not know ${unknown} of JSON Schema yet.`);
  const { $ref, anyOf, oneOf, allOf = [], ...own } = schema;
  const all = (schemas: readonly JsonSchema[]) => schemas.flatMap((each) => alternativesOf(each, document));
  const parts = [
    plainOf(own),
    ...($ref === undefined ? [] : [all([inside<JsonSchema>(schema, document)])]),
    ...allOf.map((each) => all([each])),
    ...[anyOf, oneOf].flatMap((each) => (each === undefined ? [] : [all(each)])),
  ];
  return parts.reduce((sum, part) => sum.flatMap((one) => part.flatMap((other) => combined(one, other))));
}

function plainOf({
  type,
  enum: several,
  const: single,
  properties = {},
  required = [],
  ...others
}: JsonSchema): Plain[] {
  const values = single === undefined ? several : [single];
  const rest = Object.fromEntries(Object.entries(others).filter(([key]) => !annotations.includes(key)));
  const isOf = (name: string) => (value: unknown) =>
    typeOf(value) === name || (name === 'number' && typeof value === name);
  const types = [type ?? [...new Set(values?.map(typeOf))]].flat();
  if (types.length === 0) return [{ type: undefined, values, properties, required, rest }];
  const each = types.map((name) => ({ type: name, values: values?.filter(isOf(name)), properties, required, rest }));
  return each.filter((one) => one.values?.length !== 0);
}

/** The type of what is of two types. */
function combinedType({ type: a }: Plain, { type: b }: Plain): string | undefined {
  if (a === b || b === undefined || (a === 'integer' && b === 'number')) return a;
  return a === undefined || (a === 'number' && b === 'integer') ? b : 'none';
}

/** What is both; nothing, if that cannot be. */
function combined(one: Plain, other: Plain): Plain[] {
  const type = combinedType(one, other);
  const values =
    other.values === undefined ? one.values : other.values.filter((each) => one.values?.includes(each) ?? true);
  if (type === 'none' || values?.length === 0) return [];
  const rest = { ...one.rest };
  for (const [key, value] of Object.entries(other.rest)) {
    if (key in rest && !isDeepStrictEqual(rest[key], value)) throw new Error(`Two schemas of allOf differ in ${key}.`);
    rest[key] = value;
  }
  const properties = { ...one.properties };
  for (const [name, schema] of Object.entries(other.properties)) {
    properties[name] = name in properties ? { allOf: [properties[name] ?? {}, schema] } : schema;
  }
  return [{ type, values, properties, required: [...new Set([...one.required, ...other.required])], rest }];
}

/** Whether two objects have different constants under the same name, as the kinds of a union do. */
function areOfDifferentKinds(one: Plain, other: Plain): boolean {
  const constants = Object.entries(one.properties).filter(([, { const: value }]) => value !== undefined);
  return constants.some(([name, { const: value }]) => {
    const theirs = other.properties[name]?.const;
    return theirs !== undefined && theirs !== value;
  });
}

function kindOf({ properties }: Plain): string {
  const constants = Object.entries(properties).flatMap(([name, { const: value }]) =>
    value === undefined ? [] : [[name, value]],
  );
  return JSON.stringify(Object.fromEntries(constants));
}
