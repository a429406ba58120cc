import { parentPort, workerData } from 'node:worker_threads';
import Database from 'better-sqlite3';

// A thread that folds the write-ahead log into the file, beside whoever reads and commits.

export type Request = 'fold' | 'close';
/** Whether all is folded, or somebody else keeps it from that: who reads what was there before, or does the same. */
export type Answer = 'folded' | 'held up';

const connection = new Database(workerData as string, { fileMustExist: true });
connection.pragma('synchronous = FULL');
connection.pragma('wal_autocheckpoint = 0');
connection.pragma('cache_size = -64');

/** Folds until nothing is left over that was committed meanwhile, which is less each time. Only then does the log begin anew. */
function fold(): Answer {
  for (let before = -1; ; ) {
    const { checkpointed } = run('PASSIVE');
    const { log } = run('NOOP');
    if (log === checkpointed) return 'folded';
    if (checkpointed <= before) return 'held up';
    before = checkpointed;
  }
}

/** @returns how many pages the log has, and how many of them the file has, too */
function run(mode: 'PASSIVE' | 'NOOP'): { log: number; checkpointed: number } {
  const [state] = connection.pragma(`wal_checkpoint(${mode})`) as [{ log: number; checkpointed: number }];
  return state;
}

function answer(): Answer {
  try {
    return fold();
  } catch {
    return 'held up'; // by a disk that is full, or fails: as after a commit, it is tried again when there is more
  }
}

parentPort?.on('message', (request: Request) => {
  if (request === 'fold') parentPort?.postMessage(answer());
  else {
    connection.close();
    parentPort?.close();
  }
});
