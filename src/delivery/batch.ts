import type { LogEvent } from '../domain/events.ts';

/** The most events in a batch for a follower, and in the result of one read of the storage. */
export const batchSize = 100;
/** A batch ends with the event that brings its text to this length, in UTF-16 code units. */
const batchLength = 256 * 1024;

/** The first of these events, as many as fit into a batch: a parked follower holds its last batch in memory. */
export function firstBatch(events: readonly LogEvent[]): readonly LogEvent[] {
  let length = 0;
  const end = events.findIndex((event) => {
    const fits = length < batchLength;
    length += event.dataLength;
    return !fits;
  });
  return end === -1 ? events : events.slice(0, end);
}
