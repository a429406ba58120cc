import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildSchema } from 'graphql';
import { expect, test } from 'vitest';
import manifest from '../package.json' with { type: 'json' };
import lock from '../package-lock.json' with { type: 'json' };
import { openApiDocument } from '../src/rest/openapi/document.ts';
import { routes } from '../src/rest/routes.ts';
import { advice, changesSince, copied, graphqlChanges, lastRelease, refused, textsOf } from './support/release.ts';

// Who has written a client of a release can keep it until the next major version.

const { version } = manifest;
const changelog = readFileSync(fileURLToPath(new URL('../CHANGELOG.md', import.meta.url)), 'utf8');

test('nothing that clients of the last release rely on is gone or has changed', () => {
  const last = lastRelease();
  const changes = changesSince(last);
  for (const text of textsOf(changes, 'risky')) console.log(`New to clients of ${last.version}: ${text}`);
  expect(refused(changes, last.version, version), advice(last.version)).toEqual([]);
});

test('the changelog has the releases, newest first, below what is not released yet, and each of them has a date', () => {
  const [first, ...headings] = [...changelog.matchAll(/^## (.*)$/gm)].map(([, heading = '']) => heading);
  expect(first).toBe('Unreleased');
  for (const heading of headings) expect(heading).toMatch(/^\d+\.\d+\.\d+, \d{4}-\d{2}-\d{2}$/);
  const versions = headings.map((heading) => heading.split(',')[0] ?? '');
  const newestFirst = versions.toSorted((a, b) => b.localeCompare(a, 'en', { numeric: true }));
  expect(versions).toEqual(newestFirst);
  expect(versions[0]).toBe(version);
});

test('the package, its lock file, openapi.json and the copies of the last release say the same version', () => {
  expect([lock.version, lock.packages[''].version]).toEqual([version, version]);
  expect(openApiDocument(routes).info.version).toBe(version);
  expect(copied()).toEqual([version]);
  expect(lastRelease().openapi.info.version).toBe(version);
});

test('a change that breaks clients is refused in a minor version, and not in a major one', () => {
  const changes = [
    { weight: 'breaking', text: 'a field is gone' },
    { weight: 'risky', text: 'a value is new' },
  ] as const;
  expect(refused(changes, '1.9.0', '1.9.0')).toEqual(['a field is gone']);
  expect(refused(changes, '1.9.0', '1.10.0')).toEqual(['a field is gone']);
  expect(refused(changes, '1.9.0', '2.0.0')).toEqual([]);
  expect(refused(changes, '9.0.0', '10.0.0')).toEqual([]);
});

const small = `
  enum Color { RED GREEN }
  input Paint { color: Color! coats: Int = 1 }
  type Wall { id: ID! color: Color coats: Int! }
  type Door { id: ID! }
  union Part = Wall | Door
  type Query { wall(id: ID!, first: Int = 20): Wall part: Part paint(input: Paint!): Wall }
`;

test.each([
  ['a field is removed', 'coats: Int! }', '}', 'breaking'],
  ['a field gets another type', 'coats: Int! }', 'coats: Float! }', 'breaking'],
  ['a field may be null', 'coats: Int! }', 'coats: Int }', 'breaking'],
  ['a field is never null any more', 'color: Color coats', 'color: Color! coats', 'safe'],
  ['a field is added', 'coats: Int! }', 'coats: Int! area: Int }', 'safe'],
  ['a field is deprecated', 'coats: Int! }', 'coats: Int! @deprecated }', 'safe'],
  ['a value is removed', 'RED GREEN', 'RED', 'breaking'],
  ['a value is added', 'RED GREEN', 'RED GREEN BLUE', 'risky'],
  ['a type joins a union', 'Wall | Door', 'Wall | Door | Query', 'risky'],
  ['a type leaves a union', 'Wall | Door', 'Wall', 'breaking'],
  ['an argument is removed', 'id: ID!, first: Int = 20', 'id: ID!', 'breaking'],
  ['an argument is added', 'first: Int = 20', 'first: Int = 20, last: Int', 'safe'],
  ['a required argument is added', 'first: Int = 20', 'first: Int = 20, last: Int!', 'breaking'],
  ['a default is another', 'first: Int = 20', 'first: Int = 50', 'risky'],
  ['a field of an input is required', 'coats: Int = 1', 'coats: Int!', 'breaking'],
  ['a field of an input is added', 'coats: Int = 1', 'coats: Int = 1 gloss: Boolean', 'safe'],
  ['a field of an input may be left out', 'color: Color!', 'color: Color', 'safe'],
])('in GraphQL, when %s, the verdict is right', (_, from, to, expected) => {
  expect(small.split(from)).toHaveLength(2);
  const changes = graphqlChanges(buildSchema(small), buildSchema(small.replace(from, to)));
  expect(changes.map(({ weight }) => weight)).toEqual(expected === 'safe' ? [] : [expected]);
});
