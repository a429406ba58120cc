import { parentPort, workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';

// A thread that folds the write-ahead log into the file, beside whoever reads and commits.

export type Request = 'fold' | 'close';

const connection = new Database(workerData as string, { fileMustExist: true });
connection.pragma('synchronous = FULL');
connection.pragma('cache_size = -64');

/**
 * Folds, and then what was committed meanwhile, as long as that gets less. Only when nothing is left over does the log
 * begin anew; if others are faster, or read what was there before, there is another time.
 */
function fold(): void {
  for (let leftBefore = Number.POSITIVE_INFINITY; ; ) {
    run('PASSIVE');
    const { log, checkpointed } = run('NOOP');
    const left = log - checkpointed;
    if (left === 0 || left >= leftBefore) return;
    leftBefore = left;
  }
}

/** @returns how many pages the log has, and how many of them the file has, too */
function run(mode: 'PASSIVE' | 'NOOP'): { log: number; checkpointed: number } {
  const [state] = connection.pragma(`wal_checkpoint(${mode})`) as [{ log: number; checkpointed: number }];
  return state;
}

parentPort?.on('message', (request: Request) => {
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
  parentPort?.postMessage('done');
});
