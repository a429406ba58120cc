import fc from 'fast-check';
import {
  type GraphQLField,
  type GraphQLOutputType,
  getNamedType,
  getNullableType,
  isAbstractType,
  isCompositeType,
  isListType,
  isObjectType,
  isRequiredArgument,
} from 'graphql';
import { request } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AnswerBudget, maxObjects, maxValues } from '../../src/graphql/answer-budget.ts';
import { PreparedDocument } from '../../src/graphql/documents.ts';
import type { Cost } from '../../src/graphql/measure.ts';
import { schema } from '../../src/graphql/schema.ts';
import type { Json } from '../support/client.ts';
import { effort } from '../support/effort.ts';
import { longestTurnMs } from '../support/longest-turn.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// Makes documents that are as expensive as the limits allow, and looks for the worst. A document is made from a tape of
// numbers, each of which decides one thing, so that fast-check can shrink it.

let server: TestServer;
let client: TestAccount;
/** An id of each type, by the field that takes it. */
const ids: Record<string, string> = {};

beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
  const [conversations, messages] = effort([6, 6], [100, 100]);
  for (let made = 0; made < conversations; made++) {
    const body = { visitor: { name: 'Ada' }, metadata: { page: 1 }, message: { content: 'hello', sender: 'visitor' } };
    const { id } = (await client.rest('POST', '/conversations', { body })).body;
    ids['conversation'] = id;
    const sends = Array.from({ length: messages - 1 }, () =>
      client.rest('POST', `/conversations/${id}/messages`, {
        body: { content: 'hi', sender: 'agent', author: { id: 'agent-1', name: 'Grace' }, metadata: { page: 2 } },
      }),
    );
    ids['message'] = (await Promise.all(sends)).at(-1)?.body.id;
    const lead = { conversationId: id, email: 'ada@example.com' };
    ids['lead'] = (await client.rest('POST', '/leads', { body: lead })).body.id;
  }
  const webhook = { url: 'https://example.com/hook' };
  ids['webhook'] = (await client.rest('POST', '/webhooks', { body: webhook })).body.id;
  ids['delivery'] = (await client.rest('POST', `/webhooks/${ids['webhook']}/test`)).body.id;
}, 300_000);
afterAll(() => server.close());

type Fields = Readonly<Record<string, GraphQLField<unknown, unknown>>>;

/** Writes an operation as a tape of numbers decides. */
class Writer {
  readonly #tape: readonly number[];
  readonly #fragments: string[] = [];
  /** The names of the fragments on each type. */
  readonly #known = new Map<string, string[]>();
  #position = 0;
  #aliases = 0;

  constructor(tape: readonly number[]) {
    this.#tape = tape;
  }

  operation(kind: 'query' | 'subscription'): string {
    const root = kind === 'query' ? 'Query' : 'Subscription';
    const selection = kind === 'query' ? this.#selection(root, 0) : `{ ${this.#field(root, 0)} }`;
    return `${kind} ${selection} ${this.#fragments.join(' ')}`;
  }

  /** The next number of the tape, below a limit; 0 at its end. */
  #next(limit: number): number {
    return (this.#tape[this.#position++] ?? 0) % limit;
  }

  #selection(typeName: string, depth: number): string {
    const count = 1 + this.#next(this.#position > this.#tape.length ? 1 : depth < 4 ? 5 : 3);
    const parts = Array.from({ length: count }, () => this.#part(typeName, depth));
    return `{ ${parts.join(' ')} }`;
  }

  #part(typeName: string, depth: number): string {
    const type = schema.getType(typeName);
    const isOpen = this.#position < this.#tape.length;
    switch (isOpen ? this.#next(8) : 8) {
      case 0:
        return `... ${this.#selection(typeName, depth)}`;
      case 1: {
        const name = `F${this.#fragments.length}`;
        this.#fragments.push('');
        this.#fragments[Number(name.slice(1))] = `fragment ${name} on ${typeName} ${this.#selection(typeName, depth)}`;
        this.#known.set(typeName, [...(this.#known.get(typeName) ?? []), name]); // known once complete: no cycles
        return `...${name}`;
      }
      case 2: {
        const known = this.#known.get(typeName);
        if (known !== undefined) return `...${known[this.#next(known.length)]}`;
        return this.#field(typeName, depth);
      }
      case 3:
        if (isAbstractType(type)) {
          const possible = schema.getPossibleTypes(type);
          const { name } = possible[this.#next(possible.length)] as (typeof possible)[number];
          return `... on ${name} ${this.#selection(name, depth)}`;
        }
        return this.#field(typeName, depth);
      default:
        return this.#field(typeName, depth);
    }
  }

  #field(typeName: string, depth: number): string {
    const type = schema.getType(typeName);
    if (!isObjectType(type) && !isAbstractType(type)) return '__typename';
    const all = Object.values('getFields' in type ? (type.getFields() as Fields) : {});
    const isLeaf = ({ type }: { type: GraphQLOutputType }): boolean => !isCompositeType(getNamedType(type));
    const fields = depth >= 10 || this.#position > this.#tape.length ? all.filter(isLeaf) : all;
    const composite = fields.filter((field) => !isLeaf(field));
    const among = composite.length > 0 && this.#next(3) > 0 ? composite : fields;
    const field = among[this.#next(among.length)];
    if (field === undefined) return '__typename';
    const given = this.#argumentsOf(field);
    // What an answer is counted by: the items of `edges`, and metadata.
    const alias = this.#next(3) === 0 && given === '' ? '' : `${field.name}${this.#aliases++}: `;
    const inner = isLeaf(field) ? '' : this.#selection(getNamedType(field.type).name, depth + 1);
    return `${alias}${field.name}${given} ${inner}`;
  }

  #argumentsOf({ name, args, type }: GraphQLField<unknown, unknown>): string {
    const given: string[] = [];
    for (const argument of args) {
      if (argument.name === 'id') given.push(`id: "${ids[name] ?? ids['conversation']}"`);
      else if (argument.name === 'ids') {
        const every = Object.values(ids);
        const list = Array.from({ length: this.#next(100) }, (_, index) => every[index % every.length]);
        given.push(`ids: ${JSON.stringify(list)}`);
      } else if (argument.name === 'first' && isCompositeType(getNamedType(type)) && this.#next(4) > 0) {
        given.push(`first: ${[1, 5, 20, 100, 100][this.#next(5)]}`);
      } else if (argument.name === 'name' && name === '__type') given.push('name: "Query"');
      else if (argument.name === 'interval' && this.#next(2) > 0) given.push('interval: HOUR');
      else if (argument.name === 'reader') given.push('reader: "agent-3"');
      else if (argument.name === 'q') given.push('q: "a"');
      else if (isRequiredArgument(argument)) throw new Error(`${name} needs ${argument.name}`);
    }
    return given.length === 0 ? '' : `(${given.join(', ')})`;
  }
}

/** What an answer holds, counted as the limits count: an edge with its node as one object, metadata as one, and read positions as values. */
function contentsOf(answer: Json): { objects: number; values: number } {
  let objects = 0;
  let values = 0;
  for (const [key, value] of Object.entries<Json>(answer)) {
    values++;
    if (key.startsWith('metadata') && value !== null) objects++;
    for (const item of Array.isArray(value) ? value : [value]) {
      if (typeof item !== 'object' || item === null || key.startsWith('metadata')) continue;
      const inner = contentsOf(item);
      if (!key.startsWith('readPositions')) {
        objects += key.startsWith('edges') ? Math.max(1, inner.objects) : 1 + inner.objects;
      }
      values += inner.values;
    }
  }
  return { objects, values };
}

interface Measurement {
  readonly query: string;
  readonly cpuMs: number;
}

const worst = (one: Measurement, other: Measurement): Measurement => (other.cpuMs > one.cpuMs ? other : one);
const nothing: Measurement = { query: '', cpuMs: 0 };

/** The time of this thread, the least of some attempts: other processes of the machine do not count. */
function cpuMsOf(work: () => void, attempts = effort(1, 3)): number {
  let least = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < attempts; attempt++) {
    const before = process.threadCpuUsage();
    work();
    const { user, system } = process.threadCpuUsage(before);
    least = Math.min(least, (user + system) / 1_000);
  }
  return least;
}

/** Asks over HTTP. @returns the answer as it came, which takes the client's time only once it is parsed */
async function ask(query: string): Promise<Buffer> {
  const { body } = await request(`${server.url}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${client.secret}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query }),
  });
  return Buffer.from(await body.arrayBuffer());
}

/** Prepares and measures an operation as for a request. @returns its cost, or undefined if it is refused */
function prepare(query: string): Cost | undefined {
  try {
    const prepared = new PreparedDocument(schema, query);
    if (prepared.errors.length > 0) return undefined;
    const name = /^query (Q0)\b/.exec(query)?.[1] ?? null;
    const complexity = prepared.operation(name)?.complexity;
    const measured = complexity?.measure({});
    if (measured !== undefined) complexity?.refuse(measured, new AnswerBudget());
    return measured?.cost;
  } catch {
    return undefined; // refused
  }
}

/** One step of work may take so long; `npm test` runs beside others, and only looks whether it is of that order. */
const maxStepMs = effort(1_000, 40);

const tape = fc.array(fc.nat(9_999), { minLength: 20, maxLength: effort(300, 900), size: 'max' });

test('no answer holds more than was counted before it was made, that is within the limits, and no step of it takes long', async () => {
  let answered = 0;
  let slowest = nothing;
  await fc.assert(
    fc.asyncProperty(tape, async (numbers) => {
      const query = new Writer(numbers).operation('query');
      const cost = prepare(query);
      let answer: Buffer = Buffer.alloc(0);
      const cpuMs = await longestTurnMs(async () => {
        answer = await ask(query);
      });
      const { errors = [], data }: Json = JSON.parse(answer.toString());
      const codes: string[] = errors.map((error: Json) => error.extensions.code);
      expect(codes).not.toContain('INTERNAL');
      if (cost === undefined) {
        expect(codes.length).toBeGreaterThan(0);
        return;
      }
      expect(cost.depth).toBeLessThanOrEqual(12);
      expect(cost.objects).toBeLessThanOrEqual(maxObjects);
      expect(cost.values).toBeLessThanOrEqual(maxValues);
      if (data == null) return;
      const { objects, values } = contentsOf(data);
      expect(objects).toBeLessThanOrEqual(cost.objects);
      expect(values).toBeLessThanOrEqual(cost.values);
      answered++;
      slowest = worst(slowest, { query, cpuMs });
    }),
    { numRuns: effort(40, 3_000), endOnFailure: effort(false, true) },
  );
  expect(answered).toBeGreaterThan(effort(5, 500));
  // Once may have been a collection of garbage; beside other work it may take longer, but never less than it needs.
  let least = slowest.cpuMs;
  for (let again = 0; again < 5 || (least >= maxStepMs && again < 50); again++) {
    least = Math.min(least, await longestTurnMs(() => ask(slowest.query)));
  }
  effort(() => {}, console.log)(`The longest step of an answer took ${least} ms: ${slowest.query}`);
  expect(least, slowest.query).toBeLessThan(maxStepMs);
});

test('whatever a subscription asks for, an event is answered with at most 100 objects and 2,000 values', () => {
  let allowed = 0;
  fc.assert(
    fc.property(tape, (numbers) => {
      const cost = prepare(new Writer(numbers).operation('subscription'));
      if (cost === undefined) return;
      allowed++;
      expect(cost.objects).toBeLessThanOrEqual(100);
      expect(cost.values).toBeLessThanOrEqual(2_000);
    }),
    { numRuns: effort(100, 5_000) },
  );
  expect(allowed).toBeGreaterThan(10);
});

const many = (count: number, made: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => made(index)).join(' ');

const number = (...choices: number[]) => fc.constantFrom(...choices);

/** Families of documents that validation, or counting, could take long for; the limits cut off the largest. */
const families: fc.Arbitrary<string>[] = [
  // Fragments in fragments in fields of one name.
  fc
    .tuple(number(5, 10, 15, 20), number(2, 10, 20), number(5, 10, 20, 30), number(5, 20, 30, 60), number(1, 3))
    .map(
      ([fields, outer, spreads, inner, keys]) =>
        `{ ${many(fields, (i) => `node(id: "x") { ...F${i % outer} }`)} } ${many(outer, (i) => `fragment F${i} on Conversation { messages { nodes { ${many(spreads, (j) => `...G${(j + i) % inner}`)} } } }`)} ${many(inner, (i) => `fragment G${i} on Message { ${many(keys, (k) => `k${i * keys + k}: id`)} }`)}`,
    ),
  // Fields of one name with many fields.
  fc
    .tuple(number(2, 10, 20), number(5, 20, 30, 90, 300), fc.constantFrom('id', 'name', '__typename', 'nothing'))
    .map(([fields, keys, leaf]) => `{ ${many(fields, () => `account { ${many(keys, (k) => `k${k}: ${leaf}`)} }`)} }`),
  // The same, in conflict with each other.
  fc
    .tuple(number(2, 10, 20), number(5, 20, 28), number(0, 100, 1_900))
    .map(
      ([fields, keys, lines]) =>
        `${'\n'.repeat(lines)}{ ${many(fields, (i) => `a: account { ${many(keys, (k) => `k${k}: ${i % 2 ? 'id' : 'name'}`)} }`)} }`,
    ),
  // A mesh of fragments.
  fc
    .tuple(number(10, 30, 60, 100), number(2, 5, 15, 28), number(1, 3, 10))
    .map(
      ([count, spreads, keys]) =>
        `{ conversations { nodes { ...F0 } } } ${many(count, (i) => `fragment F${i} on Conversation { ${many(keys, (k) => `k${i}_${k}: id`)} ${many(Math.min(spreads, count - 1 - i), (j) => `...F${i + 1 + j}`)} }`)}`,
    ),
  // Selection sets that each spread all fragments.
  fc
    .tuple(number(1, 5, 15, 28, 60), number(2, 5, 18), number(2, 20, 40), fc.boolean())
    .map(
      ([sets, count, keys, isSame]) =>
        `{ ${many(sets, (i) => `a${isSame ? '' : i}: account { ${many(count, (j) => `...F${j}`)} id }`)} } ${many(count, (i) => `fragment F${i} on Account { ${many(keys, (k) => `k${i}_${k}: id`)} }`)}`,
    ),
  // Operations over a chain of fragments.
  fc
    .tuple(number(2, 40, 100, 240), number(1, 20, 60))
    .map(
      ([operations, chain]) =>
        `${many(operations, (i) => `query Q${i} { ...F0 }`)} ${many(chain, (i) => `fragment F${i} on Query { ...F${i + 1} }`)} fragment F${chain} on Query { account { id } }`,
    ),
  // Literals, valid or not.
  fc
    .tuple(number(1, 20), number(10, 90, 300, 640), fc.constantFrom('metadata: {', 'nothing: {', 'visitor: {'))
    .map(
      ([fields, keys, start]) =>
        `mutation { ${many(fields, () => `updateConversation(input: { id: "x", ${start} ${many(keys, (k) => `k${k}: 1`)} } }) { eventCursor }`)} }`,
    ),
  fc
    .tuple(number(1, 20), number(10, 90, 1_900))
    .map(([fields, items]) => `{ ${many(fields, () => `nodes(ids: [${many(items, (i) => `"${i}"`)}]) { id }`)} }`),
  fc
    .tuple(number(1, 20), number(100, 30_000, 120_000), fc.constantFrom('\\\\n', '\\\\u00e9', 'x'))
    .map(
      ([fields, length, text]) =>
        `{ ${many(fields, () => `node(id: "${text.repeat(Math.floor(length / fields / text.length))}") { id nothing }`)} }`,
    ),
  // Unknown names, with suggestions.
  fc
    .tuple(number(50, 600, 1_900), fc.constantFrom('accounts', 'conversationz', 'x'.repeat(50)))
    .map(([count, name]) => `{ ${many(count, (i) => `${name}${i}`)} }`),
  // Introspection that multiplies.
  fc
    .tuple(number(1, 5, 19), number(1, 10, 90), number(1, 20, 90), fc.constantFrom('fields', 'possibleTypes', 'ofType'))
    .map(
      ([schemas, outer, inner, field]) =>
        `{ ${many(schemas, (i) => `s${i}: __schema { types { ...T } }`)} } fragment T on __Type { ${many(outer, (i) => `a${i}: fields { type { ...U } }`)} } fragment U on __Type { ${many(inner, (i) => `b${i}: ${field} { name }`)} }`,
    ),
];

test('no document takes longer than one step to parse, to validate and to measure', () => {
  let slowest = nothing;
  fc.assert(
    fc.property(fc.oneof(...families), (query) => {
      slowest = worst(slowest, { query, cpuMs: cpuMsOf(() => prepare(query)) });
    }),
    { numRuns: effort(50, 4_000) },
  );
  fc.assert(
    fc.property(tape, (numbers) => {
      const query = new Writer(numbers).operation('query');
      slowest = worst(slowest, { query, cpuMs: cpuMsOf(() => prepare(query)) });
    }),
    { numRuns: effort(20, 4_000) },
  );
  const { query } = slowest;
  effort(() => {}, console.log)(`The slowest document took ${slowest.cpuMs} ms: ${query.slice(0, 500)}`);
  expect(
    cpuMsOf(() => prepare(query), 5),
    query,
  ).toBeLessThan(maxStepMs);
});

test('a list of objects is one that the measure knows the length of', () => {
  const lists = Object.values(schema.getTypeMap())
    .filter(isObjectType)
    .filter(({ name }) => !name.startsWith('__'))
    .flatMap((type) =>
      Object.values(type.getFields())
        .filter((field) => isListType(getNullableType(field.type)) && isCompositeType(getNamedType(field.type)))
        .map(({ name }) => (type.name.endsWith('Connection') ? `Connection.${name}` : `${type.name}.${name}`)),
    );
  expect([...new Set(lists)].sort()).toEqual([
    'Analytics.series',
    'Connection.edges',
    'Connection.nodes',
    'Conversation.readPositions',
    'ConversationUpdatedEvent.changes',
    'Query.nodes',
    'RegisterDocumentsPayload.documents',
    'SearchResult.excerpt',
  ]);
});
