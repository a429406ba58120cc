import { type FieldNode, type GraphQLField, GraphQLString, getNullableType, isListType } from 'graphql';

// How many values a field of a response counts as. The limit on values bounds the length of a response too, because a
// long field, also one with a long alias, counts as several.

/** Characters of a response that count as one value. */
const valueLength = 128;

/** The most characters of a number, a time, an id or an enum value. */
const wordLength = 40;
/** What a text counts as, unless it is spent from an `AnswerBudget`. Few are as long, none over four times as long. */
const textLength = 320;

/** Marks a field that spends the exact length of its text from an `AnswerBudget`. */
export const spendsText = { spendsText: true } as const;

/**
 * How many values a field counts as, including its name in the response.
 * @param length of its value, in characters; 0 for an object or a list of objects, whose fields count themselves
 */
export function valuesOf({ alias, name }: FieldNode, length: number): number {
  return Math.ceil(((alias ?? name).value.length + length) / valueLength);
}

/** The characters that the value of a leaf field counts as. Lists of words are no longer than a text. */
export function lengthOf({ type, extensions }: GraphQLField<unknown, unknown>): number {
  if ('spendsText' in extensions) return 0;
  const nullable = getNullableType(type);
  return nullable === GraphQLString || isListType(nullable) ? textLength : wordLength;
}
