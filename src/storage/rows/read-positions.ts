import type { ReadPosition, ReadPositions } from '../../domain/read-position-record.ts';
import { toTimestamp } from './values.ts';

export const readPositionColumns = ['reader', 'sequence', 'readAt', 'move'] as const;

export interface ReadPositionRow {
  readonly reader: string;
  readonly sequence: number;
  readonly readAt: number;
  /** Its place in the order in which the conversation's positions have moved. */
  readonly move: number;
}

/** All of one conversation. */
export function toReadPositions(rows: readonly ReadPositionRow[]): ReadPositions {
  return { positions: rows.map(toReadPosition), moves: rows.reduce((moves, { move }) => Math.max(moves, move), 0) };
}

export function toReadPosition({ reader, sequence, readAt }: ReadPositionRow): ReadPosition {
  return { reader, sequence, readAt: toTimestamp(readAt) };
}
