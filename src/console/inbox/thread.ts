import { row as rowDocument, thread as threadDocument, updateConversation } from '../documents.ts';
import type { Message, Row, Status, ThreadPage } from '../records.ts';
import { ask, type Context, codeOf } from './context.ts';
import { readUpTo, together } from './rows.ts';

/** A message as it is shown: with a key that stays when a draft becomes one. */
interface ShownMessage extends Message {
  readonly key: string;
}

/** What an agent changes of a conversation. */
export interface Changes {
  readonly status?: Status;
  readonly subject?: string | null;
  readonly assignee?: { readonly id: string; readonly name: string } | null;
  readonly addTags?: readonly string[];
  readonly removeTags?: readonly string[];
}

/** A conversation that is open, with its last messages and what was read of those before them. */
export class Thread {
  readonly id: string;
  readonly #context: Context;
  readonly #messages = new Map<number, ShownMessage>();
  #asking: AbortController | undefined;
  #cursor: string | null = null;
  #sorted: readonly ShownMessage[] | undefined;
  row: Row | undefined;
  /** Whether the messages are read, without a gap before those that events have told of. */
  isLoaded = false;
  isReadingOlder = false;
  isChanging = false;
  /** Whether the conversation is deleted, or never was. */
  isGone = false;
  error: unknown;
  /** Why the last change was refused. */
  refusal: unknown;

  /** @param row what is known of it already */
  constructor(context: Context, id: string, row: Row | undefined) {
    this.#context = context;
    this.id = id;
    this.row = row;
  }

  get messages(): readonly ShownMessage[] {
    this.#sorted ??= [...this.#messages.values()].sort((a, b) => a.sequence - b.sequence);
    return this.#sorted;
  }

  get hasOlder(): boolean {
    return this.isLoaded && this.#cursor !== null;
  }

  /** Whether messages are missing among those that are shown. */
  get hasGap(): boolean {
    const [oldest] = this.messages;
    const before = oldest !== undefined && this.hasOlder ? oldest.sequence - 1 : 0;
    return this.messages.length < (this.messages.at(-1)?.sequence ?? 0) - before;
  }

  /** Reads the last messages; those before them that were shown are forgotten, since others may lie between. */
  async load(): Promise<void> {
    this.#asking?.abort();
    const asking = new AbortController();
    this.#asking = asking;
    this.error = undefined;
    this.#context.changed();
    try {
      await this.#context.live.ready;
      const { conversation } = await this.#read(null, asking.signal);
      if (asking.signal.aborted) return;
      const [oldest] = conversation.messages.nodes;
      for (const { sequence } of this.messages) {
        if (oldest !== undefined && sequence < oldest.sequence) this.#messages.delete(sequence);
      }
      this.#take(conversation);
      this.isLoaded = true;
    } catch (error) {
      if (asking.signal.aborted) return;
      this.isLoaded = false; // what came since then may follow a gap
      if (codeOf(error) === 'NOT_FOUND') this.isGone = true;
      else this.error = error;
    } finally {
      if (this.#asking === asking) this.#asking = undefined;
      this.#context.changed();
    }
  }

  async readOlder(): Promise<void> {
    if (!this.hasOlder || this.isReadingOlder || this.#asking !== undefined) return;
    this.isReadingOlder = true;
    this.error = undefined;
    const asking = new AbortController();
    this.#asking = asking;
    this.#context.changed();
    try {
      const { conversation } = await this.#read(this.#cursor, asking.signal);
      if (!asking.signal.aborted) this.#take(conversation);
    } catch (error) {
      if (!asking.signal.aborted) this.error = error;
    } finally {
      this.isReadingOlder = false;
      if (this.#asking === asking) this.#asking = undefined;
      this.#context.changed();
    }
  }

  /** It is no longer shown. */
  leave(): void {
    this.#asking?.abort();
    this.#asking = undefined;
  }

  /** @returns the newest that is known of it */
  put(row: Row): Row {
    this.row = together(this.row, row);
    return this.row;
  }

  read(sequence: number): void {
    if (this.row !== undefined) this.row = readUpTo(this.row, sequence);
  }

  /** @param key that of the draft that it was */
  add(message: Message, key = message.id): void {
    const [oldest] = this.messages;
    const isOlder = oldest !== undefined && message.sequence < oldest.sequence;
    if (isOlder && this.hasOlder) return; // it is read with others of its time
    if (this.#messages.has(message.sequence)) return;
    this.#messages.set(message.sequence, { ...message, key });
    this.#sorted = undefined;
  }

  /**
   * Changes the conversation.
   * @param isConditional whether it must be as it is shown
   * @returns it, as far as is known; undefined if that was refused
   */
  async change(changes: Changes, isConditional = false): Promise<Row | undefined> {
    const { changed, session } = this.#context;
    const agent = session.agent.id;
    this.isChanging = true;
    this.refusal = undefined;
    changed();
    const input = { id: this.id, ...changes, ...(isConditional && { expectedVersion: this.row?.version }) };
    try {
      type Answer = { readonly updateConversation: { readonly conversation: Row } };
      const answer = await ask<Answer>(this.#context, updateConversation, { input, agent });
      return this.put(answer.updateConversation.conversation);
    } catch (error) {
      this.refusal = error;
      if (codeOf(error) === 'VERSION_CONFLICT') await this.#explainConflict();
      return undefined;
    } finally {
      this.isChanging = false;
      changed();
    }
  }

  /** Shows what has changed, so that the agent can decide anew. */
  async #explainConflict(): Promise<void> {
    const variables = { id: this.id, agent: this.#context.session.agent.id };
    try {
      const { conversation } = await ask<{ readonly conversation: Row }>(this.#context, rowDocument, variables);
      this.put(conversation);
      this.refusal = new Error(
        'The conversation has changed in the meantime, so nothing was done. It is shown as it is now: decide anew.',
      );
    } catch {
      // The service's own words remain.
    }
  }

  #read(before: string | null, signal: AbortSignal): Promise<ThreadPage> {
    const variables = { id: this.id, agent: this.#context.session.agent.id, before };
    return ask<ThreadPage>(this.#context, threadDocument, variables, { signal });
  }

  #take({ messages: { nodes, pageInfo }, ...row }: ThreadPage['conversation']): void {
    this.put(row);
    for (const message of nodes) this.#messages.set(message.sequence, this.#shown(message));
    this.#cursor = pageInfo.hasPreviousPage ? pageInfo.startCursor : null;
    this.#sorted = undefined;
  }

  #shown(message: Message): ShownMessage {
    return this.#messages.get(message.sequence) ?? { ...message, key: message.id };
  }
}
