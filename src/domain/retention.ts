import { expiredKeyMs } from './api-keys.ts';
import { idempotencyMs } from './idempotency.ts';
import type { Storage, Transaction } from './storage-port.ts';
import { TimeBudget } from './time-budget.ts';

/** Rows removed between two checks of the time: a delivery is removed with its responses, which can be megabytes. */
const batchSizes = { deliveries: 1, events: 32, idempotencyRecords: 1, apiKeys: 32, signIns: 32 } as const;
type Kind = keyof typeof batchSizes;

/**
 * Removes expired rows, in many transactions.
 * @param eventRetentionMs how long events and their deliveries are kept
 */
export async function removeOld(storage: Storage, nowMs: number, eventRetentionMs: number): Promise<void> {
  const beforeMs = nowMs - eventRetentionMs;
  // Deliveries before events: a delivery must not outlive its event.
  await removeKind(storage, 'deliveries', beforeMs);
  await removeKind(storage, 'events', beforeMs);
  await removeKind(storage, 'idempotencyRecords', nowMs - idempotencyMs);
  await removeKind(storage, 'apiKeys', nowMs - expiredKeyMs);
  await removeKind(storage, 'signIns', nowMs);
}

async function removeKind({ write }: Storage, kind: Kind, beforeMs: number): Promise<void> {
  let isAll = false;
  while (!isAll) isAll = await write(async (tx) => await removePortion(tx, kind, beforeMs));
}

/** @returns whether none are left */
async function removePortion(tx: Transaction, kind: Kind, beforeMs: number): Promise<boolean> {
  const budget = new TimeBudget();
  const batchSize = batchSizes[kind];
  for (;;) {
    const removed = await tx[kind].prune(beforeMs, batchSize);
    if (removed < batchSize) return true;
    if (budget.isSpentWith(removed)) return false;
  }
}
