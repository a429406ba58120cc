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
import { arrayOf, columnsOf, type Statements } from './statements.ts';

const table = 'trusted_documents';
const ofAccount = 'account_id = :accountId';

/** Texts of a page that have no more bytes than this together come along with it. */
const shortBytes = 64 * 1024;

export function documentReads(db: Statements): DocumentReads {
  const find = db.prepare<{ text: string }>(`SELECT text FROM ${table} WHERE ${ofAccount} AND id = :id`);
  const findMany = db.prepare<DocumentRow>(
    `SELECT ${columnsOf(table, documentColumns)} FROM ${table} WHERE ${ofAccount} AND id = ANY(:ids::text[])`,
  );
  const page = db.prepare<ListedDocumentRow>(
    `SELECT ${columnsOf('page', listedDocumentColumns)},
        CASE WHEN sum(bytes) OVER () <= ${shortBytes} THEN text END AS text
      FROM (SELECT * FROM ${table}
        WHERE ${ofAccount} AND number < :before::bigint ORDER BY number DESC LIMIT :limit OFFSET :offset) AS page
      ORDER BY number DESC`,
  );
  const totals = db.prepare<{ count: number; bytes: number }>(
    `SELECT count(*) AS count, coalesce(sum(bytes), 0)::bigint AS bytes FROM ${table} WHERE ${ofAccount}`,
  );
  return {
    text: async (accountId, id) => (await find.get({ accountId, id }))?.text,
    findMany: async (accountId, ids) =>
      alignToIds(ids, (await findMany.all({ accountId, ids: arrayOf(ids) })).map(toDocument)),
    page: async (accountId, { limit, offset, after = Number.MAX_SAFE_INTEGER }) =>
      sliceOf(await page.all({ accountId, before: after, limit: limit + 1, offset }), limit, toListedDocument),
    totals: async (accountId) => (await totals.get({ accountId })) ?? { count: 0, bytes: 0 },
  };
}

export function documentWrites(db: Statements): DocumentWrites {
  const next = `(SELECT coalesce(max(number), 0) + 1 FROM ${table} WHERE ${ofAccount})`;
  const insert = db.prepare<{ number: number }>(
    `${insertInto(table, ['accountId', 'id', 'text', 'bytes', 'createdAt'], { number: next })} RETURNING number`,
  );
  const remove = db.prepare(`DELETE FROM ${table} WHERE ${ofAccount} AND id = :id`);
  return {
    insert: async (accountId, { id, text, createdAt }) => {
      const row = await insert.get({ accountId, id, text, bytes: Buffer.byteLength(text), createdAt: toMs(createdAt) });
      return (row as { number: number }).number;
    },
    remove: async (accountId, id) => (await remove.run({ accountId, id })) > 0,
  };
}
