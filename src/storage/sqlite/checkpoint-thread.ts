import { parentPort, workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { emptyLog, type FromThread, type ToThread } from './checkpointer.ts';

// The thread of the Checkpointer: it checkpoints the write-ahead log while others read and commit.

// Emptying the log waits for readers, and would keep writers waiting meanwhile.
const connection = new Database(workerData as string, { fileMustExist: true, timeout: 0 });
connection.pragma('synchronous = FULL');
connection.pragma('cache_size = -64');

/** Gives up after this long, however fast others commit. */
const maxMs = 1_000;
/** How often it tries to empty the log between the transactions of this process. */
const emptyTries = 20;
const emptyPauseMs = 2;

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

/**
 * Empties the log, so that nothing is left of what was erased. All that can be is checkpointed before, while others
 * commit; the rest takes only a moment.
 * @returns whether it is empty; it cannot be emptied while another connection reads or writes
 */
function empty(): boolean {
  checkpoint();
  for (let tried = 0; tried < emptyTries; tried++) {
    if (emptyLog(connection)) return true;
    Atomics.wait(sleeping, 0, 0, emptyPauseMs);
  }
  return false;
}

const sleeping = new Int32Array(new SharedArrayBuffer(4));

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
  let isEmpty = false;
  try {
    if (request === 'empty') isEmpty = empty();
    else checkpoint();
  } catch {
    // The disk is full or failing: there will be another attempt.
  }
  parentPort?.postMessage(isEmpty satisfies FromThread);
});
