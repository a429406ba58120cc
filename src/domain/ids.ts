import * as z from 'zod';

// TypeIDs (github.com/jetify-com/typeid, version 0.3): a prefix, an underscore, and a UUIDv7 in
// Crockford's base 32. They sort by creation: the first ten characters encode the time.

const idPrefixes = {
  account: 'acct',
  apiKey: 'key',
  conversation: 'conv',
  message: 'msg',
  lead: 'lead',
  event: 'evt',
  webhook: 'whk',
  delivery: 'dlv',
  attempt: 'att',
} as const;
export type IdKind = keyof typeof idPrefixes;

/** Generates ids. Those of one process without a rank sort in the order of generation unless the clock goes back. */
export interface Ids {
  /**
   * @param epochMs the time encoded in the id
   * @param rank below 2^14: ids of the same millisecond sort by it, whichever process makes them (RFC 9562, section 6.2,
   * method 1)
   */
  next(kind: IdKind, epochMs: number, rank?: number): string;
}

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
/** The prefix is bounded, so that a long text is not walked. */
const pattern = /^([a-z]{1,16})_[0-7][0-9a-hjkmnp-tv-z]{25}$/;

function timePart(epochMs: number): string {
  let part = '';
  let rest = epochMs;
  for (let index = 0; index < 10; index++) {
    part = alphabet[rest % 32] + part;
    rest = Math.floor(rest / 32);
  }
  return part;
}

/** Encodes 40 bits as eight characters. */
function base32(high: number, low: number): string {
  let part = '';
  for (let shift = 15; shift >= 0; shift -= 5) part += alphabet[(high >>> shift) & 31];
  for (let shift = 15; shift >= 0; shift -= 5) part += alphabet[(low >>> shift) & 31];
  return part;
}

/** @param fillRandom fills an array with cryptographically secure random bits */
export function createIds(fillRandom: (target: Uint16Array<ArrayBuffer>) => void): Ids {
  const pool = new Uint16Array(4096);
  let used = pool.length;
  const random20 = (): number => {
    if (used + 2 > pool.length) {
      fillRandom(pool);
      used = 0;
    }
    const value = ((pool[used] as number) << 4) | ((pool[used + 1] as number) & 15);
    used += 2;
    return value;
  };

  // The 80 bits after the time, as four groups of 20: version and variant sit in the first.
  let lastMs = -1;
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let time = '';
  return {
    next(kind, epochMs, rank) {
      if (rank !== undefined) {
        const first = 0x70008 | ((rank >>> 2) << 4) | (rank & 3); // around the two bits of the variant
        const random = base32(first, random20()) + base32(random20(), random20());
        return `${idPrefixes[kind]}_${timePart(epochMs)}${random}`;
      }
      if (epochMs === lastMs) {
        // Within a millisecond the last 60 bits grow by a random step.
        d += 1 + (random20() & 0xff);
        if (d > 0xfffff) {
          d &= 0xfffff;
          c++;
        }
        if (c > 0xfffff) {
          c = 0;
          b++;
        }
      } else {
        lastMs = epochMs;
        time = timePart(epochMs);
        // Bits 0-3 version 7, bits 4-15 random, bits 16-17 variant, bits 18-19 random.
        a = 0x70008 | ((random20() & 0xfff) << 4) | (random20() & 3);
        b = random20() & 0x7ffff; // room to grow
        c = random20();
        d = random20();
      }
      return `${idPrefixes[kind]}_${time}${base32(a, b)}${base32(c, d)}`;
    },
  };
}

/** An id in a response. */
export function idShape(kind: IdKind) {
  return z.string().meta({
    pattern: `^${idPrefixes[kind]}_[0-7][0-9a-hjkmnp-tv-z]{25}$`,
    examples: [exampleId(kind)],
  });
}

/**
 * Replaces text that cannot be an id of this kind, which may be as long as a request, or no text to a storage. Nothing has
 * the empty id either.
 */
export function orNobodysId(kind: IdKind, text: string): string {
  return isId(kind, text) ? text : '';
}

/** An id in a request. A malformed one is not a fault: it leads to NOT_FOUND like any unknown id. */
export function idInput(kind: IdKind) {
  return z
    .string({ error: 'must be a string' })
    .overwrite((text) => orNobodysId(kind, text))
    .meta({ examples: [exampleId(kind)] });
}

export function exampleId(kind: IdKind): string {
  return `${idPrefixes[kind]}_01m7z12aypfmvv4snqnjfg9r62`;
}

/** Whether a text has the form of an id of this kind. */
export function isId(kind: IdKind, text: string): boolean {
  return kindOfId(text) === kind;
}

const kinds = new Map(Object.entries(idPrefixes).map(([kind, prefix]) => [prefix as string, kind as IdKind]));

/** The kind of an id, or undefined for text that is not an id. */
export function kindOfId(text: string): IdKind | undefined {
  const match = pattern.exec(text);
  return match?.[1] === undefined ? undefined : kinds.get(match[1]);
}

/** The smallest id of a kind with this creation time or a later one: a bound for ranges by creation. */
export function lowestIdAt(kind: IdKind, epochMs: number): string {
  return `${idPrefixes[kind]}_${timePart(Math.min(Math.max(epochMs, 0), 2 ** 48 - 1))}${'0'.repeat(16)}`;
}
