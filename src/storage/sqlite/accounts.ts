import { asc, eq, sql } from 'drizzle-orm';
import type { Account } from '../../domain/accounts.ts';
import type { AccountReads, AccountWrites } from '../../domain/storage-port.ts';
import { timestamp } from '../../domain/time.ts';
import { bindings, type Queries } from './queries.ts';
import { accounts, accountTotals } from './tables.ts';

type Row = typeof accounts.$inferSelect;

export function toAccount(row: Row): Account {
  return {
    id: row.id,
    name: row.name,
    plan: row.plan,
    requestsPerHour: row.requestsPerHour,
    createdAt: timestamp(row.createdAt),
  };
}

export function accountReads(db: Queries) {
  const find = db
    .select()
    .from(accounts)
    .where(eq(accounts.id, sql.placeholder('id')))
    .prepare();
  const list = db.select().from(accounts).orderBy(asc(accounts.id)).prepare();
  const totals = db
    .select()
    .from(accountTotals)
    .where(eq(accountTotals.accountId, sql.placeholder('id')))
    .prepare();
  return {
    find: (id: string) => {
      const row = find.get({ id });
      return row && toAccount(row);
    },
    list: () => list.all().map(toAccount),
    totals: (id: string) => totals.get({ id }) ?? { active: 0, pending: 0, closed: 0, leads: 0, eventSequence: 0 },
  } satisfies AccountReads;
}

export function accountWrites(db: Queries): AccountWrites {
  const insert = db
    .insert(accounts)
    .values({
      id: sql.placeholder('id'),
      name: sql.placeholder('name'),
      plan: sql.placeholder('plan'),
      requestsPerHour: sql.placeholder('requestsPerHour'),
      createdAt: sql.placeholder('createdAt'),
    })
    .prepare();
  const insertTotals = db
    .insert(accountTotals)
    .values({ accountId: sql.placeholder('id') })
    .prepare();
  const update = db
    .update(accounts)
    .set(bindings('name', 'plan', 'requestsPerHour'))
    .where(eq(accounts.id, sql.placeholder('id')))
    .prepare();
  return {
    insert: (account) => {
      insert.run({ ...account, createdAt: Date.parse(account.createdAt) });
      insertTotals.run({ id: account.id });
    },
    update: (account) => {
      update.run({ ...account });
    },
  };
}
