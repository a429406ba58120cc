import { parse, validate } from 'graphql';
import { expect, test } from 'vitest';
import * as documents from '../../src/console/documents.ts';
import * as ofViews from '../../src/console/documents-of-views.ts';
import { schema } from '../support/relay.ts';

// What the console asks for is in the schema, also where no test of a page comes to ask for it.

const faultsIn = (text: string): string[] => validate(schema, parse(text)).map(({ message }) => message);

const { logFields, ...operationsOfViews } = ofViews;
const texts = Object.entries<unknown>({ ...documents, ...operationsOfViews }).flatMap(([name, text]) =>
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

test('what the view of the log selects of events is valid', () => {
  expect(faultsIn(`subscription { events { __typename id type timestamp cursor ${logFields} } }`)).toEqual([]);
});
