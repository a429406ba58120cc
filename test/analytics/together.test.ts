import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Json } from '../support/client.ts';
import { analytics } from '../support/selections.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

let server: TestServer;
let client: TestAccount;
/** How often the event loop has turned. */
let turn = 0;
/** In which turns counters were read. */
const readIn: number[] = [];

beforeAll(async () => {
  server = await startTestServer({
    onStatement: (sql) => {
      if (/^select .* from "analytics_counters"/is.test(sql)) readIn.push(turn);
    },
  });
  client = await server.account();
});
afterAll(() => server.close());

const reports = (count: number): string =>
  `{ ${Array.from({ length: count }, (_, index) => `r${index}: analytics(from: "2026-11-20T00:00:00Z", to: "2026-11-21T00:00:00Z") { period { from } }`).join(' ')} }`;

const codesOf = ({ errors = [] }: Json): string[] => errors.map((error: Json) => error.extensions.code);

async function countingTurns(work: () => Promise<unknown>): Promise<void> {
  let next: NodeJS.Immediate;
  const count = (): void => {
    turn++;
    next = setImmediate(count);
  };
  next = setImmediate(count);
  await work();
  clearImmediate(next);
}

test.each([
  ['in a query', () => [{ query: reports(15) }]],
  ['by a query that takes the long way', () => [{ query: reports(15), extensions: {} }]],
  ['in a batch', () => [Array.from({ length: 5 }, () => ({ query: reports(3) }))]],
  ['in queries that come together', () => Array.from({ length: 5 }, () => ({ query: reports(3) }))],
])('between reports that are asked for %s others have their turn', async (_, bodies) => {
  readIn.length = 0;
  await countingTurns(() => Promise.all(bodies().map((body) => client.post(body))));
  const byTurn = Map.groupBy(readIn, (at) => at);
  expect([...byTurn.values()].map(({ length }) => length)).toEqual(Array.from({ length: 15 }, () => 2));
});

test('a request can ask for 33 reports, in one query or in a batch', async () => {
  expect(codesOf((await client.post({ query: reports(33) })).body)).toEqual([]);
  expect(codesOf((await client.post({ query: reports(34) })).body)).toEqual(['QUERY_TOO_COMPLEX']);
  const batch = await client.post([{ query: reports(17) }, { query: reports(17) }]);
  expect(batch.body.map(codesOf)).toEqual([[], ['QUERY_TOO_COMPLEX']]);
});

test('a batch can ask for ten reports whole', async () => {
  const { body } = await client.post(Array.from({ length: 10 }, () => ({ query: `{ analytics { ${analytics} } }` })));
  expect(body.map(codesOf)).toEqual(Array.from({ length: 10 }, () => []));
});
