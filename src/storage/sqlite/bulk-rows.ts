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

/** What is to be added to an account at once. */
export interface BulkRows {
  readonly accountId: string;
  /** How many of the conversations have each status, and how many leads there are. */
  readonly totals: Readonly<Record<Status | 'leads', number>>;
  readonly conversations: readonly ConversationRows[];
  readonly leads: readonly Row[];
  /** In the order in which the log is to have them. They may be of conversations that were added before. */
  readonly events: readonly Row[];
  /** By quarter hours, which may be any. */
  readonly happenings: ReadonlyMap<number, HappeningSums>;
}

/** A conversation and all its messages, which lack its key: it gets one when it is added. */
export interface ConversationRows {
  readonly values: Row;
  readonly messages: readonly Row[];
}

/** @param converted whether a lead was captured in it */
export function conversationRows(
  accountId: string,
  conversation: StoredConversation,
  itsMessages: readonly Message[],
  converted: boolean,
): ConversationRows {
  return {
    values: inOrderOfConversations({ ...conversationValues(accountId, conversation), converted: Number(converted) }),
    messages: itsMessages.map((message) => inOrderOfMessages(messageValues(message))),
  };
}

export function leadRow(accountId: string, lead: Lead): Row {
  return inOrderOfLeads(leadValues(accountId, lead));
}

/** An event without its sequence, which the log gives it. */
export function eventRow(accountId: string, event: NewEvent): Row {
  const { data, timestamp } = event;
  return inOrderOfEvents({ ...event, accountId, timestamp: toMs(timestamp), data: JSON.stringify(data) });
}

const inOrderOfConversations = inOrderOf(conversations);
const inOrderOfMessages = inOrderOf(messages, 'conversationKey');
const inOrderOfLeads = inOrderOf(leads);
const inOrderOfEvents = inOrderOf(events, 'sequence');

/**
 * Makes what brings values into the order of a table's columns, but for one that comes later. It is compiled from the
 * columns' names: a literal is several times as fast as looking for one value after the other by its name.
 */
function inOrderOf(table: Table, later?: string): (values: object) => Row {
  const names = Object.keys(getTableColumns(table)).filter((name) => name !== later);
  const literal = `[${names.map((name) => `values.${name} ?? null`).join(', ')}]`;
  return new Function('values', `return ${literal};`) as (values: object) => Row;
}
