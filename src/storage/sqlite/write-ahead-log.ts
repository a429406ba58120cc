import type { Connection } from './open.ts';

/**
 * Checkpoints the write-ahead log and empties it.
 * @returns whether it is empty; it cannot be emptied while another connection reads or writes
 */
export function emptyLog(connection: Connection): boolean {
  try {
    const [result] = connection.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
    return result?.busy === 0;
  } catch {
    return false;
  }
}
