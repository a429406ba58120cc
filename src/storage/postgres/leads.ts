import { lowestIdAt } from '../../domain/ids.ts';
import type { LeadFilter } from '../../domain/leads.ts';
import type { LeadReads, LeadWrites } from '../../domain/storage-port.ts';
import { comparableEmail } from '../../domain/text.ts';
import { emptySlice, sliceOf } from '../lists.ts';
import { type LeadRow, leadColumns, toLead, toLeadRow } from '../rows/leads.ts';
import { alignToIds, ifFound } from '../rows/values.ts';
import { insertInto } from '../sql.ts';
import { knownAccount } from './accounts.ts';
import { isBeingErased } from './erasure.ts';
import { arrayOf, columnsOf, type Statements } from './statements.ts';

/** The conditions of a filter, each with its value. */
function testsOf({ conversationId, email, createdAfter, createdBefore }: LeadFilter) {
  const tests: string[] = [];
  const values: Record<string, unknown> = {};
  const test = (value: unknown, name: string, condition: string): void => {
    if (value === undefined) return;
    tests.push(`AND ${condition}`);
    values[name] = value;
  };
  test(conversationId, 'conversationId', 'conversation_id = :conversationId');
  test(email, 'email', 'comparable_email = :email');
  test(createdAfter && lowestIdAt('lead', createdAfter + 1), 'from', 'id >= :from');
  test(createdBefore && lowestIdAt('lead', createdBefore), 'to', 'id < :to');
  return { tests, values };
}

export function leadReads(db: Statements): LeadReads {
  const ofAccount = `FROM leads WHERE account_id = :accountId AND NOT ${isBeingErased('leads')}`;
  const select = `SELECT ${columnsOf('leads', leadColumns)}`;
  const find = db.prepare<LeadRow>(`${select} ${ofAccount} AND id = :id`);
  const findMany = db.prepare<LeadRow>(`${select} ${ofAccount} AND id = ANY(:ids::text[])`);
  const total = db.prepare<{ leads: number }>('SELECT leads FROM account_totals WHERE account_id = :accountId');

  /** The total of a list without filters. */
  const keptTotal = async (accountId: string, filter: LeadFilter): Promise<number | undefined> =>
    Object.values(filter).every((value) => value === undefined)
      ? ((await total.get({ accountId }))?.leads ?? 0)
      : undefined;

  return {
    find: async (accountId, id) => ifFound(await find.get({ accountId, id }), toLead),
    findMany: async (accountId, ids) =>
      alignToIds(ids, (await findMany.all({ accountId, ids: arrayOf(ids) })).map(toLead)),
    page: async (accountId, { filter, limit, offset, after }) => {
      const isFar = offset > 500;
      if (isFar && offset >= ((await keptTotal(accountId, filter)) ?? Infinity)) return emptySlice;
      const { tests, values } = testsOf(filter);
      if (after !== undefined) tests.push('AND id < :after');
      const page = db.prepareOnce<LeadRow>(
        `${select} ${ofAccount} ${tests.join(' ')} ORDER BY id DESC LIMIT :limit OFFSET :offset`,
      );
      const rows = await page.all({ ...values, accountId, after: after ?? null, limit: limit + 1, offset });
      return sliceOf(rows, limit, toLead);
    },
    count: async (accountId, filter) => {
      const kept = await keptTotal(accountId, filter);
      if (kept !== undefined) return kept;
      const { tests, values } = testsOf(filter);
      const count = db.prepareOnce<{ count: number }>(`SELECT count(*) AS count ${ofAccount} ${tests.join(' ')}`);
      return (await count.get({ ...values, accountId }))?.count ?? 0;
    },
  };
}

export function leadWrites(db: Statements): LeadWrites {
  const insert = db.prepare(insertInto('leads', [...leadColumns, 'comparableEmail'], { accountId: knownAccount }));
  const count = db.prepare('UPDATE account_totals SET leads = leads + 1 WHERE account_id = :accountId');
  return {
    insert: async (accountId, lead) => {
      await insert.send({
        ...toLeadRow(lead),
        accountId,
        comparableEmail: lead.email === null ? null : comparableEmail(lead.email),
      });
      await count.send({ accountId });
    },
  };
}
