import { oddBytes, oddJson, oddTexts } from '../reliability/odd-values.ts';
import type { Json } from './client.ts';
import type { Documented } from './documented-requests.ts';
import type { Random } from './random.ts';

/** A request as it goes over the wire. */
export interface Wire {
  readonly method: string;
  /** Percent-encoded, without the query. */
  readonly path: string;
  readonly query: readonly (readonly [name: string, value: string])[];
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | undefined;
}

/** What a spoiler may use. */
export interface Around {
  readonly random: Random;
  /** The operation that is called. */
  readonly documented: Documented;
  /** Ids of other kinds and of another account. */
  readonly wrongIds: readonly string[];
  /** Cursors of other lists, and of another log. */
  readonly wrongCursors: readonly string[];
  /** Headers that say who calls, and not well enough. */
  readonly callers: readonly Readonly<Record<string, string>>[];
}

type Spoilers = Readonly<Record<string, (wire: Wire, around: Around) => Wire>>;

/** HTTP has no room for longer ones in a URL. */
const shortOddTexts = oddTexts.map((text) => text.slice(0, 2_000).toWellFormed());
const oddParameters = ['-1', '0', '101', '1.5', ',', 'active,,closed', 'active,active', 'now'];
const otherTypes = ['text/plain', 'application/x-www-form-urlencoded', 'application/json5', 'application', ''];

const ofAll: Spoilers = {
  'an unknown parameter': (wire) => withQuery(wire, [...wire.query, ['unknown', '1']]),
  'a repeated parameter': (wire, { random, documented }) => {
    const name = random.pick([...namesInQuery(documented), 'a']);
    const [, value = '1'] = wire.query.find(([other]) => other === name) ?? [];
    return withQuery(wire, [...wire.query, [name, value], [name, value]]);
  },
  'an odd parameter': (wire, { random, documented }) => {
    const name = random.pick([...namesInQuery(documented), 'a']);
    return withParameter(wire, name, random.pick([...shortOddTexts, ...oddParameters]));
  },
  'another method': (wire, { random }) => ({
    ...wire,
    method: random.pick(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']),
  }),
  'another caller': (wire, { random, callers }) => ({ ...wire, headers: { ...wire.headers, ...random.pick(callers) } }),
  'an odd header': (wire, { random }) => ({ ...wire, headers: { ...wire.headers, ...random.pick(oddHeaders) } }),
  'a body that is no object': (wire, { random }) => withBody(wire, random.pick(oddJson)),
  'a body that is no JSON': (wire, { random }) => withBody(wire, random.pick([...oddBytes, textOf(wire).slice(0, -1)])),
  'a body that is too large': (wire) => withBody(wire, `{"content":"${'x'.repeat(1024 * 1024)}"}`),
  'a body of another type': (wire, { random }) => {
    const headers = { ...wire.headers, 'content-type': random.pick(otherTypes) };
    return { ...wire, body: textOf(wire), headers };
  },
};

const ofPaths: Spoilers = {
  'the id of something else': (wire, { random, documented, wrongIds }) =>
    withId(wire, documented, random, random.pick(wrongIds)),
  'what is no id': (wire, { random, documented }) => withId(wire, documented, random, random.pick(shortOddTexts)),
};

const ofCursors: Spoilers = {
  'the cursor of something else': (wire, { random, wrongCursors }) =>
    withParameter(wire, 'after', random.pick(wrongCursors)),
  'what is no cursor': (wire, { random }) => withParameter(wire, 'after', random.pick(shortOddTexts)),
};

const ofBodies: Spoilers = {
  'no body': (wire) => ({ ...wire, body: undefined }),
  'an unknown field': (wire, { random }) =>
    withChange(wire, random, (object) => Object.assign(object, { [random.pick(['unknown', '', 'ID', 'id'])]: 1 })),
  'a field named __proto__': (wire) =>
    withBody(wire, `{"__proto__":{"a":1},${textOf(wire).slice(1)}`.replace(/,}$/, '}')),
  'a missing field': (wire, { random }) =>
    withChange(wire, random, (object) => delete object[random.pick(Object.keys(object))]),
  'a field of another type': (wire, { random }) =>
    withChange(wire, random, (object) => {
      object[random.pick(Object.keys(object))] = JSON.parse(random.pick(oddJson));
    }),
  'an odd text': (wire, { random, wrongIds, wrongCursors }) =>
    withChange(wire, random, (object) => {
      object[random.pick(Object.keys(object))] = random.pick([...oddTexts, ...wrongIds, ...wrongCursors]);
    }),
  'a list of too many': (wire, { random }) =>
    withChange(wire, random, (object) => {
      const name = random.pick(Object.keys(object));
      object[name] = Array.from({ length: 101 }, () => object[name]);
    }),
};

/** Ways to make a valid request of an operation invalid. Some leave it valid where there is nothing to spoil. */
export function spoilersOf(documented: Documented): Spoilers {
  return {
    ...ofAll,
    ...(documented.path.includes('{') ? ofPaths : {}),
    ...(namesInQuery(documented).includes('after') ? ofCursors : {}),
    ...(documented.operation.requestBody === undefined ? {} : ofBodies),
  };
}

function namesInQuery({ operation }: Documented): string[] {
  return operation.parameters.flatMap((each) => ('in' in each && each.in === 'query' ? [each.name] : []));
}

const oddHeaders: readonly Readonly<Record<string, string>>[] = [
  { 'idempotency-key': '' },
  { 'idempotency-key': 'x'.repeat(256) },
  { 'idempotency-key': 'two words' },
  { 'if-match': '1' },
  { 'if-match': '"0"' },
  { 'if-match': 'W/"1"' },
  { 'if-none-match': '1' },
  { 'last-event-id': 'x' },
  { 'x-request-id': 'two words' },
  { 'x-request-id': 'x'.repeat(129) },
  { 'content-encoding': 'gzip' },
  { accept: 'text/html' },
  { origin: 'https://shop.example' },
  { cookie: 'session=1' },
];

function withQuery(wire: Wire, query: Wire['query']): Wire {
  return { ...wire, query };
}

function withParameter(wire: Wire, name: string, value: string): Wire {
  return withQuery(wire, [...wire.query.filter(([other]) => other !== name), [name, value]]);
}

/** Puts another id into one of the places that the path has for them. */
function withId(wire: Wire, { path }: Documented, random: Random, id: string): Wire {
  const places = path.split('/').flatMap((segment, place) => (segment.startsWith('{') ? [place] : []));
  return { ...wire, path: wire.path.split('/').with(random.pick(places), encodeURIComponent(id)).join('/') };
}

function withBody(wire: Wire, body: string | Uint8Array): Wire {
  return { ...wire, body, headers: { 'content-type': 'application/json', ...wire.headers } };
}

function textOf({ body }: Wire): string {
  return typeof body === 'string' ? body : '{}';
}

/** Changes the body, or an object that lies in it. */
function withChange(wire: Wire, random: Random, change: (object: Record<string, Json>) => void): Wire {
  const body: Json = JSON.parse(textOf(wire));
  change(random.pick(objectsIn(body)));
  return withBody(wire, JSON.stringify(body));
}

function objectsIn(value: Json): Record<string, Json>[] {
  if (typeof value !== 'object' || value === null) return [];
  return [...(Array.isArray(value) ? [] : [value]), ...Object.values(value).flatMap(objectsIn)];
}
