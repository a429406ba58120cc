import { randomFillSync } from 'node:crypto';
import { parentPort } from 'node:worker_threads';
import { createIds } from '../../domain/ids.ts';
import type { BulkRows } from '../../storage/sqlite/bulk-rows.ts';
import { History, type HistoryOptions } from './history.ts';

// The thread that makes up histories, beside the one that writes them.

export type Commission = Omit<HistoryOptions, 'ids'>;

/** A history to begin with; its next part, which is the answer; or that it is to come to its end. */
export type Request = { readonly begin: Commission } | 'next' | 'end';

/** Null when there is no next part. */
export type Answer = BulkRows | null;

const ids = createIds((target) => randomFillSync(target));
let history: History | undefined;

parentPort?.on('message', (request: Request) => {
  if (request === 'end') history?.end();
  else if (request === 'next') parentPort?.postMessage((history?.next() ?? null) satisfies Answer);
  else history = new History({ ...request.begin, ids });
});
