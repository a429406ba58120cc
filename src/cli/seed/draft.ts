import {
  applyChanges,
  type ConversationChanges,
  type ConversationInput,
  changeEvents,
  newConversation,
  startingEvents,
} from '../../domain/conversation-changes.ts';
import type { StoredConversation } from '../../domain/conversation-record.ts';
import type { NewEvent } from '../../domain/events.ts';
import { happeningsOf, quarterOf } from '../../domain/happenings.ts';
import type { Ids } from '../../domain/ids.ts';
import { type LeadInput, leadEvent, newLead } from '../../domain/leads.ts';
import { addMessage, type Message, type MessageDraft, messageEvents } from '../../domain/messages.ts';
import { type BulkRows, conversationRow, leadRow, messageRow, Rows } from '../../storage/sqlite/bulk-rows.ts';
import type { Step } from './story.ts';
import type { Tally } from './tally.ts';

export interface DraftOptions {
  readonly accountId: string;
  readonly ids: Ids;
  /** Earlier events are left out of the log, whose retention they exceed. */
  readonly eventsFromMs: number;
}

/** An event, and when it happened. */
export interface DatedEvent {
  readonly atMs: number;
  readonly event: NewEvent;
}

/** A conversation that is being written, as of the latest step. */
interface Underway {
  conversation: StoredConversation;
  readonly messages: Message[];
  converted: boolean;
}

interface Moment {
  readonly ids: Ids;
  readonly now: number;
}

/** Turns stories into the rows that the operations would have written, by the same rules of the domain. */
export class Draft {
  readonly #options: DraftOptions;
  readonly #totals = { active: 0, pending: 0, closed: 0, leads: 0 };
  readonly #conversations = new Rows();
  readonly #messages = new Rows();
  readonly #leads = new Rows();
  readonly #tally: Tally;
  readonly events: DatedEvent[] = [];

  /** @param tally counts what happens, across drafts */
  constructor(options: DraftOptions, tally: Tally) {
    this.#options = options;
    this.#tally = tally;
  }

  get isEmpty(): boolean {
    return this.#conversations.count + this.#leads.count === 0;
  }

  /**
   * The rows of the stories added so far.
   * @param due the events and counts to write with them, which may be of earlier drafts
   */
  rows(due: Pick<BulkRows, 'events' | 'happenings'>): BulkRows {
    return {
      accountId: this.#options.accountId,
      totals: this.#totals,
      conversations: this.#conversations,
      messages: this.#messages,
      leads: this.#leads,
      ...due,
    };
  }

  addStory(steps: Iterable<Step>): void {
    let underway: Underway | undefined;
    for (const { atMs, action } of steps) {
      const moment = { ids: this.#options.ids, now: atMs };
      if (action.kind === 'start') underway = this.#start(action.input, moment);
      else if (action.kind === 'lead') this.#capture(underway, action.input, moment);
      else if (underway === undefined) throw new Error('A story must begin with its start');
      else if (action.kind === 'message') this.#send(underway, action.draft, moment);
      else this.#change(underway, action.changes, moment);
    }
    if (underway === undefined) return;
    const { conversation, messages, converted } = underway;
    this.#totals[conversation.status]++;
    const key = this.#conversations.count;
    this.#conversations.add(conversationRow(this.#options.accountId, conversation, key, converted));
    for (const message of messages) this.#messages.add(messageRow(key, message));
  }

  #start(input: ConversationInput, moment: Moment): Underway {
    const { conversation, message } = newConversation(input, moment);
    this.#tally.add(quarterOf(moment.now), happeningsOf(undefined, conversation, message));
    this.#log(moment, () => startingEvents(conversation, message, moment));
    return { conversation, messages: message === undefined ? [] : [message], converted: false };
  }

  #send(underway: Underway, draft: MessageDraft, moment: Moment): void {
    const { conversation: previous } = underway;
    const { message, conversation } = addMessage(previous, draft, moment);
    const next = { ...conversation, version: previous.version + 1 };
    this.#tally.add(quarterOf(moment.now), happeningsOf(previous, next, message));
    this.#log(moment, () => messageEvents(message, next, moment));
    underway.conversation = next;
    underway.messages.push(message);
  }

  #change(underway: Underway, changes: ConversationChanges, moment: Moment): void {
    const { conversation: previous } = underway;
    const next = applyChanges(previous, changes, moment.now);
    this.#tally.add(quarterOf(moment.now), happeningsOf(previous, next));
    this.#log(moment, () => changeEvents(previous, next, moment));
    underway.conversation = next;
  }

  /** @param underway the conversation in which the lead was captured, if any */
  #capture(underway: Underway | undefined, input: Omit<LeadInput, 'conversationId'>, moment: Moment): void {
    const conversation = underway?.conversation ?? null;
    const lead = newLead({ ...input, conversationId: conversation?.id ?? null }, moment);
    this.#tally.add(quarterOf(moment.now), { leads: 1 });
    if (underway?.converted === false) {
      this.#tally.add(quarterOf(Date.parse(underway.conversation.createdAt)), { conversationsConverted: 1 });
      underway.converted = true;
    }
    this.#log(moment, () => [leadEvent(lead, conversation, moment)]);
    this.#totals.leads++;
    this.#leads.add(leadRow(this.#options.accountId, lead));
  }

  #log({ now }: Moment, eventsOf: () => readonly NewEvent[]): void {
    if (now < this.#options.eventsFromMs) return;
    for (const event of eventsOf()) this.events.push({ atMs: now, event });
  }
}
