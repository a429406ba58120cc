import type { ConversationFilter, ConversationQuery } from '../../domain/conversations.ts';
import { lowestIdAt } from '../../domain/ids.ts';
import { statuses } from '../../domain/lifecycle.ts';
import type { Statements } from './statements.ts';

// Lists of conversations, and their counts. Each combination of filters is a statement of its own, with only the conditions
// that are asked for: PostgreSQL chooses among the indexes.
//
// No index has the order by activity without the status: every message would have to move an entry of it, too. So a list of
// several statuses is merged of one list for each, and each has its part of an index to read from its beginning.

/** The conditions of a filter but for the statuses, each with its value. */
function testsOf(filter: ConversationFilter): { tests: string[]; values: Record<string, unknown> } {
  const tests: string[] = [];
  const values: Record<string, unknown> = {};
  const test = (value: unknown, name: string, condition: string): void => {
    if (value === undefined) return;
    tests.push(condition);
    values[name] = value;
  };
  test(filter.externalId, 'externalId', 'external_id = :externalId');
  test(filter.visitorId, 'visitorId', 'visitor_id = :visitorId');
  test(filter.visitorEmail, 'visitorEmail', 'visitor_email = :visitorEmail');
  test(filter.assigneeId, 'assigneeId', 'assignee_id = :assigneeId');
  if (filter.unassigned !== undefined) tests.push(`assignee_id IS ${filter.unassigned ? '' : 'NOT '}NULL`);
  test(
    filter.unreadBy,
    'unreadBy',
    `id IN (SELECT conversation_id FROM unread_conversations WHERE account_id = :accountId AND reader = :unreadBy)`,
  );
  for (const [index, tag] of (filter.tags ?? []).entries()) {
    const tagged = `SELECT conversation_id FROM conversation_tags WHERE account_id = :accountId AND tag = :tag${index}`;
    test(tag, `tag${index}`, `id IN (${tagged})`);
  }
  // No real id is the lowest of its time: its random bits contain a version, which is never zero.
  const { createdAfter, createdBefore, updatedAfter } = filter;
  test(createdAfter && lowestIdAt('conversation', createdAfter + 1), 'createdFrom', 'id >= :createdFrom');
  test(createdBefore && lowestIdAt('conversation', createdBefore), 'createdTo', 'id < :createdTo');
  test(updatedAfter, 'updatedAfter', 'updated_at > :updatedAfter');
  return { tests, values };
}

/**
 * @param columns what to select of a conversation
 * @param along what to read along with each of a page
 */
export function conversationLists<Row>(db: Statements, columns: string, along: string) {
  const from = (tests: readonly string[]) =>
    `FROM conversations WHERE ${['account_id = :accountId', ...tests].join(' AND ')}`;
  return {
    /** The rows of a page, and one more if there is one. */
    page: (accountId: string, { filter, sort, after, limit, offset }: ConversationQuery): Promise<Row[]> => {
      const { tests, values } = testsOf(filter);
      const isByActivity = sort.endsWith('lastActivityAt');
      const isDescending = sort.startsWith('-');
      const sign = isDescending ? '<' : '>';
      if (after !== undefined) {
        tests.push(isByActivity ? `(last_activity_at, id) ${sign} (:afterMs, :afterId)` : `id ${sign} :afterId`);
        values['afterId'] = after.id;
        if (isByActivity) values['afterMs'] = after.lastActivityAtMs ?? 0;
      }
      const direction = isDescending ? 'DESC' : 'ASC';
      const order = isByActivity ? `last_activity_at ${direction}, id ${direction}` : `id ${direction}`;
      const some = statuses.filter((status) => filter.statuses?.includes(status) ?? true);
      const lists =
        isByActivity || some.length < statuses.length
          ? some.map(
              (status) =>
                `(SELECT ${columns} ${from([`status = '${status}'`, ...tests])} ORDER BY ${order} LIMIT :most)`,
            )
          : [`(SELECT ${columns} ${from(tests)} ORDER BY ${order} LIMIT :most)`];
      if (lists.length === 0) return Promise.resolve([]);
      // What is read along is read for the page only, and for nothing that is skipped.
      const page = `SELECT * FROM (${lists.join(' UNION ALL ')}) AS listed ORDER BY ${order} LIMIT :limit OFFSET :offset`;
      return db
        .prepareOnce<Row>(`SELECT ${columns}, ${along} FROM (${page}) AS conversations ORDER BY ${order}`)
        .all({ ...values, accountId, limit: limit + 1, offset, most: limit + 1 + offset });
    },
    count: async (accountId: string, filter: ConversationFilter): Promise<number> => {
      const { tests, values } = testsOf(filter);
      const some = statuses.filter((status) => filter.statuses?.includes(status) ?? true);
      if (some.length === 0) return 0;
      if (some.length < statuses.length) tests.push(`status IN (${some.map((status) => `'${status}'`).join(', ')})`);
      const statement = db.prepareOnce<{ count: number }>(`SELECT count(*) AS count ${from(tests)}`);
      return (await statement.get({ ...values, accountId }))?.count ?? 0;
    },
  };
}
