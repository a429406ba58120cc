import { getTableColumns, type Table } from 'drizzle-orm';
import type { StoredConversation } from '../../domain/conversation-record.ts';
import type { NewEvent } from '../../domain/events.ts';
import type { HappeningSums } from '../../domain/happenings.ts';
import type { Lead } from '../../domain/leads.ts';
import type { Status } from '../../domain/lifecycle.ts';
import type { Message } from '../../domain/messages.ts';
import { conversationValues } from './conversations.ts';
import { leadValues } from './leads.ts';
import { messageValues } from './messages.ts';
import { toMs } from './rows.ts';
import { conversations, events, leads, messages } from './tables.ts';

// The first half of bulk loading: turning data into rows. That is a good part of the work and needs no database, so it
// can be done in another thread than the writing. Rows are cheap to send from one thread to another.

/** Values in the order of a table's columns. */
export type Row = readonly unknown[];

/** Rows of one table. Their values are in one flat list, which is cheapest to send from one thread to another. */
export interface RowList {
  readonly count: number;
  readonly values: Row;
}

/** A batch: what one transaction adds to an account. */
export interface BulkRows {
  readonly accountId: string;
  /** The number of conversations by status, and of leads. */
  readonly totals: Readonly<Record<Status | 'leads', number>>;
  /** Their keys count from 0 in each batch. */
  readonly conversations: RowList;
  /** All messages of these conversations, which they refer to by those keys. */
  readonly messages: RowList;
  readonly leads: RowList;
  /** In the order of the log, with sequences from 0. They may be about conversations of earlier batches. */
  readonly events: RowList;
  /** By quarter hour. Any quarter hour will do, also one that has counters already. */
  readonly happenings: ReadonlyMap<number, HappeningSums>;
}

export class Rows implements RowList {
  count = 0;
  readonly values: unknown[] = [];

  add(row: Row): void {
    this.count++;
    this.values.push(...row);
  }
}

/** @param converted whether a lead was captured in it */
export function conversationRow(
  accountId: string,
  conversation: StoredConversation,
  key: number,
  converted: boolean,
): Row {
  return orderConversation({
    ...conversationValues(accountId, conversation),
    key,
    converted: Number(converted),
  });
}

export function messageRow(conversationKey: number, message: Message): Row {
  return orderMessage({ ...messageValues(message), conversationKey });
}

export function leadRow(accountId: string, lead: Lead): Row {
  return orderLead(leadValues(accountId, lead));
}

export function eventRow(accountId: string, event: NewEvent, sequence: number): Row {
  const { data, timestamp } = event;
  return orderEvent({ ...event, accountId, sequence, timestamp: toMs(timestamp), data: JSON.stringify(data) });
}

const orderConversation = columnOrderer(conversations);
const orderMessage = columnOrderer(messages);
const orderLead = columnOrderer(leads);
const orderEvent = columnOrderer(events);

/**
 * Returns a function that puts values into the order of a table's columns. It is compiled from the columns' names: an
 * array literal is several times as fast as looking up one value after another by its name.
 */
function columnOrderer(table: Table): (values: object) => Row {
  const names = Object.keys(getTableColumns(table));
  const literal = `[${names.map((name) => `values.${name} ?? null`).join(', ')}]`;
  return new Function('values', `return ${literal};`) as (values: object) => Row;
}
