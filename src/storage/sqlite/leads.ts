import { lowestIdAt } from '../../domain/ids.ts';
import type { LeadFilter } from '../../domain/leads.ts';
import type { LeadReads, LeadWrites } from '../../domain/storage-port.ts';
import { aboveAllIds, emptySlice, sliceOf } from '../lists.ts';
import { type LeadRow, leadColumns, toLead, toLeadRow } from '../rows/leads.ts';
import { alignToIds, foldedEmail, ifFound } from '../rows/values.ts';
import { insertInto } from '../sql.ts';
import { isBeingErased } from './erasure.ts';
import {
  countOfWalk,
  entriesPerStep,
  maxEntriesAtOnce,
  pageAfterSkipping,
  pageOfWalk,
  rowsPerStep,
  type Walk,
} from './paging.ts';
import { columnsOf, jsonList, type Statements } from './statements.ts';

export function leadReads(db: Statements): LeadReads {
  const ofAccount = `account_id = :accountId AND NOT ${isBeingErased('leads')}`;
  const select = `SELECT ${columnsOf('leads', leadColumns)} FROM leads WHERE ${ofAccount}`;
  const find = db.prepare<LeadRow>(`${select} AND id = :id`);
  const findMany = db.prepare<LeadRow>(`${select} AND id IN (SELECT value FROM json_each(:ids))`);
  const total = db.prepare<{ leads: number }>('SELECT leads FROM account_totals WHERE account_id = :accountId');

  /** The total of a list without filters. */
  const keptTotal = (accountId: string, filter: LeadFilter): number | undefined =>
    Object.values(filter).every((value) => value === undefined) ? (total.get({ accountId })?.leads ?? 0) : undefined;

  /** A list, newest first, as a walk on the narrowest index. */
  function walkOf(accountId: string, filter: LeadFilter): Walk<string, LeadRow> & { readonly isExact: boolean } {
    const { conversationId = null, email = null, createdAfter, createdBefore } = filter;
    const [index, entry] =
      conversationId !== null
        ? ['leads_by_conversation', ' AND conversation_id = :conversationId']
        : email !== null
          ? ['leads_by_email', ' AND comparable_email = :email']
          : ['leads_by_id', ''];
    // No index has both. Two bounds, and no more: SQLite seeks by one condition at each side.
    const isExact = conversationId === null || email === null;
    const within = `FROM leads INDEXED BY ${index}
      WHERE account_id = :accountId${entry} AND id >= :from AND id < :to`;
    const found = `${within}${isExact ? '' : ' AND comparable_email = :email'} AND NOT ${isBeingErased('leads')}`;
    const from = createdAfter === undefined ? '' : lowestIdAt('lead', createdAfter + 1);
    const to = createdBefore === undefined ? aboveAllIds : lowestIdAt('lead', createdBefore);
    const bound = ({ after = to, until = from }: { after?: string | undefined; until?: string | undefined }) => ({
      accountId,
      conversationId,
      email,
      from: until,
      to: after < to ? after : to,
    });
    return {
      isExact,
      perStep: isExact ? entriesPerStep : rowsPerStep,
      placeAfter: (after, entries) =>
        db
          .prepareOnce<Pick<LeadRow, 'id'>>(
            `SELECT id ${isExact ? found : within} ORDER BY id DESC LIMIT :limit OFFSET :offset`,
          )
          .get({ ...bound({ after }), limit: 1, offset: entries - 1 })?.id,
      rows: (stretch, { limit, offset }) =>
        db
          .prepareOnce<LeadRow>(
            `SELECT ${columnsOf('leads', leadColumns)} ${found} ORDER BY id DESC LIMIT :limit OFFSET :offset`,
          )
          .all({ ...bound(stretch), limit: limit + 1, offset }),
      count: (stretch) =>
        db.prepareOnce<{ count: number }>(`SELECT count(*) AS count ${found}`).get(bound(stretch))?.count ?? 0,
    };
  }

  return {
    find: (accountId, id) => ifFound(find.get({ accountId, id }), toLead),
    findMany: (accountId, ids) => alignToIds(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toLead)),
    page: (accountId, { filter, ...query }) => {
      const isFar = query.offset > maxEntriesAtOnce;
      if (isFar && query.offset >= (keptTotal(accountId, filter) ?? Infinity)) return emptySlice;
      const walk = walkOf(accountId, filter);
      const sliced = (rows: readonly LeadRow[]) => sliceOf(rows, query.limit, toLead);
      if (walk.isExact) {
        return pageAfterSkipping(
          accountId,
          query,
          ({ after, ...window }) => sliced(walk.rows({ after, until: undefined }, window)),
          walk.placeAfter,
        );
      }
      const rows = pageOfWalk(accountId, query, walk);
      return rows instanceof Promise ? rows.then(sliced) : sliced(rows);
    },
    count: (accountId, filter) => keptTotal(accountId, filter) ?? countOfWalk(accountId, walkOf(accountId, filter)),
  };
}

export function leadWrites(db: Statements): LeadWrites {
  const insert = db.prepare(insertInto('leads', ['accountId', ...leadColumns, 'foldedEmail']));
  const count = db.prepare('UPDATE account_totals SET leads = leads + 1 WHERE account_id = :accountId');
  return {
    insert: (accountId, lead) => {
      insert.run({
        ...toLeadRow(lead),
        accountId,
        foldedEmail: foldedEmail(lead.email),
      });
      count.run({ accountId });
    },
  };
}
