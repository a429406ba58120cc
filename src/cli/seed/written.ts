import type { BulkRows } from '../../storage/sqlite/bulk-rows.ts';

/** How many rows have been written. */
export interface Written {
  readonly conversations: number;
  readonly messages: number;
  readonly leads: number;
  readonly events: number;
}

export const nothing: Written = { conversations: 0, messages: 0, leads: 0, events: 0 };

export function withMore(written: Written, rows: BulkRows): Written {
  return {
    conversations: written.conversations + rows.conversations.count,
    messages: written.messages + rows.messages.count,
    leads: written.leads + rows.leads.count,
    events: written.events + rows.events.count,
  };
}
