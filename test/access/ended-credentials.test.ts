import { Readable } from 'node:stream';
import { request } from 'undici';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createApiKey, revokeApiKey } from '../../src/domain/api-keys.ts';
import { type Caller, scopes } from '../../src/domain/caller.ts';
import { deleteDocument, registerDocuments } from '../../src/domain/documents.ts';
import { createToken } from '../../src/domain/tokens.ts';
import { createWebhook, rotateWebhookSecret } from '../../src/domain/webhooks.ts';
import type { Json } from '../support/client.ts';
import { minuteMs } from '../support/clock.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// A credential that ends while a request of it is under way makes nothing that would outlive it.

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());
// Failed authentications are limited by the minute.
beforeEach(() => server.clock.advance(minuteMs));

const url = 'https://example.com/hooks';
const late = { id: 'late', text: '{ a }' };

interface Attempt {
  readonly rest: (webhook: string, key: string) => [method: string, path: string, body: object];
  readonly mutation: (webhook: string, key: string) => string;
  readonly execute: (caller: Caller, webhook: string, key: string) => Promise<unknown>;
  /** Only an API key may call it. */
  readonly keysOnly?: boolean;
}

/** All that gives out credentials and secrets, or takes credentials away, or says what some of them can do. */
const attempts: Readonly<Record<string, Attempt>> = {
  createApiKey: {
    rest: () => ['POST', '/api-keys', { name: 'too late' }],
    mutation: () => 'createApiKey(input: { name: "too late" }) { apiKey { id secret } }',
    execute: (caller) => createApiKey.execute(server.app.ports, caller, { name: 'too late' }),
  },
  createToken: {
    rest: () => ['POST', '/tokens', { scopes: ['events:read'] }],
    mutation: () => 'createToken(input: { scopes: [EVENTS_READ] }) { token { token } }',
    execute: (caller) => createToken.execute(server.app.ports, caller, { scopes: ['events:read'] }),
    keysOnly: true,
  },
  createWebhook: {
    rest: () => ['POST', '/webhooks', { url }],
    mutation: () => `createWebhook(input: { url: "${url}" }) { webhook { secret } }`,
    execute: (caller) => createWebhook.execute(server.app.ports, caller, { url }),
  },
  rotateWebhookSecret: {
    rest: (webhook) => ['POST', `/webhooks/${webhook}/rotate-secret`, {}],
    mutation: (webhook) => `rotateWebhookSecret(input: { id: "${webhook}" }) { webhook { secret } }`,
    execute: (caller, id) => rotateWebhookSecret.execute(server.app.ports, caller, { id }),
  },
  revokeApiKey: {
    rest: (_, key) => ['DELETE', `/api-keys/${key}`, {}],
    mutation: (_, key) => `revokeApiKey(input: { id: "${key}" }) { revokedApiKeyId }`,
    execute: (caller, _, id) => revokeApiKey.execute(server.app.ports, caller, { id }),
  },
  registerDocuments: {
    rest: () => ['POST', '/documents', { documents: [late] }],
    mutation: () => 'registerDocuments(input: { documents: [{ id: "late", text: "{ a }" }] }) { documents { id } }',
    execute: (caller) => registerDocuments.execute(server.app.ports, caller, { documents: [late] }),
  },
  deleteDocument: {
    rest: () => ['DELETE', '/documents/early', {}],
    mutation: () => 'deleteDocument(input: { id: "early" }) { deletedDocumentId }',
    execute: (caller) => deleteDocument.execute(server.app.ports, caller, { id: 'early' }),
  },
};

/** A key that will end, a webhook and another key; and all that there is of credentials and secrets. */
async function scene() {
  const owner = await server.account();
  const ending = (await owner.rest('POST', '/api-keys', { body: { name: 'ending' } })).body;
  const webhook: string = (await owner.rest('POST', '/webhooks', { body: { url } })).body.id;
  const other: string = (await owner.rest('POST', '/api-keys', { body: { name: 'other' } })).body.id;
  await owner.rest('POST', '/documents', { body: { documents: [{ id: 'early', text: '{ a }' }] } });
  const revoke = async (): Promise<void> => {
    expect((await owner.rest('DELETE', `/api-keys/${ending.id}`)).status).toBe(204);
  };
  const made = async (): Promise<Json> => {
    const keys = (await owner.rest('GET', '/api-keys')).body.data;
    const webhooks = (await owner.rest('GET', '/webhooks')).body.data;
    const documents = (await owner.rest('GET', '/documents')).body.data;
    return { keys: keys.map(({ id, revokedAt }: Json) => [id, id === ending.id || revokedAt]), webhooks, documents };
  };
  return { owner, ending, webhook, other, revoke, made };
}

/** Sends all but the last byte of a body, does something, and sends the last. */
async function lateBody(
  path: string,
  secret: string,
  options: { method: string; body: object },
  meanwhile: () => Promise<void>,
) {
  const text = JSON.stringify(options.body);
  async function* slowly(): AsyncGenerator<string> {
    yield text.slice(0, -1);
    await meanwhile();
    yield text.slice(-1);
  }
  const answer = await request(`${server.url}${path}`, {
    method: options.method as 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: Readable.from(slowly()),
  });
  return { status: answer.statusCode, body: (await answer.body.json()) as Json };
}

async function lastUseOf(owner: TestAccount, keyId: string): Promise<unknown> {
  return (await server.app.ports.storage.read.apiKeys.find(owner.account.id, keyId))?.lastUsedAt;
}

describe.each(Object.entries(attempts))('%s', (_, { rest, mutation, execute, keysOnly }) => {
  test.each(['REST', 'GraphQL'] as const)(
    'makes nothing with a key that is revoked before the body is there, over %s',
    async (face) => {
      const { owner, ending, webhook, other, revoke, made } = await scene();
      const before = await made();
      const [method, path, body] =
        face === 'REST'
          ? rest(webhook, other)
          : (['POST', '', { query: `mutation { ${mutation(webhook, other)} }` }] as const);
      const late = { method, body };
      let started = false;
      const answer = await lateBody(face === 'REST' ? `/v1${path}` : '/graphql', ending.secret, late, async () => {
        await expect.poll(() => lastUseOf(owner, ending.id)).not.toBeNull(); // the request is in, and its credential was looked at
        started = true;
        await revoke();
      });
      expect(started).toBe(true);
      const code = face === 'REST' ? answer.body.code : answer.body.errors?.[0]?.extensions.code;
      expect(code).toBe('UNAUTHENTICATED');
      expect(JSON.stringify(answer.body)).not.toMatch(/cs_|whsec_|eyJ/);
      expect(await made()).toEqual(before);
    },
  );

  test.each(keysOnly ? (['key'] as const) : (['key', 'token'] as const))(
    'makes nothing with a %s whose key is revoked by a write just before it',
    async (credential) => {
      const { owner, ending, webhook, other, made } = await scene();
      const before = await made();
      const caller: Caller = { account: owner.account, keyId: ending.id, credential, scopes: new Set(scopes) };
      const operator: Caller = { ...caller, credential: 'operator' };
      // Both wait for the same transaction, in this order.
      const revoking = revokeApiKey.execute(server.app.ports, operator, { id: ending.id });
      if (keysOnly) await revoking; // a token is signed without a transaction
      const attempt = execute(caller, webhook, other);
      await expect(attempt).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
      await revoking;
      expect(await made()).toEqual(before);
    },
  );

  test('makes nothing with a credential that has expired meanwhile', async () => {
    const { owner, ending, webhook, other, made } = await scene();
    const before = await made();
    const caller: Caller = {
      account: owner.account,
      keyId: ending.id,
      credential: 'key',
      scopes: new Set(scopes),
      expiresAtMs: server.clock.now(),
    };
    await expect(execute(caller, webhook, other)).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
    expect(await made()).toEqual(before);
  });
});
