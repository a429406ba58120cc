import Database from 'better-sqlite3';
import type { Client, Json } from './client.ts';

export interface LoggedEvent {
  readonly sequence: number;
  readonly type: string;
  readonly data: Record<string, unknown>;
}

/** An account's event log as it lies in the file. */
export function eventsOf(databasePath: string, accountId: string): LoggedEvent[] {
  const database = new Database(databasePath, { readonly: true });
  try {
    const rows = database
      .prepare('SELECT sequence, type, data FROM events WHERE account_id = ? ORDER BY sequence')
      .all(accountId) as { sequence: number; type: string; data: string }[];
    return rows.map((row) => ({ ...row, data: JSON.parse(row.data) as Record<string, unknown> }));
  } finally {
    database.close();
  }
}

/** An account's event log as it is read page by page, all of it. */
export async function readLog(client: Client): Promise<Json[]> {
  const events: Json[] = [];
  for (let after = ''; ; ) {
    const { body } = await client.rest('GET', `/events?limit=100${after}`);
    events.push(...body.data);
    if (!body.pagination.hasMore) return events;
    after = `&after=${encodeURIComponent(body.pagination.nextCursor)}`;
  }
}
