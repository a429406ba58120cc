import { and, count, desc, eq, gt, isNull, lt, or, sql } from 'drizzle-orm';
import type { ApiKey } from '../../domain/api-keys.ts';
import type { ApiKeyReads, ApiKeyWrites } from '../../domain/ports.ts';
import { toAccount } from './accounts.ts';
import { firstId } from './index-spans.ts';
import type { Queries } from './queries.ts';
import { sliceOf, toMs, toTimestamp } from './rows.ts';
import { accounts, apiKeys, meta } from './tables.ts';

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
  const revocations = db.select({ value: meta.value }).from(meta).where(eq(meta.name, 'revocations')).prepare();
  const tokenKey = db.select({ value: meta.value }).from(meta).where(eq(meta.name, 'token_key')).prepare();
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
    revocations: () => Number(revocations.get()?.value ?? 0),
    tokenKey: () => {
      const row = tokenKey.get();
      if (row === undefined) throw new Error('The database has no key to sign tokens with');
      return Buffer.from(row.value, 'hex');
    },
    countLive: (accountId, nowMs) => countLive.get({ accountId, nowMs })?.count ?? 0,
  } satisfies ApiKeyReads;
}

/** @param onRevoke is told that a key has ended; the transaction may still be undone */
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
    .set({ lastUsedAt: sql`${sql.placeholder('lastUsedAt')}`, revokedAt: sql`${sql.placeholder('revokedAt')}` })
    .where(eq(apiKeys.id, sql.placeholder('id')))
    .prepare();
  const countRevocation = db
    .update(meta)
    .set({ value: sql`${meta.value} + 1` })
    .where(eq(meta.name, 'revocations'))
    .prepare();
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
        countRevocation.run();
        onRevoke();
      }
      update.run({ id: key.id, lastUsedAt: toMs(key.lastUsedAt), revokedAt: toMs(key.revokedAt) });
    },
  };
}
