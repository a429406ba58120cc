import type { IncomingMessage } from 'node:http';
import type { Fault } from '../domain/errors.ts';
import { tagsOf } from '../http/entity-tags.ts';
import type { Route } from './routes.ts';

/** Fields of operation inputs that REST takes from standard headers. */
export const fieldsInHeaders: ReadonlyMap<string, 'Idempotency-Key' | 'If-Match'> = new Map([
  ['idempotencyKey', 'Idempotency-Key'],
  ['expectedVersion', 'If-Match'],
]);

/**
 * Reads the part of an operation's input that is in headers. A field that the operation does not have is refused by
 * it, not ignored. The exception is `Idempotency-Key` with PATCH and DELETE, which are idempotent anyway: some clients
 * send the key with every write.
 */
export function inputOfHeaders(
  { headers }: IncomingMessage,
  { method, streams }: Route,
): { input: object; faults: Fault[] } {
  const lastEventId = headers['last-event-id'];
  const key = headers['idempotency-key'];
  const input: Record<string, unknown> = {};
  const faults: Fault[] = [];
  // On reconnecting, the last event that was seen is newer than the `after` that the client started with.
  if (streams && typeof lastEventId === 'string' && lastEventId !== '') input['after'] = lastEventId;
  if (method === 'POST' && key !== undefined) input['idempotencyKey'] = key;
  if (method !== 'GET' && headers['if-match'] !== undefined) {
    const version = versionsOf(headers['if-match']);
    if (version === undefined) {
      const detail = 'must be `*` or a list of tags as in `ETag`';
      faults.push({ path: ['expectedVersion'], header: 'If-Match', detail });
    } else {
      input['expectedVersion'] = version;
    }
  }
  return { input, faults };
}

/** The name of the header that a field came from, or undefined if it did not come from a header. */
export function headerOf(field: string, inHeaders: object): string | undefined {
  return Object.hasOwn(inHeaders, field) ? (fieldsInHeaders.get(field) ?? 'Last-Event-ID') : undefined;
}

/** A version, and how often read positions have moved: those make nothing stale. */
const ownTag = /^[1-9]\d{0,14}(?:\.\d{1,15})?$/;

/** Matches no version: stands for a tag that this service has not issued. */
const noVersion = 0;

/**
 * Parses the version or versions of `If-Match` (RFC 9110, section 13.1.1).
 * @returns null for any version; undefined if the header is malformed
 */
function versionsOf(header: string): number | readonly number[] | null | undefined {
  const tags = tagsOf(header);
  if (tags === '*') return null;
  const versions = tags?.map(({ isWeak, value }) =>
    // `If-Match` uses the strong comparison, in which a weak tag never matches.
    !isWeak && ownTag.test(value) ? Number.parseInt(value, 10) : noVersion,
  );
  return versions === undefined || versions.length > 1 ? versions : versions[0];
}
