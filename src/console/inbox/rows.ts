import type { Row } from '../records.ts';

// Answers and events may arrive in any order. Versions and read positions only grow, so what is newest can be told.

/** How far the agent has read a conversation; null without a position. */
function readTo({ unreadCount, messageCount }: Row): number | null {
  return unreadCount === null ? null : messageCount - unreadCount;
}

/** A conversation that the agent has read up to a message, or further. */
export function readUpTo(row: Row, sequence: number | null): Row {
  if (sequence === null) return row;
  const furthest = Math.max(sequence, readTo(row) ?? 0);
  return { ...row, unreadCount: Math.max(0, row.messageCount - furthest) };
}

/** The newer of two states of a conversation, read as far as the further of them. */
export function together(known: Row | undefined, told: Row): Row {
  if (known === undefined) return told;
  const [newer, older] = told.version >= known.version ? [told, known] : [known, told];
  const metadata = newer.metadata ?? older.metadata;
  return readUpTo({ ...newer, ...(metadata && { metadata }) }, readTo(older));
}

/** The order of the inbox: the latest activity first, as the service sorts. */
export function inOrder(a: Place, b: Place): number {
  return compare(b.lastActivityAt, a.lastActivityAt) || compare(b.id, a.id);
}

export type Place = Pick<Row, 'lastActivityAt' | 'id'>;

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** How a conversation is called: by its visitor or, if that is unknown, by its subject. */
export function titleOf({ visitor, subject }: Row): string {
  return visitor?.name || visitor?.email || subject || visitor?.id || 'Visitor without a name';
}
