import { z } from 'zod';
import type { Caller } from './caller.ts';
import { choices } from './choices.ts';
import type { Conversation } from './conversation-record.ts';
import { newDelivery } from './delivery-record.ts';
import { notFound } from './errors.ts';
import {
  currentEventCursor,
  eventCursor,
  exampleEventCursor,
  type LogPosition,
  nowhere,
  parseEventCursor,
  refuseExpired,
} from './event-cursor.ts';
import { type EventType, eventTypes } from './event-types.ts';
import { idInput } from './ids.ts';
import type { Lead } from './leads.ts';
import type { Message } from './messages.ts';
import { type Context, operation } from './operation.ts';
import { limitInput } from './paging.ts';
import type { EventFollower } from './ports.ts';
import type { Transaction } from './storage-port.ts';
import type { Timestamp } from './time.ts';

/** Snapshots taken after the change, without `messages`. */
export interface EventData {
  readonly conversation: Conversation | null;
  readonly message?: Message;
  readonly lead?: Lead;
}

/** The data of an event whose conversation was deleted. */
interface ErasedData {
  readonly erased: true;
  readonly conversation?: undefined;
  readonly message?: undefined;
  readonly lead?: undefined;
}

/** Its stored form. */
export const erasedJson = JSON.stringify({ erased: true } satisfies ErasedData);

/** An event to be logged in the transaction of the change that caused it. */
export interface NewEvent {
  readonly id: string;
  readonly type: EventType;
  readonly timestamp: Timestamp;
  readonly conversationId: string | null;
  readonly data: EventData;
}

/** An event as stored. */
export interface StoredEvent extends Omit<NewEvent, 'data'> {
  readonly sequence: number;
  /** The event's data, as JSON. */
  readonly dataJson: string;
}

export interface EventFilter {
  /** By default all types. */
  readonly types?: readonly EventType[] | undefined;
  /** By default all conversations. */
  readonly conversationId?: string | undefined;
}

/** An event in the log. All its readers share it, so each of its representations is made once, when first needed. */
export class LogEvent {
  readonly id: string;
  readonly type: EventType;
  readonly timestamp: Timestamp;
  /** 1, 2, 3 … in its account, without gaps and in commit order. */
  readonly sequence: number;
  /** The position in the log just after it. */
  readonly cursor: string;
  readonly apiVersion = 'v1';
  readonly accountId: string;
  readonly conversationId: string | null;
  readonly #dataJson: string;
  #data: EventData | ErasedData | undefined;
  #json: string | undefined;
  #withoutMetadata: LogEvent | undefined;

  constructor(accountId: string, epoch: string, stored: StoredEvent) {
    this.id = stored.id;
    this.type = stored.type;
    this.timestamp = stored.timestamp;
    this.sequence = stored.sequence;
    this.cursor = eventCursor(epoch, stored.sequence);
    this.accountId = accountId;
    this.conversationId = stored.conversationId;
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
    this.#json ??= this.#jsonWith(this.#dataJson);
    return this.#json;
  }

  matches({ types, conversationId }: EventFilter): boolean {
    return (
      (types === undefined || types.includes(this.type)) &&
      (conversationId === undefined || conversationId === this.conversationId)
    );
  }

  /** The event as the caller may see it: a caller bound to a conversation sees no metadata. */
  viewFor(caller: Caller): LogEvent {
    if (caller.conversationId === undefined) return this;
    this.#withoutMetadata ??= this.#makeWithoutMetadata();
    return this.#withoutMetadata;
  }

  /** The event itself if it holds no metadata, so that most events exist only once in memory. */
  #makeWithoutMetadata(): LogEvent {
    const dataJson = JSON.stringify(this.data, (key, value: unknown) => (key === 'metadata' ? {} : value));
    if (dataJson === this.#dataJson) return this;
    const epoch = parseEventCursor(this.cursor)?.epoch ?? '';
    return new LogEvent(this.accountId, epoch, { ...this, dataJson });
  }

  #jsonWith(data: string): string {
    const { id, type, timestamp, sequence, cursor, apiVersion, accountId } = this;
    const head = JSON.stringify({ id, type, timestamp, sequence, cursor, apiVersion, accountId });
    return `${head.slice(0, -1)},"data":${data}}`;
  }
}

/**
 * Appends events to the account's log, with a delivery for each subscribed webhook.
 * @returns a cursor at the end of the log
 */
export async function appendEvents(
  tx: Transaction,
  { caller, ids, now }: Pick<Context, 'caller' | 'ids' | 'now'>,
  events: readonly NewEvent[],
): Promise<string> {
  const accountId = caller.account.id;
  if (events.length === 0) return await currentEventCursor(tx, accountId);
  const last = await tx.events.append(accountId, events);
  for (const webhook of await tx.webhooks.enabled(accountId)) {
    for (const [index, event] of events.entries()) {
      if (!webhook.events.includes(event.type)) continue;
      const eventSequence = last - events.length + 1 + index;
      await tx.deliveries.insert(newDelivery({ caller, ids, now }, webhook.id, { ...event, eventSequence }));
    }
  }
  return eventCursor(await tx.events.epoch(), last);
}

const readerInput = {
  after: z
    .string({ error: 'must be a string' })
    .meta({ examples: [exampleEventCursor] })
    .transform((cursor, { issues }): LogPosition => {
      const position = parseEventCursor(cursor);
      if (position === undefined) {
        issues.push({ code: 'custom', input: cursor, message: 'is not a cursor of the event log' });
      }
      return position ?? nowhere;
    })
    .optional()
    .describe('Start after this position: an event’s `cursor`, or an `eventCursor`.'),
  types: choices(eventTypes)
    .optional()
    .describe('Only events of these types.')
    .meta({ examples: [['conversation.started', 'message.received']] }),
  conversationId: idInput('conversation').optional().describe('Only events of this conversation.'),
};

/**
 * Narrows the filter to what the caller may read: a caller bound to a conversation reads only its events.
 * @throws NOT_FOUND
 */
function filterFor(caller: Caller, { types, conversationId }: EventFilter): EventFilter {
  if (caller.conversationId === undefined) return { types, conversationId };
  if (conversationId !== undefined && conversationId !== caller.conversationId) throw notFound('conversation');
  return { types, conversationId: caller.conversationId };
}

/** Sequences scanned per request: a filter that matches nothing must not read the whole log. */
const maxSpan = 10_000;

/** A page of the log. Its cursor advances even when the filter matches nothing. */
export interface EventPage {
  readonly items: readonly LogEvent[];
  readonly limit: number;
  readonly hasMore: boolean;
  /** Whether the log holds anything before the position where it starts. */
  readonly hasEarlier: boolean;
  readonly nextCursor: string;
}

export const listEvents = operation({
  name: 'listEvents',
  summary: 'Lists the events in the log, oldest first.',
  scope: 'events:read',
  openToBound: true,
  input: z.strictObject({ limit: limitInput, ...readerInput }),
  errors: ['NOT_FOUND', 'CURSOR_EXPIRED'],
  async run({ caller, storage }, { limit, after: position, ...asked }): Promise<EventPage> {
    const accountId = caller.account.id;
    const filter = filterFor(caller, asked);
    const { events: log } = storage.read;
    const epoch = await log.epoch();
    const start = position?.sequence ?? (await log.bounds(accountId)).first - 1;
    const { events, scannedTo } = await log.after(accountId, start, { filter, limit, span: maxSpan });
    // Checked after reading: events pruned just before it would leave an unnoticed gap.
    const { first, last } = await log.bounds(accountId);
    if (position !== undefined) refuseExpired(position, { epoch, first, last });
    return {
      items: events.map((event) => new LogEvent(accountId, epoch, event).viewFor(caller)),
      limit,
      hasMore: scannedTo < last,
      hasEarlier: start >= first,
      nextCursor: eventCursor(epoch, scannedTo),
    };
  },
});

/** An endless stream of events. */
export interface EventStream extends AsyncIterable<readonly LogEvent[]> {
  /** Where to resume. It advances past filtered events, too. */
  readonly cursor: string;
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

  constructor(follower: EventFollower, epoch: string, caller: Caller) {
    this.#follower = follower;
    this.#epoch = epoch;
    this.#caller = caller;
  }

  get cursor(): string {
    return eventCursor(this.#epoch, this.#follower.position);
  }

  giveBack(from: LogEvent): void {
    this.#follower.giveBack(from);
  }

  end(): void {
    this.#follower.end();
  }

  [Symbol.asyncIterator](): AsyncIterator<readonly LogEvent[]> {
    const isBound = this.#caller.conversationId !== undefined;
    return isBound ? views(this.#follower, this.#caller) : this.#follower[Symbol.asyncIterator]();
  }
}

export const streamEvents = operation({
  name: 'streamEvents',
  summary: 'Streams events as they are logged, starting now or at a cursor.',
  scope: 'events:read',
  openToBound: true,
  input: z.strictObject(readerInput),
  errors: ['NOT_FOUND', 'CURSOR_EXPIRED', 'QUOTA_EXCEEDED'],
  async run({ caller, storage, liveEvents }, { after: position, ...asked }): Promise<EventSubscription> {
    const accountId = caller.account.id;
    const filter = filterFor(caller, asked);
    const epoch = await storage.read.events.epoch();
    const bounds = await storage.read.events.bounds(accountId);
    if (position !== undefined) refuseExpired(position, { epoch, ...bounds });
    const start = position?.sequence ?? bounds.last;
    return {
      follow: () => new FollowedLog(liveEvents.follow(accountId, start, filter), epoch, caller),
    };
  },
});

/** Only in GraphQL: REST returns the cursor with the account, see operations.ts. */
export const getEventCursor = operation({
  name: 'getEventCursor',
  summary: 'Returns a cursor at the end of the event log, from which to start following it.',
  scope: 'events:read',
  openToBound: true,
  input: z.strictObject({}),
  errors: [],
  async run({ caller, storage }): Promise<string> {
    const { last } = await storage.read.events.bounds(caller.account.id);
    return eventCursor(await storage.read.events.epoch(), last);
  },
});

/** The batches as a caller bound to a conversation sees them. */
async function* views(follower: EventFollower, caller: Caller): AsyncGenerator<readonly LogEvent[], void> {
  for await (const batch of follower) yield batch.map((event) => event.viewFor(caller));
}
