import type { Awaitable } from '../domain/awaitable.ts';
import { type Conversation as ConversationShape, conversationShape } from '../domain/conversation-record.ts';
import { descriptionsOf } from '../domain/descriptions.ts';
import { type Fault, notFound } from '../domain/errors.ts';
import { idempotencyKeyDescription } from '../domain/idempotency.ts';
import {
  type Author,
  authorShape,
  type LastMessage,
  lastMessageShape,
  type Message,
  messageShape,
  previewOf,
} from '../domain/message-record.ts';
import {
  clientIdDescription,
  getMessage,
  listMessages,
  messageCursor,
  messageCursorFault,
  messageCursorSequence,
  sendMessage,
  sequencesOf,
} from '../domain/messages.ts';
import { valueFaults } from '../domain/operation.ts';
import { limitInput } from '../domain/paging.ts';
import {
  addMutation,
  builder,
  calls,
  expectedVersionDescription,
  fieldsOf,
  payloadType,
  type ResultOf,
  withoutNulls,
} from './builder.ts';
import { type Connection, connectionType, edgeField, listInput, pageArgs } from './connection.ts';
import type { OperationContext } from './context.ts';
import { besideDescription, Conversation, ConversationSnapshot, conversationBeside } from './conversations.ts';
import { longText } from './measure.ts';
import { Node } from './node.ts';

export const Sender = builder.enumType('Sender', {
  description: 'The role of the sender of a message.',
  values: {
    AGENT: { value: 'agent', description: 'A person who replies on behalf of the account.' },
    VISITOR: { value: 'visitor', description: 'The visitor. Such a message causes the event `message.received`.' },
    BOT: {
      value: 'bot',
      description: 'A program of the account, kept apart from agents so that response times measure only people.',
    },
  } as const,
});

const described = descriptionsOf(messageShape);
const conversationDescriptions = descriptionsOf(conversationShape);

const MessageAuthor = builder.objectRef<Author>('MessageAuthor').implement({
  description:
    'The agent or bot that wrote a message. Not an entity: its `id` is that of the client’s system, so a cache must not merge authors by it.',
  fields: (t) => fieldsOf(t, authorShape, { id: 'String', name: 'String' }),
});

/** A message, or what a conversation holds of its last one: of that, the rest is loaded only if it is asked for. */
type ShownMessage = Message | (LastMessage & Pick<Message, 'conversationId'>);

export const MessageType = builder.objectRef<ShownMessage>('Message');

/** @throws NOT_FOUND */
async function loadMessage(id: string, { message }: OperationContext['loaders']): Promise<Message> {
  const found = await message.load(id);
  if (found === undefined) throw notFound('message');
  return found;
}

/** Reads a field that the last message in a conversation lacks. */
function fromWhole<Name extends 'content' | 'clientId' | 'metadata'>(name: Name) {
  return (message: ShownMessage, _: unknown, { loaders }: OperationContext): Awaitable<Message[Name]> => {
    return 'content' in message ? message[name] : loadMessage(message.id, loaders).then((whole) => whole[name]);
  };
}

MessageType.implement({
  description: 'A message in a conversation. Messages never change.',
  interfaces: [Node],
  fields: (t) => ({
    ...fieldsOf(t, messageShape, {
      conversationId: 'ID',
      sequence: 'Int',
      sender: Sender,
      author: MessageAuthor,
      createdAt: 'DateTime',
    }),
    content: t.string({
      description: described.content,
      extensions: longText,
      resolve: fromWhole('content'),
    }),
    preview: t.string({
      description: descriptionsOf(lastMessageShape).preview,
      resolve: (message) => ('preview' in message ? message.preview : previewOf(message.content)),
    }),
    clientId: t.string({ nullable: true, description: described.clientId, resolve: fromWhole('clientId') }),
    metadata: t.field({ type: 'Metadata', description: described.metadata, resolve: fromWhole('metadata') }),
    conversation: t.field({
      type: Conversation,
      nullable: true,
      description: 'The current state of its conversation. Needs the scope `conversations:read`.',
      resolve: ({ conversationId }, _, { loaders }) => loaders.conversation.load(conversationId),
    }),
  }),
});

const { Connection: MessageConnection, Edge: MessageEdge } = connectionType('Message', MessageType);

interface MessagePageArgs {
  first?: number | null | undefined;
  after?: string | null | undefined;
  last?: number | null | undefined;
  before?: string | null | undefined;
  offset?: number | null | undefined;
}

/**
 * listMessages with the arguments of Relay. A conversation has its number of messages, and their sequences have no
 * gaps, so each page is a range that is known in advance, and the pages of many conversations are one statement.
 */
async function messagesOf(
  conversation: ConversationShape,
  args: MessagePageArgs,
  { caller, loaders }: OperationContext,
): Promise<Connection<ShownMessage>> {
  listMessages.authorise(caller);
  const { last, before, ...forwards } = withoutNulls(args);
  const { first, after } = forwards;
  const faults: Fault[] = [];
  if (last !== undefined) {
    if (first === undefined) faults.push(...valueFaults(limitInput, last, ['last']));
    else faults.push({ path: ['last'], detail: 'cannot be used together with `first`' });
  }
  const beforeFault = before === undefined ? undefined : messageCursorFault(before);
  if (beforeFault !== undefined) faults.push({ path: ['before'], detail: beforeFault });
  const page = listMessages.parse({ ...listInput(forwards), conversationId: conversation.id }, faults);
  const { messageCount: count } = conversation;
  const { limit, offset = 0 } = page;
  const behind = after === undefined ? 0 : messageCursorSequence(after);
  const { from, to } = sequencesOf(count, {
    after: behind,
    before: before === undefined ? undefined : messageCursorSequence(before, 'before'),
    isFromEnd: last !== undefined,
    limit: last ?? limit,
    offset,
  });
  // The end of the page, or of what comes before it if it is empty.
  const until = Math.max(to, behind);
  const nodes = from > to ? [] : await loaders.messageRange.load({ conversationId: conversation.id, from, to });
  return {
    nodes,
    cursorOf: (message) => messageCursor(message),
    hasNextPage: until < count,
    hasPreviousPage: () => Math.min(from - 1, until, count) > 0,
    total: () => count,
  };
}

builder.objectField(Conversation, 'messages', (t) =>
  t.field({
    type: MessageConnection,
    nullable: true,
    extensions: calls(listMessages),
    description: 'The messages, oldest first. Needs the scope `conversations:read`.',
    args: {
      first: pageArgs.first,
      after: t.arg.string({ description: 'Continue after this cursor.' }),
      last: t.arg.int({
        description: 'Number of items to return from the end: 1 to 100; not together with `first`.',
      }),
      before: t.arg.string({ description: 'Stop before this cursor.' }),
      offset: t.arg.int({
        description:
          'Number of items to skip, with `last` from the end; not together with `after`. Its cost does not grow with its size.',
      }),
    },
    resolve: (conversation, args, context) =>
      context.countAsCall(listMessages, () => messagesOf(conversation, args, context)),
  }),
);

for (const type of [Conversation, ConversationSnapshot]) {
  builder.objectField(type, 'lastMessage', (t) =>
    t.field({
      type: MessageType,
      nullable: true,
      description: `${conversationDescriptions.lastMessage} What REST does not show of it here needs the scope \`conversations:read\`.`,
      resolve: ({ id, lastMessage }) => lastMessage && { ...lastMessage, conversationId: id },
    }),
  );
}

builder.queryField('message', (t) =>
  t.field({
    type: MessageType,
    nullable: true,
    extensions: calls(getMessage),
    description: 'Returns a message; null with `NOT_FOUND` if the caller can see none with this id.',
    args: { id: t.arg.id({ required: true, description: 'The id of the message.' }) },
    resolve: (_, { id }, context) => context.countAsCall(getMessage, () => loadMessage(id, context.loaders)),
  }),
);

const AuthorInput = builder.inputType('MessageAuthorInput', {
  description: 'The agent or bot that wrote a message.',
  fields: (t) => ({
    id: t.string({ description: 'The author’s id in the client’s system: at most 128 characters.' }),
    name: t.string({ description: 'Display name: at most 128 characters.' }),
  }),
});

type InputFields = Parameters<Parameters<typeof builder.inputType>[1]['fields']>[0];

/** What a client says of a message, in whichever conversation. */
const messageFields = (t: InputFields) => ({
  content: t.string({ required: true, description: 'The text: 1 to 16,384 characters, not only white space.' }),
  sender: t.field({
    type: Sender,
    description:
      'Role of the sender. Use VISITOR to pass on what a visitor wrote. It cannot be null, and be left out only with a token that can send as no other.',
  }),
  author: t.field({ type: AuthorInput, description: 'The agent or bot that wrote it.' }),
  clientId: t.string({ description: clientIdDescription }),
  metadata: t.field({
    type: 'Metadata',
    description: 'Arbitrary client data: a flat object of at most 50 keys and 8 KiB.',
  }),
});

export const FirstMessageInput = builder.inputType('MessageInput', {
  description: 'The first message of a new conversation.',
  fields: messageFields,
});

const SendMessageInput = builder.inputType('SendMessageInput', {
  description: 'A message and the conversation to send it to.',
  fields: (t) => ({
    conversationId: t.id({ required: true, description: 'The id of the conversation.' }),
    ...messageFields(t),
    expectedVersion: t.int({ description: expectedVersionDescription }),
    idempotencyKey: t.string({ description: idempotencyKeyDescription }),
  }),
});

const SendMessagePayload = payloadType<ResultOf<typeof sendMessage>>('sendMessage', (t) => ({
  message: t.expose('message', { type: MessageType, description: 'The message as stored.' }),
  messageEdge: edgeField(t, MessageEdge, 'messages', ({ message }) => ({
    node: message,
    cursor: messageCursor(message),
  })),
  conversation: t.field({
    type: Conversation,
    description: `The conversation after the message. ${besideDescription}`,
    resolve: ({ conversation }, _, { caller }) => conversationBeside(conversation, caller),
  }),
}));

addMutation(sendMessage, SendMessagePayload, SendMessageInput, 'The message to send.');
