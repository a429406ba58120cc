import { parse, validate } from 'graphql';
import { expect, test } from 'vitest';
import * as documents from '../../src/console/documents-of-views.ts';
import { schema } from '../support/relay.ts';

// The documents of the console's views, and what they select of the events that they follow.

const { logFields, ...operations } = documents;

test.each(Object.entries(operations))('%s asks for what the schema has', (_, text) => {
  expect(validate(schema, parse(text))).toEqual([]);
});

test('what is selected of followed events is what the schema has', () => {
  const select = `__typename id type timestamp cursor ${logFields}`;
  expect(validate(schema, parse(`subscription { events { ${select} } }`))).toEqual([]);
});
