import Database from 'better-sqlite3';
import { expect } from 'vitest';

export type Row = Record<string, unknown>;

/** All that lies in the file of an account, table by table, in the order in which it was made. */
export function rowsOf(databasePath: string, accountId: string): Record<string, Row[]> {
  const database = new Database(databasePath, { readonly: true });
  const all = (sql: string) => database.prepare(sql).all(accountId) as Row[];
  const rows = {
    totals: all('SELECT * FROM account_totals WHERE account_id = ?'),
    conversations: all('SELECT * FROM conversations WHERE account_id = ? ORDER BY id'),
    messages: all(`SELECT conversations.id AS conversation, messages.* FROM conversations JOIN messages
      ON conversation_key = conversations.key WHERE account_id = ? ORDER BY messages.id`),
    leads: all(`SELECT * FROM leads WHERE account_id = ? AND NOT EXISTS (
      SELECT 1 FROM erasing WHERE erasing.conversation_id = leads.conversation_id) ORDER BY id`),
    events: all('SELECT * FROM events WHERE account_id = ? ORDER BY sequence'),
    counters: all('SELECT * FROM analytics_counters WHERE account_id = ? ORDER BY quarter'),
    histograms: all(`SELECT account_id, name, width, quarter, hex(counts) AS counts FROM analytics_histograms
      WHERE account_id = ? ORDER BY name, width, quarter`),
    deliveries: all(`SELECT deliveries.* FROM deliveries JOIN webhooks ON webhooks.key = webhook_key
      WHERE account_id = ?`),
  };
  database.close();
  return rows;
}

/** What is counted beside the rows is what they add up to, and sequences have no gaps. */
export function expectSound({ totals, conversations, messages, leads, events }: Record<string, Row[]>): void {
  const having = (status: string) => conversations?.filter((row) => row['status'] === status).length;
  expect(totals).toMatchObject([
    {
      active: having('active'),
      pending: having('pending'),
      closed: having('closed'),
      leads: leads?.length,
      event_sequence: events?.length,
    },
  ]);
  const counts = Map.groupBy(messages as Row[], ({ conversation }) => conversation);
  const withLead = new Set(leads?.map(({ conversation_id }) => conversation_id));
  for (const { id, message_count, content_bytes, converted } of conversations as Row[]) {
    const its = counts.get(id) ?? [];
    // Those that come at the same time can have their ids and their places in different orders.
    const sequences = its.map(({ sequence }) => Number(sequence)).sort((a, b) => a - b);
    expect(sequences).toEqual(its.map((_, index) => index + 1));
    expect(its.length).toBe(message_count);
    const bytesOf = ({ content, author, metadata }: Row) =>
      Buffer.byteLength(`${content}${author ?? ''}${metadata === '{}' ? '' : metadata}`);
    expect(its.reduce((sum, message) => sum + bytesOf(message), 0)).toBe(content_bytes);
    expect(withLead.has(id)).toBe(converted === 1);
  }
  expect(events?.map(({ sequence }) => sequence)).toEqual(events?.map((_, index) => index + 1));
}
