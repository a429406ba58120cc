import { comparableEmail } from '../../domain/text.ts';
import { type Timestamp, timestamp } from '../../domain/time.ts';

// Conversions between rows and the domain. A time is epoch milliseconds in rows, and RFC 3339 in the domain.

export function toTimestamp<T extends number | null>(epochMs: T): T extends number ? Timestamp : Timestamp | null {
  return (epochMs === null ? null : timestamp(epochMs)) as T extends number ? Timestamp : Timestamp | null;
}

export function toMs<T extends Timestamp | null>(time: T): T extends Timestamp ? number : number | null {
  return (time === null ? null : Date.parse(time)) as T extends Timestamp ? number : number | null;
}

declare const written: unique symbol;
/** The JSON of a value. */
export type Json<T> = string & { readonly [written]?: T };

export function toJson<T>(value: T): T extends null ? Json<NonNullable<T>> | null : Json<T> {
  return (value === null ? null : JSON.stringify(value)) as T extends null ? Json<NonNullable<T>> | null : Json<T>;
}

export function fromJson<T extends Json<unknown> | null>(json: T): T extends Json<infer Value> ? Value : null {
  return (json === null ? null : JSON.parse(json)) as T extends Json<infer Value> ? Value : null;
}

const ascii = /^[\0-\x7f]*$/;

/**
 * What has to be stored of an email address so that it can be compared: null for most, since SQL’s `lower` makes the same
 * of ASCII as `comparableEmail`.
 */
export function foldedEmail(email: string | null): string | null {
  return email === null || ascii.test(email) ? null : comparableEmail(email);
}

/** What a row that was found stands for; undefined if there was none. */
export function ifFound<Row, T>(row: Row | undefined, map: (row: Row) => T): T | undefined {
  return row === undefined ? undefined : map(row);
}

/** Puts what was found into the order of the requested ids; undefined where nothing was found. */
export function alignToIds<T extends { readonly id: string }>(
  ids: readonly string[],
  found: readonly T[],
): (T | undefined)[] {
  const byId = new Map(found.map((item) => [item.id, item]));
  return ids.map((id) => byId.get(id));
}
