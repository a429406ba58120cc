import { unavailable } from './errors.ts';
import { type Connection, stateOf } from './open.ts';

/**
 * Guards a file against use after a newer version of the program has migrated it, as in a rolling upgrade: what an
 * older version writes lacks what the newer one relies on.
 *
 * Every migration changes the schema, so nothing has to be checked while SQLite's schema version stays the same.
 * @returns a check that throws UNAVAILABLE, to be called within a transaction so that no migration can come in between
 */
export function refuseSuperseded(connection: Connection): () => void {
  const schemaVersion = connection.prepare<[], number>('PRAGMA schema_version').pluck();
  // Not read here: a newer version could migrate the file between now and the first transaction.
  let known: number | undefined;
  return () => {
    const version = schemaVersion.get();
    if (version === known) return;
    const { done, newest } = stateOf(connection);
    if (done > newest) {
      throw unavailable('The database was migrated by a newer version of the service, which is to take over.');
    }
    known = version;
  };
}
