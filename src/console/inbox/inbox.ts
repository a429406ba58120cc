import { newKey } from '../../client/key.ts';
import { markRead, row as rowDocument, sendMessage } from '../documents.ts';
import type { LoggedEvent, Message, Row } from '../records.ts';
import type { Agent } from '../session.ts';
import { ask, type Context, codeOf } from './context.ts';
import type { Filter } from './filter.ts';
import { ConversationList } from './list.ts';
import { Search } from './search.ts';
import { type Changes, Thread } from './thread.ts';

/** What the agent has sent and the service has not confirmed. */
export interface Draft {
  /** Its `clientId` and its idempotency key: sent twice, it is there once. */
  readonly key: string;
  readonly conversationId: string;
  readonly content: string;
  /** Why it was not sent. */
  error: unknown;
}

/**
 * The inbox of an agent: a list of conversations or of what was searched for, and one conversation that is open. It is read
 * once, and then follows the events.
 */
export class Inbox {
  readonly list: ConversationList;
  readonly search: Search;
  readonly #context: Context;
  readonly #listeners = new Set<() => void>();
  /** What is typed, by conversation, so that it is not lost when another one is opened. */
  readonly #texts = new Map<string, string>();
  #drafts: readonly Draft[] = [];
  #sending: Promise<void> = Promise.resolve();
  #isMarking = false;
  /** Whether a message was seen while another one was being marked. */
  #hasSeenMore = false;
  /** What the service did not let it mark as read, since it was last heard of. */
  #notMarked = '';
  /** The last question about each conversation, until it is answered or an event tells more. */
  readonly #asking = new Map<string, object>();
  #stop: (() => void) | undefined;
  thread: Thread | undefined;

  /** @param before that of the agent's last session, with what was not sent there */
  constructor(context: Omit<Context, 'changed'>, before?: Inbox) {
    this.#context = { ...context, changed: () => this.#changed() };
    this.list = new ConversationList(this.#context);
    this.search = new Search(this.#context, this.list.filter);
    if (before === undefined) return;
    this.#texts = new Map(before.#texts);
    this.#drafts = before.#drafts;
  }

  get agent(): Agent {
    return this.#context.session.agent;
  }

  /** Whether the key has a scope. */
  may(scope: 'conversations:read' | 'conversations:write'): boolean {
    return this.#context.session.scopes.includes(scope);
  }

  /** @returns a function that ends it */
  listen(onChange: () => void): () => void {
    this.#listeners.add(onChange);
    return () => this.#listeners.delete(onChange);
  }

  /** Begins to follow the events, and reads the list. */
  async start(): Promise<void> {
    if (this.#stop !== undefined || !this.may('conversations:read')) return;
    const { live } = this.#context;
    this.#stop = live.listen(
      (event) => this.#fold(event),
      () => void this.reload(),
    );
    await this.list.load();
  }

  stop(): void {
    this.#stop?.();
    this.#stop = undefined;
    this.thread?.leave();
  }

  /** Reads all that is shown anew. */
  async reload(): Promise<void> {
    const { list, search, thread } = this;
    const isSearch = search.words !== '';
    await Promise.all([list.load(), isSearch && search.find(search.words, list.filter), thread && this.#load(thread)]);
  }

  /** Reads again what could not be read, once the service is back. */
  async retry(): Promise<void> {
    const { list, search, thread } = this;
    await Promise.all([
      list.error !== undefined && list.load(),
      search.error !== undefined && search.find(search.words, list.filter),
      thread?.error !== undefined && !thread.isLoaded && this.#load(thread),
    ]);
  }

  async filter(filter: Filter): Promise<void> {
    const shown = this.list.show(filter);
    await Promise.all([shown, this.search.words !== '' && this.search.find(this.search.words, filter)]);
  }

  async find(words: string): Promise<void> {
    await this.search.find(words, this.list.filter);
  }

  /** Opens a conversation, or none. */
  async open(id: string | undefined): Promise<void> {
    if (this.thread?.id === id) return;
    this.#notMarked = '';
    this.thread?.leave();
    this.thread = undefined;
    if (id !== undefined) {
      const row = this.list.find(id) ?? this.search.results.find((each) => each.row.id === id)?.row;
      this.thread = new Thread(this.#context, id, row);
      await this.#load(this.thread);
    } else this.#changed();
  }

  /** What was typed into the reply to a conversation. */
  textOf(id: string): string {
    return this.#texts.get(id) ?? '';
  }

  type(id: string, text: string): void {
    if (text === '') this.#texts.delete(id);
    else this.#texts.set(id, text);
    this.#changed();
  }

  /** What was sent into the open conversation and is not confirmed. */
  get drafts(): readonly Draft[] {
    const { thread } = this;
    const arrived = new Set(thread?.messages.map(({ clientId }) => clientId));
    return this.#drafts.filter(({ conversationId, key }) => conversationId === thread?.id && !arrived.has(key));
  }

  /** The conversations, beside the open one, with a message that was not sent. */
  get notSent(): readonly string[] {
    const failed = this.#drafts.filter(
      ({ error, conversationId }) => error !== undefined && conversationId !== this.thread?.id,
    );
    return [...new Set(failed.map(({ conversationId }) => conversationId))];
  }

  /** Whether anything was typed, or sent and not confirmed, that would be lost with the page. */
  get hasUnsent(): boolean {
    return this.#texts.size + this.#drafts.length > 0;
  }

  /** Sends what was typed into the open conversation. */
  send(): void {
    const { thread } = this;
    const content = thread && this.textOf(thread.id);
    if (thread === undefined || content === undefined || content.trim() === '') return;
    const draft = { key: newKey(), conversationId: thread.id, content, error: undefined };
    this.#drafts = [...this.#drafts, draft];
    this.#texts.delete(thread.id);
    this.resend(draft);
  }

  /** Sends a message again, after those that are being sent. */
  resend(draft: Draft): void {
    draft.error = undefined;
    this.#sending = this.#sending.then(() => this.#send(draft));
    this.#changed();
  }

  discard(draft: Draft): void {
    this.#drafts = this.#drafts.filter((each) => each !== draft);
    this.#changed();
  }

  /** Changes the open conversation. @returns whether that was done */
  async change(changes: Changes, isConditional = false): Promise<boolean> {
    const { thread } = this;
    if (thread === undefined) return false;
    const row = await thread.change(changes, isConditional);
    const known = row ?? thread.row;
    if (known !== undefined) this.#putAnswer(known);
    this.#changed();
    return row !== undefined;
  }

  /** The agent has seen the last message of the open conversation. */
  async seen(): Promise<void> {
    const { thread } = this;
    const sequence = thread?.messages.at(-1)?.sequence ?? 0;
    const row = thread?.row;
    if (thread === undefined || row === undefined || !this.may('conversations:write')) return;
    this.#hasSeenMore = this.#isMarking;
    if (this.#isMarking) return;
    const isRead = row.unreadCount !== null && row.messageCount - row.unreadCount >= sequence;
    const mark = `${thread.id} ${sequence}`;
    if (isRead || sequence === 0 || mark === this.#notMarked) return;
    this.#isMarking = true;
    const input = { conversationId: thread.id, reader: this.#context.session.agent.id, sequence };
    try {
      await ask(this.#context, markRead, { input }, { isRepeatable: true });
      this.#read(thread.id, sequence);
    } catch {
      this.#notMarked = mark;
    } finally {
      this.#isMarking = false;
    }
    this.#changed();
    if (this.#hasSeenMore) await this.seen();
  }

  /** Never rejects. */
  async #send(draft: Draft): Promise<void> {
    if (!this.#drafts.includes(draft)) return; // an event has confirmed it, or it was discarded
    const { agent } = this.#context.session;
    const { key, conversationId, content } = draft;
    const input = {
      conversationId,
      content,
      sender: 'AGENT',
      author: { id: agent.id, name: agent.name },
      clientId: key,
      idempotencyKey: key,
    };
    try {
      type Answer = { readonly sendMessage: { readonly message: Message; readonly conversation: Row } };
      const options = { isRepeatable: true };
      const answer = await ask<Answer>(this.#context, sendMessage, { input, agent: agent.id }, options);
      this.#receive(conversationId, answer.sendMessage.message);
      this.#putAnswer(answer.sendMessage.conversation);
      // Without events, nothing else tells what is missing.
      if (this.#context.live.connection === 'off' && this.thread?.hasGap) void this.#load(this.thread);
    } catch (error) {
      draft.error = error;
      if (codeOf(error) === 'NOT_FOUND') this.#remove(conversationId);
    }
    this.#changed();
  }

  /** Reads a conversation, of which nothing is kept if it is gone. */
  async #load(thread: Thread): Promise<void> {
    await thread.load();
    if (!thread.isGone) return;
    this.#remove(thread.id);
    this.#changed();
  }

  #fold(event: LoggedEvent): void {
    this.#notMarked = '';
    const id = event.conversationId ?? event.conversation?.conversationId; // none if the event was erased
    if (id === undefined) return;
    if (event.readPosition) {
      const { reader, sequence } = event.readPosition;
      if (reader === this.#context.session.agent.id) this.#foldRead(id, sequence);
    } else {
      this.#asking.delete(id);
      const current = event.conversation?.current;
      if (current) this.#put(current);
      else this.#remove(id);
      if (event.message && current) this.#receive(id, event.message);
    }
    this.#changed();
  }

  /** The agent has read further, here or elsewhere. */
  #foldRead(id: string, sequence: number): void {
    const isKnown = this.thread?.id === id || this.list.find(id) !== undefined;
    this.#read(id, sequence);
    // With its first position, a conversation can come to be unread that is not shown.
    if (this.list.filter.isUnread && !isKnown) void this.#ask(id);
  }

  async #ask(id: string): Promise<void> {
    const variables = { id, agent: this.#context.session.agent.id };
    this.#asking.set(id, variables);
    const isLast = (): boolean => this.#asking.get(id) === variables;
    try {
      const { conversation } = await ask<{ readonly conversation: Row }>(this.#context, rowDocument, variables);
      if (isLast()) this.#put(conversation);
    } catch {
      // It is deleted, or shown by the next event.
    }
    if (isLast()) this.#asking.delete(id);
    this.#changed();
  }

  #put(row: Row): void {
    const newest = this.thread?.id === row.id ? this.thread.put(row) : row;
    this.list.put(newest);
    this.search.put(newest);
  }

  /** What an answer tells, which may be older than what events have told. */
  #putAnswer(row: Row): void {
    const isOpen = this.thread?.id === row.id && !this.thread.isGone;
    if (isOpen || this.list.find(row.id) !== undefined) this.#put(row);
  }

  #read(id: string, sequence: number): void {
    if (this.thread?.id === id) {
      this.thread.read(sequence);
      if (this.thread.row !== undefined) this.list.put(this.thread.row);
    }
    this.list.read(id, sequence);
    this.search.read(id, sequence);
  }

  #remove(id: string): void {
    this.list.remove(id);
    this.search.remove(id);
    this.#texts.delete(id);
    this.#drafts = this.#drafts.filter(({ conversationId }) => conversationId !== id);
    if (this.thread?.id === id) this.thread.isGone = true;
  }

  /** A message has come, which may be one that was sent from here. */
  #receive(id: string, message: Message): void {
    const draft = this.#drafts.find(({ key, conversationId }) => key === message.clientId && conversationId === id);
    if (draft !== undefined) this.#drafts = this.#drafts.filter((each) => each !== draft);
    if (this.thread?.id === id) this.thread.add(message, draft?.key);
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }
}
