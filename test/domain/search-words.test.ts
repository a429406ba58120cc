import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SearchWords, termsOf } from '../../src/domain/search-words.ts';
import { anyCharacters } from '../support/any-characters.ts';
import { cpuMsOf } from '../support/cpu-time.ts';
import { queriesByScript } from '../support/scripts.ts';

/** Whether an index that has only the terms of a text finds it. */
function isFoundByTerms(text: string, { terms }: SearchWords): boolean {
  const indexed = [...termsOf(text)];
  return terms.every(({ text: term, isPrefix }) =>
    indexed.some((known) => (isPrefix ? known.startsWith(term) : known === term)),
  );
}

/** The parts of a text that a query is found in. */
function marked(text: string, query: string): string[] {
  return Array.from(new SearchWords(query).placesIn(text), ({ from, to }) => text.slice(from, to));
}

describe('in 17 scripts, a text is found whatever its case, width and accents', () => {
  test.each(queriesByScript)('%s: %s by %s', (_, text, query, found) => {
    const words = new SearchWords(query);
    expect(words.isIn(text)).toBe(true);
    expect(isFoundByTerms(text, words)).toBe(true);
    expect(marked(text, query).join(' ')).toBe(found);
  });
});

describe('a text is not found', () => {
  test.each([
    ['by a part of a word that is not its beginning', 'Shipping', 'hipping'],
    ['by the beginning of a word that is not the last one asked for', 'Shipping costs', 'ship costs'],
    ['by one of two words', 'Shipping', 'shipping costs'],
    ['by characters that are there, but not beside each other', '没有到 有到没', '没有到没'],
    ['by kana without the marks that make other letters', 'ばら', 'はら'],
    ['by a word of another script that looks alike', 'Москва', 'Mockba'],
    ['by a Hindi word with other vowels', 'काम', 'कम'],
    ['by nothing', 'Shipping', '* " ( ) - !'],
  ])('%s', (_, text, query) => {
    expect(new SearchWords(query).isIn(text)).toBe(false);
  });
});

test('operators and quotes only separate words', () => {
  const words = new SearchWords('"parcel" AND (NOT lost*) OR col:NEAR/2 ^x');
  expect(words.terms.map(({ text }) => text)).toEqual(['parcel', 'and', 'not', 'lost', 'or', 'col', 'near', '2', 'x']);
});

test('of a very long word an index has the beginning, and the text decides', () => {
  const long = 'a'.repeat(200);
  const [one, other] = [new SearchWords(`${long}b`), new SearchWords(long)];
  expect([...termsOf(`${long}b`)]).toEqual(['a'.repeat(64)]);
  expect([one.areSettledByTerms, one.isIn(`${long}b`), one.isIn(long)]).toEqual([false, true, false]);
  expect(other.isIn(`${long}b`)).toBe(true);
  // Not even half a character is left of one that would be cut in two.
  expect([...termsOf(`${'a'.repeat(63)}${'𐐷'.repeat(9)}`)].every((term) => term.isWellFormed())).toBe(true);
});

const anyText = fc.oneof(
  anyCharacters,
  fc.string({ unit: 'grapheme' }),
  fc
    .array(fc.constantFrom(...queriesByScript.flatMap(([, text]) => [...text, ' '])), { maxLength: 40 })
    .map((characters) => characters.join('')),
);

test('whatever a text is, it is found by each part of it between spaces, and so by the terms of an index', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      for (const word of text.split(/[\p{Z}\p{P}\p{Cc}$+<=>^`|~]/u)) {
        const words = new SearchWords(word);
        if (words.count !== 1) continue;
        expect(words.isIn(text)).toBe(true);
        expect(isFoundByTerms(text, words)).toBe(true);
      }
    }),
    { numRuns: 2_000 },
  );
});

test.each([64, 63])(
  'a word of %i characters is not settled by the term that an index has of a longer one',
  (length) => {
    const word = 'a'.repeat(length);
    const words = new SearchWords(`${word} parcel`);
    const text = `${word}𐐨 parcel`;
    expect([isFoundByTerms(text, words), words.isIn(text), words.areSettledByTerms]).toEqual([true, false, false]);
  },
);

test('a text that the terms settle is found by them exactly if its words say so', () => {
  fc.assert(
    fc.property(anyText, anyText, (text, query) => {
      const words = new SearchWords(query);
      if (words.count === 0) return;
      const [byTerms, byText] = [isFoundByTerms(text, words), words.isIn(text)];
      if (byText) expect(byTerms).toBe(true);
      if (words.areSettledByTerms) expect(byTerms).toBe(byText);
    }),
    { numRuns: 2_000 },
  );
});

test('places are within the text, in order, and found again by what they were found by', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      for (const [word] of text.matchAll(/[\p{L}\p{N}]+/gu)) {
        let end = 0;
        for (const { from, to } of new SearchWords(word).placesIn(text)) {
          expect([from >= end, to > from, to <= text.length]).toEqual([true, true, true]);
          expect(new SearchWords(text.slice(from, to)).count).toBeGreaterThan(0);
          end = to;
        }
      }
    }),
    { numRuns: 1_000 },
  );
});

test('looking for places ends where it is told to, and has found until then what there is', () => {
  fc.assert(
    fc.property(anyText, anyText, fc.integer({ min: 1, max: 30 }), (text, query, span) => {
      const words = new SearchWords(query);
      const all = [...words.placesIn(text)];
      const end = (all[0]?.from ?? 0) + span;
      const cut = ({ from, to }: { from: number; to: number }) => ({ from, to: Math.min(to, end) });
      const within = all.filter(({ from }) => from < end).map(cut);
      expect(Array.from(words.placesIn(text, span), cut)).toEqual(within);
    }),
    { numRuns: 2_000 },
  );
});

test('16 KiB without a space are cut and searched within 100 ms', () => {
  for (const character of ['a', 'é', '中', 'ｶﾞ', 'ß', '가']) {
    const text = character.repeat(16_384 / character.length);
    const tookMs = cpuMsOf(() => {
      termsOf(text);
      expect(marked(text, character).length).toBeGreaterThan(0);
    });
    expect(tookMs).toBeLessThan(100);
  }
});

test('a character with 16,383 marks is cut and searched within 100 ms', () => {
  for (const [letter, marks] of [
    ['e', '\u0315\u0300'],
    ['ｶ', '\uff9e\u0327'],
    ['ก', '\u0e38\u0e48'],
  ] as const) {
    const text = (letter + marks.repeat(8_192)).slice(0, 16_384);
    const tookMs = cpuMsOf(() => {
      expect(termsOf(text).size).toBeGreaterThan(0);
      expect(marked(text, letter + marks.slice(0, 1)).length).toBeGreaterThan(0);
    });
    expect(tookMs, letter).toBeLessThan(100);
  }
});

test('an index is asked for few terms, however many runs of characters a query has', () => {
  const run = (at: number): string => String.fromCodePoint(...Array.from({ length: 24 }, (_, index) => at + index));
  const query = Array.from({ length: 10 }, (_, index) => run(0x4e00 + 100 * index)).join(' ');
  expect(new SearchWords(query).terms.length).toBeLessThan(30);
});
