import type { StoredDocument } from '../../domain/documents.ts';
import type { DocumentReads, DocumentWrites } from '../../domain/storage-port.ts';
import { scheduler } from '../../runtime/scheduler.ts';
import { sliceOf } from './paging.ts';
import { alignToIds, toMs, toTimestamp } from './rows.ts';
import { columnsOf, insertInto, jsonList, type Statements } from './statements.ts';
import type { trustedDocuments } from './tables.ts';

const table = 'trusted_documents';
const columns = ['number', 'id', 'text', 'createdAt'] as const;

type DocumentRow = Pick<typeof trustedDocuments.$inferSelect, (typeof columns)[number]>;

function toDocument({ number, id, text, createdAt }: DocumentRow): StoredDocument {
  return { number, id, text, createdAt: toTimestamp(createdAt) };
}

const ofAccount = 'account_id = :accountId';

export function documentReads(db: Statements): DocumentReads {
  const select = `SELECT ${columnsOf(table, columns)} FROM ${table} WHERE ${ofAccount}`;
  const find = db.prepare<{ text: string }>(`SELECT text FROM ${table} WHERE ${ofAccount} AND id = :id`);
  const findMany = db.prepare<DocumentRow>(`${select} AND id IN (SELECT value FROM json_each(:ids))`);
  const page = db.prepare<DocumentRow>(
    `${select} AND number < :before ORDER BY number DESC LIMIT :limit OFFSET :offset`,
  );
  const totals = db.prepare<{ count: number; bytes: number }>(
    `SELECT count(*) AS count, ifnull(sum(bytes), 0) AS bytes FROM ${table} WHERE ${ofAccount}`,
  );
  return {
    text: (accountId, id) => find.get({ accountId, id })?.text,
    findMany: (accountId, ids) => alignToIds(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toDocument)),
    // A page can hold more than a megabyte.
    page: async (accountId, { limit, offset, after = Number.MAX_SAFE_INTEGER }) => {
      await scheduler.step(accountId);
      return sliceOf(page.all({ accountId, before: after, limit: limit + 1, offset }), limit, toDocument);
    },
    totals: (accountId) => totals.get({ accountId }) ?? { count: 0, bytes: 0 },
  };
}

export function documentWrites(db: Statements): DocumentWrites {
  const next = `(SELECT ifnull(max(number), 0) + 1 FROM ${table} WHERE ${ofAccount})`;
  const insert = db.prepare<{ number: number }>(
    `${insertInto(table, ['accountId', 'id', 'text', 'bytes', 'createdAt'], { number: next })} RETURNING number`,
  );
  const remove = db.prepare(`DELETE FROM ${table} WHERE ${ofAccount} AND id = :id`);
  return {
    insert: (accountId, { id, text, createdAt }) => {
      const row = insert.get({ accountId, id, text, bytes: Buffer.byteLength(text), createdAt: toMs(createdAt) });
      return (row as { number: number }).number;
    },
    remove: (accountId, id) => remove.run({ accountId, id }) > 0,
  };
}
