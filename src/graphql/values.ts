import { type FieldNode, type GraphQLField, GraphQLString, getNullableType, isListType } from 'graphql';

// What a field of an answer counts as, so that values bound its length as well: names are as long as whoever asks wants.

/** Characters of an answer that count as one value. */
const valueLength = 128;

/** What a number, a time, an id or a word of an enumeration has at most. */
const wordLength = 40;
/** What a text has at most, besides those that are spent of an `AnswerBudget`. */
const textLength = 320;

/**
 * How many values a field counts as, with its name in the answer.
 * @param length of what it gives, in characters; 0 for an object or a list of them, whose fields count by themselves
 */
export function valuesOf({ alias, name }: FieldNode, length: number): number {
  return Math.ceil(((alias ?? name).value.length + length) / valueLength);
}

/** The most characters that a field without fields of its own gives. Lists of words are no longer than a text. */
export function lengthOf({ type }: GraphQLField<unknown, unknown>): number {
  const nullable = getNullableType(type);
  return nullable === GraphQLString || isListType(nullable) ? textLength : wordLength;
}
