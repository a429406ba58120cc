import { endingSignals } from '../server/stop.ts';
import { removeWithSideFiles } from '../storage/sqlite/files.ts';

/**
 * Does something that leaves an unfinished file behind when it is interrupted, and sees to it that it does not.
 * @param work is to tell the names of such files as soon as it begins with them
 */
export async function withoutRemains<T>(work: (onUnfinished: (path: string) => void) => Promise<T>): Promise<T> {
  const unfinished: string[] = [];
  const interrupted = (signal: NodeJS.Signals): void => {
    for (const path of unfinished) removeWithSideFiles(path);
    // Whoever has started the program is to see what has ended it. A thread in the midst of its work ends with it.
    process.off(signal, interrupted);
    process.kill(process.pid, signal);
  };
  for (const signal of endingSignals) process.on(signal, interrupted);
  try {
    return await work((path) => unfinished.push(path));
  } finally {
    for (const signal of endingSignals) process.off(signal, interrupted);
  }
}
