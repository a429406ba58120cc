// The ids in answers, so that what one call has made is filled in for the next.

const ids = /\b([a-z]+_)[0-9a-z]{26}\b/g;
const lastSeen = new Map<string, string>();

export function noteIds(answer: string): void {
  for (const [id, prefix = ''] of answer.matchAll(ids)) lastSeen.set(prefix, id);
}

/** Puts ids that were seen in the place of those in an example, which belong to nothing. */
export function withSeenIds(example: string): string {
  return example.replaceAll(ids, (id, prefix: string) => lastSeen.get(prefix) ?? id);
}

/** The id that was seen last in the place of an example of one; else nothing, because an id is never guessed. */
export function seenIdFor(example: string): string {
  const seen = withSeenIds(example);
  return seen === example ? '' : seen;
}
