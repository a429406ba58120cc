import type { NewEvent } from '../../../src/domain/events.ts';
import type { Storage } from '../../../src/domain/storage-port.ts';

/** An event as the log keeps it. */
export interface LoggedEvent extends Omit<NewEvent, 'visitorId'> {
  readonly sequence: number;
  /** Whether it keeps whose it is. */
  readonly hasVisitor: boolean;
}

/** A storage of a test's own, empty at first and gone when the test has finished. */
export interface OpenedStorage {
  readonly storage: Storage;
  /** So many texts are more than a search goes through in one step and, on SQLite, than a partition has. */
  readonly manyTexts?: number;
  /** Closes it and opens what it has left behind. */
  reopen(): Promise<Storage>;
  /** Opens another storage on the same things, as another process would. */
  beside(): Promise<Storage>;
  /** The account's log as it is kept, by sequence. */
  log(accountId: string): Promise<readonly LoggedEvent[]>;
}
