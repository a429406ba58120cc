import type { Visitor } from './conversation-record.ts';
import type { Status } from './lifecycle.ts';
import type { SearchWords } from './search-words.ts';
import type { Storage } from './storage-port.ts';

export interface SearchFilter {
  readonly status?: Status | undefined;
  /** Of the text, in epoch milliseconds, exclusive. */
  readonly createdAfter?: number | undefined;
  /** Of the text, in epoch milliseconds, exclusive. */
  readonly createdBefore?: number | undefined;
}

export interface SearchQuery {
  readonly words: SearchWords;
  readonly filter: SearchFilter;
  readonly limit: number;
  /** Continue after the text at this place. */
  readonly after?: number | undefined;
}

/** A text that is found. */
export interface FoundText {
  readonly conversationId: string;
  /** The message's; 0 for the conversation's own text. */
  readonly sequence: number;
  /** Its place among all texts of the account, in the order in which they came. */
  readonly place: number;
}

/** A conversation's own text. */
export function conversationText({ subject, visitor }: { subject: string | null; visitor: Visitor | null }): string {
  return [subject, visitor?.name, visitor?.email].filter((part) => part != null).join('\n');
}

/**
 * Indexes what waits for it, in many transactions, between which other writes can run.
 * @param isStopping asked before each of them: whether to leave the rest for later
 */
export async function indexTexts(
  { read, write }: Pick<Storage, 'read' | 'write'>,
  isStopping: () => boolean = () => false,
): Promise<void> {
  let isDone = !(await read.search.isBehind());
  while (!isDone && !isStopping()) isDone = await write(async (tx) => await tx.search.indexMore());
}
