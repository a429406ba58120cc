import { hash, randomUUID } from 'node:crypto';
import pino from 'pino';
import { accountOfKey } from './store.mjs';

// What every peer does for a request beside answering it, as the service does: it finds the account of the API key,
// gives the request an id, says what is left of the account's limit, and writes a line to the log.

export const log = pino(); // standard output, which the benchmark discards, the service's too

/** The account of an API key, which is known by its SHA-256 only; undefined if there is none. PostgreSQL's has to be awaited. */
export function accountOf(authorization = '') {
  return accountOfKey(hash('sha256', authorization.slice('Bearer '.length), 'buffer'));
}

export function requestIdOf({ headers }) {
  return headers['x-request-id'] ?? randomUUID();
}

const hourMs = 3_600_000;
const limit = 1_000_000_000;
let hour = 0;
const spent = new Map();

/** Counts a request, in this process and in each full hour, and says what is left. */
export function limitHeaders(accountId) {
  const now = Date.now();
  if (Math.floor(now / hourMs) !== hour) {
    hour = Math.floor(now / hourMs);
    spent.clear();
  }
  const count = (spent.get(accountId) ?? 0) + 1;
  spent.set(accountId, count);
  return {
    'X-RateLimit-Limit': limit,
    'X-RateLimit-Remaining': limit - count,
    'X-RateLimit-Reset': Math.ceil(((hour + 1) * hourMs - now) / 1_000),
  };
}
