interface Seen {
  readonly version: number;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** How many conversations are remembered. */
const maxSeen = 10_000;

/** Fields that have a time of their own and are no part of the version, or are another object's. */
const apart = new Set(['messages', 'readPositions', 'unreadCount']);

/**
 * Makes a guard for a normalising cache: what passes through it never shows an older version of a conversation than it has
 * seen, whichever of two responses arrives first. An older conversation gets the fields that the newest one had.
 *
 * It knows conversations by `__typename`, `id` and `version`: select all three. Put it between the network and the cache.
 */
export function newestOnly(): <T>(data: T) => T {
  const seen = new Map<string, Seen>();

  function newestOf(object: Record<string, unknown>): Record<string, unknown> {
    const { id, version } = object;
    if (object['__typename'] !== 'Conversation' || typeof id !== 'string' || typeof version !== 'number') return object;
    const known = seen.get(id);
    const own = Object.fromEntries(Object.entries(object).filter(([name]) => !apart.has(name)));
    if (known !== undefined && known.version > version) {
      const replaced = Object.keys(own).filter((name) => name in known.fields);
      return { ...object, ...Object.fromEntries(replaced.map((name) => [name, known.fields[name]])) };
    }
    seen.delete(id);
    seen.set(id, { version, fields: known?.version === version ? { ...known.fields, ...own } : own });
    if (seen.size > maxSeen) for (const [oldest] of seen) return seen.delete(oldest) ? object : object;
    return object;
  }

  function walk(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(walk);
    if (typeof value !== 'object' || value === null) return value;
    return newestOf(Object.fromEntries(Object.entries(value).map(([name, each]) => [name, walk(each)])));
  }

  return <T>(data: T) => walk(data) as T;
}
