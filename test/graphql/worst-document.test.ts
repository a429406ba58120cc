import fc from 'fast-check';
import { getNamedType, getNullableType, isCompositeType, isListType, isObjectType, parse, printSchema } from 'graphql';
import { request } from 'undici';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import {
  AnswerBudget,
  maxEventBytes,
  maxObjects,
  maxObjectsOfEvent,
  maxValues,
  maxValuesOfEvent,
} from '../../src/graphql/answer-budget.ts';
import { PreparedDocument } from '../../src/graphql/documents.ts';
import type { Cost } from '../../src/graphql/measure.ts';
import { judge } from '../../src/graphql/requests.ts';
import { schema } from '../../src/graphql/schema.ts';
import type { Json } from '../support/client.ts';
import { cpuMsOf, longestTurnMs } from '../support/cpu-time.ts';
import { type Asked, DocumentWriter } from '../support/document-writer.ts';
import { effort } from '../support/effort.ts';
import { seed } from '../support/seed.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

// Makes documents that are as expensive as the limits allow, and looks for the worst. A document is made from a tape of
// numbers, each of which decides one thing, so that fast-check can shrink it. `TEST_SEED` makes the same ones again.

let server: TestServer;
let client: TestAccount;
/** An id of each type, by the field that takes it. */
const ids: Record<string, string> = {};
/** An account with an event of each type, as long as they can be, and one for whatever mutations do. */
let heard: { account: TestAccount; ids: Record<string, string>; after: string };
let changed: { account: TestAccount; ids: Record<string, string> };

const longText = '漢'.repeat(16_384);

/** Makes one thing of each kind. @returns their ids */
async function fill(account: TestAccount, content: string): Promise<Record<string, string>> {
  const post = async (path: string, body: object = {}): Promise<Json> => {
    const answer = await account.rest('POST', path, { body });
    expect(answer.status).toBeLessThan(300);
    return answer.body;
  };
  const named = (length: number) => ({ id: 'a'.repeat(128), name: '漢'.repeat(length) });
  const metadata = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`key${index}`, 'é'.repeat(60)]));
  const about = { subject: '漢'.repeat(200), visitor: { ...named(200), email: 'ada@example.com' }, metadata };
  const tags = Array.from({ length: 20 }, (_, index) => `tag ${index}`);
  const { id } = await post('/conversations', { ...about, tags, assignee: named(128) });
  const talk = `/conversations/${id}`;
  await post(`${talk}/messages`, { content, sender: 'visitor', metadata });
  const { id: message } = await post(`${talk}/messages`, { content, sender: 'agent', author: named(128), metadata });
  const { id: lead } = await post('/leads', { conversationId: id, email: 'ada@example.com', metadata });
  await account.rest('PUT', `${talk}/read-positions/agent-3`, { body: { sequence: 1 } });
  for (const status of ['closed', 'active']) await account.rest('PATCH', talk, { body: { status, tags: [status] } });
  const { id: gone } = await post('/conversations', about);
  await account.rest('DELETE', `/conversations/${gone}`);
  const { id: webhook } = await post('/webhooks', { url: 'https://example.com/hook' });
  const { id: delivery } = await post(`/webhooks/${webhook}/test`);
  return { conversation: id, message, lead, webhook, delivery };
}

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
  await fill(client, longText);
  const listener = await server.account();
  const after = (await listener.graphql('{ eventCursor }')).data.eventCursor;
  heard = { account: listener, ids: await fill(listener, longText), after };
  const writer = await server.account({ requestsPerHour: 100_000_000 });
  changed = { account: writer, ids: await fill(writer, 'hello') };
}, 300_000);
afterAll(() => server.close());

/** Lists whose items count as values. */
const plainLists: readonly string[] = ['readPositions', 'changes', 'excerpt', 'documents', 'documentEdges'];

/** What an answer holds, counted as the limits count: an edge with its node as one object, metadata as one, and plain lists as values. */
function contentsOf(answer: Json): { objects: number; values: number } {
  let objects = 0;
  let values = 0;
  for (const [key, value] of Object.entries<Json>(answer)) {
    values++;
    if (key.startsWith('metadata') && value !== null) objects++;
    for (const item of Array.isArray(value) ? value : [value]) {
      if (typeof item !== 'object' || item === null || key.startsWith('metadata')) continue;
      const inner = contentsOf(item);
      if (!plainLists.some((name) => key.startsWith(name) && Array.isArray(value))) {
        objects += /^edges|Edges?\d*$/.test(key) ? Math.max(1, inner.objects) : 1 + inner.objects;
      }
      values += inner.values;
    }
  }
  return { objects, values };
}

interface Measurement {
  readonly asked: Asked;
  readonly cpuMs: number;
}

const worst = (one: Measurement, other: Measurement): Measurement => (other.cpuMs > one.cpuMs ? other : one);
const nothing: Measurement = { asked: { query: '', variables: {}, roots: [] }, cpuMs: 0 };
const inWords = ({ query, variables }: Asked): string => `seed ${seed}: ${query} with ${JSON.stringify(variables)}`;

const bodyOf = ({ query, variables }: Asked): string => JSON.stringify({ query, variables });

/** Asks over HTTP. @returns the answer as it came, which takes the client's time only once it is parsed */
async function ask(content: string, by: TestAccount): Promise<Buffer> {
  const { body } = await request(`${server.url}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${by.secret}`, 'content-type': 'application/json' },
    body: content,
  });
  return Buffer.from(await body.arrayBuffer());
}

/** Of a message of a client on a socket, with some room for what is around the operation. */
const maxMessage = 60 * 1024;

/** A socket that keeps messages as they come: to parse them takes time of the same thread. */
class Listener {
  readonly #socket: WebSocket;
  #received: Buffer[] = [];
  #subscriptions = 0;

  constructor(url: string) {
    this.#socket = new WebSocket(`${url.replace('http', 'ws')}/graphql`, 'graphql-transport-ws');
    this.#socket.on('message', (data) => this.#received.push(data as Buffer));
  }

  async init(secret: string): Promise<this> {
    await new Promise((resolve) => this.#socket.once('open', resolve));
    this.#send({ type: 'connection_init', payload: { authorization: `Bearer ${secret}` } });
    await until(() => this.#received.length === 1);
    return this;
  }

  /** @returns the messages of a subscription: as many as that, or the refusal */
  async hear({ query, variables }: Asked, count: number): Promise<readonly Buffer[]> {
    this.#received = [];
    const id = `s${this.#subscriptions++}`;
    this.#send({ id, type: 'subscribe', payload: { query, variables } });
    const isRefused = (): boolean => /"type":"(error|complete)"/.test(this.#received.at(-1)?.toString() ?? '');
    await until(() => this.#received.length === count || isRefused());
    if (!isRefused()) this.#send({ id, type: 'complete' });
    return this.#received;
  }

  close(): void {
    this.#socket.terminate();
  }

  #send(message: object): void {
    this.#socket.send(JSON.stringify(message));
  }
}

/** The events that the root field of a subscription is given: of its types, and of its conversation. */
async function eventsOf({ roots: [root] }: Asked): Promise<number> {
  const types: Readonly<Record<string, readonly string[]>> = {
    conversationStarted: ['CONVERSATION_STARTED'],
    messageReceived: ['MESSAGE_RECEIVED'],
    conversationClosed: ['CONVERSATION_CLOSED'],
    leadCaptured: ['LEAD_CAPTURED'],
  };
  const { name = '', args } = root ?? {};
  const variables = { after: heard.after, ...args, ...(types[name] && { types: types[name] }) };
  const { data } = await heard.account.graphql(
    'query ($after: String, $types: [EventType!], $conversationId: ID) { events(after: $after, types: $types, conversationId: $conversationId, first: 100) { nodes { type } } }',
    variables,
  );
  const events: Json[] = data.events?.nodes ?? [];
  return events.filter(({ type }) => name !== 'conversationChanged' || type !== 'LEAD_CAPTURED').length;
}

/** Prepares and measures an operation as for a request. @returns its cost, or undefined if it is refused */
function prepare({ query, variables }: Pick<Asked, 'query' | 'variables'>): Cost | undefined {
  try {
    const prepared = new PreparedDocument(schema, query);
    const operationName = /^query (Q0)\b/.exec(query)?.[1] ?? null;
    const { errors, measured } = judge(prepared, { operationName, variableValues: variables }, new AnswerBudget());
    return errors.length === 0 ? measured?.cost : undefined;
  } catch {
    return undefined; // refused
  }
}

/** How many times as long this machine takes as the usual one, which parses the schema in a millisecond. */
function slowness(): number {
  const sdl = printSchema(schema);
  const parseOften = () => Array.from({ length: 50 }, () => parse(sdl));
  return cpuMsOf(parseOften) / 50;
}

/** One step of work may take so long; `npm test` runs beside others, and only looks whether it is of that order. */
const maxStepMs = effort(
  () => 1_000,
  () => 40 * Math.max(1, slowness()),
)();

const tape = fc.array(fc.nat(9_999), { minLength: 20, maxLength: effort(300, 900), size: 'max' });

/** What took longest, of all that was tried: some of it perhaps only for a collection of garbage. */
class Slowest {
  #found: (Measurement & { readonly again: () => Promise<unknown> })[] = [];

  /** @param again does the same once more */
  add(asked: Asked, cpuMs: number, again: () => Promise<unknown>): void {
    const found = [...this.#found, { asked, cpuMs, again }];
    this.#found = found.sort((one, other) => other.cpuMs - one.cpuMs).slice(0, effort(3, 20));
  }

  /** Beside other work a step may take longer, but never less than it needs. */
  async expectShortSteps(): Promise<void> {
    let slowest = nothing;
    for (const { asked, cpuMs, again } of this.#found) {
      let least = cpuMs;
      for (let attempt = 0; attempt < effort(0, 5) || (least >= maxStepMs && attempt < 50); attempt++) {
        least = Math.min(least, await longestTurnMs(again));
      }
      slowest = worst(slowest, { asked, cpuMs: least });
    }
    effort(() => {}, console.log)(`The longest step took ${slowest.cpuMs} ms: ${inWords(slowest.asked).slice(0, 500)}`);
    expect(slowest.cpuMs, inWords(slowest.asked)).toBeLessThan(maxStepMs);
  }
}

const codesOf = ({ errors = [] }: Json): string[] => errors.map((error: Json) => error.extensions.code);

test.each([
  ['query', effort(15, 3_000), effort(1, 500)],
  ['mutation', effort(8, 1_000), effort(0, 100)],
] as const)(
  'no answer to a %s holds more than was counted before it was made, that is within the limits, and no step of it takes long',
  async (kind, numRuns, enough) => {
    const by = kind === 'query' ? client : changed.account;
    const known = kind === 'query' ? { ids } : changed;
    const slowest = new Slowest();
    let answered = 0;
    await fc.assert(
      fc.asyncProperty(tape, async (numbers) => {
        const asked = new DocumentWriter(numbers, known).operation(kind);
        const cost = prepare(asked);
        const body = bodyOf(asked);
        let answer: Buffer = Buffer.alloc(0);
        const cpuMs = await longestTurnMs(async () => {
          answer = await ask(body, by);
        });
        const result: Json = JSON.parse(answer.toString());
        const codes = codesOf(result);
        expect(codes).not.toContain('INTERNAL');
        slowest.add(asked, cpuMs, () => ask(body, by));
        if (cost === undefined) {
          expect(codes.length).toBeGreaterThan(0);
          return;
        }
        expect(cost.depth).toBeLessThanOrEqual(12);
        expect(cost.objects).toBeLessThanOrEqual(maxObjects);
        expect(cost.values).toBeLessThanOrEqual(maxValues);
        if (result.data == null) return;
        const { objects, values } = contentsOf(result.data);
        expect(objects).toBeLessThanOrEqual(cost.objects);
        expect(values).toBeLessThanOrEqual(cost.values);
        answered++;
      }),
      { seed, numRuns, endOnFailure: effort(false, true) },
    );
    expect(answered, `seed ${seed}`).toBeGreaterThan(enough);
    await slowest.expectShortSteps();
  },
);

test('whatever a subscription asks for, an event is answered with at most 100 objects, 2,000 values and 256 KiB, and no step of it takes long', async () => {
  const listener = await new Listener(server.url).init(heard.account.secret);
  onTestFinished(() => listener.close());
  const slowest = new Slowest();
  let answered = 0;
  await fc.assert(
    fc.asyncProperty(tape, async (numbers) => {
      const asked = new DocumentWriter(numbers, heard).operation('subscription');
      if (Buffer.byteLength(JSON.stringify(asked)) > maxMessage) return; // the socket would be closed
      const cost = prepare(asked);
      const count = cost === undefined ? 1 : await eventsOf(asked);
      if (count === 0) return;
      let heardOf: readonly Buffer[] = [];
      const cpuMs = await longestTurnMs(async () => {
        heardOf = await listener.hear(asked, count);
      });
      slowest.add(asked, cpuMs, () => listener.hear(asked, count));
      for (const message of heardOf) {
        const { type, payload }: Json = JSON.parse(message.toString());
        const codes = codesOf(type === 'error' ? { errors: payload } : (payload ?? {}));
        expect(codes).not.toContain('INTERNAL');
        if (cost === undefined) expect(type).toBe('error');
        if (cost === undefined || payload?.data == null) continue;
        const { objects, values } = contentsOf(payload.data);
        expect(objects).toBeLessThanOrEqual(Math.min(cost.objects, maxObjectsOfEvent));
        expect(values).toBeLessThanOrEqual(Math.min(cost.values, maxValuesOfEvent));
        expect(message.length).toBeLessThan(2 * maxEventBytes); // escapes are not counted
        answered++;
      }
    }),
    { seed, numRuns: effort(25, 3_000), endOnFailure: effort(false, true) },
  );
  expect(answered, `seed ${seed}`).toBeGreaterThan(effort(3, 500));
  await slowest.expectShortSteps();
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
  const measure = (asked: Asked): void => {
    slowest = worst(slowest, { asked, cpuMs: cpuMsOf(() => prepare(asked), effort(1, 3)) });
  };
  fc.assert(
    fc.property(fc.oneof(...families), (query) => measure({ query, variables: {}, roots: [] })),
    { seed, numRuns: effort(25, 4_000) },
  );
  for (const kind of ['query', 'mutation', 'subscription'] as const) {
    fc.assert(
      fc.property(tape, (numbers) => measure(new DocumentWriter(numbers, { ids }).operation(kind))),
      { seed, numRuns: effort(8, 2_000) },
    );
  }
  const { asked } = slowest;
  effort(() => {}, console.log)(
    `The slowest document took ${slowest.cpuMs} of ${maxStepMs} ms: ${inWords(asked).slice(0, 500)}`,
  );
  expect(
    cpuMsOf(() => prepare(asked), effort(1, 5)),
    inWords(asked),
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
    'RegisterDocumentsPayload.documentEdges',
    'RegisterDocumentsPayload.documents',
    'SearchResult.excerpt',
  ]);
});
