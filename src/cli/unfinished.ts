import { endingSignals } from '../server/stop.ts';
import { removeWithSideFiles } from '../storage/sqlite/files.ts';

/**
 * Runs work that writes files, and removes the unfinished ones if a signal interrupts it.
 * @param work must name each file before it starts to write it
 */
export async function withoutRemains<T>(work: (onUnfinished: (path: string) => void) => Promise<T>): Promise<T> {
  const unfinished: string[] = [];
  const interrupted = (signal: NodeJS.Signals): void => {
    for (const path of unfinished) removeWithSideFiles(path);
    // The parent process must see which signal ended this one. Threads end with the process.
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
