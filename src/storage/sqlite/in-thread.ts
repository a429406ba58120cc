import { Worker } from 'node:worker_threads';
import { threadModule } from '../../layout.ts';
import { FileFault } from './files.ts';
import type { Message, Task } from './long-tasks.ts';
import type { MigrationReport } from './open.ts';

const program = threadModule('storage/sqlite/long-tasks');

/**
 * Performs one of the long tasks in a thread.
 * @param onBytes called with the size that a copy will have at most
 * @throws FileFault for what the operator can fix
 */
export function inThread(
  task: Task,
  onBytes: (bytes: number) => void = () => {},
): Promise<MigrationReport | undefined> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(program, { workerData: task });
    worker.on('message', (message: Message) => {
      if ('bytes' in message) onBytes(message.bytes);
      else if ('fault' in message) reject(new FileFault(message.fault));
      else if ('failure' in message) reject(Object.assign(new Error(message.failure.message), message.failure));
      else resolve(message.result);
    });
    worker.once('error', reject);
    worker.once('exit', () => reject(new Error('The thread ended without a result'))); // comes after all of its messages
  });
}
