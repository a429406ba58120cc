import { getOperationAST, parse } from 'graphql';
import { expect, test } from 'vitest';
import { AnswerBudget } from '../../src/graphql/answer-budget.ts';
import { PreparedDocument } from '../../src/graphql/documents.ts';
import { envelopeOf } from '../../src/graphql/envelope.ts';
import { measure } from '../../src/graphql/measure.ts';
import { dropExtraParams, inRoom } from '../../src/graphql/requests.ts';
import { schema } from '../../src/graphql/schema.ts';

// What the operations of an account hold in memory while they are under way.

function budgetOf(query: string): AnswerBudget {
  const document = parse(query);
  const operation = getOperationAST(document);
  if (operation == null) throw new Error('The document holds one operation');
  const budget = new AnswerBudget();
  budget.spendCost(measure(schema, document, operation, {}).cost);
  return budget;
}

const mebibyte = 1024 * 1024;

test.each([
  ['{ account { id } }', 0, 0.01],
  ['{ conversations { nodes { id subject } } }', 0.2, 0.4],
  ['{ conversation(id: "x") { messages(first: 50) { nodes { content } } } }', 6, 8],
  ['{ conversations(first: 100) { nodes { messages(first: 100) { nodes { id } } } } }', 500, 1_000],
  ['{ events(first: 100) { nodes { id } } }', 8, 12],
])('what an operation could take is known before it runs: %s', (query, from, to) => {
  const { size } = budgetOf(query);
  expect(size / mebibyte).toBeGreaterThanOrEqual(from);
  expect(size / mebibyte).toBeLessThanOrEqual(to);
});

test('of what was sent with an operation, only what it declares is held', () => {
  const query =
    'query One($id: ID!) { conversation(id: $id) { id } } query Two($first: Int) { leads(first: $first) { nodes { id } } }';
  const params = { query, operationName: 'One', variables: { id: 'x', first: 1, more: [{}] }, extensions: {}, more: 1 };
  dropExtraParams(params, new PreparedDocument(schema, query), envelopeOf(params));
  expect(params).toEqual({ query, operationName: 'One', variables: { id: 'x' } });
});

test('operations of an account begin while there is room, those that take little at once, and more than 256 do not wait', async () => {
  const large = budgetOf('{ conversations(first: 100) { nodes { messages(first: 100) { nodes { id } } } } }');
  const small = budgetOf('{ account { id } }');
  const { promise: end, resolve: endAll } = Promise.withResolvers<void>();
  let begun = 0;
  const begin = (id: string, budget: AnswerBudget): Promise<void> =>
    inRoom({ account: { id } }, budget, async () => {
      begun++;
      await end;
    });
  const all = Array.from({ length: 257 }, () => begin('crowded', large));
  await expect(begin('crowded', large)).rejects.toMatchObject({ code: 'UNAVAILABLE', facts: { retryAfterSeconds: 1 } });
  await new Promise(setImmediate);
  expect(begun).toBe(1);
  all.push(begin('crowded', small), begin('other', large));
  await new Promise(setImmediate);
  expect(begun).toBe(3);
  endAll();
  await Promise.all(all);
  expect(begun).toBe(259);
});
