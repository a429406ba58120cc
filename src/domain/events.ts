import * as z from 'zod';
import type { Awaitable } from './awaitable.ts';
import { bindingOf, type Caller, isBound, maySee, shownTo } from './caller.ts';
import { choices } from './choices.ts';
import { type ConversationChanges, changesShownTo } from './conversation-events.ts';
import type { Conversation } from './conversation-record.ts';
import { newDelivery } from './delivery-record.ts';
import { DomainError, notFound } from './errors.ts';
import {
  type CursorForm,
  currentEventCursor,
  cursorExpired,
  cursorFormOf,
  eventCursor,
  exampleEventCursor,
  mayBeCursor,
  notACursor,
  refuseExpired,
} from './event-cursor.ts';
import { type EventType, eventTypes } from './event-types.ts';
import { idInput } from './ids.ts';
import type { Lead } from './leads.ts';
import type { Message } from './message-record.ts';
import { type Context, operation } from './operation.ts';
import { limitInput } from './paging.ts';
import type { EventFollower, Turns } from './ports.ts';
import { type ReadPosition, visitorReader } from './read-position-record.ts';
import type { EventReads, Reads, Transaction } from './storage-port.ts';
import type { Timestamp } from './time.ts';

/** What an event of its type holds. Snapshots are taken after the change, without `messages`. */
export interface EventData {
  readonly conversation?: Conversation | null;
  readonly message?: Message;
  readonly lead?: Lead;
  readonly changes?: ConversationChanges;
  readonly conversationId?: string;
  readonly readPosition?: ReadPosition;
}

/** The data of an event whose conversation was deleted. */
type ErasedData = { readonly erased: true } & { readonly [Name in keyof EventData]?: undefined };

/** Its stored form. */
export const erasedJson = JSON.stringify({ erased: true } satisfies ErasedData);

/** An event to be logged in the transaction of the change that caused it. */
export interface NewEvent {
  readonly id: string;
  readonly type: EventType;
  readonly timestamp: Timestamp;
  readonly conversationId: string | null;
  /** The visitor of its conversation right after it, who may read of it: null for nobody. */
  readonly visitorId: string | null;
  readonly data: EventData;
}

/** An event as stored. */
export interface StoredEvent extends Omit<NewEvent, 'data' | 'visitorId'> {
  readonly sequence: number;
  /** What is kept of the visitor, also after an erasure: `visitorHash` of the storage. */
  readonly visitorHash: string | null;
  /** The event's data, as JSON. */
  readonly dataJson: string;
}

export interface EventFilter {
  /** By default all types. */
  readonly types?: readonly EventType[] | undefined;
  /** By default all conversations. */
  readonly conversationId?: string | undefined;
  /** By default of all visitors, and of none. */
  readonly visitorHash?: string | undefined;
}

/** An event in the log. All its readers share it, so each of its representations is made once, when first needed. */
export class LogEvent {
  readonly id: string;
  readonly type: EventType;
  readonly timestamp: Timestamp;
  /** Its position in the log: 1, 2, 3 … in its account, without gaps and in commit order. */
  readonly position: number;
  /** The same, as it is shown: null to a bound caller, who must not learn how busy the account is. */
  readonly sequence: number | null;
  /** The position in the log just after it. */
  readonly cursor: string;
  readonly apiVersion = 'v1';
  readonly accountId: string;
  readonly conversationId: string | null;
  readonly visitorHash: string | null;
  readonly #dataJson: string;
  #data: EventData | ErasedData | undefined;
  #json: string | undefined;
  /** As those see it who are bound to its conversation, or to its visitor; null if there is nothing to see. */
  #boundViews: Map<string, LogEvent | null> | undefined;

  /** @param sealedCursor given for the view of a bound caller */
  constructor(accountId: string, epoch: string, stored: StoredEvent, sealedCursor?: string) {
    this.id = stored.id;
    this.type = stored.type;
    this.timestamp = stored.timestamp;
    this.position = stored.sequence;
    this.sequence = sealedCursor === undefined ? stored.sequence : null;
    this.cursor = sealedCursor ?? eventCursor(epoch, stored.sequence);
    this.accountId = accountId;
    this.conversationId = stored.conversationId;
    this.visitorHash = stored.visitorHash;
    this.#dataJson = stored.dataJson;
  }

  /** Length of the JSON of its data in UTF-16 code units, as a measure of its memory. */
  get dataLength(): number {
    return this.#dataJson.length;
  }

  get data(): EventData | ErasedData {
    this.#data ??= JSON.parse(this.#dataJson) as EventData | ErasedData;
    return this.#data;
  }

  /** Whether its data was erased with its conversation. */
  get erased(): boolean {
    return 'erased' in this.data;
  }

  /** The event as JSON, the same for REST, streams and webhooks. */
  get json(): string {
    if (this.#json === undefined) {
      const { id, type, timestamp, sequence, cursor, apiVersion, accountId } = this;
      const head = JSON.stringify({ id, type, timestamp, sequence, cursor, apiVersion, accountId });
      this.#json = `${head.slice(0, -1)},"data":${this.#dataJson}}`;
    }
    return this.#json;
  }

  matches({ types, conversationId, visitorHash }: EventFilter): boolean {
    return (
      (types === undefined || types.includes(this.type)) &&
      (conversationId === undefined || conversationId === this.conversationId) &&
      (visitorHash === undefined || visitorHash === this.visitorHash)
    );
  }

  /**
   * The event as the caller may see it; undefined if it tells it nothing. All who are bound to the same share one view.
   */
  viewFor(caller: Caller, { show }: Pick<CursorForm, 'show'>): LogEvent | undefined {
    const binding = bindingOf(caller);
    if (binding === undefined) return this;
    this.#boundViews ??= new Map();
    const known = this.#boundViews.get(binding);
    if (known !== undefined) return known ?? undefined;
    const view = this.#makeBoundView(caller, show(this.cursor));
    this.#boundViews.set(binding, view);
    return view ?? undefined;
  }

  #makeBoundView(caller: Caller, sealedCursor: string): LogEvent | null {
    const { conversation, message, changes, readPosition } = this.data;
    const shownChanges = changes && changesShownTo(caller, changes);
    // Of one that was erased it is not known whether there was anything to see.
    if (this.type === 'conversation.updated' && shownChanges === undefined) return null;
    if (this.type === 'conversation.read' && readPosition?.reader !== visitorReader) return null;
    const data = {
      ...this.data,
      ...(message != null && { message: shownTo(caller, message) }),
      ...(conversation != null && { conversation: shownTo(caller, conversation) }),
      ...(shownChanges !== undefined && { changes: shownChanges }),
    };
    const stored = { ...this, sequence: this.position, dataJson: JSON.stringify(data) };
    return new LogEvent(this.accountId, '', stored, sealedCursor);
  }
}

/**
 * Appends events to the account's log, with a delivery for each subscribed webhook.
 * @param enabled the account's enabled webhooks, if they have been read in this transaction: that saves a round trip
 * @returns a cursor at the end of the log
 */
export async function appendEvents(
  tx: Transaction,
  context: Pick<Context, 'caller' | 'clock' | 'ids' | 'now'>,
  events: readonly NewEvent[],
  enabled?: Awaited<ReturnType<Transaction['webhooks']['enabled']>>,
): Promise<string> {
  const accountId = context.caller.account.id;
  if (events.length === 0) return await currentEventCursor(tx, accountId);
  const [last, webhooks] = await Promise.all([
    tx.events.append(accountId, events),
    enabled ?? tx.webhooks.enabled(accountId),
  ]);
  for (const webhook of webhooks) {
    for (const [index, event] of events.entries()) {
      if (!webhook.events.includes(event.type)) continue;
      const eventSequence = last - events.length + 1 + index;
      await tx.deliveries.insert(accountId, newDelivery(context, webhook.id, { ...event, eventSequence }));
    }
  }
  return eventCursor(await tx.events.epoch(), last);
}

const readerInput = {
  after: z
    .string({ error: 'must be a string' })
    .meta({ examples: [exampleEventCursor] })
    .refine(mayBeCursor, { error: notACursor })
    .optional()
    .describe('Start after this position: an event’s `cursor`, or an `eventCursor`.'),
  types: choices(eventTypes)
    .optional()
    .describe('Only events of these types.')
    .meta({ examples: [['conversation.started', 'message.received']] }),
  conversationId: idInput('conversation').optional().describe('Only events of this conversation.'),
};

/** What bound callers see of their events: leads are not the visitor's. */
const boundTypes = eventTypes.filter((type) => !type.startsWith('lead.'));

type Asked = Pick<EventFilter, 'types' | 'conversationId'>;

/**
 * Narrows the filter to what the caller may read: one who is bound reads only the events of its conversation, or those
 * of its visitor.
 * @throws NOT_FOUND
 */
async function filterFor({ caller, storage }: Pick<Context, 'caller' | 'storage'>, asked: Asked): Promise<EventFilter> {
  const { conversationId } = asked;
  if (!isBound(caller)) return asked;
  const types = asked.types === undefined ? boundTypes : asked.types.filter((type) => boundTypes.includes(type));
  if (caller.visitor === undefined) {
    if (conversationId !== undefined && conversationId !== caller.conversationId) throw notFound('conversation');
    return { types, conversationId: caller.conversationId };
  }
  const visitorHash = await storage.read.events.visitorHash(caller.account.id, caller.visitor.id);
  const filter = { types, conversationId, visitorHash };
  if (conversationId !== undefined && !(await isOwn(storage.read, caller, { conversationId, visitorHash }))) {
    throw notFound('conversation');
  }
  return filter;
}

/** Whether a conversation is that of the caller's visitor, or was when it was deleted. */
async function isOwn(
  { conversations, events }: Pick<Reads, 'conversations' | 'events'>,
  caller: Caller,
  { conversationId, visitorHash }: { conversationId: string; visitorHash: string },
): Promise<boolean> {
  const conversation = await conversations.find(caller.account.id, conversationId);
  if (conversation !== undefined) return maySee(caller, conversation);
  const last = await events.lastOf(caller.account.id, conversationId);
  return last?.type === 'conversation.deleted' && last.visitorHash === visitorHash;
}

/** Sequences scanned per request: a filter that matches nothing must not read the whole log. */
const maxSpan = 10_000;
/**
 * Any number of events in a row may be of other types than those asked for, or tell a bound caller nothing. They are read
 * in so many parts per request, each of which looks at so many. Those of a bound caller are found by an index, however
 * large the log is.
 */
const maxParts = 10;
const lookedAtPerPart = 1_000;
/** So many are read in a part, when the first ones told it too little. */
const readAtOnce = 100;
/** Of their data, so many UTF-16 code units are turned at once into what a bound caller may see: that takes 6 ms. */
const viewedAtOnce = 1024 * 1024;

/** A page of the log. Its cursor advances even when the filter matches nothing. */
export interface EventPage {
  readonly items: readonly LogEvent[];
  readonly limit: number;
  readonly hasMore: boolean;
  /** Whether the log holds anything before the position where it starts. Looked for only when called. */
  hasEarlier(): Awaitable<boolean>;
  readonly nextCursor: string;
}

export const listEvents = operation({
  name: 'listEvents',
  summary: 'Lists the events in the log, oldest first.',
  scope: 'events:read',
  openToBound: 'all',
  input: z.strictObject({ limit: limitInput, ...readerInput }),
  errors: ['NOT_FOUND', 'CURSOR_EXPIRED'],
  async run(context, { limit, after, ...asked }): Promise<EventPage> {
    const { caller, storage, turns } = context;
    const hasOwnLog = isBound(caller);
    const cursors = await cursorFormOf(context);
    const position = after === undefined ? undefined : cursors.read(after);
    const filter = await filterFor(context, asked);
    const { events: log } = storage.read;
    const epoch = await log.epoch();
    const start = position?.sequence ?? 0;
    const reader = { caller, log, epoch, filter, cursors, turns };
    // To a bound caller the log has its own events only. One more of them tells whether the page is the last.
    const wanted = hasOwnLog ? { limit: limit + 1, span: Number.MAX_SAFE_INTEGER } : { limit, span: maxSpan };
    const { items, scannedTo, isCut, first, last } = await readShown(reader, { start, ...wanted });
    // Its epoch as it is now: what was read may be of another log than the one before.
    if (position !== undefined) refuseExpired(position, { epoch: await log.epoch(), first, last }, cursors);
    const page = items.slice(0, limit);
    const isFull = items.length > limit;
    return {
      items: page,
      limit,
      hasMore: hasOwnLog ? isFull || isCut : scannedTo < last,
      hasEarlier: () => (hasOwnLog ? hasUpTo(reader, start) : start >= first),
      nextCursor: cursors.show(eventCursor(epoch, isFull ? (page.at(-1)?.position ?? start) : scannedTo)),
    };
  },
});

/** Reads the log of a caller. */
interface LogReader {
  readonly caller: Caller;
  readonly log: EventReads;
  readonly epoch: string;
  readonly filter: EventFilter;
  readonly cursors: CursorForm;
  readonly turns: Turns;
}

/**
 * Events as the caller may see them, without those that tell it nothing.
 * @returns the events, the last sequence scanned, whether reading stopped before there were enough of them, and the bounds
 * of the log as it was read last
 */
async function readShown(
  { caller, log, epoch, filter, cursors, turns }: LogReader,
  { start, limit, span }: { start: number; limit: number; span: number },
): Promise<{ items: readonly LogEvent[]; scannedTo: number; isCut: boolean; first: number; last: number }> {
  const accountId = caller.account.id;
  const items: LogEvent[] = [];
  const among = filter.types === undefined ? {} : { among: lookedAtPerPart };
  let [begin, scannedTo] = [start, start];
  for (let part = 1; ; part++) {
    const wanted = part === 1 ? limit : Math.max(limit, readAtOnce);
    const rest = span - (scannedTo - begin);
    const read = await log.after(accountId, scannedTo, { filter, limit: wanted, span: rest, ...among });
    const { first, last } = read;
    begin = Math.max(begin, first - 1); // what the log no longer has was not scanned
    const events = read.events.map((event) => new LogEvent(accountId, epoch, event));
    let length = events.reduce((sum, { dataLength }) => sum + dataLength, 0); // reading them took about as long
    for (const event of events) {
      if (length > viewedAtOnce && isBound(caller)) {
        await turns.step(accountId);
        length = 0;
      }
      length += event.dataLength;
      items.push(...shown([event], caller, cursors));
    }
    const end = items[limit - 1];
    if (end !== undefined) {
      return { items: items.slice(0, limit), scannedTo: end.position, isCut: false, first, last };
    }
    scannedTo = read.scannedTo;
    const isAll = events.length < wanted && !read.isCut;
    if (isAll || part === maxParts) return { items, scannedTo, isCut: !isAll, first, last };
    await turns.step(accountId);
  }
}

function shown(events: readonly LogEvent[], caller: Caller, cursors: CursorForm): LogEvent[] {
  return events.flatMap((event) => event.viewFor(caller, cursors) ?? []);
}

/** Whether the log holds an event for the caller up to a sequence. */
async function hasUpTo(reader: LogReader, sequence: number): Promise<boolean> {
  const { first } = await reader.log.bounds(reader.caller.account.id);
  if (sequence < first) return false;
  const { items, isCut } = await readShown(reader, { start: first - 1, limit: 1, span: sequence - first + 1 });
  return items.length > 0 || isCut;
}

/** An endless stream of events. */
export interface EventStream extends AsyncIterable<readonly LogEvent[]> {
  /** Where to resume. It advances past filtered events, too. */
  readonly cursor: string;
  /** Whether some of the last batch may have been erased since it was read. */
  readonly mayBeErased: boolean;
  /** Returns the rest of the last batch, from this event on. Required before a consumer pauses within a batch. */
  giveBack(from: LogEvent): void;
  /** Ends the stream, also while it waits for events or for its reader. */
  end(): void;
}

/** A validated position in the log, from which to follow it. */
export interface EventSubscription {
  follow(): EventStream;
}

/** A log as a caller sees it. A class rather than closures, since there may be ten thousand at a time. */
class FollowedLog implements EventStream {
  readonly #follower: EventFollower;
  readonly #epoch: string;
  readonly #caller: Caller;
  readonly #cursors: CursorForm;

  constructor(follower: EventFollower, epoch: string, caller: Caller, cursors: CursorForm) {
    this.#follower = follower;
    this.#epoch = epoch;
    this.#caller = caller;
    this.#cursors = cursors;
  }

  get cursor(): string {
    return this.#cursors.show(eventCursor(this.#epoch, this.#follower.position));
  }

  get mayBeErased(): boolean {
    return this.#follower.mayBeErased;
  }

  giveBack(from: LogEvent): void {
    this.#follower.giveBack(from);
  }

  end(): void {
    this.#follower.end();
  }

  [Symbol.asyncIterator](): AsyncIterator<readonly LogEvent[], void> {
    return isBound(this.#caller)
      ? new ShownBatches(this.#follower, this.#caller, this.#cursors)
      : this.#follower[Symbol.asyncIterator]();
  }
}

export const streamEvents = operation({
  name: 'streamEvents',
  summary: 'Streams events as they are logged, starting now or at a cursor.',
  scope: 'events:read',
  openToBound: 'all',
  input: z.strictObject(readerInput),
  errors: ['NOT_FOUND', 'CURSOR_EXPIRED', 'QUOTA_EXCEEDED'],
  async run(context, { after, ...asked }): Promise<EventSubscription> {
    const { caller, storage, liveEvents } = context;
    const cursors = await cursorFormOf(context);
    const position = after === undefined ? undefined : cursors.read(after);
    const accountId = caller.account.id;
    const filter = await filterFor(context, asked);
    const epoch = await storage.read.events.epoch();
    const bounds = await storage.read.events.bounds(accountId);
    if (position !== undefined) refuseExpired(position, { epoch, ...bounds }, cursors);
    const start = position?.sequence ?? bounds.last;
    return {
      follow: () =>
        new FollowedLog(liveEvents.follow(accountId, { epoch, sequence: start }, filter), epoch, caller, cursors),
    };
  },
});

/** Only in GraphQL: REST returns the cursor with the account, see operations.ts. */
export const getEventCursor = operation({
  name: 'getEventCursor',
  summary: 'Returns a cursor at the end of the event log, from which to start following it.',
  scope: 'events:read',
  openToBound: 'all',
  input: z.strictObject({}),
  errors: [],
  async run(context): Promise<string> {
    const { caller, storage } = context;
    const { last } = await storage.read.events.bounds(caller.account.id);
    return (await cursorFormOf(context)).show(eventCursor(await storage.read.events.epoch(), last));
  },
});

/** The batches as a bound caller sees them. It holds none of them: see `EventFollower`. */
class ShownBatches implements AsyncIterableIterator<readonly LogEvent[], void> {
  readonly #batches: AsyncIterator<readonly LogEvent[], void>;
  readonly #caller: Caller;
  readonly #cursors: CursorForm;

  constructor(follower: EventFollower, caller: Caller, cursors: CursorForm) {
    this.#batches = follower[Symbol.asyncIterator]();
    this.#caller = caller;
    this.#cursors = cursors;
  }

  async next(): Promise<IteratorResult<readonly LogEvent[], void>> {
    try {
      for (;;) {
        const next = await this.#batches.next();
        if (next.done === true) return next;
        const events = shown(next.value, this.#caller, this.#cursors);
        if (events.length > 0) return { done: false, value: events };
      }
    } catch (error) {
      const oldest = error instanceof DomainError ? error.facts.oldestCursor : undefined;
      throw oldest === undefined ? error : cursorExpired(this.#cursors.show(oldest));
    }
  }

  async return(): Promise<IteratorResult<readonly LogEvent[], void>> {
    await this.#batches.return?.();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
