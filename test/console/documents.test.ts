import { readFileSync } from 'node:fs';
import { buildSchema, parse, validate } from 'graphql';
import { expect, test } from 'vitest';
import * as documents from '../../src/console/documents.ts';

// What the console asks for is in the schema, also where no test of a page comes to ask for it.

const schema = buildSchema(readFileSync(new URL('../../schema.graphql', import.meta.url), 'utf8'));
const faultsIn = (text: string): string[] => validate(schema, parse(text)).map(({ message }) => message);

const texts = Object.entries<unknown>(documents).flatMap(([name, text]) =>
  typeof text === 'string' ? [{ name, text }] : [],
);

test('there are documents', () => {
  expect(texts.length).toBeGreaterThan(5);
});

test.each(texts)('the document $name is valid', ({ text }) => {
  expect(faultsIn(text)).toEqual([]);
});

test.each([{ scopes: ['conversations:read', 'events:read'] }, { scopes: ['events:read'] }])(
  'what is selected of events is valid with the scopes $scopes',
  ({ scopes }) => {
    const fields = documents.eventFields('agent-3', scopes);
    expect(faultsIn(`subscription { events { __typename id type timestamp cursor ${fields} } }`)).toEqual([]);
  },
);
