import { parentPort, workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';

// A thread that checkpoints the write-ahead log while others read and commit.

/** What the thread is asked to do. */
export type ToThread = 'checkpoint' | 'close';
/** The answer to each 'checkpoint', whether or not it succeeded. */
export type FromThread = 'done';

const connection = new Database(workerData as string, { fileMustExist: true });
connection.pragma('synchronous = FULL');
connection.pragma('cache_size = -64');

/** Gives up after this long, however fast others commit. */
const maxMs = 1_000;

/**
 * Checkpoints the log, then what was committed meanwhile, and so on until nothing is left: only then does the log start
 * again at its beginning. The time between two commits is enough for the last pass. It stops when a pass makes no
 * progress: a reader still needs an older snapshot, or another connection is checkpointing, too.
 */
function checkpoint(): void {
  const endMs = performance.now() + maxMs;
  for (let before = -1; performance.now() < endMs; ) {
    const { checkpointed } = run('PASSIVE');
    if (checkpointed <= before || checkpointed === run('NOOP').log) return;
    before = checkpointed;
  }
}

/** @returns the pages in the log, and how many of them are in the file already */
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
    checkpoint();
  } catch {
    // The disk is full or failing: the next commit leads to another attempt.
  }
  parentPort?.postMessage('done' satisfies FromThread);
});
