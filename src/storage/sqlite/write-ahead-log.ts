import type { Connection } from './open.ts';

/**
 * Folds the write-ahead log into the file and empties it.
 * @returns whether it is empty: nobody can empty it while another connection reads or writes
 */
export function emptyLog(connection: Connection): boolean {
  try {
    const [result] = connection.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
    return result?.busy === 0;
  } catch {
    return false;
  }
}
