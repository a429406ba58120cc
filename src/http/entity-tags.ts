/** Whether `If-None-Match` contains a tag (RFC 9110, section 13.1.2), so that the client's copy is current. */
export function isKnown(header: string | undefined, tag: string): boolean {
  const tags = header === undefined ? undefined : tagsOf(header);
  return tags === '*' || tags?.some(({ value }) => `"${value}"` === tag) === true;
}

interface EntityTag {
  readonly isWeak: boolean;
  readonly value: string;
}

/** A star, or a list of tags (RFC 9110, sections 5.6.1 and 8.8.3); undefined for anything else. */
export function tagsOf(header: string): '*' | readonly EntityTag[] | undefined {
  if (header.trim() === '*') return '*';
  const element = /[ \t]*(?:(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(?:,|$)/y;
  const tags: EntityTag[] = [];
  while (element.lastIndex < header.length) {
    const found = element.exec(header);
    if (found === null) return undefined;
    const [, weak, value] = found;
    if (value !== undefined) tags.push({ isWeak: weak !== undefined, value }); // empty elements are skipped
  }
  return tags;
}
