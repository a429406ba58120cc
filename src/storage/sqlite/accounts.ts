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
import { columnsOf, jsonList, type Statements } from './statements.ts';
import type { accountTotals } from './tables.ts';

export function accountReads(db: Statements): AccountReads {
  const columns = columnsOf('accounts', accountColumns);
  const find = db.prepare<AccountRow>(`SELECT ${columns} FROM accounts WHERE id = :id`);
  const list = db.prepare<AccountRow>(`SELECT ${columns} FROM accounts ORDER BY id`);
  const totals = db.prepare<Omit<typeof accountTotals.$inferSelect, 'accountId'>>(
    `SELECT active, pending, closed, leads, event_sequence AS eventSequence FROM account_totals
      WHERE account_id = :accountId`,
  );
  const origins = db.prepare<{ origin: string }>(
    'SELECT origin FROM account_origins WHERE account_id = :id ORDER BY origin',
  );
  const ownOrigin = db.prepare<{ origin: string }>(
    'SELECT origin FROM account_origins WHERE account_id = :id AND origin = :origin',
  );
  const anyOrigin = db.prepare<{ origin: string }>('SELECT origin FROM account_origins WHERE origin = :origin LIMIT 1');
  return {
    find: (id) => ifFound(find.get({ id }), toAccount),
    list: () => list.all().map(toAccount),
    origins: (id) => origins.all({ id }).map(({ origin }) => origin),
    hasOrigin: (origin, id) =>
      (id === undefined ? anyOrigin.get({ origin }) : ownOrigin.get({ origin, id })) !== undefined,
    totals: (accountId) =>
      totals.get({ accountId }) ?? { active: 0, pending: 0, closed: 0, leads: 0, eventSequence: 0 },
  };
}

export function accountWrites(db: Statements): AccountWrites {
  const insert = db.prepare(insertInto('accounts', accountColumns));
  const insertTotals = db.prepare('INSERT INTO account_totals (account_id) VALUES (:id)');
  const update = db.prepare(
    'UPDATE accounts SET name = :name, plan = :plan, requests_per_hour = :requestsPerHour WHERE id = :id',
  );
  const removeOrigins = db.prepare('DELETE FROM account_origins WHERE account_id = :id');
  const addOrigin = db.prepare(insertInto('account_origins', ['accountId', 'origin']));
  // With a condition, so that it is no scan: there is a test against those.
  const any = db.prepare<{ id: string }>("SELECT id FROM accounts WHERE id > '' LIMIT 1");
  return {
    areNone: () => any.get() === undefined,
    setOrigins: (accountId, origins) => {
      removeOrigins.run({ id: accountId });
      for (const origin of origins) addOrigin.run({ accountId, origin });
    },
    insert: (account) => {
      insert.run(toAccountRow(account));
      insertTotals.run({ id: account.id });
    },
    update: (account) => {
      update.run({ ...account });
    },
  };
}

export function apiKeyReads(db: Statements): ApiKeyReads {
  const columns = columnsOf('api_keys', keyColumns);
  const withAccount = `SELECT ${columns}, accounts.id AS accountId, accounts.name AS accountName, plan,
      requests_per_hour AS requestsPerHour, accounts.created_at AS accountCreatedAt
    FROM api_keys JOIN accounts ON accounts.id = api_keys.account_id`;
  const findBySecret = db.prepare<FoundKeyRow>(`${withAccount} WHERE secret_hash = :secretHash`);
  const findWithAccount = db.prepare<FoundKeyRow>(
    `${withAccount} WHERE api_keys.account_id = :accountId AND api_keys.id = :id`,
  );
  const find = db.prepare<KeyRow>(`SELECT ${columns} FROM api_keys WHERE account_id = :accountId AND id = :id`);
  const findMany = db.prepare<KeyRow>(
    `SELECT ${columns} FROM api_keys WHERE account_id = :accountId AND id IN (SELECT value FROM json_each(:ids))`,
  );
  const page = db.prepare<KeyRow>(
    `SELECT ${columns} FROM api_keys WHERE account_id = :accountId AND id < :before
      ORDER BY id DESC LIMIT :limit OFFSET :offset`,
  );
  const count = db.prepare<{ count: number }>('SELECT count(*) AS count FROM api_keys WHERE account_id = :accountId');
  // Two ranges of an index, so that the keys that have ended cost nothing.
  const countEndless = db.prepare<{ count: number }>(
    'SELECT count(*) AS count FROM api_keys WHERE account_id = :accountId AND ends_at IS NULL',
  );
  const countEnding = db.prepare<{ count: number }>(
    `SELECT count(*) AS count FROM api_keys
      WHERE account_id = :accountId AND ends_at > :nowMs AND revoked_at IS NULL`,
  );
  return {
    findBySecret: (secretHash) => ifFound(findBySecret.get({ secretHash }), toFoundApiKey),
    findWithAccount: (accountId, id) => ifFound(findWithAccount.get({ accountId, id }), toFoundApiKey),
    find: (accountId, id) => ifFound(find.get({ accountId, id }), toApiKey),
    findMany: (accountId, ids) => alignToIds(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toApiKey)),
    page: (accountId, { limit, offset, after = aboveAllIds }) =>
      sliceOf(page.all({ accountId, before: after, limit: limit + 1, offset }), limit, toApiKey),
    count: (accountId) => count.get({ accountId })?.count ?? 0,
    revocations: metaCounter(db, 'revocations'),
    tokenKey: metaTokenKey(db),
    countLive: (accountId, nowMs) =>
      (countEndless.get({ accountId })?.count ?? 0) + (countEnding.get({ accountId, nowMs })?.count ?? 0),
  };
}

/** @param onRevoke called when a key is revoked; the transaction may still be rolled back */
export function apiKeyWrites(db: Statements, onRevoke: () => void): ApiKeyWrites {
  const insert = db.prepare(insertInto('api_keys', ['accountId', 'secretHash', ...keyColumns]));
  const update = db.prepare(
    `UPDATE api_keys SET last_used_at = :lastUsedAt, revoked_at = coalesce(revoked_at, :revokedAt) WHERE id = :id`,
  );
  const removeEnded = db.prepare(
    `DELETE FROM api_keys WHERE id IN (SELECT id FROM api_keys WHERE account_id = :accountId AND ends_at <= :nowMs
      ORDER BY ends_at DESC LIMIT :limit OFFSET :kept)`,
  );
  const prune = db.prepare(
    `DELETE FROM api_keys WHERE id IN (SELECT id FROM api_keys WHERE revoked_at IS NULL AND expires_at < :beforeMs
      ORDER BY expires_at LIMIT :limit)`,
  );
  const countRevocation = metaIncrement(db, 'revocations');
  return {
    insert: (accountId, key, secretHash) => {
      insert.run({
        ...toKeyRow(key),
        accountId,
        secretHash,
      });
    },
    update: (key) => {
      if (key.revokedAt !== null) {
        countRevocation();
        onRevoke();
      }
      update.run({ id: key.id, lastUsedAt: toMs(key.lastUsedAt), revokedAt: toMs(key.revokedAt) });
    },
    removeEnded: (accountId, nowMs, { kept, limit }) => {
      removeEnded.run({ accountId, nowMs, kept, limit });
    },
    prune: (beforeMs, limit) => prune.run({ beforeMs, limit }),
  };
}
