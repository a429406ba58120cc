import * as z from 'zod';

// Validation of text. Length is counted in Unicode code points, like `maxLength` in JSON Schema. The checks are custom,
// so their limits are repeated in `meta` for OpenAPI.

/** Control characters (Unicode category Cc). */
const control = /\p{Cc}/u;
/** Control characters that are not white space. */
const controlBeyondWhiteSpace = /(?!\p{White_Space})\p{Cc}/u;
const whiteSpaceOnly = /^\p{White_Space}*$/u;

export function codePoints(text: string): number {
  // Only a text with surrogates has fewer code points than code units.
  let count = text.length;
  for (let index = 0; index < text.length; index++) {
    if ((text.charCodeAt(index) & 0xfc00) === 0xd800) count--;
  }
  return count;
}

export function firstCodePoints(text: string, count: number): string {
  if (text.length <= count) return text;
  let end = 0;
  for (let left = count; left > 0; left--) end += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
  return text.slice(0, end);
}

/**
 * An email address in the form in which two are compared: without case. It is composed last, since a letter can have an
 * accent in one character in lower case and in two in upper case (ǰ). Where a Σ stands decides what `toLowerCase` makes of
 * it; here it is always the same. Unlike in a search, ß is no ss: these are different domains.
 */
export function comparableEmail(email: string): string {
  return email.toLowerCase().replaceAll('ς', 'σ').normalize('NFC');
}

/** What is wrong with the characters of a single-line text, or undefined. */
export function characterFault(text: string): string | undefined {
  if (!text.isWellFormed()) return 'must be well-formed Unicode, without lone surrogates';
  if (control.test(text)) return 'must not contain control characters';
  return undefined;
}

/** A check that refuses a text with what this function says is wrong with it. */
export function refusing(faultOf: (text: string) => string | undefined) {
  return ({ value, issues }: z.core.ParsePayload<string>): void => {
    const message = faultOf(value);
    if (message !== undefined) issues.push({ code: 'custom', input: value, message });
  };
}

/** A single-line text of `min` to `max` code points. */
export function line(max: number, min = 0) {
  return z
    .string({ error: 'must be a string' })
    .check(refusing((text) => characterFault(text) ?? lengthFault(text, min, max)))
    .meta({ ...(min > 0 && { minLength: min }), maxLength: max });
}

/** Multi-line text such as a message: not empty and not only white space. */
export function prose(max: number) {
  return z
    .string({ error: 'must be a string' })
    .check(refusing((text) => proseFault(text, max)))
    .meta({ minLength: 1, maxLength: max });
}

/** The same with a limit in bytes of UTF-8, which is named in words, too. */
export function proseOfBytes(maxBytes: number, inWords: string) {
  const faultOf = (text: string): string | undefined => {
    const isTooLong = text.length > maxBytes || Buffer.byteLength(text) > maxBytes;
    return isTooLong ? `must have at most ${inWords}` : proseFault(text, maxBytes);
  };
  return z.string({ error: 'must be a string' }).check(refusing(faultOf)).meta({ minLength: 1, maxLength: maxBytes });
}

function proseFault(text: string, max: number): string | undefined {
  if (!text.isWellFormed()) return 'must be well-formed Unicode, without lone surrogates';
  if (controlBeyondWhiteSpace.test(text)) return 'must not contain control characters other than white space';
  if (whiteSpaceOnly.test(text)) return 'must not be empty or only white space';
  return lengthFault(text, 1, max);
}

function lengthFault(text: string, min: number, max: number): string | undefined {
  // Code units bound code points from above, so most texts need no counting.
  if (text.length > max && codePoints(text) > max) return `must have at most ${max} characters`;
  if (text.length < min) return min === 1 ? 'must not be empty' : `must have at least ${min} characters`;
  return undefined;
}
