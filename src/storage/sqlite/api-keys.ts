import { and, count, desc, eq, gt, isNull, lt, or, sql } from 'drizzle-orm';
import type { ApiKey } from '../../domain/api-keys.ts';
import type { ApiKeyReads, ApiKeyWrites } from '../../domain/storage-port.ts';
import { toAccount } from './accounts.ts';
import { firstId } from './index-spans.ts';
import { metaCounter, metaIncrement, metaValue } from './meta.ts';
import { bindings, type Queries } from './queries.ts';
import { sliceOf, toMs, toTimestamp } from './rows.ts';
import { accounts, apiKeys } from './tables.ts';

type Row = typeof apiKeys.$inferSelect;

function toApiKey(row: Row): ApiKey {
  return {
    id: row.id,
    name: row.name,
    prefix: row.prefix,
    scopes: row.scopes,
    expiresAt: toTimestamp(row.expiresAt),
    lastUsedAt: toTimestamp(row.lastUsedAt),
    createdAt: toTimestamp(row.createdAt),
    revokedAt: toTimestamp(row.revokedAt),
  };
}

const ofAccount = eq(apiKeys.accountId, sql.placeholder('accountId'));

export function apiKeyReads(db: Queries) {
  const findBySecret = db
    .select()
    .from(apiKeys)
    .innerJoin(accounts, eq(accounts.id, apiKeys.accountId))
    .where(eq(apiKeys.secretHash, sql.placeholder('secretHash')))
    .prepare();
  const find = db
    .select()
    .from(apiKeys)
    .where(and(ofAccount, eq(apiKeys.id, sql.placeholder('id'))))
    .prepare();
  const page = db
    .select()
    .from(apiKeys)
    .where(and(ofAccount, lt(apiKeys.id, sql.placeholder('before'))))
    .orderBy(desc(apiKeys.id))
    .limit(sql.placeholder('limit'))
    .offset(sql.placeholder('offset'))
    .prepare();
  const countAll = db.select({ count: count() }).from(apiKeys).where(ofAccount).prepare();
  const countLive = db
    .select({ count: count() })
    .from(apiKeys)
    .where(
      and(
        ofAccount,
        isNull(apiKeys.revokedAt),
        or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, sql.placeholder('nowMs'))),
      ),
    )
    .prepare();
  const tokenKey = metaValue(db, 'token_key');
  return {
    findBySecret: (secretHash: Uint8Array) => {
      const row = findBySecret.get({ secretHash });
      return row && { key: toApiKey(row.api_keys), account: toAccount(row.accounts) };
    },
    find: (accountId, id) => {
      const row = find.get({ accountId, id });
      return row && toApiKey(row);
    },
    page: (accountId, { limit, offset, after }) =>
      sliceOf(page.all({ accountId, before: after ?? firstId, limit: limit + 1, offset }), limit, toApiKey),
    count: (accountId) => countAll.get({ accountId })?.count ?? 0,
    revocations: metaCounter(db, 'revocations'),
    tokenKey: () => {
      const hex = tokenKey();
      if (hex === undefined) throw new Error('The database has no key to sign tokens with');
      return Buffer.from(hex, 'hex');
    },
    countLive: (accountId, nowMs) => countLive.get({ accountId, nowMs })?.count ?? 0,
  } satisfies ApiKeyReads;
}

/** @param onRevoke called when a key is revoked; the transaction may still be rolled back */
export function apiKeyWrites(db: Queries, onRevoke: () => void): ApiKeyWrites {
  const insert = db
    .insert(apiKeys)
    .values({
      id: sql.placeholder('id'),
      accountId: sql.placeholder('accountId'),
      name: sql.placeholder('name'),
      prefix: sql.placeholder('prefix'),
      secretHash: sql.placeholder('secretHash'),
      scopes: sql.placeholder('scopes'),
      expiresAt: sql.placeholder('expiresAt'),
      lastUsedAt: sql.placeholder('lastUsedAt'),
      createdAt: sql.placeholder('createdAt'),
      revokedAt: sql.placeholder('revokedAt'),
    })
    .prepare();
  const update = db
    .update(apiKeys)
    .set(bindings('lastUsedAt', 'revokedAt'))
    .where(eq(apiKeys.id, sql.placeholder('id')))
    .prepare();
  const countRevocation = metaIncrement(db, 'revocations');
  return {
    insert: (accountId, key, secretHash) => {
      insert.run({
        ...key,
        accountId,
        secretHash,
        expiresAt: toMs(key.expiresAt),
        lastUsedAt: toMs(key.lastUsedAt),
        createdAt: toMs(key.createdAt),
        revokedAt: toMs(key.revokedAt),
      });
    },
    update: (key) => {
      if (key.revokedAt !== null) {
        countRevocation();
        onRevoke();
      }
      update.run({ id: key.id, lastUsedAt: toMs(key.lastUsedAt), revokedAt: toMs(key.revokedAt) });
    },
  };
}
