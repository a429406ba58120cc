import type { IncomingMessage } from 'node:http';
import { tagsOf } from '../access/entity-tags.ts';
import { type Fault, pointer } from '../domain/errors.ts';
import type { Route } from './routes.ts';

/** Fields of an operation's input that REST has in headers, because HTTP has a place for them. */
export const fieldsInHeaders: ReadonlyMap<string, 'Idempotency-Key' | 'If-Match'> = new Map([
  ['idempotencyKey', 'Idempotency-Key'],
  ['expectedVersion', 'If-Match'],
]);

/**
 * What of an operation's input lies in the headers of its request, and what is wrong with it. An operation that does not
 * know the field says so: what was asked for must not be passed over. Only an `Idempotency-Key` with PATCH or DELETE is:
 * clients may send one with all that they change, and these do once what they do, without one.
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
    const version = versionsOf(headers['if-match']);
    if (version === undefined) {
      const detail = 'must hold tags, as `ETag` gave them, or a star';
      faults.push({ pointer: pointer(['expectedVersion']), header: 'If-Match', detail });
    } else {
      input['expectedVersion'] = version;
    }
  }
  return { input, faults };
}

/** The header that a field came in, of those whose headers hold it. */
export function headerOf(field: string, inHeaders: object): string | undefined {
  return Object.hasOwn(inHeaders, field) ? (fieldsInHeaders.get(field) ?? 'Last-Event-ID') : undefined;
}

/** No version: what a tag that this service has not made is compared with. */
const noVersion = 0;

/**
 * The version that `If-Match` asks for, or several (RFC 9110, section 13.1.1).
 * @returns null when any will do; undefined when it names no tag
 */
function versionsOf(header: string): number | readonly number[] | null | undefined {
  const tags = tagsOf(header);
  if (tags === '*') return null;
  const versions = tags?.map(({ isWeak, value }) =>
    // A weak tag never matches here.
    !isWeak && /^[1-9]\d{0,14}$/.test(value) ? Number(value) : noVersion,
  );
  return versions === undefined || versions.length > 1 ? versions : versions[0];
}
