import { idempotencyMs } from './idempotency.ts';
import { Portion } from './portion.ts';
import type { Storage, Transaction } from './storage-port.ts';

/** How many are removed between two looks at the clock: a delivery goes with all its answers, which can be megabytes. */
const batchSizes = { deliveries: 1, events: 32, keptResults: 1 } as const;
type Kind = keyof typeof batchSizes;

/**
 * Removes what is kept for a while only, in many transactions.
 * @param eventRetentionMs how long events stay, and with them their deliveries
 */
export async function removeOld(storage: Storage, nowMs: number, eventRetentionMs: number): Promise<void> {
  const beforeMs = nowMs - eventRetentionMs;
  // Deliveries before events: none must outlive what it delivers.
  await removeKind(storage, 'deliveries', beforeMs);
  await removeKind(storage, 'events', beforeMs);
  await removeKind(storage, 'keptResults', nowMs - idempotencyMs);
}

async function removeKind({ write }: Storage, kind: Kind, beforeMs: number): Promise<void> {
  let isAll = false;
  while (!isAll) isAll = await write(async (tx) => await removePortion(tx, kind, beforeMs));
}

/** @returns whether that was all */
async function removePortion(tx: Transaction, kind: Kind, beforeMs: number): Promise<boolean> {
  const portion = new Portion();
  const batchSize = batchSizes[kind];
  for (;;) {
    const removed = await tx[kind].prune(beforeMs, batchSize);
    if (removed < batchSize) return true;
    if (portion.isFullWith(removed)) return false;
  }
}
