import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ApiKey, createApiKey, type NewApiKey } from '../../src/domain/api-keys.ts';
import { operatorOf } from '../../src/domain/caller.ts';
import { clientOf } from '../support/client.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { commandLine } from './program.ts';

let server: TestServer;
let account: TestAccount;
let cli: ReturnType<typeof commandLine>;
const itsAccount = () => ['--account', account.account.id];

beforeAll(async () => {
  server = await startTestServer();
  account = await server.account();
  cli = commandLine(server.databasePath);
});
afterAll(() => server.close());

test('a key works on the running server, within its scopes, until it is revoked', async () => {
  const made = await cli.json<NewApiKey>(
    ...['key', 'create', ...itsAccount(), '--name', 'dashboard', '--expires-at', '2099-01-01T00:00:00Z'],
    ...['--scopes', 'keys:manage', 'conversations:read'],
  );
  expect(made).toMatchObject({
    name: 'dashboard',
    scopes: ['conversations:read', 'keys:manage'],
    expiresAt: '2099-01-01T00:00:00.000Z',
    secret: expect.stringMatching(/^cs_[A-Za-z0-9_-]{43}$/),
  });
  const client = clientOf(server.url, made.secret);
  expect((await client.rest('GET', '/conversations')).status).toBe(200);
  expect((await client.rest('POST', '/conversations')).body).toMatchObject({ code: 'FORBIDDEN' });

  expect(await cli.jsonHere('key', 'revoke', made.id, ...itsAccount())).toEqual({ revokedApiKeyId: made.id });
  expect((await client.rest('GET', '/conversations')).body).toMatchObject({ code: 'UNAUTHENTICATED' });
  expect((await client.graphql('{ account { id } }')).status).toBe(401);
});

test('without scopes a key may do everything, and without --json people can read it', async () => {
  const { code, stdout } = await cli.runHere('key', 'create', ...itsAccount(), '--name', 'everything');
  expect(code).toBe(0);
  expect(stdout).toMatch(/^key_\w{26} {2}everything$/m);
  const secret = /^ +(cs_\S{43})$/m.exec(stdout)?.[1];
  expect((await clientOf(server.url, secret).rest('POST', '/conversations')).status).toBe(201);
});

describe('key list', () => {
  test('shows all keys, newest first, the revoked ones too, and no secret, however many there are', async () => {
    const busy = await server.account();
    for (let count = 0; count < 105; count++) {
      const { apiKey } = await createApiKey.execute(server.app.ports, operatorOf(busy.account), {
        name: `key ${count}`,
      });
      if (count < 10) await busy.rest('DELETE', `/api-keys/${apiKey.id}`);
    }
    const keys = await cli.jsonHere<ApiKey[]>('key', 'list', '--account', busy.account.id);
    expect(keys).toHaveLength(106);
    expect(keys[0]?.name).toBe('key 104');
    expect(keys.at(-1)?.name).toBe('first key');
    expect(keys.filter(({ revokedAt }) => revokedAt !== null)).toHaveLength(10);
    expect(JSON.stringify(keys)).not.toMatch(/secret|cs_[A-Za-z0-9_-]{6}/);
  });

  test('has a line for each key without --json', async () => {
    const other = await server.account();
    const { stdout } = await cli.runHere('key', 'list', '--account', other.account.id);
    expect(stdout.trimEnd().split('\n')).toEqual([
      expect.stringMatching(/^id +name +prefix +scopes +lastUsedAt +expiresAt +revokedAt$/),
      expect.stringMatching(/^key_\w{26} +first key +cs_\S{5} +conversations:read .*keys:manage +- +- +-$/),
    ]);
  });
});

test.each([
  [
    'an account that is none',
    ['list', '--account', 'acct_x'],
    'There is no such account: `account list` shows those that there are.',
  ],
  [
    'another account’s key',
    ['revoke', 'THEIRS', '--account', 'ITS'],
    'There is no such API key: `key list` shows those that there are.',
  ],
  [
    'a time that has passed',
    ['create', '--account', 'ITS', '--name', 'n', '--expires-at', '2020-01-01T00:00:00Z'],
    '--expires-at must be in the future.',
  ],
])('%s is refused in one sentence', async (_, args, sentence) => {
  const other = await server.account();
  const theirs: string = (await other.rest('GET', '/api-keys')).body.data[0].id;
  const given = args.map((arg) => (arg === 'ITS' ? account.account.id : arg === 'THEIRS' ? theirs : arg));
  expect(await cli.runHere('key', ...given)).toEqual({ code: 1, stdout: '', stderr: `${sentence}\n` });
  expect((await other.rest('GET', '/account')).status, 'and nothing is revoked').toBe(200);
});
