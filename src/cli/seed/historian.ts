import { on } from 'node:events';
import { type ResourceLimits, Worker } from 'node:worker_threads';
import { threadModule } from '../../layout.ts';
import type { BulkRows } from '../../storage/sqlite/bulk-rows.ts';
import type { Answer, Commission, Request } from './worker.ts';

/** How many parts are being made or waiting, beside the one that is being written. */
const ahead = 2;
/**
 * Room for all that a history holds: with more to spare, the thread would collect its garbage later. The young have
 * room for some parts, so that most of a part is gone before it would have to be copied.
 */
const memory: ResourceLimits = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 96 };
const program = threadModule('cli/seed/worker');

/** Has histories made up in a thread of its own. */
export class Historian {
  readonly #worker = new Worker(program, { resourceLimits: memory });

  /**
   * The rows of a history, part by part. Only one can be asked for at a time.
   * @param signal has it come to its end early, with what belongs to the parts that are made already
   */
  async *rowsOf(commission: Commission, signal: AbortSignal): AsyncGenerator<BulkRows, void> {
    const end = (): void => this.#ask('end');
    this.#ask({ begin: commission });
    if (signal.aborted) end();
    signal.addEventListener('abort', end);
    for (let asked = 0; asked < ahead; asked++) this.#ask('next');
    let expected = ahead;
    try {
      for await (const [answer] of on(this.#worker, 'message', { close: ['exit'] }) as AsyncIterable<[Answer]>) {
        if (answer === null) {
          expected--;
          if (expected === 0) return;
        } else {
          this.#ask('next');
          yield answer;
        }
      }
      throw new Error('The thread that makes up histories has ended');
    } finally {
      signal.removeEventListener('abort', end);
    }
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #ask(request: Request): void {
    this.#worker.postMessage(request);
  }
}
