import { type FieldNode, type GraphQLField, GraphQLString, getNullableType, isListType } from 'graphql';

// What a field of an answer counts as, so that values bound its length as well: names are as long as whoever asks wants.

/** Characters of an answer that count as one value. */
const valueLength = 128;

/** What a number, a time, an id or a word of an enumeration has at most. */
const wordLength = 40;
/** What a text has, besides those that are spent of an `AnswerBudget`. Few are as long, and none more than four times. */
const textLength = 320;

/** For the fields that spend their text of an `AnswerBudget`, which is exact. */
export const spendsText = { spendsText: true } as const;

/**
 * How many values a field counts as, with its name in the answer.
 * @param length of what it gives, in characters; 0 for an object or a list of them, whose fields count by themselves
 */
export function valuesOf({ alias, name }: FieldNode, length: number): number {
  return Math.ceil(((alias ?? name).value.length + length) / valueLength);
}

/** The characters that a field without fields of its own gives. Lists of words are no longer than a text. */
export function lengthOf({ type, extensions }: GraphQLField<unknown, unknown>): number {
  if ('spendsText' in extensions) return 0;
  const nullable = getNullableType(type);
  return nullable === GraphQLString || isListType(nullable) ? textLength : wordLength;
}
