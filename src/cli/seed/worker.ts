import { randomFillSync } from 'node:crypto';
import { parentPort } from 'node:worker_threads';
import { createIds } from '../../domain/ids.ts';
import type { BulkRows } from '../../storage/sqlite/bulk-rows.ts';
import { History, type HistoryOptions } from './history.ts';

// The thread that generates histories, while the main thread writes them.

export type Commission = Omit<HistoryOptions, 'ids'>;

/** Begins a history, asks for its next part (the only message that is answered), or ends it early. */
export type ToThread = { readonly begin: Commission } | 'next' | 'end';

/** The next part, or null at the end of the history. */
export type FromThread = BulkRows | null;

const ids = createIds((target) => randomFillSync(target));
let history: History | undefined;

parentPort?.on('message', (message: ToThread) => {
  if (message === 'end') history?.end();
  else if (message === 'next') parentPort?.postMessage((history?.next() ?? null) satisfies FromThread);
  else history = new History({ ...message.begin, ids });
});
