import { on } from 'node:events';
import { type ResourceLimits, Worker } from 'node:worker_threads';
import { threadModule } from '../../layout.ts';
import type { BulkRows } from '../../storage/sqlite/bulk-rows.ts';
import type { Commission, FromThread, ToThread } from './worker.ts';

/** How many parts are prepared ahead of the one that is being written. */
const ahead = 2;
/**
 * The old generation has room for what a history retains; a larger one would only make the thread collect garbage
 * later. The young generation has room for several parts, so that most of a part is garbage before it would be copied.
 */
const memory: ResourceLimits = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 96 };
const program = threadModule('cli/seed/worker');

/** Generates histories in a separate thread. */
export class Historian {
  readonly #worker = new Worker(program, { resourceLimits: memory });

  /**
   * The rows of a history, part by part. Only one history can be generated at a time.
   * @param signal ends the history early: no further conversations, only the outstanding events of those generated
   */
  async *rowsOf(commission: Commission, signal: AbortSignal): AsyncGenerator<BulkRows, void> {
    const end = (): void => this.#post('end');
    this.#post({ begin: commission });
    if (signal.aborted) end();
    signal.addEventListener('abort', end);
    for (let asked = 0; asked < ahead; asked++) this.#post('next');
    let expected = ahead;
    try {
      for await (const [part] of on(this.#worker, 'message', { close: ['exit'] }) as AsyncIterable<[FromThread]>) {
        if (part === null) {
          expected--;
          if (expected === 0) return;
        } else {
          this.#post('next');
          yield part;
        }
      }
      throw new Error('The thread that generates histories has ended');
    } finally {
      signal.removeEventListener('abort', end);
    }
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #post(message: ToThread): void {
    this.#worker.postMessage(message);
  }
}
