import { parentPort, workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';

// A thread that folds the write-ahead log into the file, beside whoever reads and commits.

/** What the thread is asked to do. */
export type ToThread = 'fold' | 'close';
/** Its answer to each 'fold', whether or not that succeeded. */
export type FromThread = 'done';

const connection = new Database(workerData as string, { fileMustExist: true });
connection.pragma('synchronous = FULL');
connection.pragma('cache_size = -64');

/** For how long it goes on at most, however fast others commit. */
const patienceMs = 1_000;

/**
 * Folds, and then what was committed meanwhile, and so on: only when nothing is left over does the log begin anew, and
 * between two commits there is time enough. It ends when somebody reads what was there before, or does the same.
 */
function fold(): void {
  const endMs = performance.now() + patienceMs;
  for (let before = -1; performance.now() < endMs; ) {
    const { checkpointed } = run('PASSIVE');
    if (checkpointed <= before || checkpointed === run('NOOP').log) return;
    before = checkpointed;
  }
}

/** @returns how many pages the log has, and how many of them the file has, too */
function run(mode: 'PASSIVE' | 'NOOP'): { log: number; checkpointed: number } {
  const [state] = connection.pragma(`wal_checkpoint(${mode})`) as [{ log: number; checkpointed: number }];
  return state;
}

parentPort?.on('message', (request: ToThread) => {
  if (request === 'close') {
    connection.close();
    parentPort?.close();
    return;
  }
  try {
    fold();
  } catch {
    // The disk is full, or fails: as after a commit, it is tried again with the next one.
  }
  parentPort?.postMessage('done' satisfies FromThread);
});
