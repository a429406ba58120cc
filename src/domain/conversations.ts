import * as z from 'zod';
import { addToAnalytics, deltaOf } from './analytics-delta.ts';
import { type Caller, maySee, refuseOtherFields, shownTo } from './caller.ts';
import { choices } from './choices.ts';
import {
  applyChanges,
  conversationChangesInput,
  newConversation,
  newConversationInput,
} from './conversation-changes.ts';
import { deletionEvent, eventsOf } from './conversation-events.ts';
import {
  type Conversation,
  conversationShape,
  conversationView,
  expectedVersionInput,
  findConversation,
  maxMessages,
  momentAfter,
  type StoredConversation,
} from './conversation-record.ts';
import { codeOf, DomainError, inDoubt, notFound } from './errors.ts';
import { cursorFormOf } from './event-cursor.ts';
import { appendEvents } from './events.ts';
import { exampleId, idInput } from './ids.ts';
import { type Status, statuses } from './lifecycle.ts';
import { type Message, messageShape } from './message-record.ts';
import { messageBy, messageFieldsOfVisitors, requireSender } from './messages.ts';
import { type Context, evenWithOtherFaults, operation } from './operation.ts';
import {
  type CursorShapes,
  checkStart,
  decodeCursor,
  encodeCursor,
  type List,
  pageInput,
  pageWithTotal,
} from './paging.ts';
import {
  maxReadPositions,
  type ReadPosition,
  type ReadPositions,
  readerInput,
  readPositionShape,
} from './read-position-record.ts';
import { addAssignee, moveSender, positionsUpTo, readPositionsOf } from './read-positions.ts';
import type { Reads, Storage, Transaction } from './storage-port.ts';
import { areOneWay, someTagsInput } from './tags.ts';
import { comparableEmail, line } from './text.ts';
import { timeInput, timeInputRoundedUp } from './time.ts';

export const listedConversationShape = conversationShape
  .extend({
    readPositions: z
      .array(readPositionShape)
      .max(maxReadPositions)
      .readonly()
      .describe('How far its readers have read it, sorted by reader. Only the visitor’s when read with a bound token.'),
  })
  .meta({
    id: 'ConversationWithReadPositions',
    description: 'A conversation with a visitor, without its messages.',
  });

export type ListedConversation = Readonly<z.output<typeof listedConversationShape>>;

export const conversationWithMessagesShape = listedConversationShape
  .extend({ messages: z.array(messageShape).readonly().describe('All its messages, oldest first.') })
  .meta({ id: 'ConversationWithMessages', description: 'A conversation with a visitor, including all its messages.' });

type ConversationWithMessages = Readonly<z.output<typeof conversationWithMessagesShape>>;

export const openConversationShape = listedConversationShape
  .extend({
    messages: z
      .array(messageShape)
      .readonly()
      .optional()
      .describe('All its messages or, if asked for, the newest of them, oldest first. Left out with `messages=none`.'),
  })
  .meta({
    id: 'OpenConversation',
    description: 'A conversation with a visitor, including its messages unless they are left out.',
  });

/** A conversation whose messages are read as they are needed: there can be 10,000, and 8 MiB of them. */
export interface OpenConversation {
  readonly conversation: ListedConversation;
  /** How often its read positions have moved. */
  readonly moves: number;
  /** How many of its newest messages were asked for; undefined if it was asked for without any. */
  readonly newest: number | undefined;
  /** Whether these messages at once would take too long. */
  readonly isLarge: boolean;
  /**
   * Some of its `messageCount` messages: they never change.
   * @param from the first one's sequence, and `to` the last one's
   * @throws NOT_FOUND when the conversation has been deleted meanwhile
   */
  messages(from: number, to: number): Promise<readonly Message[]>;
}

/** What is read and sent at once. */
const small = { maxCount: 100, maxBytes: 256 * 1024 };

const newestInput = z
  .string({ error: 'must be a string' })
  .regex(/^(?:none|last:(?:[1-9]\d?|100))$/, { error: 'must be `none`, or `last:` and a number from 1 to 100' })
  .optional()
  .describe('Which messages to return: all by default, none with `none`, the newest 20 with `last:20`; at most 100.')
  .meta({ examples: ['last:20'] });

function newestOf(asked: string | undefined): number {
  return asked === undefined ? maxMessages : Number(asked.slice('last:'.length));
}

export const getConversation = operation({
  name: 'getConversation',
  summary: 'Returns a conversation with its messages: all of them, the newest ones, or none.',
  scope: 'conversations:read',
  openToBound: 'all',
  input: z.strictObject({ id: idInput('conversation').describe('The conversation’s id.'), messages: newestInput }),
  errors: ['NOT_FOUND'],
  async run({ caller, storage }, { id, messages: asked }): Promise<OpenConversation> {
    const accountId = caller.account.id;
    const count = asked === 'none' ? 0 : newestOf(asked);
    const found = await storage.read.conversations.open(accountId, id, { ...small, count });
    if (found === undefined || !maySee(caller, found.conversation)) throw notFound('conversation');
    const { conversation, messages: along } = found;
    const { readPositions, moves } = await readPositionsFor(storage.read, caller, conversation, found.readPositions);
    const { messageCount, contentBytes } = conversation;
    const newest = asked === 'none' ? undefined : Math.min(messageCount, count);
    return {
      conversation: { ...conversationView(conversation, caller), readPositions },
      moves,
      newest,
      isLarge: newest !== undefined && (newest > small.maxCount || contentBytes > small.maxBytes),
      async messages(from, to) {
        if (to < from) return [];
        const page =
          along?.filter(({ sequence }) => sequence >= from && sequence <= to) ??
          (await storage.read.messages.ranges(accountId, [{ conversationId: id, from, to }]))[0] ??
          [];
        if (page.length <= to - from) throw notFound('conversation');
        return page.map((message) => shownTo(caller, message));
      },
    };
  },
});

/**
 * The read positions of one conversation.
 * @param along what was read along with it
 */
async function readPositionsFor(
  reads: Pick<Reads, 'readPositions'>,
  caller: Caller,
  { id, messageCount }: StoredConversation,
  along?: ReadPositions,
): Promise<{ readPositions: readonly ReadPosition[]; moves: number }> {
  const all = await readPositionsOf(reads, caller, [id], along && [along]);
  const [{ positions, moves } = { positions: [], moves: 0 }] = all;
  return { readPositions: positionsUpTo(messageCount, positions), moves };
}

/**
 * Like getConversation for many ids at once, without messages; undefined for each that the caller cannot see.
 * @throws FORBIDDEN
 */
export async function conversationsById(
  { caller, storage }: Pick<Context, 'caller' | 'storage'>,
  ids: readonly string[],
): Promise<readonly (Conversation | undefined)[]> {
  getConversation.authorise(caller);
  const found = await storage.read.conversations.findMany(caller.account.id, ids);
  return found.map((conversation) =>
    conversation !== undefined && maySee(caller, conversation) ? conversationView(conversation, caller) : undefined,
  );
}

export const conversationSorts = ['-createdAt', 'createdAt', '-lastActivityAt', 'lastActivityAt'] as const;
export type ConversationSort = (typeof conversationSorts)[number];
/** By creation, the id is enough: it contains the time. */
const cursorShapes = {
  '-createdAt': ['conversation'],
  createdAt: ['conversation'],
  '-lastActivityAt': ['conversation', 'number'],
  lastActivityAt: ['conversation', 'number'],
} as const satisfies CursorShapes;

/** What a conversation on a list has to be, all of it. */
export interface ConversationFilter {
  /** One of these. */
  readonly statuses?: readonly Status[] | undefined;
  readonly externalId?: string | undefined;
  readonly visitorId?: string | undefined;
  /** In the form of `comparableEmail`. */
  readonly visitorEmail?: string | undefined;
  readonly assigneeId?: string | undefined;
  /** Whether it has no assignee. */
  readonly unassigned?: boolean | undefined;
  /** A reader for whom it has messages past its position. */
  readonly unreadBy?: string | undefined;
  /** All of these. */
  readonly tags?: readonly string[] | undefined;
  /** Epoch milliseconds, exclusive. */
  readonly createdAfter?: number | undefined;
  /** Epoch milliseconds, exclusive. */
  readonly createdBefore?: number | undefined;
  /** Epoch milliseconds, exclusive. */
  readonly updatedAfter?: number | undefined;
}

export interface ConversationQuery {
  readonly filter: ConversationFilter;
  readonly sort: ConversationSort;
  readonly limit: number;
  readonly offset: number;
  /** Continue after the conversation with these sort values. */
  readonly after?: { readonly id: string; readonly lastActivityAtMs?: number } | undefined;
}

/** A list of conversations; their read positions, unless it has them, are read only when that is called. */
export interface ConversationList extends List<Conversation | ListedConversation> {
  withReadPositions(): Promise<readonly ListedConversation[]>;
}

/** What a page of a visitor may give: any other filter would tell it what is not shown to it. */
const listFieldsOfVisitors = [
  ...['limit', 'offset', 'after', 'total', 'sort'],
  ...['status', 'createdAfter', 'createdBefore'],
];

export const listConversations = operation({
  name: 'listConversations',
  summary: 'Lists the account’s conversations, newest first, without their messages.',
  scope: 'conversations:read',
  openToBound: 'visitor',
  completed(caller, given) {
    refuseOtherFields(caller, given, listFieldsOfVisitors);
    return given;
  },
  input: z
    .strictObject({
      ...pageInput('-createdAt', [exampleId('conversation')]),
      sort: z
        .enum(conversationSorts)
        .default('-createdAt')
        .describe('Sort order; a minus sign means descending. Ties are broken by id.'),
      status: choices(statuses)
        .optional()
        .describe('Only conversations with one of these statuses.')
        .meta({ examples: [['active', 'pending']] }),
      externalId: line(128)
        .optional()
        .describe('Only the conversation with this `externalId`.')
        .meta({ examples: ['ticket-1042'] }),
      visitorId: line(128)
        .optional()
        .describe('Only conversations of the visitor with this id.')
        .meta({ examples: ['customer-7'] }),
      visitorEmail: line(320)
        .optional()
        .describe('Only conversations of visitors with this email address, in upper or lower case.')
        .meta({ examples: ['ada@example.com'] }),
      assigneeId: line(128)
        .optional()
        .describe('Only conversations that this agent has.')
        .meta({ examples: ['agent-3'] }),
      unassigned: z
        .boolean()
        .optional()
        .describe('Only conversations that no agent has, or with `false` only those that one has.')
        .meta({ examples: [true] }),
      unreadBy: readerInput
        .optional()
        .describe('Only conversations in which this reader has a position, and messages after it.'),
      tags: someTagsInput.optional().describe('Only conversations with all of these tags.'),
      createdAfter: timeInput.optional().describe('Only conversations created after this time.'),
      createdBefore: timeInputRoundedUp.optional().describe('Only conversations created before this time.'),
      updatedAfter: timeInput.optional().describe('Only conversations changed after this time.'),
    })
    .check(checkStart(cursorShapes)),
  errors: [],
  async run({ caller, storage }, { limit, offset = 0, after, total, sort, ...asked }): Promise<ConversationList> {
    const accountId = caller.account.id;
    const { status: statuses, visitorEmail, ...others } = asked;
    const filter = {
      ...others,
      statuses,
      visitorId: caller.visitor?.id ?? asked.visitorId,
      visitorEmail: visitorEmail && comparableEmail(visitorEmail),
    };
    const { conversations } = storage.read;
    const query = { filter, sort, limit, offset, after: after === undefined ? undefined : positionOf(after, sort) };
    const [slice, totals] = await pageWithTotal(
      () => conversations.page(accountId, query),
      () => conversations.count(accountId, filter),
      total,
    );
    const items = slice.items.map((conversation) => conversationView(conversation, caller));
    const readAll = async (): Promise<readonly ListedConversation[]> => {
      const ids = items.map(({ id }) => id);
      const all = await readPositionsOf(storage.read, caller, ids, slice.readPositions);
      return items.map((item, index) => ({
        ...item,
        readPositions: positionsUpTo(item.messageCount, all[index]?.positions ?? []),
      }));
    };
    const listed = slice.readPositions && (await readAll());
    return {
      items: listed ?? items,
      withReadPositions: async () => listed ?? (await readAll()),
      ...totals,
      hasMore: slice.hasMore,
      limit,
      offset,
      isEmpty: async () => {
        const first = await conversations.page(accountId, { filter, sort, limit: 1, offset: 0 });
        return first.items.length === 0;
      },
      cursorOf: (conversation) => conversationCursor(conversation, sort),
    };
  },
});

export function conversationCursor(
  { id, lastActivityAt }: Conversation,
  sort: ConversationSort = '-createdAt',
): string {
  const isByActivity = sort.endsWith('lastActivityAt');
  return encodeCursor(sort, isByActivity ? [id, Date.parse(lastActivityAt)] : [id]);
}

function positionOf(cursor: string, sort: ConversationSort): NonNullable<ConversationQuery['after']> {
  const [id, lastActivityAtMs] = decodeCursor(cursor, sort, cursorShapes[sort]);
  return { id: String(id), ...(lastActivityAtMs !== undefined && { lastActivityAtMs: Number(lastActivityAtMs) }) };
}

export interface ChangedConversation<C = ListedConversation> {
  readonly conversation: C;
  /** How often its read positions have moved. */
  readonly moves: number;
  /** The end of the event log after this change. */
  readonly eventCursor: string;
}

/** @throws FORBIDDEN */
function newConversationBy(caller: Caller, given: { readonly message?: unknown }): object {
  const ofMessage = messageFieldsOfVisitors.map((name) => `message/${name}`);
  refuseOtherFields(caller, given, ['subject', ...ofMessage, 'idempotencyKey']);
  const { message } = given;
  return typeof message === 'object' && message !== null ? { ...given, message: messageBy(caller, message) } : given;
}

export const createConversation = operation({
  name: 'createConversation',
  summary: 'Creates a conversation, with its first message if one is given.',
  scope: 'conversations:write',
  openToBound: 'visitor',
  completed: newConversationBy,
  input: newConversationInput,
  errors: ['ALREADY_EXISTS'],
  repeatable: {
    conversationIdOf: ({ conversation }: ChangedConversation<ConversationWithMessages>) => conversation.id,
  },
  async run(context, input): Promise<ChangedConversation<ConversationWithMessages>> {
    const { caller } = context;
    if (input.message != null) requireSender(caller, input.message.sender);
    const accountId = caller.account.id;
    const { show } = await cursorFormOf(context);
    const created = await context.once(async (tx) => {
      const moment = momentAfter(context);
      const { conversation, message } = newConversation({ ...input, visitor: caller.visitor ?? input.visitor }, moment);
      await refuseTakenExternalId(tx, accountId, conversation);
      await tx.conversations.insert(accountId, conversation);
      if (message !== undefined) await tx.messages.insert(accountId, message);
      await addAssignee(tx, accountId, undefined, conversation);
      if (message !== undefined) await moveSender(tx, accountId, conversation, message);
      await addToAnalytics(tx, accountId, conversation.createdAt, deltaOf(undefined, conversation, message));
      const [webhooks, { readPositions, moves }] = await Promise.all([
        tx.webhooks.enabled(accountId),
        readPositionsFor(tx, caller, conversation),
      ]);
      const messages = message === undefined ? [] : [shownTo(caller, message)];
      return {
        conversation: { ...conversationView(conversation, caller), readPositions, messages },
        moves,
        eventCursor: await appendEvents(tx, moment, eventsOf(undefined, conversation, message, moment), webhooks),
      };
    }, whatIsUnique(input));
    // A result that was kept for repeated requests may be older than read positions.
    const { conversation, moves = 0 } = created;
    const withPositions = { ...conversation, readPositions: conversation.readPositions ?? [] };
    return { conversation: withPositions, moves, eventCursor: show(created.eventCursor) };
  },
});

export const updateConversation = operation({
  name: 'updateConversation',
  summary: 'Updates a conversation: closes or reopens it, changes its fields or merges metadata.',
  scope: 'conversations:write',
  input: z
    .strictObject({
      id: idInput('conversation').describe('The conversation’s id.'),
      expectedVersion: expectedVersionInput,
      ...conversationChangesInput,
    })
    .refine(areOneWay, {
      path: ['tags'],
      error: 'cannot be used together with `addTags` or `removeTags`',
      ...evenWithOtherFaults,
    }),
  errors: ['NOT_FOUND', 'INVALID_TRANSITION', 'ALREADY_EXISTS', 'VERSION_CONFLICT'],
  async run(context, { id, expectedVersion, ...changes }): Promise<ChangedConversation> {
    const { caller } = context;
    const accountId = caller.account.id;
    const about = [id, ...whatIsUnique(changes)];
    return await context.once(async (tx) => {
      const [positions, webhooks, previous] = await Promise.all([
        tx.readPositions.ofConversations(accountId, [id]),
        tx.webhooks.enabled(accountId),
        findConversation(tx, caller, id, expectedVersion),
      ]);
      const moment = momentAfter(context, previous);
      const next = applyChanges(previous, changes, moment.now);
      let isReaderNew = false;
      if (next !== previous) {
        if (next.externalId !== previous.externalId) await refuseTakenExternalId(tx, accountId, next);
        await tx.conversations.update(accountId, previous, next);
        isReaderNew = await addAssignee(tx, accountId, previous, next);
        await addToAnalytics(tx, accountId, next.updatedAt, deltaOf(previous, next));
      }
      const along = isReaderNew ? undefined : positions[0];
      const { readPositions, moves } = await readPositionsFor(tx, caller, next, along);
      return {
        conversation: { ...conversationView(next, caller), readPositions },
        moves,
        eventCursor: await appendEvents(tx, moment, eventsOf(previous, next, undefined, moment), webhooks),
      };
    }, about);
  },
});

export const deleteConversation = operation({
  name: 'deleteConversation',
  summary:
    'Permanently deletes a conversation with its messages, read positions and leads, and erases the data of its events and their deliveries.',
  scope: 'conversations:write',
  input: z.strictObject({
    id: idInput('conversation').describe('The conversation’s id.'),
    expectedVersion: expectedVersionInput,
  }),
  errors: ['NOT_FOUND', 'VERSION_CONFLICT'],
  async run(context, { id, expectedVersion }) {
    const { caller, storage } = context;
    const accountId = caller.account.id;
    try {
      return await storage.write(async (tx) => {
        const conversation = await findConversation(tx, caller, id, expectedVersion);
        await tx.conversations.erase(accountId, conversation);
        const moment = momentAfter(context, conversation);
        const eventCursor = await appendEvents(tx, moment, [deletionEvent(conversation, moment)]);
        return { deletedConversationId: id, eventCursor };
      });
    } finally {
      // Also after NOT_FOUND: a client must not learn that the conversation is gone while parts of it remain.
      await finishErasures(storage, (begun) => begun.accountId === accountId && begun.id === id).catch(
        (error: unknown) => {
          if (codeOf(error) !== 'UNAVAILABLE') throw error;
          throw inDoubt('The conversation may have been deleted. What is left of it is erased later.', error);
        },
      );
    }
  },
});

/**
 * Completes erasures that were begun here or in a process that has since been killed. A large conversation takes many
 * transactions, between which other writes can run.
 * @param which selects the erasures to complete; by default all
 * @returns the number of erasures completed
 */
export async function finishErasures(
  { read, write }: Pick<Storage, 'read' | 'write'>,
  which: (begun: { accountId: string; id: string }) => boolean = () => true,
): Promise<number> {
  const begun = (await read.conversations.erasing()).filter(which);
  for (const { accountId, id } of begun) {
    let isGone = false;
    while (!isGone) isGone = await write(async (tx) => await tx.conversations.eraseMore(accountId, id), accountId);
  }
  return begun.length;
}

/** What no two conversations of an account have: see `Storage.write`. */
function whatIsUnique({ externalId }: { readonly externalId?: string | null | undefined }): string[] {
  return externalId == null ? [] : [externalId];
}

/** @throws ALREADY_EXISTS */
async function refuseTakenExternalId(
  tx: Transaction,
  accountId: string,
  { id, externalId }: StoredConversation,
): Promise<void> {
  if (externalId === null) return;
  const other = await tx.conversations.idByExternalId(accountId, externalId);
  if (other !== undefined && other !== id) {
    throw new DomainError('ALREADY_EXISTS', `The conversation ${other} has this \`externalId\` already.`);
  }
}
