import type { AccountReads, AccountWrites, ApiKeyReads, ApiKeyWrites } from '../../domain/storage-port.ts';
import { aboveAllIds, sliceOf } from '../lists.ts';
import {
  type AccountRow,
  accountColumns,
  type FoundKeyRow,
  type KeyRow,
  keyColumns,
  toAccount,
  toAccountRow,
  toApiKey,
  toFoundApiKey,
  toKeyRow,
} from '../rows/accounts.ts';
import { alignToIds, ifFound, toMs } from '../rows/values.ts';
import { insertInto } from '../sql.ts';
import { metaCounter, metaIncrement, metaTokenKey } from './meta.ts';
import { arrayOf, columnsOf, deleteFirst, type Statements } from './statements.ts';
import type { accountTotals } from './tables.ts';

/** The account's id; null, which is refused, where there is no such account. */
export const knownAccount = '(SELECT account_id FROM account_totals WHERE account_id = :accountId)';

export function accountReads(db: Statements): AccountReads {
  const columns = columnsOf('accounts', accountColumns);
  const find = db.prepare<AccountRow>(`SELECT ${columns} FROM accounts WHERE id = :id`);
  const list = db.prepare<AccountRow>(`SELECT ${columns} FROM accounts ORDER BY id`);
  const totals = db.prepare<Omit<typeof accountTotals.$inferSelect, 'accountId'>>(
    'SELECT active, pending, closed, leads, event_sequence FROM account_totals WHERE account_id = :accountId',
  );
  const origins = db.prepare<{ origin: string }>(
    'SELECT origin FROM account_origins WHERE account_id = :id ORDER BY origin',
  );
  const ownOrigin = db.prepare<{ origin: string }>(
    'SELECT origin FROM account_origins WHERE account_id = :id AND origin = :origin',
  );
  const anyOrigin = db.prepare<{ origin: string }>('SELECT origin FROM account_origins WHERE origin = :origin LIMIT 1');
  return {
    find: async (id) => ifFound(await find.get({ id }), toAccount),
    list: async () => (await list.all()).map(toAccount),
    origins: async (id) => (await origins.all({ id })).map(({ origin }) => origin),
    hasOrigin: async (origin, id) =>
      (await (id === undefined ? anyOrigin.get({ origin }) : ownOrigin.get({ origin, id }))) !== undefined,
    totals: async (accountId) =>
      (await totals.get({ accountId })) ?? { active: 0, pending: 0, closed: 0, leads: 0, eventSequence: 0 },
  };
}

export function accountWrites(db: Statements): AccountWrites {
  const insert = db.prepare(insertInto('accounts', accountColumns));
  const insertTotals = db.prepare('INSERT INTO account_totals (account_id) VALUES (:id)');
  const update = db.prepare(
    'UPDATE accounts SET name = :name, plan = :plan, requests_per_hour = :requestsPerHour WHERE id = :id',
  );
  const removeOrigins = db.prepare('DELETE FROM account_origins WHERE account_id = :id');
  const addOrigins = db.prepare(
    'INSERT INTO account_origins (account_id, origin) SELECT :id, unnest(:origins::text[])',
  );
  // It keeps others from inserting and from taking the same lock, and nobody from reading or locking rows.
  const lock = db.prepare('LOCK TABLE accounts IN SHARE ROW EXCLUSIVE MODE');
  const any = db.prepare<{ id: string }>('SELECT id FROM accounts LIMIT 1');
  return {
    areNone: async () => {
      await lock.all();
      return (await any.get()) === undefined;
    },
    setOrigins: async (id, origins) => {
      await removeOrigins.send({ id });
      await addOrigins.send({ id, origins: arrayOf(origins) });
    },
    insert: async (account) => {
      await insert.send(toAccountRow(account));
      await insertTotals.send({ id: account.id });
    },
    update: async (account) => {
      await update.send({ ...account });
    },
  };
}

export function apiKeyReads(db: Statements): ApiKeyReads {
  const columns = columnsOf('api_keys', keyColumns);
  const withAccount = `${columns}, accounts.id AS account_id, accounts.name AS account_name, plan,
    requests_per_hour, accounts.created_at AS account_created_at`;
  const ofKey = 'accounts ON accounts.id = api_keys.account_id';
  // All requests ask for theirs.
  const findBySecret = db.prepareForKeys<FoundKeyRow, 'secretHash'>(
    `SELECT at, ${withAccount} FROM :rows JOIN api_keys ON api_keys.secret_hash = decode(given.secret_hash, 'hex')
      JOIN ${ofKey}`,
    { texts: ['secretHash'] },
  );
  const findWithAccount = db.prepare<FoundKeyRow>(
    `SELECT ${withAccount} FROM api_keys JOIN ${ofKey} WHERE api_keys.account_id = :accountId AND api_keys.id = :id`,
  );
  const find = db.prepare<KeyRow>(`SELECT ${columns} FROM api_keys WHERE account_id = :accountId AND id = :id`);
  const findMany = db.prepare<KeyRow>(
    `SELECT ${columns} FROM api_keys WHERE account_id = :accountId AND id = ANY(:ids::text[])`,
  );
  const page = db.prepare<KeyRow>(
    `SELECT ${columns} FROM api_keys WHERE account_id = :accountId AND id < :before
      ORDER BY id DESC LIMIT :limit OFFSET :offset`,
  );
  const count = db.prepare<{ count: number }>('SELECT count(*) AS count FROM api_keys WHERE account_id = :accountId');
  // Two ranges of an index, so that the keys that have ended cost nothing.
  const countLive = db.prepare<{ count: number }>(
    `SELECT (SELECT count(*) FROM api_keys WHERE account_id = :accountId AND ends_at IS NULL)
      + (SELECT count(*) FROM api_keys WHERE account_id = :accountId AND ends_at > :nowMs AND revoked_at IS NULL)
      AS count`,
  );
  return {
    findBySecret: async (secretHash) =>
      ifFound(await findBySecret.get({ secretHash: Buffer.from(secretHash).toString('hex') }), toFoundApiKey),
    findWithAccount: async (accountId, id) => ifFound(await findWithAccount.get({ accountId, id }), toFoundApiKey),
    find: async (accountId, id) => ifFound(await find.get({ accountId, id }), toApiKey),
    findMany: async (accountId, ids) =>
      alignToIds(ids, (await findMany.all({ accountId, ids: arrayOf(ids) })).map(toApiKey)),
    page: async (accountId, { limit, offset, after = aboveAllIds }) =>
      sliceOf(await page.all({ accountId, before: after, limit: limit + 1, offset }), limit, toApiKey),
    count: async (accountId) => (await count.get({ accountId }))?.count ?? 0,
    revocations: metaCounter(db, 'revocations'),
    tokenKey: metaTokenKey(db),
    countLive: async (accountId, nowMs) => (await countLive.get({ accountId, nowMs }))?.count ?? 0,
  };
}

/** @param onRevoke called when a key is revoked; the transaction may still be rolled back */
export function apiKeyWrites(db: Statements, onRevoke: () => void): ApiKeyWrites {
  const insert = db.prepare(insertInto('api_keys', ['accountId', 'secretHash', ...keyColumns]));
  // The index by secret is not unique. Two equal ones are 256 random bits twice: that is only looked for.
  const taken = db.prepare('SELECT 1 FROM api_keys WHERE secret_hash = :secretHash');
  const update = db.prepare(
    `UPDATE api_keys SET last_used_at = :lastUsedAt, revoked_at = coalesce(revoked_at, :revokedAt) WHERE id = :id`,
  );
  const removeEnded = db.prepare(
    `DELETE FROM api_keys WHERE account_id = :accountId AND id IN
      (SELECT id FROM api_keys WHERE account_id = :accountId AND ends_at <= :nowMs
        ORDER BY ends_at DESC LIMIT :limit OFFSET :kept)`,
  );
  const prune = db.prepare(
    deleteFirst('api_keys', 'revoked_at IS NULL AND expires_at < :beforeMs ORDER BY expires_at'),
  );
  const countRevocation = metaIncrement(db, 'revocations');
  return {
    insert: async (accountId, key, secretHash) => {
      if ((await taken.all({ secretHash })).length > 0) throw new Error('An API key with this secret exists');
      await insert.send({
        ...toKeyRow(key),
        accountId,
        secretHash,
      });
    },
    update: async (key) => {
      if (key.revokedAt !== null) {
        countRevocation();
        onRevoke();
      }
      await update.send({ id: key.id, lastUsedAt: toMs(key.lastUsedAt), revokedAt: toMs(key.revokedAt) });
    },
    removeEnded: async (accountId, nowMs, { kept, limit }) => {
      await removeEnded.send({ accountId, nowMs, kept, limit });
    },
    prune: (beforeMs, limit) => prune.run({ beforeMs, limit }),
  };
}
