import { expect, onTestFinished, test } from 'vitest';
import type { Holder } from '../../src/access/memory-owner.ts';
import type { CompiledOperation } from '../../src/graphql/compile.ts';
import { Documents, type PreparedDocument } from '../../src/graphql/documents.ts';
import { ready } from '../../src/graphql/requests.ts';
import { schema } from '../../src/graphql/schema.ts';
import { longTest } from '../support/effort.ts';
import { startTestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';
import { until } from '../support/wait.ts';

const many = (count: number, made: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => made(index)).join(' ');

const one = { account: { id: 'one' } };
const other = { account: { id: 'other' } };

/** Holds a document as its subscription would. */
async function hold(documents: Documents, caller: Holder, source: string, variables = {}): Promise<() => void> {
  const prepared = await documents.prepare(caller, source);
  const { compiled } = ready(prepared, { variableValues: variables });
  const held = documents.hold(caller, { prepared, variables, compiled });
  return () => held.release();
}

const small = '{ account { id } }';
/** A document of nearly 2,000 tokens, 0.8 MB parsed. */
const large = (name: string): string => `query ${name} { ${many(490, (i) => `k${i}: eventCursor`)} }`;

test('a document that is used again is not prepared again, and each account has its own', async () => {
  const documents = new Documents(schema);
  const first = await documents.prepare(one, small);
  expect((await documents.prepare(one, small)) === first).toBe(true);
  expect((await documents.prepare(other, small)) === first).toBe(false);
});

test('an invalid document is not kept, except for its own request', async () => {
  const documents = new Documents(schema);
  const request = { isGone: false };
  const first = await documents.prepare(one, '{ nothing }', request);
  expect(first.errors).toHaveLength(1);
  expect((await documents.prepare(one, '{ nothing }', request)) === first).toBe(true);
  expect((await documents.prepare(one, '{ nothing }')) === first).toBe(false);
});

test('the documents of an account weigh at most 8 MiB, and displace none of another', async () => {
  const documents = new Documents(schema);
  const [others, oldest] = [await documents.prepare(other, small), await documents.prepare(one, small)];
  let weight = 0;
  for (let index = 0; weight < 9 * 1024 * 1024; index++) {
    weight += (await documents.prepare(one, large(`Q${index}`))).weight;
  }
  expect((await documents.prepare(one, small)) === oldest).toBe(false);
  expect((await documents.prepare(other, small)) === others).toBe(true);
});

test('those of bound tokens, all together, are apart from those of their account, and displace none of them', async () => {
  const documents = new Documents(schema);
  const bound = { ...one, conversationId: 'conv_1' };
  const visitor = { ...one, visitor: { id: 'customer-7', name: null, email: null } };
  const oldest = await documents.prepare(one, small);
  expect((await documents.prepare(bound, small)) === oldest).toBe(false);
  expect((await documents.prepare(visitor, small)) === (await documents.prepare(bound, small))).toBe(true);
  for (let weight = 0, index = 0; weight < 9 * 1024 * 1024; index++) {
    weight += (await documents.prepare(index % 2 === 0 ? bound : visitor, large(`Q${index}`))).weight;
  }
  expect((await documents.prepare(one, small)) === oldest).toBe(true);
});

test('the subscriptions of bound tokens leave those of their account the memory that is theirs', async () => {
  const documents = new Documents(schema);
  const holdMany = async () => {
    for (let index = 0; index < 40; index++) {
      await hold(documents, { ...one, conversationId: `conv_${index % 10}` }, large(`Q${index}`));
    }
  };
  await expect(holdMany()).rejects.toMatchObject({ code: 'QUOTA_EXCEEDED' });
  await expect(hold(documents, { ...one, conversationId: 'conv_11' }, large('Another'))).rejects.toThrow('32 MiB');
  await hold(documents, one, large('Theirs'));
});

test('the subscriptions of a visitor leave those of other visitors room, for their documents too', async () => {
  const documents = new Documents(schema);
  const visitor = (id: string): Holder => ({ ...one, visitor: { id, name: null, email: null } });
  const holdMany = async () => {
    for (let index = 0; index < 10; index++) await hold(documents, visitor('one'), large(`Q${index}`));
  };
  await expect(holdMany()).rejects.toThrow('4 MiB');
  await hold(documents, visitor('other'), large('Another'));
  const held: (() => void)[] = [];
  const openMany = async () => {
    for (;;) held.push(await hold(documents, visitor('third'), small));
  };
  await expect(openMany()).rejects.toThrow('625 open subscriptions');
  expect(held).toHaveLength(625);
  held[0]?.();
  await hold(documents, visitor('third'), small);
  await hold(documents, visitor('other'), small);
});

test('the long variables of open subscriptions count with their documents, and short ones do not', async () => {
  const documents = new Documents(schema);
  const source = 'subscription ($id: ID) { events(conversationId: $id) { id } }';
  const holdLong = (length: number) => hold(documents, one, source, { id: 'x'.repeat(length) });
  const held: (() => void)[] = [];
  const holdAll = async (): Promise<void> => {
    for (;;) held.push(await holdLong(15_000));
  };
  await expect(holdAll()).rejects.toThrow('32 MiB');
  expect(held.length).toBeGreaterThan(200);
  expect(held.length).toBeLessThan(400);
  for (let count = 0; count < 1_000; count++) held.push(await holdLong(400));
  held[0]?.();
  held[0] = await holdLong(15_000);
  for (const release of held) release();
  held.length = 0;
  await expect(holdAll()).rejects.toThrow('32 MiB');
  expect(held.length).toBeGreaterThan(200);
});

const conditions = ['a', 'b', 'c', 'd', 'e'];
/** One of the 32 combinations of their values. */
const combination = (bits: number): Record<string, boolean> =>
  Object.fromEntries(conditions.map((name, index) => [name, (bits & (1 << index)) !== 0]));

const compile = (prepared: PreparedDocument, operationName: string | null, variableValues = {}): CompiledOperation =>
  ready(prepared, { operationName, variableValues }).compiled;

test('a document grows heavier with each of its operations that runs, and what is compiled of it by 2 MiB at most', async () => {
  const documents = new Documents(schema);
  const source = `${many(150, (i) => `query Q${i} { ...F }`)} fragment F on Query { ${many(40, (i) => `k${i}: __typename`)} }`;
  const first = await documents.prepare(one, source);
  const { parsedWeight } = first;
  for (let index = 0; index < 40; index++) compile(first, `Q${index}`);
  expect(first.weight - parsedWeight).toBeGreaterThan(40 * 40 * 500);
  const last = compile(first, 'Q39');
  expect(compile(first, 'Q39') === last).toBe(true);
  for (let index = 40; index < 150; index++) compile(first, `Q${index}`);
  expect(first.weight - first.parsedWeight).toBeLessThanOrEqual(2 * 1024 * 1024);
  expect(compile(first, 'Q39') === last, 'others have taken its place').toBe(false);
  expect((await documents.prepare(one, source)) === first).toBe(true);
});

test('what is compiled of a document displaces others at once, and is forgotten with it', async () => {
  const documents = new Documents(schema);
  const source = (name: string): string =>
    `query ${name}(${conditions.map((each) => `$${each}: Boolean!`).join(' ')}) {
      ${conditions.map((each) => `${each}: __typename @skip(if: $${each})`).join(' ')} ${many(100, (i) => `k${i}: __typename`)}
    }`;
  const names = ['One', 'Two', 'Three', 'Four', 'Five'];
  const prepared = await Promise.all(names.map((name) => documents.prepare(one, source(name))));
  for (const document of prepared) {
    for (let bits = 0; bits < 32; bits++) compile(document, null, combination(bits));
  }
  const weights = prepared.map(({ weight }) => weight);
  expect(weights.reduce((sum, weight) => sum + weight)).toBeLessThan(9 * 1024 * 1024);
  const [oldest] = prepared as [PreparedDocument];
  expect(oldest.weight, 'it is out of the cache').toBe(oldest.parsedWeight);
  expect((await documents.prepare(one, source('One'))) === oldest).toBe(false);
});

test('what is compiled of a subscription’s document counts once for the same conditions, and again for others', async () => {
  const documents = new Documents(schema);
  const source = `subscription (${conditions.map((each) => `$${each}: Boolean!`).join(' ')}) {
    events { ${conditions.map((each) => `${each}: id @skip(if: $${each})`).join(' ')} ${many(200, (i) => `k${i}: id`)} }
  }`;
  const held: (() => void)[] = [];
  const openAll = async (): Promise<void> => {
    for (let bits = 0; bits < 32; bits++) held.push(await hold(documents, one, source, combination(bits)));
  };
  for (let count = 0; count < 100; count++) held.push(await hold(documents, one, source, combination(0)));
  await expect(openAll()).rejects.toThrow('32 MiB');
  expect(held.length).toBeGreaterThan(110);
  for (const release of held) release();
  held.length = 0;
  await expect(openAll()).rejects.toThrow('32 MiB');
  expect(held.length).toBeGreaterThan(10);
});

test('an account may have five thousand subscriptions open, and its bound tokens as many', async () => {
  const documents = new Documents(schema);
  const source = 'subscription { events { id } }';
  const held: (() => void)[] = [];
  for (let count = 0; count < 5_000; count++) held.push(await hold(documents, one, source));
  await expect(hold(documents, one, source)).rejects.toMatchObject({ code: 'QUOTA_EXCEEDED' });
  await hold(documents, { ...one, conversationId: 'conv_1' }, source);
  held[0]?.();
  await hold(documents, one, source);
});

longTest('the documents of an account’s open subscriptions are bounded, and the same text counts once', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const client = await server.account();
  const socket = await new RawSocket(server.url).init(client.secret);
  onTestFinished(() => socket.socket.terminate());
  const after = (await client.rest('GET', '/account')).body.eventCursor;
  const subscription = (name: string) =>
    `subscription ${name}($after: String) { conversationStarted(after: $after) { ${many(600, (i) => `k${i}: sequence`)} } }`;
  const refusals = () => ids.filter((id) => socket.of(id).some(({ payload }) => payload?.errors !== undefined));
  const ids = Array.from({ length: 40 }, (_, index) => `S${index}`);
  for (const id of ids) socket.subscribe(id, subscription(id), { after });
  const alike = Array.from({ length: 20 }, (_, index) => `same${index}`);
  for (const id of alike) socket.subscribe(id, subscription('S0'), { after });
  await client.rest('POST', '/conversations');
  await until(() => ids.every((id) => socket.of(id).length > 0) && alike.every((id) => socket.of(id).length > 0));
  expect(refusals().length).toBeGreaterThan(10);
  expect(refusals().length).toBeLessThan(30);
  expect(socket.of(refusals()[0] ?? '')[0]?.payload.errors[0].extensions.code).toBe('QUOTA_EXCEEDED');
  expect(alike.flatMap((id) => socket.of(id)).every(({ payload }) => payload.errors === undefined)).toBe(true);
  for (const id of ids) socket.send({ type: 'complete', id });
  socket.subscribe('another', subscription('another'), { after });
  expect((await socket.first('another')).payload.errors).toBeUndefined();
});
