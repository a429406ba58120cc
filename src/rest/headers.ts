import type { IncomingMessage } from 'node:http';
import { type Fault, pointer } from '../domain/errors.ts';
import type { Route } from './routes.ts';

/** Fields of an operation's input that REST has in headers, because HTTP has a place for them. */
export const fieldsInHeaders: ReadonlyMap<string, 'Idempotency-Key' | 'If-Match'> = new Map([
  ['idempotencyKey', 'Idempotency-Key'],
  ['expectedVersion', 'If-Match'],
]);

/**
 * What of an operation's input lies in the headers of its request, and what is wrong with it. An operation
 * that does not know the field says so: what was asked for must not be passed over.
 */
export function inputOfHeaders(
  { headers }: IncomingMessage,
  { method, streams }: Route,
): { input: object; faults: Fault[] } {
  const lastEventId = headers['last-event-id'];
  const key = headers['idempotency-key'];
  const input: Record<string, unknown> = {};
  const faults: Fault[] = [];
  // Where a reader goes on that was cut off: what it has seen is newer than what it began with.
  if (streams && typeof lastEventId === 'string' && lastEventId !== '') input['after'] = lastEventId;
  if (method === 'POST' && key !== undefined) input['idempotencyKey'] = key;
  if (method !== 'GET' && headers['if-match'] !== undefined) {
    const version = versionOf(headers['if-match']);
    if (version === undefined) {
      const detail = 'the header `If-Match` must hold one tag, as `ETag` gave it, or a star';
      faults.push({ pointer: pointer(['expectedVersion']), detail });
    } else {
      input['expectedVersion'] = version;
    }
  }
  return { input, faults };
}

/** No version: what a tag that this service has not made is compared with. */
const noVersion = 0;

/**
 * The version that `If-Match` asks for (RFC 9110, section 13.1.1).
 * @returns null when any will do; undefined when it is not one tag: one resource has one version
 */
function versionOf(header: string): number | null | undefined {
  const tag = header.trim();
  if (tag === '*') return null;
  if (!/^(W\/)?"[\x21\x23-\x7e\x80-\xff]*"$/.test(tag)) return undefined;
  // A weak tag never matches here.
  const version = /^"([1-9]\d{0,14})"$/.exec(tag)?.[1];
  return version === undefined ? noVersion : Number(version);
}

/** Whether `If-None-Match` names this version (RFC 9110, section 13.1.2). */
export function matches(header: string | undefined, version: number): boolean {
  if (header === undefined) return false;
  if (header.trim() === '*') return true;
  return header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === `"${version}"`);
}
