import { type DomainError, overloaded } from '../domain/errors.ts';

let count = 0;

/** UNAVAILABLE for a request that was admitted, but finds no room in memory. It is counted with those of the load shedder. */
export function noRoom(detail: string): DomainError {
  count++;
  return overloaded(detail);
}

/** How many requests of this process have found no room. */
export function refusedForRoom(): number {
  return count;
}
