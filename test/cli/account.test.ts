import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Account } from '../../src/domain/accounts.ts';
import type { NewApiKey } from '../../src/domain/api-keys.ts';
import { scopes } from '../../src/domain/caller.ts';
import { clientOf } from '../support/client.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { commandLine } from './program.ts';

// Beside a running server on the same file, since that is how an operator works.

interface Created {
  readonly account: Account;
  readonly apiKey: NewApiKey;
}

let server: TestServer;
let cli: ReturnType<typeof commandLine>;

beforeAll(async () => {
  server = await startTestServer();
  cli = commandLine(server.databasePath);
});
afterAll(() => server.close());

describe('account create', () => {
  test('makes an account whose key the running server accepts at once', async () => {
    const { account, apiKey } = await cli.json<Created>('account', 'create', '--name', 'Ünïted 🎈', '--plan', 'pro');
    expect(account).toEqual({
      id: expect.stringMatching(/^acct_[0-9a-z]{26}$/),
      name: 'Ünïted 🎈',
      plan: 'pro',
      requestsPerHour: null,
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    });
    expect(apiKey).toEqual({
      id: expect.stringMatching(/^key_[0-9a-z]{26}$/),
      name: 'first key',
      prefix: apiKey.secret.slice(0, 8),
      secret: expect.stringMatching(/^cs_[A-Za-z0-9_-]{43}$/),
      scopes,
      expiresAt: null,
      lastUsedAt: null,
      createdAt: account.createdAt,
      revokedAt: null,
    });
    const { status, body } = await clientOf(server.url, apiKey.secret).rest('GET', '/account');
    expect(status).toBe(200);
    expect(body).toMatchObject({ id: account.id, name: 'Ünïted 🎈', plan: 'pro', rateLimit: { limit: 1_000 } });
  });

  test('prints for people without --json, and takes a limit of the account’s own', async () => {
    const { code, stdout } = await cli.runHere(
      ...['account', 'create', '--name', 'Acme', '--plan', 'trial', '--requests-per-hour', '7'],
    );
    expect(code).toBe(0);
    expect(stdout).toMatch(/^acct_\w{26} {2}Acme$/m);
    const secret = /^ +(cs_\S{43})$/m.exec(stdout)?.[1];
    const { headers } = await clientOf(server.url, secret).rest('GET', '/account');
    expect(headers['ratelimit-policy']).toBe('"trial";q=7;w=3600');
  });

  test('takes no origins, which are for later', async () => {
    const { code } = await cli.runHere(
      'account',
      'create',
      '--name',
      'A',
      '--plan',
      'pro',
      '--origins',
      'https://a.example',
    );
    expect(code).not.toBe(0);
  });

  test('tells each fault under the name of its option', async () => {
    const { code, stdout, stderr } = await cli.runHere(
      ...['account', 'create', '--name', '', '--plan', 'pro', '--requests-per-hour', 'many'],
    );
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr.trim().split('\n')).toEqual([
      '--name must not be empty.',
      expect.stringMatching(/^--requests-per-hour must be .*\.$/),
    ]);
  });

  test.each([
    ['-5', 'at least 1'],
    ['20000000000', 'at most 1000000000'],
  ])('with %s requests an hour is told how many there may be', async (number, bound) => {
    const { stderr } = await cli.runHere(
      'account',
      'create',
      '--name',
      'x',
      '--plan',
      'pro',
      '--requests-per-hour',
      number,
    );
    expect(stderr).toBe(`--requests-per-hour must be ${bound}.\n`);
  });
});

test('account list shows every account, oldest first', async () => {
  const other = await startTestServer();
  try {
    const first = await other.account({ plan: 'trial' });
    const second = await other.account({ plan: 'pro', requestsPerHour: 12 });
    const its = commandLine(other.databasePath);
    const listed = await its.jsonHere<Account[]>('account', 'list');
    const { stdout } = await its.runHere('account', 'list');
    expect(listed).toEqual([first, second].map(({ account }) => ({ ...account, origins: [] })));
    const lines = stdout.trimEnd().split('\n');
    expect(lines).toEqual([
      expect.stringMatching(/^id +name +plan +limit +createdAt$/),
      expect.stringMatching(new RegExp(`^${first.account.id} +test +trial +100 +\\S+Z$`)),
      expect.stringMatching(new RegExp(`^${second.account.id} +test +pro +12 +\\S+Z$`)),
    ]);
  } finally {
    await other.close();
  }
});

describe('account update', () => {
  test('takes effect on the running server with the next request', async () => {
    const { account, rest } = await server.account({ plan: 'trial' });
    const policy = async () => (await rest('GET', '/account')).headers['ratelimit-policy'];
    expect(await policy()).toBe('"trial";q=100;w=3600');
    await cli.jsonHere('account', 'update', account.id, '--plan', 'business');
    expect(await policy()).toBe('"business";q=10000;w=3600');
    await cli.jsonHere('account', 'update', account.id, '--requests-per-hour', '3');
    expect(await policy()).toBe('"business";q=3;w=3600');
    expect((await rest('GET', '/account')).status, 'its three earlier requests count').toBe(429);
    const args = ['account', 'update', account.id, '--requests-per-hour', 'plan', '--name', 'N'];
    const back = await cli.jsonHere<Account>(...args);
    expect(back).toEqual({ ...account, name: 'N', plan: 'business', requestsPerHour: null, origins: [] });
    expect(await policy()).toBe('"business";q=10000;w=3600');
  });

  test('adds the origins of its pages, which may call with its tokens from the next request on, and removes them', async () => {
    const { account, secret } = await server.account();
    const minted = await clientOf(server.url, secret).rest('POST', '/tokens', { body: { scopes: ['events:read'] } });
    const page = { headers: { origin: 'https://shop.example' } };
    const call = async () => (await clientOf(server.url, minted.body.token).rest('GET', '/account', page)).status;
    expect(await call()).toBe(403);
    const origins = ['--origins', 'https://shop.example, http://localhost:5173'];
    const changed = await cli.jsonHere('account', 'update', account.id, ...origins);
    expect(changed).toMatchObject({ origins: ['http://localhost:5173', 'https://shop.example'] });
    expect(await call()).toBe(200);
    expect((await cli.runHere('account', 'update', account.id, '--origins', '')).stdout).toMatch(/ none$/m);
    expect(await call()).toBe(403);
    const { stderr } = await cli.runHere('account', 'update', account.id, '--origins', 'https://shop.example/chat');
    expect(stderr).toBe(
      '--origins must list origins such as https://shop.example, and "https://shop.example/chat" is not one; write https://shop.example.\n',
    );
  });

  test('says so when there is no such account', async () => {
    const result = await cli.runHere('account', 'update', 'acct_00000000000000000000000000', '--plan', 'pro');
    expect(result).toEqual({
      code: 1,
      stdout: '',
      stderr: 'There is no such account: `account list` shows those that there are.\n',
    });
  });
});
