import { setTimeout } from 'node:timers/promises';
import { DomainError } from '../domain/errors.ts';

/** A storage cannot do something at the moment. */
export function unavailable(detail: string, cause?: unknown): DomainError {
  return new DomainError('UNAVAILABLE', detail, { retryAfterSeconds: 1, cause });
}

/**
 * Waits before another try: from 1 ms on, each time twice as long, up to 50 ms. Half of it is random, so that processes do
 * not retry in step.
 */
export async function backOff(attempt: number): Promise<void> {
  const ceiling = Math.min(50, 2 ** attempt);
  await setTimeout(ceiling / 2 + (Math.random() * ceiling) / 2);
}
