import { type Asked, askedOf, type ParsedDocument, type Selections, selectionsOf } from './document.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A field as the newest version that had it shows it, by the names of the schema. */
interface Seen {
  readonly version: number;
  readonly value: unknown;
}

/** How many conversations are remembered. */
const maxSeen = 10_000;

/** Fields that have a time of their own and are no part of the version, or are another object's. */
const apart = new Set(['messages', 'readPositions', 'unreadCount']);

/**
 * Makes a guard for a normalising cache: what passes through it never shows a field of a conversation in an older version
 * than it has seen, whichever of two responses arrives first. Fields that only the older response has pass.
 *
 * It knows conversations by `__typename`, `id` and `version`: select all three. Put it between the network and the cache,
 * and give it the data of each response with the document that was asked, in which it looks up aliases.
 */
export function newestOnly(): <T>(data: T, document?: ParsedDocument) => T {
  const seen = new Map<string, Map<string, Seen>>();
  return (data, document) => guarded(data, document, seen);
}

function guarded<T>(data: T, document: ParsedDocument | undefined, seen: Map<string, Map<string, Seen>>): T {
  return walk(data, document && selectionsOf(document)) as T;

  function walk(value: unknown, selections: Selections | undefined): unknown {
    if (Array.isArray(value)) return value.map((each) => walk(each, selections));
    if (!isObject(value)) return value;
    const fields = fieldsOf(value, selections).filter(([key]) => key in value);
    const result: Record<string, unknown> = { ...value };
    for (const [key, asked] of fields) result[key] = walk(value[key], asked.selections);
    if (result['__typename'] !== 'Conversation') return result;
    const names = renamed(result, selections, false) as Fields;
    const { id, version } = names;
    if (typeof id !== 'string' || typeof version !== 'number') return result;

    const known = seen.get(id) ?? new Map<string, Seen>();
    for (const [key, { name, selections: inner }] of fields) {
      if (apart.has(name)) continue;
      const before = known.get(name);
      const own = { version, value: names[name] };
      const [newer, older] = before && before.version > version ? [before, own] : [own, before];
      const latest = { version: newer.version, value: together(newer.value, older?.value) };
      known.set(name, latest);
      if (newer === before) result[key] = renamed(latest.value, inner, true);
    }
    seen.delete(id);
    seen.set(id, known);
    const [oldest = id] = seen.keys();
    if (seen.size > maxSeen) seen.delete(oldest);
    return result;
  }

  /** What an object was asked for, by key. Without a document, keys stand for themselves. */
  function fieldsOf(object: Fields, selections: Selections | undefined) {
    return document && selections
      ? [...askedOf(document, object['__typename'], selections)]
      : Object.keys(object).map((name): [string, Pick<Asked, 'name'> & Partial<Asked>] => [name, { name }]);
  }

  /** A value of a response with the names of the schema in place of keys, or the other way round. */
  function renamed(value: unknown, selections: Selections | undefined, toKeys: boolean): unknown {
    if (Array.isArray(value)) return value.map((each) => renamed(each, selections, toKeys));
    if (!isPart(value)) return value;
    const result: Record<string, unknown> = { __typename: value['__typename'] };
    for (const [key, { name, selections: inner }] of fieldsOf(value, selections)) {
      const [from, to] = toKeys ? [name, key] : [key, name];
      if (from in value) result[to] = renamed(value[from], inner, toKeys);
    }
    return result;
  }
}

/**
 * The newer of two values. Of a part, such as the visitor, it also has the fields that only the older one has, unless
 * another field has changed: they may be of another visitor then, and are better asked for again.
 */
function together(newer: unknown, older: unknown): unknown {
  if (!isPart(newer) || !isPart(older)) return newer;
  const result: Record<string, unknown> = { ...older };
  for (const name in newer) {
    result[name] = together(newer[name], older[name]);
    if (name in older && !isPart(newer[name]) && JSON.stringify(newer[name]) !== JSON.stringify(older[name]))
      return newer;
  }
  return result;
}

const isObject = (value: unknown): value is Fields => typeof value === 'object' && value !== null;
/** An object that was selected from; a JSON scalar is a value as a whole. */
const isPart = (value: unknown): value is Fields =>
  typeof (value as Fields | null | undefined)?.['__typename'] === 'string';
