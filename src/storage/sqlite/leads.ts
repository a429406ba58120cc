import type { Lead } from '../../domain/leads.ts';
import type { LeadReads, LeadWrites } from '../../domain/storage-port.ts';
import { isBeingErased } from './erasure.ts';
import { aboveAllIds, pageAfterSkipping, sliceOf } from './paging.ts';
import { alignToIds, fromJson, toJson, toMs, toTimestamp } from './rows.ts';
import { columnsOf, insertInto, jsonList, type Statements } from './statements.ts';
import type { leads } from './tables.ts';

const columns = [
  'id',
  'conversationId',
  'name',
  'email',
  'phone',
  'company',
  'metadata',
  'createdAt',
] as const satisfies readonly (keyof typeof leads.$inferSelect)[];

type Row = Pick<typeof leads.$inferSelect, (typeof columns)[number]>;

function toLead(row: Row): Lead {
  return { ...row, metadata: fromJson(row.metadata), createdAt: toTimestamp(row.createdAt) };
}

export function leadReads(db: Statements): LeadReads {
  const ofAccount = `account_id = :accountId AND NOT ${isBeingErased('leads')}`;
  const select = `SELECT ${columnsOf('leads', columns)} FROM leads WHERE ${ofAccount}`;
  const find = db.prepare<Row>(`${select} AND id = :id`);
  const findMany = db.prepare<Row>(`${select} AND id IN (SELECT value FROM json_each(:ids))`);
  const page = db.prepare<Row>(`${select} AND id < :before ORDER BY id DESC LIMIT :limit OFFSET :offset`);
  const place = db.prepare<Pick<Row, 'id'>>(
    `SELECT id FROM leads WHERE ${ofAccount} AND id < :before ORDER BY id DESC LIMIT 1 OFFSET :offset`,
  );
  const count = db.prepare<{ leads: number }>('SELECT leads FROM account_totals WHERE account_id = :accountId');
  return {
    find: (accountId, id) => {
      const row = find.get({ accountId, id });
      return row && toLead(row);
    },
    findMany: (accountId, ids) => alignToIds(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toLead)),
    page: (accountId, query) =>
      pageAfterSkipping(
        accountId,
        query,
        ({ limit, offset, after = aboveAllIds }) =>
          sliceOf(page.all({ accountId, before: after, limit: limit + 1, offset }), limit, toLead),
        (after = aboveAllIds, entries) => place.get({ accountId, before: after, offset: entries - 1 })?.id,
      ),
    count: (accountId) => count.get({ accountId })?.leads ?? 0,
  };
}

export function leadWrites(db: Statements): LeadWrites {
  const insert = db.prepare(insertInto('leads', ['accountId', ...columns]));
  const count = db.prepare('UPDATE account_totals SET leads = leads + 1 WHERE account_id = :accountId');
  return {
    insert: (accountId, lead) => {
      insert.run({ ...lead, accountId, metadata: toJson(lead.metadata), createdAt: toMs(lead.createdAt) });
      count.run({ accountId });
    },
  };
}
