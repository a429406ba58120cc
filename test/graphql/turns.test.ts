import { afterAll, beforeAll, expect, test } from 'vitest';
import { revokeApiKey } from '../../src/domain/api-keys.ts';
import { operatorOf } from '../../src/domain/caller.ts';
import { AnswerBudget } from '../../src/graphql/answer-budget.ts';
import { PreparedDocument } from '../../src/graphql/documents.ts';
import { judge } from '../../src/graphql/requests.ts';
import { schema } from '../../src/graphql/schema.ts';
import { cpuMsOf, longestTurnMs } from '../support/cpu-time.ts';
import { longTest } from '../support/effort.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { eventually, leastOf } from '../support/wait.ts';

// However much one query asks for, others are served in between: the event loop turns.

let server: TestServer;
let client: TestAccount;
/** The statements of each turn of the event loop. */
let turns: number[] = [];
let isWatching = false;

beforeAll(async () => {
  server = await startTestServer({
    onStatement: () => {
      turns[turns.length - 1] = (turns.at(-1) ?? 0) + 1;
    },
  });
  client = await server.account();
  for (let made = 0; made < 100; made++) {
    await client.rest('POST', '/conversations', { body: {} });
  }
  for (let made = 0; made < 20; made++) {
    await client.rest('POST', '/webhooks', { body: { url: `https://example.com/${made}` } });
  }
});
afterAll(() => server.close());

const many = (count: number, made: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => made(index)).join(' ');

function watch(): void {
  turns.push(0);
  if (isWatching) setImmediate(watch);
}

test.each([
  ['of conversations', `{ ${many(100, (i) => `c${i}: conversations(first: 80) { nodes { id } }`)} }`],
  [
    'within each item of a list',
    `{ webhooks(first: 20) { nodes { ${many(100, (i) => `d${i}: deliveries(first: 1) { nodes { id } }`)} } } }`,
  ],
])('a query for a hundred lists is answered in turns: %s', async (_, query) => {
  await client.graphql(query); // its document is known from here on
  const shareOfOne = async (): Promise<number> => {
    turns = [0];
    isWatching = true;
    watch();
    const { errors } = await client.graphql(query);
    isWatching = false;
    expect(errors).toBeUndefined();
    const all = turns.reduce((sum, statements) => sum + statements, 0);
    expect(all).toBeGreaterThanOrEqual(100);
    return Math.max(...turns) / all;
  };
  // What stands still for a while does more in one turn then.
  expect(await leastOf(shareOfOne, 1 / 3)).toBeLessThan(1 / 3);
});

/** Of a variable, so that it is looked at again with each request. */
const queryOf = (fields: string): string =>
  `query ($yes: Boolean = true) { y: __typename @include(if: $yes) ${fields} }`;
const manyLeaves = (type: string): string => `fragment F on ${type} { ${many(440, (i) => `a${i}: id`)} }`;
const large = `${queryOf(many(21, (i) => `x${i}: conversation(id: "x") { ...F }`))} ${manyLeaves('Conversation')}`;

/** How long it takes to see how large an operation is, twenty times: one takes less than can be measured everywhere. */
function judgeMs(query: string): number {
  const prepared = new PreparedDocument(schema, query);
  return cpuMsOf(() => {
    for (let time = 0; time < 20; time++) judge(prepared, { variableValues: {} }, new AnswerBudget());
  });
}

/** Done for each type of an interface, or for each field, it would be six times or more. */
const mostTimes = 3;

/** How many times as long one takes as another, at best: whatever else the machine does can slow either down. */
function timesAsLong(query: string, other: string): number {
  let least = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < 5 && least >= mostTimes; attempt++) {
    least = Math.min(least, judgeMs(query) / judgeMs(other));
  }
  return least;
}

longTest('to see how large an operation is takes no longer for an interface, whose types are many', () => {
  const ofInterface = `${queryOf(many(21, (i) => `x${i}: events(first: 1) { nodes { ...F } }`))} ${manyLeaves('Event')}`;
  expect(timesAsLong(ofInterface, large)).toBeLessThan(mostTimes);
});

longTest('to see how large introspection is takes no longer for many fields, once they are too much together', () => {
  const introspection = (count: number): string =>
    queryOf(many(count, (i) => `x${i}: __schema { types { fields { name } } }`));
  expect(timesAsLong(introspection(120), introspection(20))).toBeLessThan(mostTimes);
});

/** In one step, all ten would take half of the time or more. */
const mostShareOfBatch = 1 / 4;

/** A hundred errors, of a document with as many lines as it may have: they are counted for each error. */
const failing = `${'\n'.repeat(1_900)}{ conversations(first: 100) { nodes { messages(first: 0) { __typename } } } }`;

test.each([
  ['with a hundred errors each', failing],
  ['that are answered', large],
  [
    'that are refused',
    `${queryOf(many(21, (i) => `x${i}: conversations(first: 100) { nodes { ...F } }`))} ${manyLeaves('Conversation')}`,
  ],
])('the large operations of a batch are no single step: ten %s', async (_, query) => {
  const batch = Array.from({ length: 10 }, () => ({ query }));
  await client.post(batch); // its document is known from here on
  let least = Number.POSITIVE_INFINITY;
  // One attempt may meet a collection of garbage.
  for (let attempt = 0; attempt < 10 && least >= mostShareOfBatch; attempt++) {
    const before = process.threadCpuUsage();
    const longestMs = await longestTurnMs(() => client.post(batch));
    const { user, system } = process.threadCpuUsage(before);
    least = Math.min(least, longestMs / ((user + system) / 1_000));
  }
  expect(least).toBeLessThan(mostShareOfBatch);
});

test('an operation of a batch does not run if its credential is revoked while it waits for its turn', async () => {
  const { ports } = server.app;
  const { body: key } = await client.rest('POST', '/api-keys', { body: { name: 'short-lived' } });
  const late = 'mutation { createConversation(input: { subject: "late" }) { eventCursor } }';
  const batch = [...Array.from({ length: 9 }, () => ({ query: large })), { query: late }];
  const remaining = async (): Promise<number> => (await ports.limiter.peek(client.account)).remaining;
  const before = await remaining();
  let isOver = false;
  const answer = server
    .clientFor(key.secret)
    .post(batch)
    .finally(() => {
      isOver = true;
    });
  // Another account has each other turn, and takes long in it.
  const others = (async () => {
    while (!isOver) {
      await ports.turns.step('another account');
      for (const startedMs = performance.now(); performance.now() - startedMs < 30; );
    }
  })();
  await eventually(remaining, (left) => left === before - batch.length); // so it has been admitted
  await revokeApiKey.execute(ports, operatorOf(client.account), { id: key.id });
  const { body } = await answer;
  await others;
  expect(body.at(-1)).toMatchObject({ errors: [{ extensions: { code: 'UNAUTHENTICATED' } }] });
});

const tenThousandPages = (field: string): string =>
  `{ conversations(first: 100) { nodes { ${many(108, (i) => `m${i}: ${field}`)} } } }`;

/** Ten thousand pages in one step would take all of that time, and ten thousand refusals three times as long. */
const mostShare = 1 / 2;

/** The longest step of such a query as a share of what ten thousand pages take, at the least of some attempts. */
async function longestShareOf(field: string): Promise<number> {
  const pages = tenThousandPages('messages(first: 1) { __typename }');
  const query = tenThousandPages(field);
  for (const each of [pages, query]) await client.graphql(each); // their documents are known from here on
  let least = Number.POSITIVE_INFINITY;
  // One attempt may meet a collection of garbage.
  for (let attempt = 0; attempt < 5 && least >= mostShare; attempt++) {
    const before = process.threadCpuUsage();
    expect((await client.graphql(pages)).errors).toBeUndefined();
    const { user, system } = process.threadCpuUsage(before);
    const longestMs = await longestTurnMs(() => client.graphql(query));
    least = Math.min(least, longestMs / ((user + system) / 1_000));
  }
  return least;
}

longTest('ten thousand pages that are empty are no single step, however little is read for them', async () => {
  expect(await longestShareOf('messages(first: 1) { __typename }')).toBeLessThan(mostShare);
});

longTest('ten thousand pages that are refused take no long step', async () => {
  const refused = 'messages(first: 1, after: "nowhere") { __typename }';
  const { errors } = await client.graphql(tenThousandPages(refused));
  expect(errors?.[0]?.extensions.code).toBe('QUERY_TOO_COMPLEX');
  expect(await longestShareOf(refused)).toBeLessThan(mostShare);
});
