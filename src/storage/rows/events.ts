import { erasedJson, type StoredEvent } from '../../domain/events.ts';
import { toTimestamp } from './values.ts';

export interface EventRow extends Omit<StoredEvent, 'timestamp' | 'dataJson'> {
  readonly timestamp: number;
  /** JSON, as it is sent. Null while its conversation is being erased. */
  readonly data: string | null;
}

export function toEvent({ id, type, timestamp, conversationId, visitorHash, sequence, data }: EventRow): StoredEvent {
  const dataJson = data ?? erasedJson;
  return { id, type, timestamp: toTimestamp(timestamp), conversationId, visitorHash, sequence, dataJson };
}
