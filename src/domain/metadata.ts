import * as z from 'zod';
import { maxFaults } from './errors.ts';
import { characterFault } from './text.ts';

/** Arbitrary client data on a resource: flat, small, and never null. */
export type Metadata = Readonly<Record<string, string | number | boolean>>;
/** A change to metadata: a null value removes its key. */
export type MetadataPatch = Readonly<Record<string, string | number | boolean | null>>;

/** What clients should know about numbers in metadata. */
export const numbersAreDoubles =
  'Numbers are doubles; one that no double holds exactly is refused: pass identifiers of more than 15 digits as strings.';

/** Metadata in a response. */
export const metadataShape = z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).meta({
  id: 'Metadata',
  description: `Arbitrary client data: a flat object, never null. ${numbersAreDoubles}`,
  examples: [{ orderId: 1042 }],
});

export const maxKeys = 50;
const maxBytes = 8 * 1024;

interface EntryFault {
  readonly path: readonly string[];
  readonly message: string;
}

function entryFaults(input: unknown, nullable: boolean): EntryFault[] {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    return [{ path: [], message: 'must be an object' }];
  }
  const faults: EntryFault[] = [];
  for (const key in input) {
    if (!Object.hasOwn(input, key)) continue;
    if (faults.length >= maxFaults) break;
    const value = (input as Record<string, unknown>)[key];
    const keyFault = key === '__proto__' ? 'is not a key that can be used' : characterFault(key);
    if (keyFault !== undefined) faults.push({ path: [key], message: keyFault });
    if (typeof value === 'string') {
      const fault = characterFault(value);
      if (fault !== undefined) faults.push({ path: [key], message: fault });
    } else if (typeof value === 'number') {
      if (!Number.isFinite(value)) faults.push({ path: [key], message: 'must be a finite number' });
    } else if (typeof value === 'symbol') {
      // An inexact number: see `numberFrom`.
      faults.push({ path: [key], message: 'is a number that a double cannot hold exactly; pass it as a string' });
    } else if (typeof value !== 'boolean' && !(nullable && value === null)) {
      faults.push({
        path: [key],
        message: `must be a string, a number or a boolean${nullable ? ', or null to remove it' : ''}`,
      });
    }
  }
  return faults;
}

/** What is wrong with the size of metadata, or undefined. */
export function metadataSizeFault(metadata: Metadata): string | undefined {
  const keys = Object.keys(metadata).length;
  if (keys > maxKeys) return `must have at most ${maxKeys} keys`;
  if (keys > 0 && Buffer.byteLength(JSON.stringify(metadata)) > maxBytes)
    return `must be at most ${maxBytes} bytes of JSON`;
  return undefined;
}

/**
 * What is wrong with the size of a patch itself, or undefined. All that it sets ends up in the result, and it need not
 * remove more keys than metadata can have.
 */
function patchSizeFault(patch: MetadataPatch): string | undefined {
  const set = mergeMetadata({}, patch);
  const removed = Object.keys(patch).length - Object.keys(set).length;
  return removed > maxKeys ? `must remove at most ${maxKeys} keys` : metadataSizeFault(set);
}

function metadataSchema<T extends MetadataPatch>(nullable: boolean, sizeFault: (metadata: T) => string | undefined) {
  return z
    .unknown()
    .transform((input, context): T => {
      if (input === null) return {} as T;
      const faults = entryFaults(input, nullable);
      if (faults.length === 0) {
        const fault = sizeFault(input as T);
        if (fault !== undefined) faults.push({ path: [], message: fault });
      }
      for (const { path, message } of faults) context.issues.push({ code: 'custom', path: [...path], message, input });
      return input as T;
    })
    .meta({
      type: ['object', 'null'],
      additionalProperties: { type: ['string', 'number', 'boolean', ...(nullable ? ['null'] : [])] },
      maxProperties: nullable ? 2 * maxKeys : maxKeys,
      examples: [{ orderId: 1042 }],
    });
}

export const metadataInput = metadataSchema<Metadata>(false, metadataSizeFault);
export const metadataPatchInput = metadataSchema<MetadataPatch>(true, patchSizeFault);

/** Merges a patch into metadata; a patch of null removes everything. */
export function mergeMetadata(current: Metadata, patch: MetadataPatch | null): Metadata {
  if (patch === null) return {};
  const merged: Record<string, string | number | boolean> = { ...current };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else merged[key] = value;
  }
  return merged;
}
