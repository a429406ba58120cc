import * as z from 'zod';
import { maxFaults, validationFailed } from './errors.ts';
import { characterFault, codePoints } from './text.ts';

// The tags of a conversation. A comma would not fit into a query parameter that lists tags.

const maxTags = 20;
const maxLength = 50;

export const tagsRule = `At most ${maxTags} different ones of 1 to ${maxLength} characters, without commas and without white space at either end.`;

const outerSpace = /^\p{White_Space}|\p{White_Space}$/u;

/** What is wrong with a tag, or undefined. */
function tagFault(tag: unknown): string | undefined {
  if (typeof tag !== 'string') return 'must be a string';
  if (tag === '') return 'must not be empty';
  // Not counted if it is far too long anyway.
  if (tag.length > 2 * maxLength || codePoints(tag) > maxLength) return `must have at most ${maxLength} characters`;
  if (tag.includes(',')) return 'must not contain a comma';
  if (outerSpace.test(tag)) return 'must not begin or end with white space';
  return characterFault(tag);
}

// Examples of the whole list would be left out, because it is transformed.
const items = { type: 'string', minLength: 1, maxLength, pattern: '^[^,]+$', examples: ['urgent'] } as const;

/** A list of tags; without doubles and sorted, when parsed. */
export const tagsInput = z
  .array(z.unknown(), { error: 'must be a list' })
  .transform((list, { issues }): readonly string[] => {
    const tags = new Set<string>();
    for (const [index, tag] of list.entries()) {
      const message = tagFault(tag);
      if (message !== undefined) issues.push({ code: 'custom', path: [index], message, input: tag });
      else tags.add(tag as string);
      if (tags.size > maxTags || issues.length >= maxFaults) break; // however long the list is
    }
    const message = countFault(tags.size);
    if (message !== undefined) issues.push({ code: 'custom', path: [], message, input: list });
    return sorted(tags);
  })
  .meta({ items });

/** The same, but not an empty one. */
export const someTagsInput = tagsInput
  .refine((tags) => tags.length > 0, { error: 'must name at least one' })
  .meta({ items, minItems: 1 });

/** The order of UTF-8 is that of code points; that of JavaScript's strings is not. */
function sorted(tags: Iterable<string>): readonly string[] {
  return [...tags].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

function countFault(count: number): string | undefined {
  return count > maxTags ? `must name at most ${maxTags} different tags` : undefined;
}

interface TagChanges {
  readonly tags?: readonly string[] | null | undefined;
  readonly addTags?: readonly string[] | null | undefined;
  readonly removeTags?: readonly string[] | null | undefined;
}

/** Whether tags are changed in one way only: replaced, or some of them added and removed. */
export function areOneWay({ tags, addTags, removeTags }: TagChanges): boolean {
  return tags === undefined || (addTags ?? removeTags) == null;
}

/**
 * The tags after changes; the same list if they change nothing.
 * @throws VALIDATION_FAILED when there would be too many
 */
export function changedTags(current: readonly string[], { tags, addTags, removeTags }: TagChanges): readonly string[] {
  const next = new Set(tags === undefined ? current : tags);
  for (const tag of addTags ?? []) next.add(tag);
  for (const tag of removeTags ?? []) next.delete(tag);
  const fault = countFault(next.size);
  if (fault !== undefined) {
    throw validationFailed([{ path: ['addTags'], detail: `${fault}, together with those that are there` }]);
  }
  const isSame = next.size === current.length && current.every((tag) => next.has(tag));
  return isSame ? current : sorted(next);
}
