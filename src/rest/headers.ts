import type { IncomingMessage } from 'node:http';
import type { Route } from './routes.ts';

/** Fields of an operation's input that REST has in headers, because HTTP has a place for them. */
export const fieldsInHeaders: Readonly<Record<'idempotencyKey' | 'expectedVersion', string> & Record<string, string>> =
  {
    idempotencyKey: 'Idempotency-Key',
    expectedVersion: 'If-Match',
  };

/** What of an operation's input lies in the headers of its request. */
export function inputOfHeaders({ headers }: IncomingMessage, { method, streams }: Route): object {
  const lastEventId = headers['last-event-id'];
  const key = headers['idempotency-key'];
  const expected = versionOf(headers['if-match']);
  return {
    // Where a reader goes on that was cut off: what it has seen is newer than what it began with.
    ...(streams && typeof lastEventId === 'string' && lastEventId !== '' ? { after: lastEventId } : {}),
    // An operation that only gives out a credential does not know the key, and says so.
    ...(method === 'POST' && key !== undefined ? { idempotencyKey: key } : {}),
    ...(method !== 'GET' && expected !== undefined ? { expectedVersion: expected } : {}),
  };
}

/** No version: what a tag that this service has not made is compared with. */
const noVersion = 0;

/**
 * The version that `If-Match` asks for (RFC 9110, section 13.1.1).
 * @returns undefined when any will do; the header itself when it is not to be understood
 */
function versionOf(header: string | undefined): unknown {
  if (header === undefined || header.trim() === '*') return undefined;
  if (header.includes(',')) return header; // refused: one resource has one version
  // A weak tag never matches here.
  const version = /^ *"(\d{1,15})" *$/.exec(header)?.[1];
  return version === undefined ? noVersion : Number(version);
}

/** Whether `If-None-Match` names this version (RFC 9110, section 13.1.2). */
export function matches(header: string | undefined, version: number): boolean {
  if (header === undefined) return false;
  if (header.trim() === '*') return true;
  return header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === `"${version}"`);
}
