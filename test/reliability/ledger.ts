import { expect } from 'vitest';
import { type ConversationState, ExpectedFigures, type Sender, type Status } from '../support/expected-figures.ts';

// What clients have asked of servers that are killed, and how they were answered: what a database file must hold, and all
// that it may hold.

/** A conversation as its clients know it. */
export interface TrackedConversation extends ConversationState {
  readonly id: string;
  readonly externalId: string;
  subject: string | null;
  version: number;
  /** By their sequences. */
  readonly messages: Map<number, { readonly id: string; readonly sender: Sender; readonly content: string }>;
  readonly leads: Set<string>;
  /** How many requests about it nobody knows the end of. */
  busy: number;
  isErased: boolean;
}

/** A request that changes something. What it makes bears its number, so that it can be found in a file. */
export interface Write {
  readonly number: number;
  readonly kind: 'create' | 'message' | 'subject' | 'status' | 'lead' | 'delete';
  /** What it is about, if that is there already. */
  readonly conversation?: TrackedConversation | undefined;
  readonly sender?: Sender | undefined;
  readonly to?: Status | undefined;
  /** The key under which it is repeated until it is answered. Without one it is sent once. */
  readonly key?: string | undefined;
  /** Where it was sent to last. */
  url?: string;
  /** How often it was sent. */
  tries: number;
  /** How often it had been sent when a file was asked what had become of that. */
  settledTries: number;
  /** Whether its connection was broken before an answer came. */
  isCutOff: boolean;
  /** Whether its client has no hope of an answer any more. */
  isGivenUp: boolean;
}

/** What a write has done, as its answer tells or a file shows. */
export interface Effect {
  /** Of what it has made or changed. */
  readonly id: string;
  readonly atMs: number;
  readonly version?: number;
  readonly sequence?: number;
  /** Of the message that a conversation was started with. */
  readonly messageId?: string;
}

export const marks = {
  content: (number: number) => `message ${number}`,
  subject: (number: number) => `subject ${number}`,
  externalId: (number: number) => `conversation-${number}`,
  phone: (number: number) => `+${number}`,
};

/** Counts the events of each type and conversation. */
export class Ordinals {
  readonly #counts = new Map<string, number>();

  next(type: string, conversationId: string | null): number {
    const key = `${type} ${conversationId}`;
    const count = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, count);
    return count;
  }
}

export class Ledger {
  readonly figures = new ExpectedFigures();
  readonly conversations = new Map<string, TrackedConversation>();
  readonly leads = new Set<string>();
  /** How many writes were answered. */
  acknowledged = 0;
  /** How many a file has shown to be done before they were answered, if ever they were. */
  foundDone = 0;
  /** How many events there have to be. */
  events = 0;
  /** What changed since the file was looked at: the conversations, the names of the events, and the writes under keys. */
  changed = new Set<TrackedConversation>();
  expectedEvents = new Set<string>();
  kept: { readonly write: Write; readonly effect: Effect }[] = [];
  /** Those that were not answered yet. */
  readonly open = new Set<Write>();
  readonly #ordinals = new Ordinals();
  /** What a file shows of these, before they are answered. */
  readonly #found = new Map<Write, Effect>();

  begin(write: Write): void {
    this.open.add(write);
    if (write.conversation !== undefined) write.conversation.busy++;
  }

  /** Takes down what was answered. If a file was asked before, this must be what it has shown. */
  acknowledge(write: Write, effect: Effect, isReplay: boolean): void {
    this.acknowledged++;
    const found = this.#found.get(write);
    if (found !== undefined) expect(effect, `the answer to ${nameOf(write)}`).toEqual(found);
    else if (write.settledTries === write.tries) throw new Error(`${nameOf(write)} was acknowledged, and is lost`);
    else this.#apply(write, effect);
    if (write.tries === 1 && isReplay) throw new Error(`${nameOf(write)} is new, and was answered as if it were not`);
    this.#close(write);
  }

  /** Lets go of a write that is not repeated and will not be answered, once it is known what it has done. */
  giveUp(write: Write): void {
    write.isGivenUp = true;
    if (write.settledTries === write.tries) this.#close(write);
  }

  /**
   * Takes down what became of requests whose server was killed. An answer may be on its way still.
   * @param find looks for what a write has done
   * @returns those that have done something
   */
  settle(find: (write: Write) => Effect | undefined, which: (write: Write) => boolean = () => true): Write[] {
    const done: Write[] = [];
    for (const write of [...this.open].filter(which)) {
      write.settledTries = write.tries;
      const effect = this.#found.has(write) ? undefined : find(write);
      if (effect !== undefined) {
        done.push(write);
        this.foundDone++;
        this.#apply(write, effect);
        this.#found.set(write, effect);
        this.#hold(write, effect, 1);
      }
      if (write.isGivenUp) this.#close(write);
    }
    return done;
  }

  /** What a write that was not answered yet has done all the same. */
  foundOf(write: Write): Effect | undefined {
    return this.#found.get(write);
  }

  /** How many of the open conversations have a status. */
  count(status: Status): number {
    return [...this.conversations.values()].filter((conversation) => conversation.status === status).length;
  }

  #close(write: Write): void {
    this.open.delete(write);
    const found = this.#found.get(write);
    if (found !== undefined) this.#hold(write, found, -1);
    this.#found.delete(write);
    if (write.conversation !== undefined) write.conversation.busy--;
  }

  /** Leaves a conversation alone whose start a client repeats still: erased meanwhile, it would rightly be NOT_FOUND. */
  #hold({ kind }: Write, { id }: Effect, by: 1 | -1): void {
    const started = kind === 'create' ? this.conversations.get(id) : undefined;
    if (started !== undefined) started.busy += by;
  }

  #apply(write: Write, effect: Effect): void {
    const { conversation, kind } = write;
    if (write.key !== undefined) this.kept.push({ write, effect });
    if (kind === 'create') this.#started(write, effect);
    else if (kind === 'lead') this.#captured(conversation, effect);
    else if (conversation === undefined) throw new Error(`${kind} is about nothing`);
    else if (kind === 'delete') this.#erased(conversation);
    else this.#changed(conversation, write, effect);
  }

  #started({ number, sender }: Write, { id, atMs, messageId }: Effect): void {
    const conversation: TrackedConversation = {
      ...this.figures.conversationStarted(sender, atMs),
      id,
      externalId: marks.externalId(number),
      subject: marks.subject(number),
      version: 1,
      messages: new Map(),
      leads: new Set(),
      busy: 0,
      isErased: false,
    };
    this.conversations.set(id, conversation);
    this.changed.add(conversation);
    this.#expectEvent('conversation.started', conversation, id);
    if (sender !== undefined) this.#said(conversation, number, sender, { id: messageId ?? '', sequence: 1 });
  }

  #changed(
    conversation: TrackedConversation,
    { kind, number, sender, to }: Write,
    { id, atMs, sequence = 0, version }: Effect,
  ): void {
    conversation.version++;
    this.changed.add(conversation);
    const { status } = conversation;
    if (kind === 'message' && sender !== undefined) {
      this.figures.messageSent(conversation, sender, atMs);
      if (conversation.status !== status) this.#expectStatus(conversation, status);
      this.#said(conversation, number, sender, { id, sequence });
      return;
    }
    expect(version, `the version after ${kind} of ${conversation.id}`).toBe(conversation.version);
    if (kind === 'subject') {
      conversation.subject = marks.subject(number);
      this.#expectNext('conversation.updated', conversation);
    }
    if (to === undefined) return;
    this.figures.statusChanged(conversation, to, atMs);
    this.#expectStatus(conversation, status);
  }

  #said(
    conversation: TrackedConversation,
    number: number,
    sender: Sender,
    { id, sequence }: { id: string; sequence: number },
  ): void {
    expect(conversation.messages.get(sequence), `${id} is the only one with its sequence`).toBeUndefined();
    conversation.messages.set(sequence, { id, sender, content: marks.content(number) });
    this.#expectEvent(sender === 'visitor' ? 'message.received' : 'message.sent', conversation, `${id} ${sequence}`);
  }

  #captured(conversation: TrackedConversation | undefined, { id, atMs }: Effect): void {
    this.figures.leadCaptured(conversation, atMs);
    this.leads.add(id);
    this.#expectEvent('lead.captured', conversation, id);
    if (conversation === undefined) return;
    conversation.leads.add(id);
    this.changed.add(conversation);
  }

  #erased(conversation: TrackedConversation): void {
    conversation.isErased = true;
    this.conversations.delete(conversation.id);
    for (const id of conversation.leads) this.leads.delete(id);
    this.changed.add(conversation);
    this.#expectEvent('conversation.deleted', conversation, '');
  }

  /** @param before its status before the change */
  #expectStatus(conversation: TrackedConversation, before: Status): void {
    if (conversation.status === 'closed') {
      this.#expectEvent('conversation.closed', conversation, `${conversation.version}`);
    } else {
      this.#expectNext(before === 'closed' ? 'conversation.reopened' : 'conversation.updated', conversation);
    }
  }

  /** Expects one more event of a type, which nothing but its place among them tells from the others. */
  #expectNext(type: string, conversation: TrackedConversation): void {
    this.#expectEvent(type, conversation, `${this.#ordinals.next(type, conversation.id)}`);
  }

  #expectEvent(type: string, conversation: TrackedConversation | undefined, what: string): void {
    this.events++;
    this.expectedEvents.add(eventName(type, conversation?.id ?? null, what));
  }
}

export function eventName(type: string, conversationId: string | null, what: string): string {
  return `${type} ${conversationId} ${what}`;
}

export function nameOf({ kind, number, key }: Write): string {
  return `${kind} ${number}${key === undefined ? '' : ' under a key'}`;
}
