// While a copy into a database is unfinished, nothing but that copy may use it. So it stands there as a migration that no
// version of the program knows: whatever opens the database, or has it open, then refuses it.

/** In place of the time when a migration was made: the last one that there is. */
export const unfinishedCopy = 8.64e15;

/** The entry of `meta` that says how far an unfinished copy has come. */
export const copyStateName = 'unfinished_copy';

/**
 * Why a database is not opened whose newest migration this program does not know.
 * @param done when that one was made
 */
export function unknownMigration(done: number): Error {
  return new Error(
    done === unfinishedCopy
      ? 'a copy into it is unfinished: the same `copy` again continues it.'
      : 'The database was migrated by a newer version of this program; run that version, or restore a backup.',
  );
}
