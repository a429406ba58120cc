import { DomainError } from '../domain/errors.ts';

/** A storage cannot do something at the moment. */
export function unavailable(detail: string, cause?: unknown): DomainError {
  return new DomainError('UNAVAILABLE', detail, { retryAfterSeconds: 1, cause });
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Exponential backoff from 1 ms up to 50 ms. Half of it is random, so that processes do not retry in step. */
export function retryDelayMs(attempt: number): number {
  const ceiling = Math.min(50, 2 ** attempt);
  return ceiling / 2 + (Math.random() * ceiling) / 2;
}
