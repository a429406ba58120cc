import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import type { Json } from '../support/client.ts';
import * as select from '../support/selections.ts';
import type { TestAccount } from '../support/server.ts';
import { type Case, listArguments } from './case.ts';

const account = { id: 'sha256:one', text: 'query One { account { name } }' };
const cursor = { id: 'd41d8cd98f00b204e9800998ecf8427e', text: 'query Two { eventCursor }' };

async function registered(client: TestAccount, ...documents: object[]): Promise<Json> {
  return (await client.rest('POST', '/documents', { body: { documents } })).body;
}

function registering(
  name: string,
  body: object,
  { given = async () => ({}), ...rest }: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  return {
    name: `registering documents ${name}`,
    given,
    rest: () => ['POST', '/documents', body],
    graphql: () => [
      `mutation ($input: RegisterDocumentsInput!) { result: registerDocuments(input: $input) { documents { ${select.document} } } }`,
      { input: body },
    ],
    ...rest,
  };
}

function listing(name: string, query: Record<string, unknown>, rest: Partial<Case> & Pick<Case, 'expected'>): Case {
  const spelt = Object.entries(query).map(([key, value]) => `${listArguments[key] ?? key}: ${JSON.stringify(value)}`);
  return {
    name: `listing documents ${name}`,
    given: (client) => registered(client, account, cursor, { id: '3', text: '{ __typename }' }),
    rest: () => ['GET', `/documents?${new URLSearchParams(query as Record<string, string>)}`],
    graphql: () => [
      `{ result: documents${spelt.length === 0 ? '' : `(${spelt.join(', ')})`} { data: nodes { ${select.document} } totalCount pageInfo { hasNextPage } } }`,
    ],
    ...rest,
  };
}

function deleting(id: string, rest: Partial<Case> & Pick<Case, 'expected'>): Case {
  return {
    name: `deleting the document ${JSON.stringify(id.slice(0, 40))}`,
    given: (client) => registered(client, account, { id: 'a/b c?d#e%2F', text: '{ __typename }' }),
    rest: () => ['DELETE', `/documents/${encodeURIComponent(id)}`],
    graphql: () => ['mutation ($id: ID!) { result: deleteDocument(input: { id: $id }) { deletedDocumentId } }', { id }],
    ...rest,
  };
}

const many = (count: number): Json[] =>
  Array.from({ length: count }, (_, index) => ({ id: `d${index}`, text: '{ __typename }' }));

const sha256 = createHash('sha256').update(account.text).digest('hex');

export const documentsCases: readonly Case[] = [
  registering(
    'under ids of several tools',
    { documents: [account, cursor, { id: sha256, text: account.text }] },
    {
      expected: 200,
      check: ({ documents }) => {
        expect(documents.map(({ id }: Json) => id)).toEqual([account.id, cursor.id, sha256]);
        expect(documents[0]).toEqual({ ...account, createdAt: '2026-11-21T06:12:00.000Z' });
      },
    },
  ),
  registering(
    'that are there already, beside a new one',
    { documents: [cursor, account] },
    { given: (client) => registered(client, account), expected: 200 },
  ),
  registering(
    'twice at once: each is there once',
    { documents: [account, account] },
    { expected: 200, check: ({ documents }) => expect(documents).toHaveLength(1) },
  ),
  registering(
    'with another text under a known id is refused, and nothing of it is done',
    { documents: [cursor, { id: account.id, text: '{ __typename }' }] },
    { given: (client) => registered(client, account), expected: 'ALREADY_EXISTS' },
  ),
  registering('a hundred at once', { documents: many(100) }, { expected: 200 }),
  registering(
    'more than a hundred at once is refused',
    { documents: many(101) },
    { expected: 'VALIDATION_FAILED', pointers: ['/documents'] },
  ),
  registering(
    'of which there are none is refused',
    { documents: [] },
    { expected: 'VALIDATION_FAILED', pointers: ['/documents'] },
  ),
  registering(
    'with two texts under one id is refused',
    { documents: [account, { id: account.id, text: '{ __typename }' }] },
    { expected: 'VALIDATION_FAILED', pointers: ['/documents/1/id'] },
  ),
  registering(
    'under the SHA-256 of other texts is refused',
    {
      documents: [
        { id: 'a'.repeat(64), text: '{ a }' },
        account,
        { id: sha256, text: '{ a }' },
        { id: sha256.toUpperCase(), text: account.text },
      ],
    },
    { expected: 'VALIDATION_FAILED', pointers: ['/documents/0/id', '/documents/2/id', '/documents/3/id'] },
  ),
  ...['', '.', '..', 'x'.repeat(129), 'a\0', 'a\nb'].map((id) =>
    registering(
      `under ${JSON.stringify(id.slice(0, 10))} is refused`,
      { documents: [{ id, text: '{ __typename }' }] },
      { expected: 'VALIDATION_FAILED', pointers: ['/documents/0/id'] },
    ),
  ),
  ...['', ' \n', '{ a } \0', `# ${'x'.repeat(16_383)}`, `# ${'é'.repeat(8_192)}`].map((text) =>
    registering(
      `with the text ${JSON.stringify(text.slice(0, 10))} is refused`,
      { documents: [{ id: 'a', text }] },
      { expected: 'VALIDATION_FAILED', pointers: ['/documents/0/text'] },
    ),
  ),
  registering('of 16 KiB', { documents: [{ id: 'a', text: `# ${'é'.repeat(8_191)}` }] }, { expected: 200 }),
  registering('whose text is not even GraphQL', { documents: [{ id: 'a', text: 'Hello' }] }, { expected: 200 }),
  listing(
    'newest first',
    {},
    {
      expected: 200,
      check: ({ data, total }) => {
        expect(data.map(({ id }: Json) => id)).toEqual(['3', cursor.id, account.id]);
        expect(total).toBe(3);
      },
    },
  ),
  listing(
    'a page',
    { limit: 1, offset: 1 },
    { expected: 200, check: ({ data }) => expect(data[0].id).toBe(cursor.id) },
  ),
  listing(
    'from a cursor that is none is refused',
    { after: 'x' },
    { expected: 'VALIDATION_FAILED', pointers: ['/after'] },
  ),
  listing('a page of none is refused', { limit: 0 }, { expected: 'VALIDATION_FAILED', pointers: ['/limit'] }),
  deleting(account.id, { expected: 204 }),
  deleting('a/b c?d#e%2F', { expected: 204 }),
  ...['nothing', 'SHA256:one', 'sha256:one ', 'x'.repeat(5_000), 'é\u0000'].map((id) =>
    deleting(id, { expected: 'NOT_FOUND' }),
  ),
];
