import { unavailable } from './errors.ts';
import { type Connection, stateOf } from './open.ts';

/**
 * Makes what refuses to go on with a file once a newer version of the program has migrated it, as in a rolling
 * upgrade: what an older one writes lacks what the newer one counts on.
 *
 * Every migration changes the schema, so as long as the schema's version is the same there is nothing to look at.
 * To be called within a transaction, so that no migration can come in between.
 * @returns throws UNAVAILABLE
 */
export function refuseSuperseded(connection: Connection): () => void {
  const schemaVersion = connection.prepare<[], number>('PRAGMA schema_version').pluck();
  // What there was at the opening says nothing: a newer version can have come between that and the first transaction.
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
