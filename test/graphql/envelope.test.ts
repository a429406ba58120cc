import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { envelopeOf } from '../../src/graphql/envelope.ts';

const persisted = { extensions: { persistedQuery: { version: 1, sha256Hash: 'abc', miss: true } } };

describe('an envelope', () => {
  test.each<[name: string, params: object, expected: object]>([
    ['with a text only', { query: '{ a }' }, {}],
    [
      'with all that it can have',
      { query: '{ a }', variables: { b: 1 }, operationName: 'A', extensions: {} },
      { variableValues: { b: 1 }, operationName: 'A' },
    ],
    ['with nulls', { query: '{ a }', variables: null, operationName: null, extensions: null }, {}],
    ['with an empty name, which counts as none', { query: '{ a }', operationName: '' }, {}],
    ['with an empty text, which is no document, but a text', { query: '' }, { query: '' }],
    ['with a hash', persisted, { query: undefined, hash: 'abc' }],
    ['with a hash and a text', { query: '{ a }', ...persisted }, { hash: 'abc' }],
    [
      'with a hash and an empty text, which counts as none',
      { query: '', ...persisted },
      { query: undefined, hash: 'abc' },
    ],
    ['with an id', { documentId: 'abc' }, { query: undefined, documentId: 'abc' }],
    [
      'with an id and an empty text, which counts as none',
      { query: '', documentId: 'abc' },
      { query: undefined, documentId: 'abc' },
    ],
    ['with an id of null', { query: '{ a }', documentId: null }, {}],
    ['with a persisted query of null', { query: '{ a }', extensions: { persistedQuery: null } }, {}],
  ])('%s is read', (_, params, expected) => {
    const read = { query: '{ a }', documentId: undefined, hash: undefined, operationName: null, variableValues: {} };
    expect(envelopeOf(params)).toEqual({ ...read, ...expected });
  });

  test.each<[name: string, params: unknown, message: string]>([
    ['without a body', undefined, 'Send a JSON body'],
    ['that is null', null, 'object'],
    ['that is a list', [], 'object'],
    ['that is a text', '{ a }', 'object'],
    ['without a text', {}, '`query`'],
    ['with a text of null', { query: null }, '`query`'],
    ['with a text that is a list', { query: ['{ a }'] }, '`query`'],
    ['with a name that is a number', { query: '{ a }', operationName: 0 }, '`operationName`'],
    ['with a name that is false', { query: '{ a }', operationName: false }, '`operationName`'],
    ['with variables that are a text', { query: '{ a }', variables: '{}' }, '`variables`'],
    ['with variables that are a list', { query: '{ a }', variables: [] }, '`variables`'],
    ['with extensions that are a number', { query: '{ a }', extensions: 1 }, '`extensions`'],
    ['with extensions that are a list', { query: '{ a }', extensions: [] }, '`extensions`'],
    ['with an id that is a number', { documentId: 5 }, '`documentId`'],
    ['with an id that is a list, beside a text', { query: '{ a }', documentId: ['abc'] }, '`documentId`'],
    ['with a persisted query that is a text', { extensions: { persistedQuery: 'abc' } }, '`extensions.persistedQuery`'],
    [
      'with a persisted query of version "1"',
      { extensions: { persistedQuery: { version: '1', sha256Hash: 'abc' } } },
      'version 1',
    ],
    ['with a persisted query without a hash', { extensions: { persistedQuery: { version: 1 } } }, 'sha256Hash'],
  ])('%s is BAD_REQUEST, and the message says what is wrong', (_, params, message) => {
    expect(() => envelopeOf(params)).toThrow(
      expect.objectContaining({ code: 'BAD_REQUEST', message: expect.stringContaining(message) }),
    );
  });

  test('means the same whatever unknown properties it has', () => {
    const known = ['query', 'documentId', 'operationName', 'variables', 'extensions'];
    const unknown = fc.string().filter((name) => ![...known, 'persistedQuery'].includes(name));
    fc.assert(
      fc.property(
        fc.dictionary(unknown, fc.jsonValue()),
        fc.dictionary(unknown, fc.jsonValue()),
        (beside, extensions) => {
          const asked = { query: '{ a }', operationName: 'A', variables: { b: [1] } };
          expect(envelopeOf({ ...beside, ...asked, extensions })).toEqual(envelopeOf(asked));
        },
      ),
    );
  });
});
