import * as z from 'zod';
import { addToAnalytics, deltaOf } from './analytics-delta.ts';
import { type Caller, isBound, maySee, refuseOtherFields, shownTo } from './caller.ts';
import { eventsOf } from './conversation-events.ts';
import {
  type Conversation,
  conversationView,
  expectedVersionInput,
  findConversation,
  maxContentBytes,
  maxMessages,
  momentAfter,
  type StoredConversation,
} from './conversation-record.ts';
import { DomainError, notFound, quoting, type Text } from './errors.ts';
import { cursorFormOf } from './event-cursor.ts';
import { appendEvents } from './events.ts';
import { idInput } from './ids.ts';
import { statusAfterMessage } from './lifecycle.ts';
import { lastMessageOf, type Message, type Sender, senders } from './message-record.ts';
import { metadataInput } from './metadata.ts';
import { type Context, type Moment, operation } from './operation.ts';
import {
  type CursorShapes,
  checkStart,
  cursorFault,
  decodeCursor,
  encodeCursor,
  type List,
  pageInput,
} from './paging.ts';
import { moveSender } from './read-positions.ts';
import { line, prose } from './text.ts';
import { timestamp } from './time.ts';

/** The messages `from` to `to`, both included. The caller has just read the conversation and knows that they exist. */
export interface MessageRange {
  readonly conversationId: string;
  readonly from: number;
  readonly to: number;
}

const maxContentLength = 16_384;

export const clientIdDescription =
  'The sender’s own mark: 1 to 64 visible ASCII characters, by which it knows its own message in the event log.';

/** The fields of a new message, sent on its own or with a new conversation. */
export const messageInput = {
  content: prose(maxContentLength)
    .describe('The text: 1 to 16,384 characters, not only white space.')
    .meta({ examples: ['It will be with you tomorrow.'] }),
  sender: z
    .enum(senders)
    .describe(
      'Role of the sender. Use `visitor` to pass on what a visitor wrote. It may be left out with a token that can send as no other.',
    )
    .meta({ examples: ['agent'], givenByToken: true }),
  author: z
    .strictObject({
      id: line(128).nullable().default(null).describe('The author’s id in the client’s system.'),
      name: line(128)
        .nullable()
        .default(null)
        .describe('Display name.')
        .meta({ examples: ['Grace'] }),
    })
    .nullable()
    .default(null)
    .describe('The agent or bot that wrote it.'),
  clientId: z
    .string({ error: 'must be a string' })
    .regex(/^[\x21-\x7e]{1,64}$/, { error: 'must be 1 to 64 visible ASCII characters' })
    .nullable()
    .default(null)
    .describe(clientIdDescription)
    .meta({ examples: ['draft-17'] }),
  metadata: metadataInput.default({}).describe('Arbitrary client data: a flat object of at most 50 keys and 8 KiB.'),
};

type MessageDraft = z.output<z.ZodObject<typeof messageInput>>;

/**
 * A message as the caller gives it, with its sender if its token says which one that is.
 * @throws FORBIDDEN for an author named by a visitor's page, who would pass for one of the agents
 */
export function messageBy(caller: Caller, given: Partial<Record<'sender' | 'author', unknown>>): object {
  if (isBound(caller) && caller.sender === 'visitor' && given.author != null) {
    throw new DomainError('FORBIDDEN', 'This token may name no author: it speaks as the visitor.');
  }
  return caller.sender === undefined || given.sender != null ? given : { ...given, sender: caller.sender };
}

/** What a page of a visitor may say of a message, in the fields of `messageInput`. */
export const messageFieldsOfVisitors = ['content', 'sender', 'clientId'] as const;

/** @throws FORBIDDEN when the caller is bound to another sender */
export function requireSender(caller: Caller, sender: Sender): void {
  if (caller.sender !== undefined && caller.sender !== sender) {
    throw new DomainError('FORBIDDEN', quoting`This token may send only as ${caller.sender}.`);
  }
}

/**
 * Adds a message to a conversation. A pure function, shared by creating a conversation with a message and by sending
 * one.
 * @returns the message, and the conversation after it with its version unchanged
 * @throws CONVERSATION_CLOSED, QUOTA_EXCEEDED
 */
export function addMessage(
  conversation: StoredConversation,
  draft: MessageDraft,
  { ids, now }: Moment,
): { message: Message; conversation: StoredConversation } {
  const status = statusAfterMessage(conversation.status, draft.sender);
  const contentBytes = conversation.contentBytes + bytesOf(draft);
  if (conversation.messageCount >= maxMessages || contentBytes > maxContentBytes) {
    throw new DomainError(
      'QUOTA_EXCEEDED',
      'A conversation holds at most 10,000 messages and 8 MiB of content, metadata and authors; start a new one.',
    );
  }
  const at = timestamp(now);
  const sequence = conversation.messageCount + 1;
  const message: Message = {
    id: ids.next('message', now, sequence),
    conversationId: conversation.id,
    sequence,
    sender: draft.sender,
    content: draft.content,
    author: draft.author,
    clientId: draft.clientId,
    metadata: draft.metadata,
    createdAt: at,
  };
  const firstResponse =
    draft.sender === 'agent' && conversation.firstResponseAt === null && conversation.firstVisitorMessageAt !== null;
  return {
    message,
    conversation: {
      ...conversation,
      status,
      messageCount: message.sequence,
      lastMessage: lastMessageOf(message),
      contentBytes,
      lastActivityAt: at,
      updatedAt: at,
      firstVisitorMessageAt: conversation.firstVisitorMessageAt ?? (draft.sender === 'visitor' ? at : null),
      firstResponseAt: firstResponse ? at : conversation.firstResponseAt,
      reopenedAt: conversation.status === 'closed' ? at : conversation.reopenedAt,
      closedAt: status === 'closed' ? conversation.closedAt : null,
    },
  };
}

/** The size of a message: its content in bytes of UTF-8, its author and metadata, if present, in bytes of JSON. */
function bytesOf({ content, author, metadata }: MessageDraft): number {
  const ofAuthor = author === null ? 0 : Buffer.byteLength(JSON.stringify(author));
  const ofMetadata = Object.keys(metadata).length === 0 ? 0 : Buffer.byteLength(JSON.stringify(metadata));
  return Buffer.byteLength(content) + ofAuthor + ofMetadata;
}

interface SentMessage {
  readonly message: Message;
  readonly conversation: Conversation;
  /** The end of the event log after this message. */
  readonly eventCursor: string;
}

export const sendMessage = operation({
  name: 'sendMessage',
  summary: 'Sends a message to a conversation.',
  scope: 'conversations:write',
  openToBound: 'all',
  completed(caller, given) {
    const others = ['conversationId', 'expectedVersion', 'idempotencyKey'];
    refuseOtherFields(caller, given, [...messageFieldsOfVisitors, ...others]);
    return messageBy(caller, given);
  },
  input: z.strictObject({
    conversationId: idInput('conversation').describe('The conversation to send it to.'),
    expectedVersion: expectedVersionInput,
    ...messageInput,
  }),
  errors: ['NOT_FOUND', 'CONVERSATION_CLOSED', 'QUOTA_EXCEEDED', 'VERSION_CONFLICT'],
  repeatable: { conversationIdOf: ({ conversation }: SentMessage) => conversation.id },
  async run(context, { conversationId, expectedVersion, ...draft }): Promise<SentMessage> {
    const { caller } = context;
    requireSender(caller, draft.sender);
    const { show } = await cursorFormOf(context);
    const about = [conversationId];
    const sent = await context.once(async (tx) => {
      const [webhooks, previous] = await Promise.all([
        tx.webhooks.enabled(caller.account.id),
        findConversation(tx, caller, conversationId, expectedVersion),
      ]);
      const moment = momentAfter(context, previous);
      const { message, conversation } = addMessage(previous, draft, moment);
      const next = { ...conversation, version: previous.version + 1 };
      await tx.messages.insert(caller.account.id, message);
      await moveSender(tx, caller.account.id, next, message); // first: then the others have not read it
      await tx.conversations.update(caller.account.id, previous, next);
      await addToAnalytics(tx, caller.account.id, message.createdAt, deltaOf(previous, next, message));
      return {
        message: shownTo(caller, message),
        conversation: conversationView(next, caller),
        eventCursor: await appendEvents(tx, moment, eventsOf(previous, next, message, moment), webhooks),
      };
    }, about);
    return { ...sent, eventCursor: show(sent.eventCursor) };
  },
});

const sorts = ['sequence', '-sequence'] as const;
type MessageSort = (typeof sorts)[number];
const cursorShapes = { sequence: ['number'], '-sequence': ['number'] } as const satisfies CursorShapes;
const page = pageInput('sequence', [20]);

/** A page between two sequences, both excluded: the beginning of what is between them, or its end. */
export interface MessagePage {
  readonly after?: number | undefined;
  readonly before?: number | undefined;
  readonly isFromEnd: boolean;
  readonly limit: number;
  /** How many messages are skipped, from the end if the page is. */
  readonly offset: number;
}

/**
 * The first and the last sequence on a page; there are none if the first is above the last. Sequences have no gaps, so a
 * page at any depth is a range that is known in advance.
 * @param count number of messages in the conversation
 */
export function sequencesOf(count: number, { after = 0, before = count + 1, isFromEnd, limit, offset }: MessagePage) {
  const begin = after + 1;
  const end = Math.min(before - 1, count);
  const [from, to] = isFromEnd
    ? [Math.max(begin, end - offset - limit + 1), end - offset]
    : [begin + offset, Math.min(end, begin + offset + limit - 1)];
  return { from, to };
}

export const listMessages = operation({
  name: 'listMessages',
  summary: 'Lists the messages of a conversation in the order of their sequence.',
  scope: 'conversations:read',
  openToBound: 'all',
  input: z
    .strictObject({
      conversationId: idInput('conversation').describe('The conversation’s id.'),
      ...page,
      offset: page.offset.describe('Number of messages to skip, at no extra cost.'),
      sort: z.enum(sorts).default('sequence').describe('Sort order: oldest first, or newest first with `-sequence`.'),
    })
    .check(checkStart(cursorShapes)),
  errors: ['NOT_FOUND'],
  async run({ caller, storage }, { conversationId, limit, offset = 0, after, total, sort }): Promise<List<Message>> {
    const position = after === undefined ? undefined : Number(decodeCursor(after, sort, cursorShapes[sort])[0]);
    const isFromEnd = sort === '-sequence';
    const page = { ...(isFromEnd ? { before: position } : { after: position }), isFromEnd, limit, offset };
    const found = await storage.read.messages.page(caller.account.id, conversationId, page);
    if (found === undefined || !maySee(caller, found.conversation)) throw notFound('conversation');
    const { messageCount: count } = found.conversation;
    const { from, to } = sequencesOf(count, page);
    if (from <= to && !isWhole({ from, to }, found.messages)) throw notFound('conversation');
    const items = found.messages.map((message) => shownTo(caller, message));
    return {
      items: isFromEnd ? items.toReversed() : items,
      limit,
      offset,
      hasMore: from <= to && (isFromEnd ? from > 1 : to < count),
      wantsTotal: total === undefined,
      total: () => count,
      isEmpty: () => count === 0,
      cursorOf: (message) => messageCursor(message, sort),
    };
  },
});

/** Whether these are all messages of a range: some are missing if the conversation was deleted while they were read. */
function isWhole({ from, to }: Pick<MessageRange, 'from' | 'to'>, items: readonly Message[]): boolean {
  return items.length > to - from;
}

export function messageCursor(message: Pick<Message, 'sequence'>, sort: MessageSort = 'sequence'): string {
  return encodeCursor(sort, [message.sequence]);
}

/** What is wrong with a text as a cursor of messages, or undefined. */
export function messageCursorFault(cursor: string): Text | undefined {
  return cursorFault(cursor, 'sequence', cursorShapes.sequence);
}

/** @throws VALIDATION_FAILED */
export function messageCursorSequence(cursor: string, argument = 'after'): number {
  return Number(decodeCursor(cursor, 'sequence', cursorShapes.sequence, argument)[0]);
}

/**
 * Like listMessages for many conversations at once. The caller must have been allowed to see the conversations that the
 * ranges belong to. `onRead` is that of `MessageReads.ranges`.
 * @returns NOT_FOUND in place of the messages of a conversation that was deleted meanwhile
 * @throws FORBIDDEN
 */
export async function listMessageRanges(
  { caller, storage }: Pick<Context, 'caller' | 'storage'>,
  ranges: readonly MessageRange[],
  onRead: (bytes: number) => void,
): Promise<readonly (readonly Message[] | DomainError)[]> {
  listMessages.authorise(caller);
  const pages = await storage.read.messages.ranges(caller.account.id, ranges, onRead);
  return ranges.map((range, at) => {
    const page = pages[at] ?? [];
    return isWhole(range, page) ? page.map((message) => shownTo(caller, message)) : notFound('conversation');
  });
}

export const getMessage = operation({
  name: 'getMessage',
  summary: 'Returns a message.',
  scope: 'conversations:read',
  openToBound: 'all',
  input: z.strictObject({ id: idInput('message').describe('The message’s id.') }),
  errors: ['NOT_FOUND'],
  async run(context, { id }): Promise<Message> {
    const [message] = await messagesById(context, [id]);
    if (message === undefined) throw notFound('message');
    return message;
  },
});

/**
 * Like getMessage for many ids at once; undefined for each message that the caller cannot see.
 * @throws FORBIDDEN
 */
export async function messagesById(
  { caller, storage }: Pick<Context, 'caller' | 'storage'>,
  ids: readonly string[],
): Promise<readonly (Message | undefined)[]> {
  getMessage.authorise(caller);
  const messages = await storage.read.messages.findMany(caller.account.id, ids);
  if (!isBound(caller)) return messages;
  const conversationIds = [...new Set(messages.flatMap((message) => message?.conversationId ?? []))];
  const conversations = await storage.read.conversations.findMany(caller.account.id, conversationIds);
  const seen = new Set(conversations.flatMap((each) => (each !== undefined && maySee(caller, each) ? each.id : [])));
  return messages.map((message) =>
    message && seen.has(message.conversationId) ? shownTo(caller, message) : undefined,
  );
}
