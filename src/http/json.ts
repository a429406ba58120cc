import { DomainError } from '../domain/errors.ts';
import { numberFrom } from '../domain/numbers.ts';

// What is larger takes time and memory out of proportion to its size: 1 MiB of brackets takes 60 ms to parse, and becomes
// 30 MiB. No input of the service comes near to either limit.
const maxDepth = 64;
const maxValues = 12_000;

/** Doubles hold every number of so many digits. */
const exactDigits = 15;

/**
 * Parses JSON whose nesting and number of values are seen first. A number that a double cannot hold becomes a
 * symbol.
 * @param onExamined called with the number of values before they are made; what it throws is thrown
 * @throws BAD_REQUEST
 */
export function parseJson(text: string, onExamined?: (values: number) => void): unknown {
  const { isExact, values } = examine(text);
  onExamined?.(values);
  try {
    return isExact ? JSON.parse(text) : JSON.parse(text, keepNumber);
  } catch (cause) {
    // The cause quotes the body, which may contain data that must not be logged.
    throw new DomainError('BAD_REQUEST', `The body is not JSON${positionOf(cause)}.`);
  }
}

function keepNumber(_: string, value: unknown, { source }: { source?: string } = {}): unknown {
  return typeof value === 'number' && source !== undefined ? numberFrom(source, value) : value;
}

/** V8 gives the position nowhere but in its message. In another wording, only the position would be missing. */
function positionOf(error: unknown): string {
  const position = error instanceof Error ? /at position (\d+)/.exec(error.message)?.[1] : undefined;
  return position === undefined ? '' : ` (at position ${position})`;
}

/**
 * Looks through what should be JSON, without parsing it.
 * @returns the number of its values, and whether all numbers are short enough to be exact
 * @throws BAD_REQUEST when it is nested too deeply, or holds too many values
 */
function examine(text: string): { values: number; isExact: boolean } {
  let isExact = true;
  let depth = 0;
  let values = 1;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === quote) {
      index = endOfString(text, index);
    } else if (isOpening(code)) {
      values++;
      if (++depth > maxDepth) throw new DomainError('BAD_REQUEST', `The body is nested more than ${maxDepth} deep.`);
    } else if (isClosing(code)) {
      depth--;
    } else if (code === comma) {
      if (++values > maxValues) throw new DomainError('BAD_REQUEST', `The body holds more than ${maxValues} values.`);
    } else if (isDigit(code)) {
      const start = index;
      for (let next = text.charCodeAt(index + 1); isNumeric(next); next = text.charCodeAt(++index + 1)) {
        isExact &&= !isExponent(next);
      }
      isExact &&= index - start < exactDigits;
    }
  }
  return { values, isExact };
}

/** The index of the quotation mark that ends a string, or of the end of the text if there is none. */
function endOfString(text: string, start: number): number {
  let index = start + 1;
  while (index < text.length) {
    const code = text.charCodeAt(index);
    if (code === quote) break;
    index += code === backslash ? 2 : 1;
  }
  return index;
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const isOpening = (code: number): boolean => code === 0x5b || code === 0x7b;
const isClosing = (code: number): boolean => code === 0x5d || code === 0x7d;
const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;
const isExponent = (code: number): boolean => code === 0x65 || code === 0x45;
/** Whether a character can be within a number: a digit, a point, a sign or an exponent's letter. */
const isNumeric = (code: number): boolean =>
  isDigit(code) || code === 0x2e || code === 0x2d || code === 0x2b || isExponent(code);
