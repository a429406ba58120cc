import { expiredKeyMs } from './api-keys.ts';
import type { Awaitable } from './awaitable.ts';
import { idempotencyMs } from './idempotency.ts';
import type { Pruned, Storage } from './storage-port.ts';
import { TimeBudget } from './time-budget.ts';

/**
 * Removes expired rows, in many transactions.
 * @param eventRetentionMs how long events and their deliveries are kept
 */
export async function removeOld(storage: Storage, nowMs: number, eventRetentionMs: number): Promise<void> {
  const beforeMs = nowMs - eventRetentionMs;
  await removeKind(storage, 'deliveries', beforeMs);
  // A delivery must not outlive its event: another process that still removes deliveries removes the events after them.
  if (!(await storage.read.deliveries.hasBefore(beforeMs))) await removeKind(storage, 'events', beforeMs);
  await removeKind(storage, 'idempotencyRecords', nowMs - idempotencyMs);
  await removeKind(storage, 'apiKeys', nowMs - expiredKeyMs);
  await removeKind(storage, 'signIns', nowMs);
}

async function removeKind({ write, pruneSizes }: Storage, kind: Pruned, beforeMs: number): Promise<void> {
  let removed: number;
  do {
    removed = await write((tx) => removePortion((limit) => tx[kind].prune(beforeMs, limit), pruneSizes[kind]));
  } while (removed > 0);
}

/** @returns how many rows were removed */
async function removePortion(prune: (limit: number) => Awaitable<number>, atOnce: number): Promise<number> {
  const budget = new TimeBudget();
  for (let total = 0; ; ) {
    const removed = await prune(atOnce);
    total += removed;
    if (removed < atOnce || budget.isSpentWith(removed)) return total;
  }
}
