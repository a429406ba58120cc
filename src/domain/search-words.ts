import type { Visitor } from './conversation-record.ts';

// How search cuts texts into words, and compares them. Every storage uses it, so that all find the same.
//
// A word is a run of letters, digits and marks. Case, width and accents are folded away. Chinese, Japanese, Thai, Lao,
// Khmer and Burmese have no spaces between words: there a run of characters takes the place of a word, and any part of
// it is found. An index knows such a run by its pairs of neighbouring characters.

/** What is between words, in any script. A symbol is not: `№ 5` is found as `no 5`. */
const chunks = /[^\p{Z}\p{P}\p{Cc}$+<=>^`\|~]+/gv;
const ascii = /^[\0-\x7f]*$/;
/**
 * Accents, and characters that are not seen. In the scripts of South and South East Asia most marks are vowels, which
 * count; the dot that many leave out (nukta) does not. Two marks make other letters of kana: か is not が.
 */
const uncounted =
  /[[\p{M}&&[\p{Script=Inherited}\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}]]--[\u3099\u309a]]|[\u093c\u09bc\u0a3c\u0abc\u0b3c]|\p{Default_Ignorable_Code_Point}/gv;
/** Letters that Unicode does not take for a base with an accent. */
const foldedLetters: Readonly<Record<string, string>> = {
  ł: 'l',
  ø: 'o',
  đ: 'd',
  ı: 'i',
  æ: 'ae',
  œ: 'oe',
  ß: 'ss',
  ς: 'σ',
};
const lettersToFold = /[łøđıæœßς]/g;
/** A run of a script without spaces, or a word of any other. */
const wordsAndRuns =
  /(?<run>[[\p{L}\p{N}\p{M}]&&[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}]]+)|[[\p{L}\p{N}\p{M}]--[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}]]+/gv;

/** The same words of a folded text that is ASCII, found faster. */
const asciiWords = /[a-z0-9]+/g;

/** The longest word of an index, in UTF-16 code units; of a longer one it has the beginning. */
const maxTermLength = 64;
/** A term that is as long as this may be the beginning of a longer word: one less, where half a character was left out. */
const shortestCut = maxTermLength - 1;

/** A word of a text, or a run of characters of a script without spaces, folded. */
interface Token {
  readonly text: string;
  readonly isRun: boolean;
}

/** A token of a text; `at` is where it begins in the folded text. */
interface PlacedToken extends Token {
  readonly at: number;
}

/** The words and runs of a text, in their order. */
function* tokensOf(text: string): Generator<PlacedToken> {
  const folded = fold(text);
  if (ascii.test(folded)) {
    for (const { 0: word, index } of folded.matchAll(asciiWords)) yield { text: word, at: index, isRun: false };
    return;
  }
  for (const { 0: word, index, groups } of folded.matchAll(wordsAndRuns)) {
    yield { text: word, at: index, isRun: groups?.['run'] !== undefined };
  }
}

/**
 * More marks on a character than any language writes: Unicode would sort them, which takes a quarter of a second for 16,384.
 */
const tooManyMarks = /([\p{M}\uff9e\uff9f]{30})[\p{M}\uff9e\uff9f]+/gv;

/** A text without regard to case, width and accents. */
function fold(text: string): string {
  if (ascii.test(text)) return text.toLowerCase();
  return text
    .replaceAll(tooManyMarks, '$1')
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(uncounted, '')
    .replaceAll(lettersToFold, (letter) => foldedLetters[letter] ?? letter)
    .normalize('NFC');
}

/**
 * What an index has to know of a text: its words, and the pairs of characters of its runs. It is removed from the index
 * by the same terms, so an index has to be made anew when what this returns has changed.
 */
export function termsOf(text: string): Set<string> {
  const folded = fold(text);
  if (ascii.test(folded)) return new Set(folded.match(asciiWords)?.map(cut));
  const terms = new Set<string>();
  for (const { text: word, isRun } of tokensOf(text)) {
    if (isRun) for (const pair of pairsOf(word)) terms.add(pair);
    else terms.add(cut(word));
  }
  return terms;
}

/** Each character of a run with the next one; the last one alone. */
function pairsOf(run: string): string[] {
  const characters = [...run];
  return characters.map((character, index) => character + (characters[index + 1] ?? ''));
}

function cut(word: string): string {
  if (word.length <= maxTermLength) return word;
  return word
    .slice(0, maxTermLength)
    .toWellFormed()
    .replace(/\ufffd$/, '');
}

/** So many pairs of all runs are looked up in an index, or one more of each: the text decides anyway. */
const maxPairs = 16;

/** A term that an index is asked for. */
interface SearchTerm {
  readonly text: string;
  /** Whether terms that only begin with it will do. */
  readonly isPrefix: boolean;
}

/** A token that is looked for. */
interface Wanted extends Token {
  /** Whether words that only begin with it will do. */
  readonly isBeginning: boolean;
}

/** What somebody searches for: every word has to be in a text, and the last one may be the beginning of a word. */
export class SearchWords {
  readonly #tokens: readonly Token[];
  /** Each of them once. */
  readonly #wanted: readonly Wanted[];

  /** @param query any text: what is no letter, digit or mark only separates words */
  constructor(query: string) {
    this.#tokens = [...tokensOf(query)];
    const wanted = this.#tokens.map(({ text, isRun }, index) => ({
      text,
      isRun,
      isBeginning: !isRun && this.#isBeginning(index),
    }));
    this.#wanted = [...new Map(wanted.map((each) => [`${each.isBeginning} ${each.text}`, each])).values()];
  }

  get count(): number {
    return this.#tokens.length;
  }

  /** The terms that all have to be among those of a text, each of them once. */
  get terms(): readonly SearchTerm[] {
    const pairsOfEach = Math.ceil(maxPairs / this.#tokens.filter(({ isRun }) => isRun).length);
    const terms = this.#tokens.flatMap(({ text, isRun }, index): SearchTerm[] => {
      if (!isRun) return [{ text: cut(text), isPrefix: this.#isBeginning(index) }];
      const pairs = pairsOf(text);
      // The last character of a run begins a pair in a text that goes on, which the pair before it has found already.
      return pairs.length === 1
        ? [{ text, isPrefix: true }]
        : pairs
            .slice(0, -1)
            .slice(0, pairsOfEach)
            .map((pair) => ({ text: pair, isPrefix: false }));
    });
    const byKey = new Map(terms.map((term) => [`${term.isPrefix} ${term.text}`, term]));
    return [...byKey.values()];
  }

  /** Whether a text that has all of the terms is found in any case: else it has to be looked at, see `isIn`. */
  get areSettledByTerms(): boolean {
    return this.#tokens.every(({ text, isRun }) => (isRun ? [...text].length <= 2 : text.length < shortestCut));
  }

  /** Whether a text is found. */
  isIn(text: string): boolean {
    if (this.#wanted.length === 0) return false;
    const missing = new Set(this.#wanted);
    for (const token of tokensOf(text)) {
      for (const wanted of missing) if (matches(wanted, token)) missing.delete(wanted);
      if (missing.size === 0) return true;
    }
    return false;
  }

  #isBeginning(index: number): boolean {
    return index === this.#tokens.length - 1;
  }

  /**
   * Where a text has any of the words: places in the text as it is, in their order, without overlaps.
   * @param span looking ends so far after the beginning of the first place, in UTF-16 code units
   */
  *placesIn(text: string, span = Number.POSITIVE_INFINITY): Generator<Place> {
    let last: Place | undefined;
    let until = text.length;
    for (const { from, to } of this.#occurrencesIn(text)) {
      if (last === undefined || from >= last.to) {
        if (last === undefined) until = Math.min(until, from + span);
        else yield last;
        last = { from, to };
      } else {
        last = { from: last.from, to: Math.max(last.to, to) };
      }
      if (last.to >= until) break;
    }
    if (last !== undefined && last.from < until) yield last;
  }

  /** The same with overlaps, each found only when it is asked for. */
  *#occurrencesIn(text: string): Generator<Place> {
    for (const stretch of stretchesOf(text)) {
      // Taking words from their chunks takes several times as long as from all of a stretch, which mostly has none.
      if (!this.#isAnyIn(stretch.text)) continue;
      for (const { 0: chunk, index } of stretch.text.matchAll(chunks)) {
        const at = stretch.from + index;
        for (const { from, to } of this.#occurrencesInChunk(chunk)) yield { from: at + from, to: at + to };
      }
    }
  }

  #isAnyIn(text: string): boolean {
    for (const token of tokensOf(text)) if (this.#wanted.some((wanted) => matches(wanted, token))) return true;
    return false;
  }

  *#occurrencesInChunk(chunk: string): Generator<Place> {
    let clusterAt: ReturnType<typeof clustersOf> | undefined;
    for (const token of tokensOf(chunk)) {
      const found = this.#wanted.filter((wanted) => matches(wanted, token));
      for (const { from, to } of token.isRun ? occurrences(token, found) : wholeOf(token, found)) {
        clusterAt ??= clustersOf(chunk);
        yield { from: clusterAt(from).from, to: clusterAt(to - 1).to };
      }
    }
  }
}

/** Whether a word or run of a text is what is wanted. */
function matches(wanted: Wanted, token: Token): boolean {
  if (wanted.isRun !== token.isRun) return false;
  if (wanted.isRun) return token.text.includes(wanted.text);
  return wanted.isBeginning ? token.text.startsWith(wanted.text) : token.text === wanted.text;
}

/** A part of a text, in UTF-16 code units; `to` is exclusive. */
interface Place {
  readonly from: number;
  readonly to: number;
}

function wholeOf({ text, at }: PlacedToken, found: readonly Wanted[]): Place[] {
  return found.length === 0 ? [] : [{ from: at, to: at + text.length }];
}

/** Where a run has any of these, in the order of where they begin. */
function* occurrences({ text, at }: PlacedToken, found: readonly Wanted[]): Generator<Place> {
  const next = found.map((wanted) => ({ text: wanted.text, at: text.indexOf(wanted.text) }));
  for (;;) {
    const first = next
      .filter((each) => each.at >= 0)
      .reduce<(typeof next)[number] | undefined>((a, b) => (a === undefined || b.at < a.at ? b : a), undefined);
    if (first === undefined) return;
    yield { from: at + first.at, to: at + first.at + first.text.length };
    first.at = text.indexOf(first.text, first.at + 1);
  }
}

const separator = /[\p{Z}\p{P}\p{Cc}$+<=>^`\|~]/gv;
const stretchLength = 1_024;

/** A text in parts of about this length, or longer where it has no separator: no chunk is cut in two. */
function* stretchesOf(text: string): Generator<{ readonly from: number; readonly text: string }> {
  for (let from = 0; from < text.length; ) {
    separator.lastIndex = from + stretchLength;
    const to = separator.exec(text)?.index ?? text.length;
    yield { from, text: text.slice(from, to) };
    from = to;
  }
}

/** What folds independently of what is beside it: Korean letters that join, or a character with its marks. */
const clusters =
  /[\u1100-\u11ff\ua960-\ua97c\ud7b0-\ud7fb]+|\p{Any}[\p{M}\uff9e\uff9f\p{Default_Ignorable_Code_Point}]*/gv;
/** Longer parts of a text without a space are not natural, and would take long. */
const maxMappedLength = 1_024;

/** Returns a function that says which part of a chunk a character of the folded chunk comes from. */
function clustersOf(chunk: string): (at: number) => Place {
  const folded = fold(chunk);
  if (folded === chunk || (folded.length === chunk.length && folded === chunk.toLowerCase())) {
    return (at) => ({ from: at, to: at + 1 });
  }
  const places: Place[] = [];
  let parts = '';
  if (chunk.length <= maxMappedLength) {
    for (const { 0: cluster, index } of chunk.matchAll(clusters)) {
      parts += fold(cluster);
      while (places.length < parts.length) places.push({ from: index, to: index + cluster.length });
    }
  }
  const whole = { from: 0, to: chunk.length };
  return parts === folded ? (at) => places[at] ?? whole : () => whole;
}

/** A conversation's own text. */
export function conversationText({ subject, visitor }: { subject: string | null; visitor: Visitor | null }): string {
  return [subject, visitor?.name, visitor?.email].filter((part) => part != null).join('\n');
}
