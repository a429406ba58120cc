import { z } from 'zod';

// TypeIDs (github.com/jetify-com/typeid, version 0.3): a prefix, an underscore, and a UUIDv7 in
// Crockford's base 32. They sort by creation: the first ten characters are the time.

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

/** Makes ids. Those of one process sort in the order in which they were made while the clock does not go back. */
export interface Ids {
  /** @param epochMs the time that the id carries */
  next(kind: IdKind, epochMs: number): string;
}

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const pattern = /^([a-z]+)_[0-7][0-9a-hjkmnp-tv-z]{25}$/;

function timePart(epochMs: number): string {
  let part = '';
  let rest = epochMs;
  for (let index = 0; index < 10; index++) {
    part = alphabet[rest % 32] + part;
    rest = Math.floor(rest / 32);
  }
  return part;
}

/** Eight characters for 40 bits. */
function base32(high: number, low: number): string {
  let part = '';
  for (let shift = 15; shift >= 0; shift -= 5) part += alphabet[(high >>> shift) & 31];
  for (let shift = 15; shift >= 0; shift -= 5) part += alphabet[(low >>> shift) & 31];
  return part;
}

/** @param fillRandom fills an array with unpredictable bits */
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
    next(kind, epochMs) {
      if (epochMs === lastMs) {
        // Within a millisecond the last 60 bits count on, by a random step.
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
        b = random20() & 0x7ffff; // room for counting on
        c = random20();
        d = random20();
      }
      return `${idPrefixes[kind]}_${time}${base32(a, b)}${base32(c, d)}`;
    },
  };
}

/** An id as an answer shows it. */
export function idShape(kind: IdKind) {
  return z.string().meta({
    pattern: `^${idPrefixes[kind]}_[0-7][0-9a-hjkmnp-tv-z]{25}$`,
    examples: [exampleId(kind)],
  });
}

/** In place of a text that cannot be an id, and may be as long as a request: nothing has it either. */
const nobodysId = '';

/**
 * An id that a caller gives. One that has not the form of an id is no fault: there is nothing of that id.
 */
export function idInput(kind: IdKind) {
  return z
    .string({ error: 'must be a string' })
    .overwrite((text) => (isId(kind, text) ? text : nobodysId))
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

/** The kind of thing that an id names, or undefined if it is no id. */
export function kindOfId(text: string): IdKind | undefined {
  const match = pattern.exec(text);
  return match?.[1] === undefined ? undefined : kinds.get(match[1]);
}

/** The smallest id of a kind that carries this time or a later one: a bound for ranges by creation. */
export function lowestIdAt(kind: IdKind, epochMs: number): string {
  return `${idPrefixes[kind]}_${timePart(Math.min(Math.max(epochMs, 0), 2 ** 48 - 1))}${'0'.repeat(16)}`;
}
