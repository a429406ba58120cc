import { type Asked, askedOf, type ParsedDocument, type Selection, selectionsOf } from './document.ts';

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
  return <T>(data: T, document?: ParsedDocument) =>
    guarded(seen, document, data, document && selectionsOf(document)) as T;
}

function guarded(
  seen: Map<string, Map<string, Seen>>,
  document: ParsedDocument | undefined,
  data: unknown,
  selections: readonly Selection[] | undefined,
): unknown {
  return walk(data, selections);

  function walk(value: unknown, asked: readonly Selection[] | undefined): unknown {
    if (Array.isArray(value)) return value.map((each) => walk(each, asked));
    if (!isObject(value)) return value;
    const find = finderOf(value, asked);
    const walked = Object.entries(value).map(([key, each]) => [key, walk(each, find(key).selections)]);
    return newestOf(Object.fromEntries(walked), find);
  }

  /** What the keys of an object stand for: without a document, for themselves. */
  function finderOf(object: Fields, asked: readonly Selection[] | undefined) {
    const fields = document && asked && askedOf(document, object['__typename'], asked);
    return (key: string): Partial<Asked> & { name: string } => fields?.get(key) ?? { name: key };
  }

  function newestOf(object: Fields, find: ReturnType<typeof finderOf>): Fields {
    const { __typename, id, version } = named(object, find);
    if (__typename !== 'Conversation' || typeof id !== 'string' || typeof version !== 'number') return object;
    const known = seen.get(id) ?? new Map<string, Seen>();
    const result = { ...object };
    for (const [key, given] of Object.entries(object)) {
      const { name, selections: asked } = find(key);
      if (apart.has(name)) continue;
      const before = known.get(name);
      const own = { version, value: byName(given, asked) };
      const [newer, older] = before !== undefined && before.version > version ? [before, own] : [own, before];
      const value = together(newer.value, older?.value);
      known.set(name, { version: newer.version, value });
      if (newer === before) result[key] = byKey(value, asked);
    }
    seen.delete(id);
    seen.set(id, known);
    for (const [oldest] of seen) {
      if (seen.size <= maxSeen) break;
      seen.delete(oldest);
    }
    return result;
  }

  function named(object: Fields, find: ReturnType<typeof finderOf>): Fields {
    return Object.fromEntries(
      Object.entries(object).map(([key, value]) => [find(key).name, byName(value, find(key).selections)]),
    );
  }

  /** A value of a response, with the names of the schema in place of its aliases. */
  function byName(value: unknown, asked: readonly Selection[] | undefined): unknown {
    if (Array.isArray(value)) return value.map((each) => byName(each, asked));
    return isPart(value) ? named(value, finderOf(value, asked)) : value;
  }

  /** The other way round: what is known of a value, under the keys under which it was asked for. */
  function byKey(value: unknown, asked: readonly Selection[] | undefined): unknown {
    if (Array.isArray(value)) return value.map((each) => byKey(each, asked));
    if (!isPart(value) || document === undefined || asked === undefined) return value;
    const fields = [...askedOf(document, value['__typename'], asked)].filter(([, { name }]) => name in value);
    const shown = fields.map(([key, { name, selections: inner }]) => [key, byKey(value[name], inner)]);
    return { __typename: value['__typename'], ...Object.fromEntries(shown) };
  }
}

/**
 * The newer of two values. Of a part, such as the visitor, it also has the fields that only the older one has, unless
 * another field has changed: they may be of another visitor then, and are better asked for again.
 */
function together(newer: unknown, older: unknown): unknown {
  if (!isPart(newer) || !isPart(older) || !agree(newer, older)) return newer;
  const shared = Object.keys(newer).map((name) => [name, together(newer[name], older[name])]);
  return { ...older, ...Object.fromEntries(shared) };
}

function agree(one: unknown, other: unknown): boolean {
  if (!isPart(one) || !isPart(other)) return JSON.stringify(one) === JSON.stringify(other);
  return Object.keys(one).every((name) => !(name in other) || agree(one[name], other[name]));
}

const isObject = (value: unknown): value is Fields => typeof value === 'object' && value !== null;
/** An object that was selected from; a JSON scalar is a value as a whole. */
const isPart = (value: unknown): value is Fields => isObject(value) && typeof value['__typename'] === 'string';
