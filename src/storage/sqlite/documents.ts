import type { DocumentReads, DocumentWrites } from '../../domain/storage-port.ts';
import { sliceOf } from '../lists.ts';
import {
  type DocumentRow,
  documentColumns,
  type ListedDocumentRow,
  listedDocumentColumns,
  toDocument,
  toListedDocument,
} from '../rows/documents.ts';
import { alignToIds, toMs } from '../rows/values.ts';
import { insertInto } from '../sql.ts';
import { columnsOf, jsonList, type Statements } from './statements.ts';

const table = 'trusted_documents';
const ofAccount = 'account_id = :accountId';

export function documentReads(db: Statements): DocumentReads {
  const find = db.prepare<{ text: string }>(`SELECT text FROM ${table} WHERE ${ofAccount} AND id = :id`);
  const findMany = db.prepare<DocumentRow>(
    `SELECT ${columnsOf(table, documentColumns)} FROM ${table}
      WHERE ${ofAccount} AND id IN (SELECT value FROM json_each(:ids))`,
  );
  const page = db.prepare<ListedDocumentRow>(
    `SELECT ${columnsOf(table, listedDocumentColumns)} FROM ${table}
     WHERE ${ofAccount} AND number < :before ORDER BY number DESC LIMIT :limit OFFSET :offset`,
  );
  const totals = db.prepare<{ count: number; bytes: number }>(
    `SELECT count(*) AS count, ifnull(sum(bytes), 0) AS bytes FROM ${table} WHERE ${ofAccount}`,
  );
  return {
    text: (accountId, id) => find.get({ accountId, id })?.text,
    findMany: (accountId, ids) => alignToIds(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toDocument)),
    page: (accountId, { limit, offset, after = Number.MAX_SAFE_INTEGER }) =>
      sliceOf(page.all({ accountId, before: after, limit: limit + 1, offset }), limit, toListedDocument),
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
