import type { NewEvent } from '../../../src/domain/events.ts';
import type { Storage } from '../../../src/domain/storage-port.ts';

/** An event as the log keeps it. */
export interface LoggedEvent extends NewEvent {
  readonly sequence: number;
}

/** A storage of a test's own, empty at first and gone when the test has finished. */
export interface OpenedStorage {
  readonly storage: Storage;
  /** Closes it and opens what it has left behind. */
  reopen(): Promise<Storage>;
  /** Opens another storage on the same things, as another process would. */
  beside(): Promise<Storage>;
  /** The account's log as it is kept, by sequence. */
  log(accountId: string): Promise<readonly LoggedEvent[]>;
}
