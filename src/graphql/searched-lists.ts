// An index has most lists as they are asked for. Others are searched through: all that an account has may be looked at for
// the few that are found, which is done in steps.

/** What an index decides together, in any order. */
const together: readonly string[] = ['status', 'statuses', 'assigneeId'];
/** What the order of creation decides beside anything else. */
const times: readonly string[] = ['createdAfter', 'createdBefore'];
/** What an index decides alone: in any order, and in that of creation. */
const alone: readonly string[] = ['externalId', 'unreadBy'];
const aloneByCreation: readonly string[] = [...alone, 'visitorId', 'visitorEmail', 'conversationId', 'email'];

/**
 * Whether a list of conversations or leads may have to be searched through.
 * @param filters the names of those that are given
 * @param sort in the spelling of either API; undefined for the order of creation
 */
export function isSearchedThrough(filters: readonly string[], sort: unknown): boolean {
  const isByActivity = /activity/i.test(String(sort));
  const others = isByActivity ? filters : filters.filter((name) => !times.includes(name));
  if (others.every((name) => together.includes(name))) return false;
  const [first = ''] = others;
  return others.length > 1 || !(isByActivity ? alone : aloneByCreation).includes(first);
}
