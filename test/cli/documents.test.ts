import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { commandLine } from './program.ts';

// Beside a running server on the same file, since that is how an operator works.

let server: TestServer;
let account: TestAccount;
let cli: ReturnType<typeof commandLine>;

beforeAll(async () => {
  server = await startTestServer();
  account = await server.account();
  cli = commandLine(server.databasePath);
});
afterAll(() => server.close());

function manifest(content: unknown): string {
  const file = join(temporaryFolder(), 'manifest.json');
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  return file;
}

const digest = (algorithm: string, text: string): string => createHash(algorithm).update(text).digest('hex');

const text = 'query Name { account { name } }';
const operation = { id: digest('sha256', text), name: 'Name', type: 'query', body: text };
const answered = { data: { account: { name: 'test' } } };

describe('documents push', () => {
  test.each<[tool: string, id: string, content: unknown]>([
    ['GraphQL Code Generator', digest('sha1', text), { [digest('sha1', text)]: text }],
    [
      'GraphQL Code Generator with SHA-256',
      `sha256:${digest('sha256', text)}`,
      { [`sha256:${digest('sha256', text)}`]: text },
    ],
    ['Relay or gql.tada', digest('md5', text), { [digest('md5', text)]: text }],
    ['Apollo', operation.id, { format: 'apollo-persisted-query-manifest', version: 1, operations: [operation] }],
    [
      'Apollo, by id',
      'an-id',
      { format: 'apollo-persisted-query-manifest', version: 1, operations: { 'an-id': operation } },
    ],
  ])('registers what %s has written, and the running server answers it at once', async (_, id, content) => {
    const file = manifest(content);
    const push = () => cli.jsonHere('documents', 'push', file, '--account', account.account.id);
    expect(await push()).toEqual({ documents: 1 });
    expect(await push(), 'again').toEqual({ documents: 1 });
    expect((await account.post({ documentId: id })).body).toEqual(answered);
  });

  test('takes a manifest that begins with a byte order mark, as programs on Windows write it', async () => {
    const file = manifest(`\uFEFF${JSON.stringify({ marked: text })}`);
    expect(await cli.jsonHere('documents', 'push', file, '--account', account.account.id)).toEqual({ documents: 1 });
  });

  longTest('registers hundreds at once, for the only account there is, and says how many', async () => {
    const other = await startTestServer();
    try {
      const owner = await other.account();
      const many = Object.fromEntries(Array.from({ length: 250 }, (_, index) => [`d${index}`, text]));
      const { code, stdout } = await commandLine(other.databasePath).run('documents', 'push', manifest(many));
      expect({ code, stdout }).toEqual({ code: 0, stdout: 'Registered 250 documents.\n' });
      expect((await owner.rest('GET', '/documents')).body.pagination.total).toBe(250);
      expect((await owner.post({ documentId: 'd249' })).body).toEqual(answered);
    } finally {
      await other.close();
    }
  });

  test('of an empty manifest does nothing', async () => {
    const { code, stdout } = await cli.runHere('documents', 'push', manifest({}), '--account', account.account.id);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'Registered 0 documents.\n' });
  });

  test.each<[what: string, content: unknown]>([
    ['no JSON', '{'],
    ['a list', [operation]],
    ['a map of other things', { a: { text } }],
    ['a manifest without operations', { format: 'apollo-persisted-query-manifest', version: 1 }],
    ['a text', '"query"'],
  ])('refuses %s in one sentence', async (_, content) => {
    const file = manifest(content);
    expect(await cli.runHere('documents', 'push', file, '--account', account.account.id)).toEqual({
      code: 1,
      stdout: '',
      stderr: `${file} is no manifest: the JSON of GraphQL Code Generator, Relay, gql.tada or Apollo was expected.\n`,
    });
  });

  test.each<[what: string, content: object, stderr: string]>([
    [
      'an unknown field',
      { a: '{ nothing }', b: text },
      'The document "a": Cannot query field "nothing" on type "Query".\n',
    ],
    ['what is no GraphQL', { a: 'Hello' }, 'The document "a": Syntax Error: Unexpected Name "Hello".\n'],
    [
      'ids that cannot be',
      { '.': text, ['f'.repeat(64)]: text },
      'The document ".": `id` must be neither `.` nor `..`.\n',
    ],
    [
      'a hash of another text',
      { b: text, ['f'.repeat(64)]: text },
      `The document "${'f'.repeat(64)}": \`id\` must be the SHA-256 of the text in lower case, since it has 64 hexadecimal digits.\n`,
    ],
    [
      'an operation without an id or a text',
      { format: 'apollo-persisted-query-manifest', operations: [{ body: text }, { id: 'a' }, null] },
      'The document without an id: `id` is required.\nThe document "a": `text` is required.\nThe document without an id: `id` is required.\nThe document without an id: `text` is required.\n',
    ],
  ])('names the document at fault, and registers none: %s', async (_, content, stderr) => {
    const owner = await server.account();
    const pushed = await cli.runHere('documents', 'push', manifest(content), '--account', owner.account.id);
    expect(pushed).toEqual({ code: 1, stdout: '', stderr });
    expect((await owner.rest('GET', '/documents')).body.data).toEqual([]);
  });

  test('says how many faults there are beyond the first ten', async () => {
    const many = Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`d${index}`, '{ nothing }']));
    const { stderr } = await cli.runHere('documents', 'push', manifest(many), '--account', account.account.id);
    expect(stderr.trimEnd().split('\n')).toHaveLength(11);
    expect(stderr).toMatch(/There are 2 more faults\.\n$/);
  });

  test('refuses another text under a known id, in one sentence', async () => {
    await cli.jsonHere('documents', 'push', manifest({ known: text }), '--account', account.account.id);
    const other = manifest({ known: 'query Other { account { name } }' });
    const { code, stderr } = await cli.runHere('documents', 'push', other, '--account', account.account.id);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: 'The document `known` has another text; an id keeps its text.\n',
    });
  });

  test.each([
    ['a file that is not there', () => [join(temporaryFolder(), 'x.json')], /^There is no file \S+\/x\.json\.\n$/],
    [
      'an account that is none',
      () => [manifest({ a: text }), '--account', 'acct_x'],
      /^There is no such account: `account list` [^\n]*\.\n$/,
    ],
  ])('refuses %s', async (_, args, stderr) => {
    const ended = await cli.runHere('documents', 'push', ...args());
    expect(ended).toEqual({ code: 1, stdout: '', stderr: expect.stringMatching(stderr) });
  });
});
