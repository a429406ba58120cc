import { and, desc, eq, lt, not, sql } from 'drizzle-orm';
import type { Lead } from '../../domain/leads.ts';
import type { LeadReads, LeadWrites } from '../../domain/storage-port.ts';
import { firstId, pageFrom } from './index-spans.ts';
import { bindings, inList, isBeingErased, jsonList, type Queries } from './queries.ts';
import { alignToIds, sliceOf, toMs, toTimestamp } from './rows.ts';
import { accountTotals, leads } from './tables.ts';

type Row = typeof leads.$inferSelect;

function toLead(row: Row): Lead {
  return {
    id: row.id,
    conversationId: row.conversationId,
    name: row.name,
    email: row.email,
    phone: row.phone,
    company: row.company,
    metadata: row.metadata,
    createdAt: toTimestamp(row.createdAt),
  };
}

const ofAccount = and(eq(leads.accountId, sql.placeholder('accountId')), not(isBeingErased('leads')));

export function leadReads(db: Queries): LeadReads {
  const find = db
    .select()
    .from(leads)
    .where(and(ofAccount, eq(leads.id, sql.placeholder('id'))))
    .prepare();
  const findMany = db
    .select()
    .from(leads)
    .where(and(ofAccount, inList(leads.id, 'ids')))
    .prepare();
  const page = db
    .select()
    .from(leads)
    .where(and(ofAccount, lt(leads.id, sql.placeholder('before'))))
    .orderBy(desc(leads.id))
    .limit(sql.placeholder('limit'))
    .offset(sql.placeholder('offset'))
    .prepare();
  const place = db
    .select({ id: leads.id })
    .from(leads)
    .where(and(ofAccount, lt(leads.id, sql.placeholder('before'))))
    .orderBy(desc(leads.id))
    .limit(1)
    .offset(sql.placeholder('offset'))
    .prepare();
  const count = db
    .select({ count: accountTotals.leads })
    .from(accountTotals)
    .where(eq(accountTotals.accountId, sql.placeholder('accountId')))
    .prepare();
  return {
    find: (accountId, id) => {
      const row = find.get({ accountId, id });
      return row && toLead(row);
    },
    findMany: (accountId, ids) => alignToIds(ids, findMany.all({ accountId, ids: jsonList(ids) }).map(toLead)),
    page: (accountId, query) =>
      pageFrom(
        query,
        ({ limit, offset, after = firstId }) =>
          sliceOf(page.all({ accountId, before: after, limit: limit + 1, offset }), limit, toLead),
        (after = firstId, entries) => place.get({ accountId, before: after, offset: entries - 1 })?.id,
      ),
    count: (accountId) => count.get({ accountId })?.count ?? 0,
  };
}

/** The values of a lead's row. */
export function leadValues(accountId: string, lead: Lead) {
  return { ...lead, accountId, metadata: JSON.stringify(lead.metadata), createdAt: toMs(lead.createdAt) };
}

export function leadWrites(db: Queries): LeadWrites {
  const insert = db
    .insert(leads)
    .values({
      id: sql.placeholder('id'),
      accountId: sql.placeholder('accountId'),
      conversationId: sql.placeholder('conversationId'),
      name: sql.placeholder('name'),
      email: sql.placeholder('email'),
      phone: sql.placeholder('phone'),
      company: sql.placeholder('company'),
      ...bindings('metadata'),
      createdAt: sql.placeholder('createdAt'),
    })
    .prepare();
  const count = db
    .update(accountTotals)
    .set({ leads: sql`${accountTotals.leads} + 1` })
    .where(eq(accountTotals.accountId, sql.placeholder('accountId')))
    .prepare();
  return {
    insert: (accountId, lead) => {
      insert.run(leadValues(accountId, lead));
      count.run({ accountId });
    },
  };
}
