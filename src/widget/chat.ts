import { claimsOf } from '../client/claims.ts';
import { mayPass } from '../client/errors.ts';
import { Client, type Event, type Output, ServiceError } from '../client/index.ts';
import { newKey } from '../client/key.ts';
import { backOffMs, wait } from '../client/waiting.ts';
import { queries } from './queries.ts';
import { followTogether } from './together.ts';

/** A message of the conversation that is open. */
export interface Message {
  readonly sequence: number;
  readonly sender: 'visitor' | 'agent' | 'bot';
  readonly content: string;
  readonly clientId: string | null;
  readonly createdAt: string;
  readonly author: { readonly name: string | null } | null;
  /** Of all conversations only its own; that of the draft that it was, so that it stays in its place. */
  readonly key: string;
}

/** What the visitor has written and the service has not confirmed. */
export interface Draft {
  /** Its `clientId`, and its idempotency key: sent twice, it is there once. */
  readonly key: string;
  readonly content: string;
  hasFailed: boolean;
  /** The conversation it belongs to, unless that is the one that is yet to begin. */
  conversationId: string | undefined;
  /** Whether it has perhaps begun that: then it must be sent so again, and no other begins it. */
  begins: boolean;
}

/** A conversation in the list. */
export interface Row {
  readonly id: string;
  readonly version: number;
  readonly isClosed: boolean;
  readonly messageCount: number;
  readonly lastActivityAt: string;
  readonly title: string;
}

/** The conversation that is open. */
interface Thread {
  readonly id: string;
  /** By their sequences, so that each is there once. */
  readonly messages: Map<number, Message>;
  isLoaded: boolean;
  /** Of the oldest page that was read. */
  cursor: string | undefined;
}

type Given = Omit<Message, 'key'>;

interface Listed extends Snapshot {
  readonly readPositions: readonly { readonly sequence: number }[];
}

interface Page extends Listed {
  readonly messages: {
    readonly nodes: readonly (Omit<Given, 'sender'> & { readonly sender: string })[];
    readonly pageInfo: { readonly startCursor: string | null };
  };
}

interface Listing {
  readonly nodes: readonly Listed[];
  readonly pageInfo: { readonly endCursor: string | null; readonly hasNextPage: boolean };
}

interface Loaded {
  readonly eventCursor: string;
  readonly conversations: Listing;
  readonly newest?: { readonly nodes: readonly Page[] };
  readonly node?: Page | null;
}

interface ChatOptions {
  /** The address of the service, without a slash at its end. */
  readonly service: string;
  /** The endpoint of the page's own server that gives out tokens. */
  readonly tokenUrl: string | null;
  /** The conversation to open, if it is still there; the newest otherwise. */
  readonly conversationId: string | undefined;
  readonly onChange: () => void;
  /** Called when the page's server gives out tokens for somebody else: nothing of this chat is for them. */
  readonly onOtherVisitor: () => void;
}

/** How long a message is tried to be sent before the visitor is asked. */
const maxWaitSeconds = 20;

/**
 * Browsers complete requests of a page that is left, of 64 KiB together, those of the host page too; one that is too much
 * fails at once, and is sent again. So many UTF-16 code units never take more alone: each is three bytes of UTF-8 at most.
 */
const maxKeepaliveLength = 20_000;

/** The conversations of a visitor, kept up to date by their events. */
export class Chat {
  readonly #client: Client;
  readonly #service: string;
  readonly #onChange: () => void;
  readonly #onOtherVisitor: () => void;
  readonly #life = new AbortController();
  readonly #rows = new Map<string, Row>();
  /** How far the visitor has read each conversation, once that is known. */
  readonly #readTo = new Map<string, number>();
  #following: AbortController | undefined;
  #cursor: string | undefined;
  #wanted: string | undefined;
  #thread: Thread | undefined;
  #drafts: readonly Draft[] = [];
  #beginSending = (): void => {};
  /** One message after the other, and the first when it is known where to. */
  #sending = new Promise<void>((resolve) => {
    this.#beginSending = resolve;
  });
  #isMarking = false;
  /** What the service did not let it mark as read, since it was last heard of. */
  #notMarked = '';
  #isReadingOlder = false;
  /** Where the list goes on, if there are more conversations. */
  #rest: string | null = null;
  #isReadingRest = false;
  /** Whom the tokens are for. */
  #visitor: string | undefined;
  #state: 'connecting' | 'ready' | 'unavailable' = 'connecting';
  /** Whether the next message begins a conversation, though there are others. */
  #isNew = false;

  constructor({ service, tokenUrl, conversationId, onChange, onOtherVisitor }: ChatOptions) {
    this.#client = new Client({
      url: service,
      credential: async () => {
        const { signal } = this.#life;
        const given = await tokenFrom(tokenUrl, signal);
        const visitor = visitorOf(given.token);
        this.#visitor ??= visitor;
        if (this.#visitor !== visitor && !signal.aborted) this.#onOtherVisitor(); // which ends this
        signal.throwIfAborted();
        return given;
      },
      maxWaitSeconds,
      fetch: (input, init = {}) => {
        // A message that is being sent arrives also when the visitor follows a link meanwhile.
        const keepalive = init.method === 'POST' && `${init.body}`.length < maxKeepaliveLength;
        return fetch(input, { ...init, keepalive });
      },
    });
    this.#service = service;
    this.#wanted = conversationId;
    this.#onChange = () => {
      if (!this.#life.signal.aborted) onChange();
    };
    this.#onOtherVisitor = onOtherVisitor;
  }

  get state() {
    return this.#state;
  }

  get conversationId(): string | undefined {
    return this.#thread?.id ?? (this.#state === 'ready' ? undefined : this.#wanted);
  }

  /** Whether the messages of the open conversation are there, if one is open. */
  get isLoaded(): boolean {
    return this.#state === 'ready' && this.#thread?.isLoaded !== false;
  }

  get isClosed(): boolean {
    return this.#row?.isClosed === true;
  }

  /** The conversations, that with the latest activity first. */
  get rows(): readonly Row[] {
    return [...this.#rows.values()].sort((a, b) => b.lastActivityAt.localeCompare(a.lastActivityAt));
  }

  get messages(): readonly Message[] {
    return [...(this.#thread?.messages.values() ?? [])].sort((a, b) => a.sequence - b.sequence);
  }

  /** What was written into the open conversation and is not confirmed. */
  get drafts(): readonly Draft[] {
    return this.#drafts.filter(({ conversationId }) => conversationId === this.#thread?.id);
  }

  /** Whether a message was not sent into a conversation. */
  hasFailed({ id }: Row): boolean {
    return this.#drafts.some(({ hasFailed, conversationId }) => hasFailed && conversationId === id);
  }

  /** Whether there are conversations before those in the list. */
  get hasEarlier(): boolean {
    return this.#rest !== null;
  }

  get hasOlder(): boolean {
    const [oldest] = this.messages;
    return oldest !== undefined && oldest.sequence > 1;
  }

  /** How many messages of a conversation, or of all, the visitor has not read. */
  unread(row?: Row): number {
    if (row === undefined) return this.rows.reduce((sum, each) => sum + this.unread(each), 0);
    return Math.max(0, row.messageCount - (this.#readTo.get(row.id) ?? row.messageCount));
  }

  /** Begins to follow the events, where it was stopped if it was. */
  start(): void {
    if (this.#following !== undefined || this.#state === 'unavailable' || this.#life.signal.aborted) return;
    this.#following = new AbortController();
    void this.#follow(this.#following.signal);
  }

  /** Ends the connection: nothing is received until it is started again, and nothing is missed. */
  stop(): void {
    this.#following?.abort();
    this.#following = undefined;
  }

  /** Ends everything. */
  end(): void {
    this.stop();
    this.#life.abort();
  }

  /** Begins anew after the service or the page's own server has refused. */
  reconnect(): void {
    this.stop();
    this.#wanted = this.#thread?.id ?? this.#wanted;
    this.#cursor = undefined;
    this.#state = 'connecting';
    this.start();
    this.#onChange();
  }

  /** Shows a conversation. */
  async open(id: string): Promise<void> {
    this.#isNew = false;
    if (this.#thread?.id === id) return;
    this.#show(id);
    this.#onChange();
    await this.#read(id);
  }

  /** Shows the conversation with the latest message that is unread, unless the open one has some. */
  async openUnread(): Promise<void> {
    const unread = this.rows.find((row) => this.unread(row) > 0);
    const isFree = this.#row === undefined || this.unread(this.#row) === 0;
    if (unread !== undefined && isFree && this.drafts.length === 0) await this.open(unread.id);
  }

  /** Shows an empty conversation, which the next message begins. */
  begin(): void {
    this.#thread = undefined;
    this.#isNew = true;
    this.#onChange();
  }

  /** Reads the messages before those that are shown. */
  async readOlder(): Promise<void> {
    const thread = this.#thread;
    if (thread === undefined || this.#isReadingOlder || !this.hasOlder) return;
    this.#isReadingOlder = true;
    const variables = { id: thread.id, before: thread.cursor };
    const options = { signal: this.#life.signal };
    try {
      const { node } = await this.#client.graphql<{ node: Page | null }>(queries.page, variables, options);
      this.#take(thread.id, node);
    } catch {
      return; // the visitor asks again
    } finally {
      this.#isReadingOlder = false;
    }
    this.#onChange();
  }

  /** Reads the conversations before those in the list. */
  async readEarlier(): Promise<void> {
    const after = this.#rest;
    if (after === null || this.#isReadingRest) return;
    this.#isReadingRest = true;
    const options = { signal: this.#life.signal };
    try {
      const { conversations } = await this.#client.graphql<{ conversations: Listing }>(
        queries.list,
        { after },
        options,
      );
      if (this.#rest === after) this.#listAll(conversations);
    } catch {
      return; // the visitor asks again
    } finally {
      this.#isReadingRest = false;
    }
    this.#onChange();
  }

  /** Sends a message. Into a conversation that is closed nothing is written: it begins the next one. */
  write(content: string): void {
    if (this.isClosed) this.begin();
    const key = newKey();
    const draft = { key, content, hasFailed: false, conversationId: this.#thread?.id, begins: false };
    this.#drafts = [...this.#drafts, draft];
    this.retry(draft);
  }

  /** Sends a message once more, after those that are being sent. */
  retry(draft: Draft): void {
    const first = this.#beginning;
    if (first?.hasFailed && first !== draft && draft.conversationId === undefined) this.retry(first);
    draft.hasFailed = false;
    this.#sending = this.#sending.then(() => this.#send(draft));
    this.#onChange();
  }

  /** Takes back a message that could not be sent. */
  discard(draft: Draft): void {
    this.#drop(draft);
    this.#onChange();
  }

  /** Says that the visitor has seen the messages that are shown. */
  async markSeen(): Promise<void> {
    const row = this.#row;
    const sequence = this.messages.at(-1)?.sequence ?? 0;
    if (row === undefined || this.#isMarking || sequence <= (this.#readTo.get(row.id) ?? 0)) return;
    const mark = `${row.id} ${sequence}`;
    if (mark === this.#notMarked) return;
    this.#isMarking = true;
    const options = { signal: this.#life.signal };
    try {
      await this.#client.call('markRead', { conversationId: row.id, reader: 'visitor', sequence }, options);
      this.#hasRead(row.id, sequence);
    } catch {
      this.#notMarked = mark;
    } finally {
      this.#isMarking = false;
    }
    this.#onChange();
  }

  get #beginning(): Draft | undefined {
    return this.#drafts.find(({ begins, conversationId }) => begins && conversationId === undefined);
  }

  get #row(): Row | undefined {
    return this.#thread && this.#rows.get(this.#thread.id);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    for (let failures = 0; !signal.aborted; ) {
      try {
        if (this.#cursor === undefined) await this.#load(signal);
        await followTogether({
          name: `conversation-widget ${this.#service} ${this.#visitor}`,
          cursor: () => this.#cursor,
          follow: () => this.#client.follow({ after: this.#cursor, signal }),
          take: (event) => {
            this.#fold(event);
            this.#cursor = event.cursor;
            this.#notMarked = '';
            failures = 0;
            this.#onChange();
          },
          reload: async (at) => {
            await this.#load(signal);
            this.#cursor = at;
          },
          signal,
        });
      } catch (error) {
        if (signal.aborted) return;
        const { code, retryAfterSeconds } = error instanceof ServiceError ? error : {};
        if (code === 'CURSOR_EXPIRED') this.#cursor = undefined;
        else if (!mayPass(error)) return this.#fail(error);
        // Aborted, the loop ends.
        await wait(backOffMs(failures++, retryAfterSeconds), signal).catch(() => {});
      }
    }
  }

  /** Reads what is shown, and where the events after it begin. */
  async #load(signal: AbortSignal): Promise<void> {
    const open = this.#thread;
    const wanted = open?.id ?? this.#wanted;
    const variables = { id: wanted ?? '', isWanted: wanted !== undefined };
    const { eventCursor, conversations, newest, node } = await this.#client.graphql<Loaded>(queries.load, variables, {
      signal,
    });
    // The visitor has opened another one meanwhile, whose messages may have been read before the events begin.
    if (this.#thread !== open) return await this.#load(signal);
    this.#rows.clear();
    this.#listAll(conversations);
    const page = node ?? newest?.nodes[0];
    const isGone = wanted !== undefined && page === undefined;
    if (isGone) this.#forget(wanted);
    this.#thread = undefined;
    if (page) this.#list(page);
    if (page && open) {
      this.#show(page.id);
      this.#take(page.id, page);
      this.#keepOlder(open);
    } else if (page) {
      // What was written before it was known that this one is closed begins the next one.
      const isAwaited = this.#drafts.some(({ conversationId }) => conversationId === undefined);
      this.#isNew ||= page.status === 'CLOSED' && isAwaited;
      if (this.#isNext(page.messages.nodes)) {
        this.#adopt(page.id);
        this.#take(page.id, page);
      }
    }
    this.#wanted = undefined;
    this.#state = 'ready';
    // What was looked for is gone; there may be something else.
    if (isGone) return await this.#load(signal);
    this.#cursor = eventCursor;
    this.#notMarked = '';
    this.#onChange();
    this.#beginSending();
  }

  /** Reads a conversation, which may be in no list yet. */
  async #read(id: string): Promise<void> {
    const { signal } = this.#life;
    try {
      const { node } = await this.#client.graphql<{ node: Page | null }>(queries.page, { id }, { signal });
      this.#take(id, node);
      this.#onChange();
    } catch (error) {
      if (signal.aborted || this.#thread?.id !== id) return;
      if (mayPass(error))
        this.reconnect(); // which reads it with the rest, as soon as that can be read
      else this.#fail(error);
    }
  }

  #show(id: string): void {
    this.#thread = { id, messages: new Map(), isLoaded: false, cursor: undefined };
  }

  /** Puts a conversation into the list, and its page of messages into it, if it is still open. */
  #take(id: string, page: Page | null): void {
    if (page === null) {
      this.#forget(id);
      return;
    }
    if (!this.#rows.has(id)) return; // it was deleted meanwhile
    this.#list(page);
    const thread = this.#thread;
    if (thread?.id !== id) return;
    for (const each of page.messages.nodes)
      this.#add({ ...each, sender: each.sender.toLowerCase() as Given['sender'] });
    thread.cursor = page.messages.pageInfo.startCursor ?? undefined;
    thread.isLoaded = true;
  }

  /** Keeps what was read of the open conversation before, if it reaches to what is there now. */
  #keepOlder({ messages, cursor }: Thread): void {
    const [oldest] = this.messages;
    if (this.#thread === undefined || oldest === undefined || !messages.has(oldest.sequence)) return;
    for (const [sequence, message] of messages) this.#thread.messages.set(sequence, message);
    this.#thread.cursor = cursor;
  }

  /** Adds a message to the open conversation, in the place of the draft that it was. */
  #add({ sequence, sender, content, clientId, createdAt, author }: Given): void {
    const draft = sender === 'visitor' ? this.#drafts.find(({ key }) => key === clientId) : undefined;
    this.#drop(draft);
    if (this.#thread === undefined || this.#thread.messages.has(sequence)) return;
    const key = draft?.key ?? `${this.#thread.id} ${sequence}`;
    this.#thread.messages.set(sequence, { sequence, sender, content, clientId, createdAt, author, key });
  }

  #drop(draft: Draft | undefined): void {
    this.#drafts = this.#drafts.filter((each) => each !== draft);
  }

  /** It was deleted, or is another visitor's by now. */
  #forget(id: string): void {
    this.#rows.delete(id);
    if (this.#thread?.id === id) this.#thread = undefined;
    for (const draft of this.#drafts) if (draft.conversationId === id) draft.conversationId = undefined;
  }

  #listAll({ nodes, pageInfo }: Listing): void {
    for (const each of nodes) this.#list(each);
    this.#rest = pageInfo.hasNextPage ? pageInfo.endCursor : null;
  }

  #list(conversation: Listed): void {
    this.#keep(conversation);
    this.#hasRead(conversation.id, conversation.readPositions[0]?.sequence ?? 0);
  }

  #keep(conversation: Snapshot): void {
    const row = rowOf(conversation);
    if ((this.#rows.get(row.id)?.version ?? 0) <= row.version) this.#rows.set(row.id, row);
  }

  #hasRead(id: string, sequence: number): void {
    this.#readTo.set(id, Math.max(sequence, this.#readTo.get(id) ?? 0));
  }

  #fold({ type, data }: Event): void {
    if ('erased' in data || 'lead' in data) return;
    if ('readPosition' in data) this.#hasRead(data.conversationId, data.readPosition.sequence);
    else if ('conversation' in data) this.#foldSnapshot(data, type === 'conversation.started');
    else this.#forget(data.conversationId);
  }

  #foldSnapshot(
    { conversation, message }: { readonly conversation: Snapshot; readonly message?: Given },
    hasStarted: boolean,
  ): void {
    const { id } = conversation;
    this.#keep(conversation);
    const isWhole = hasStarted || message?.sequence === 1; // otherwise it has messages from before this event
    if (isWhole) this.#hasRead(id, 0);
    const isNext = this.#thread === undefined && this.#isNext(message ? [message] : []);
    if (isNext && isWhole) this.#adopt(id);
    else if (isNext) {
      this.#settle(id);
      void this.open(id);
    } else if (!this.#readTo.has(id)) void this.#read(id);
    if (message?.sender === 'visitor') this.#hasRead(id, message.sequence); // who writes has read what was before
    if (message && this.#thread?.id === id) this.#add(message);
  }

  /** Whether a conversation opens where none is: what was begun here does with its message, or else any does. */
  #isNext(messages: readonly Pick<Given, 'clientId'>[]): boolean {
    const beginning = this.#beginning;
    return beginning ? messages.some(({ clientId }) => clientId === beginning.key) : !this.#isNew;
  }

  /** Opens a conversation without having read it, since all its messages are yet to come, say. */
  #adopt(id: string): void {
    this.#show(id);
    if (this.#thread) this.#thread.isLoaded = true;
    this.#isNew = false;
    this.#settle(id);
  }

  /** The conversation that was yet to begin is this one. */
  #settle(id: string): void {
    for (const draft of this.#drafts) draft.conversationId ??= id;
  }

  /** Never rejects. */
  async #send(draft: Draft): Promise<void> {
    if (this.#life.signal.aborted || !this.#drafts.includes(draft)) return; // an event has confirmed it
    const options = { idempotencyKey: draft.key, signal: this.#life.signal };
    const message = { content: draft.content, sender: 'visitor', clientId: draft.key } as const;
    const { conversationId } = draft;
    try {
      if (conversationId === undefined) {
        if ((this.#beginning ?? draft) !== draft) throw new Error('What begins the conversation was not sent.');
        draft.begins = true;
        this.#hasBegun(await this.#client.call('createConversation', { message }, options));
      } else {
        const sent = await this.#client.call('sendMessage', { conversationId, ...message }, options);
        this.#hasRead(conversationId, sent.sequence);
        if (this.#thread?.id === conversationId) this.#add(sent);
      }
      this.#drop(draft);
    } catch (error) {
      draft.hasFailed = this.#drafts.includes(draft);
      if (error instanceof ServiceError && error.requestId !== undefined && (error.status ?? 500) < 500) {
        draft.begins = false; // nothing was done
        if (error.code === 'NOT_FOUND' && conversationId !== undefined) this.#forget(conversationId);
      }
    }
    this.#onChange();
  }

  #hasBegun(conversation: Output<'createConversation'>): void {
    const { id, messages } = conversation;
    this.#keep(conversation);
    this.#hasRead(id, messages.length);
    this.#settle(id);
    if (this.#thread === undefined) this.#adopt(id);
    if (this.#thread?.id !== id) return;
    for (const each of messages) this.#add({ ...each });
  }

  /** Gives up until the visitor asks again. */
  #fail(error: unknown): void {
    console.error(error); // whoever puts the widget into a page wants to know
    this.stop();
    this.#state = 'unavailable';
    this.#onChange();
  }
}

interface Snapshot {
  readonly id: string;
  readonly version: number;
  readonly status: string;
  readonly subject: string | null;
  readonly messageCount: number;
  readonly lastActivityAt: string;
  readonly lastMessage: { readonly preview: string } | null;
}

const rowOf = ({ id, version, status, subject, messageCount, lastActivityAt, lastMessage }: Snapshot): Row => ({
  id,
  version,
  isClosed: status.toLowerCase() === 'closed',
  messageCount,
  lastActivityAt,
  title: subject ?? lastMessage?.preview ?? '',
});

/** Asks the page's own server for a token, as the page would. */
async function tokenFrom(url: string | null, signal: AbortSignal): Promise<{ token: string; expiresAt?: string }> {
  if (url === null) throw refused('The attribute token-url is missing.');
  const response = await fetch(url, { method: 'POST', signal });
  const { status } = response;
  if (status >= 500 || status === 429) throw new Error(`${url} answers ${status}.`); // it may pass
  const given = response.ok ? await response.json().catch(() => undefined) : undefined;
  // Nobody is logged in, say: the answer would be the same again.
  if (typeof given?.token !== 'string') throw refused(`${url} answers no token, but ${status}.`);
  return given;
}

/** Whom a token is for, as it says itself. */
function visitorOf(token: string): string {
  const claims = claimsOf(token);
  if (claims === undefined) return token; // shared with no other tab
  const { account, conversation, visitor } = claims;
  return JSON.stringify([account, conversation, (visitor as { id?: unknown } | undefined)?.id]);
}

const refused = (message: string): ServiceError => new ServiceError(message, { code: 'FORBIDDEN' });
