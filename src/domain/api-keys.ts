import * as z from 'zod';
import { type Caller, refuseTrustedOnly, requireScope, type Scope, scopes, unauthenticated } from './caller.ts';
import { choices } from './choices.ts';
import { DomainError, notFound, validationFailed } from './errors.ts';
import { currentEventCursor } from './event-cursor.ts';
import { idInput, idShape } from './ids.ts';
import { type Context, operation } from './operation.ts';
import { type List, newestFirst, newestFirstInput } from './paging.ts';
import { nullableTime, textShape } from './shapes.ts';
import type { Reads, Transaction } from './storage-port.ts';
import { line } from './text.ts';
import { timeInput, timeShape, timestamp } from './time.ts';

const maxLiveKeys = 100;
/**
 * Of the keys that were revoked or have expired an account keeps this many, the latest: enough to look up what happened
 * to a key, and for a restored backup to revoke again what was revoked since.
 */
const maxEndedKeys = 1_000;
/** How many more are removed with each new key, so that an account that has far too many comes down to that. */
const removedAtOnce = 10;
/** How long a key is listed after it has expired. */
export const expiredKeyMs = 30 * 24 * 3_600_000;

export const apiKeyShape = z
  .object({
    id: idShape('apiKey').describe('Its id.'),
    name: textShape('A name to recognise it by.', 'dashboard'),
    prefix: textShape('The first characters of its secret, to tell keys apart.', 'cs_9fQ2x'),
    scopes: z.array(z.enum(scopes)).readonly().describe('Its scopes.'),
    expiresAt: nullableTime('When it expires; null if it does not.'),
    lastUsedAt: nullableTime('When it was last used, to the minute; null if it never was.'),
    createdAt: timeShape.describe('When it was created.'),
    revokedAt: nullableTime('When it was revoked; null if it was not.'),
  })
  .meta({ id: 'ApiKey', description: 'A key with which programs authenticate.' });

export type ApiKey = Readonly<z.output<typeof apiKeyShape>>;

export const newApiKeyShape = apiKeyShape
  .extend({
    secret: textShape('The secret, to be sent as the credential.', 'cs_9fQ2xWm4Jq0sN8bYvT6cRzLkHgDpAeUoIiXyE3w5F71'),
  })
  .meta({ id: 'NewApiKey', description: 'A new key with its secret, which is shown only once.' });

export type NewApiKey = Readonly<z.output<typeof newApiKeyShape>>;

/** Whether a key has neither expired nor been revoked. */
export function isValid({ expiresAt, revokedAt }: ApiKey, nowMs: number): boolean {
  return revokedAt === null && (expiresAt === null || Date.parse(expiresAt) > nowMs);
}

/**
 * Makes sure that the caller's credential has not ended since the request was admitted. What gives out credentials or
 * secrets asks in its transaction, so that a key that is revoked meanwhile leaves nothing behind that outlives it.
 * @throws UNAUTHENTICATED
 */
export async function refuseEnded(
  { apiKeys }: Pick<Reads, 'apiKeys'>,
  { caller, clock }: Pick<Context, 'caller' | 'clock'>,
): Promise<void> {
  if (caller.credential === 'operator') return;
  const now = clock.now();
  const key = await apiKeys.find(caller.account.id, caller.keyId);
  const hasExpired = caller.expiresAtMs !== undefined && caller.expiresAtMs <= now;
  if (hasExpired || key === undefined || !isValid(key, now)) throw unauthenticated();
}

interface PreparedApiKey {
  readonly key: ApiKey;
  readonly secret: string;
  readonly secretHash: Uint8Array;
}

/** Generates a key and its secret, outside of the transaction that stores it. */
export function prepareApiKey(
  { ids, secrets, now }: Pick<Context, 'ids' | 'secrets' | 'now'>,
  plan: { name: string; scopes: Iterable<Scope>; expiresAtMs?: number | null | undefined },
): PreparedApiKey {
  const secret = secrets.generate();
  const granted = new Set(plan.scopes);
  const key: ApiKey = {
    id: ids.next('apiKey', now),
    name: plan.name,
    prefix: secret.slice(0, 8),
    scopes: scopes.filter((scope) => granted.has(scope)),
    expiresAt: plan.expiresAtMs == null ? null : timestamp(plan.expiresAtMs),
    lastUsedAt: null,
    createdAt: timestamp(now),
    revokedAt: null,
  };
  return { key, secret, secretHash: secrets.hash(secret) };
}

/** @throws QUOTA_EXCEEDED when the account already has a hundred valid keys */
export async function storeApiKey(tx: Transaction, accountId: string, prepared: PreparedApiKey): Promise<NewApiKey> {
  const now = Date.parse(prepared.key.createdAt);
  if ((await tx.apiKeys.countLive(accountId, now)) >= maxLiveKeys) {
    throw new DomainError(
      'QUOTA_EXCEEDED',
      `An account can have ${maxLiveKeys} API keys; revoke one that is not used.`,
    );
  }
  await tx.apiKeys.removeEnded(accountId, now, { kept: maxEndedKeys, limit: removedAtOnce });
  await tx.apiKeys.insert(accountId, prepared.key, prepared.secretHash);
  return { ...prepared.key, secret: prepared.secret };
}

export const createApiKey = operation({
  name: 'createApiKey',
  summary: 'Creates an API key and returns its secret, which is shown only once.',
  scope: 'keys:manage',
  input: z.strictObject({
    name: line(200, 1)
      .describe('A name to recognise the key by.')
      .meta({ examples: ['dashboard'] }),
    scopes: choices(scopes)
      .nullish()
      .describe('Its scopes: by default all those of the calling credential, and never more.'),
    expiresAt: timeInput
      .nullable()
      .optional()
      .describe('When it expires: not after the calling credential, and by default when that does, if ever.'),
  }),
  errors: ['QUOTA_EXCEEDED'],
  async run(context, input) {
    const { caller, storage, ids, secrets, now } = context;
    const prepared = prepareApiKey(
      { ids, secrets, now },
      {
        name: input.name,
        scopes: grantedBy(caller, input.scopes ?? caller.scopes),
        expiresAtMs: expiryWithin(caller, input.expiresAt, now),
      },
    );
    return await storage.write(async (tx) => {
      await refuseEnded(tx, context);
      return {
        apiKey: await storeApiKey(tx, caller.account.id, prepared),
        eventCursor: await currentEventCursor(tx, caller.account.id),
      };
    });
  },
});

/**
 * The scopes of a new key: a caller can grant only scopes that it has itself.
 * @throws FORBIDDEN
 */
function grantedBy(caller: Caller, asked: Iterable<Scope>): ReadonlySet<Scope> {
  refuseTrustedOnly(caller, 'A token for registered documents only cannot create a key, which could do more.');
  const granted = new Set(asked);
  for (const scope of granted) requireScope(caller, scope);
  // A key is not bound to a sender, so it could send as any.
  if (caller.sender !== undefined && granted.has('conversations:write')) {
    throw new DomainError(
      'FORBIDDEN',
      'A token that is bound to a sender cannot create a key with the scope `conversations:write`.',
    );
  }
  return granted;
}

/**
 * When a new key expires. Not after the calling credential, or a short-lived credential could be turned into a
 * permanent one.
 * @throws VALIDATION_FAILED
 */
function expiryWithin(
  { expiresAtMs: endMs }: Caller,
  asked: number | null | undefined,
  now: number,
): number | undefined {
  if (asked == null) return endMs;
  const refuse = (detail: string): DomainError => validationFailed([{ path: ['expiresAt'], detail }]);
  if (asked <= now) throw refuse('must be in the future');
  if (endMs !== undefined && asked > endMs) {
    throw refuse(`must not be after ${timestamp(endMs)}, when the calling credential ends`);
  }
  return asked;
}

export const listApiKeys = operation({
  name: 'listApiKeys',
  summary:
    'Lists the account’s API keys, newest first, including the last 1,000 that were revoked, or expired within 30 days.',
  scope: 'keys:manage',
  input: newestFirstInput('apiKey'),
  errors: [],
  run: ({ caller, storage }, input): Promise<List<ApiKey>> =>
    newestFirst('apiKey', storage.read.apiKeys, caller.account.id, input),
});

/**
 * Those with these ids, as they are on the list; undefined for each unknown id.
 * @throws FORBIDDEN
 */
export async function apiKeysById(
  { caller, storage }: Pick<Context, 'caller' | 'storage'>,
  ids: readonly string[],
): Promise<readonly (ApiKey | undefined)[]> {
  listApiKeys.authorise(caller);
  return await storage.read.apiKeys.findMany(caller.account.id, ids);
}

export const revokeApiKey = operation({
  name: 'revokeApiKey',
  summary: 'Revokes an API key immediately and permanently. Revoking it again changes nothing.',
  scope: 'keys:manage',
  input: z.strictObject({ id: idInput('apiKey').describe('The key’s id.') }),
  errors: ['NOT_FOUND'],
  async run(context, { id }) {
    const { caller, storage, now } = context;
    return await storage.write(async (tx) => {
      await refuseEnded(tx, context);
      const key = await tx.apiKeys.find(caller.account.id, id);
      if (key === undefined) throw notFound('API key');
      if (key.revokedAt === null) await tx.apiKeys.update({ ...key, revokedAt: timestamp(now) });
      return { revokedApiKeyId: id, eventCursor: await currentEventCursor(tx, caller.account.id) };
    });
  },
});
