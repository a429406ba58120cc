import { getTableColumns, type Table } from 'drizzle-orm';
import type { StoredConversation } from '../../domain/conversation.ts';
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

// The first half of writing in bulk: what is to be added is turned into rows. That is a good part of the work and needs
// no database, so another thread than the one that writes can do it. Rows cost little to send from one to the other.

/** Values in the order of a table's columns. */
export type Row = readonly unknown[];

/** Rows of one table. All their values are in one list: so it costs least to send them from one thread to another. */
export interface RowList {
  readonly count: number;
  readonly values: Row;
}

/** What is to be added to an account at once. */
export interface BulkRows {
  readonly accountId: string;
  /** How many of the conversations have each status, and how many leads there are. */
  readonly totals: Readonly<Record<Status | 'leads', number>>;
  /** Their keys begin at 0 in each part. */
  readonly conversations: RowList;
  /** All of these conversations, with those keys. */
  readonly messages: RowList;
  readonly leads: RowList;
  /** In the order in which the log is to have them, from 0. They may be of conversations that were added before. */
  readonly events: RowList;
  /** By quarter hours, which may be any. */
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
 * Makes what brings values into the order of a table's columns. It is compiled from the columns' names: a literal is
 * several times as fast as looking for one value after the other by its name.
 */
function columnOrderer(table: Table): (values: object) => Row {
  const names = Object.keys(getTableColumns(table));
  const literal = `[${names.map((name) => `values.${name} ?? null`).join(', ')}]`;
  return new Function('values', `return ${literal};`) as (values: object) => Row;
}
