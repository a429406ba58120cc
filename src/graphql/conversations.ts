import { type Caller, isBound } from '../domain/caller.ts';
import {
  type Assignee,
  assigneeShape,
  type Conversation as ConversationShape,
  conversationShape,
  type Visitor,
  visitorShape,
} from '../domain/conversation-record.ts';
import {
  type ChangedConversation,
  conversationCursor,
  deleteConversation,
  getConversation,
  type ListedConversation,
  listConversations,
  updateConversation,
} from '../domain/conversations.ts';
import { descriptionOf } from '../domain/descriptions.ts';
import { notFound } from '../domain/errors.ts';
import { tagsRule } from '../domain/tags.ts';
import {
  addMutation,
  answering,
  builder,
  calls,
  expectedVersionDescription,
  fieldsOf,
  payloadType,
  type ResultOf,
  type SchemaTypes,
} from './builder.ts';
import { connectionOf, connectionType, edgeField, filteredInput, pageArgs } from './connection.ts';
import { Node } from './node.ts';

export const ConversationStatus = builder.enumType('ConversationStatus', {
  description: 'The status of a conversation.',
  values: {
    ACTIVE: { value: 'active', description: 'Being handled.' },
    CLOSED: { value: 'closed', description: 'Finished. A new message of the visitor changes it to PENDING.' },
    PENDING: { value: 'pending', description: 'Waiting for an agent.' },
  } as const,
});

const ConversationSort = builder.enumType('ConversationSort', {
  description: 'The order of a list of conversations; ties are ordered by id.',
  values: {
    CREATED_AT_DESC: { value: '-createdAt', description: 'Newest first.' },
    CREATED_AT_ASC: { value: 'createdAt', description: 'Oldest first.' },
    LAST_ACTIVITY_AT_DESC: { value: '-lastActivityAt', description: 'Most recently active first.' },
    LAST_ACTIVITY_AT_ASC: { value: 'lastActivityAt', description: 'Least recently active first.' },
  } as const,
});

export const VisitorType = builder.objectRef<Visitor>('Visitor').implement({
  description:
    'The visitor of a conversation, as the client described it. Not an entity: its `id` is that of the client’s system, so a cache must not merge visitors by it.',
  fields: (t) => fieldsOf(t, visitorShape, { id: 'String', name: 'String', email: 'String' }),
});

const AssigneeType = builder.objectRef<Assignee>('Assignee').implement({
  description:
    'The agent who has a conversation. Not an entity: its `id` is that of the client’s system, so a cache must not merge assignees by it.',
  fields: (t) => fieldsOf(t, assigneeShape, { id: 'String', name: 'String' }),
});

export const Conversation = builder.objectRef<ConversationShape>('Conversation');
export const ConversationSnapshot = builder.objectRef<ConversationShape>('ConversationSnapshot');

/** What a conversation and a snapshot of it have in common. */
const stateFields = (t: PothosSchemaTypes.ObjectFieldBuilder<SchemaTypes, ConversationShape>) => ({
  status: t.expose('status', { type: ConversationStatus, description: 'The status of the conversation.' }),
  ...fieldsOf(t, conversationShape, {
    subject: 'String',
    visitor: VisitorType,
    externalId: 'String',
    assignee: AssigneeType,
    metadata: 'Metadata',
    messageCount: 'Int',
    lastActivityAt: 'DateTime',
    firstResponseAt: 'DateTime',
    closedAt: 'DateTime',
    version: 'Int',
    createdAt: 'DateTime',
    updatedAt: 'DateTime',
  }),
  tags: t.stringList({
    description: descriptionOf(conversationShape.shape.tags),
    resolve: ({ tags }) => [...(tags ?? [])], // a result kept for repeated requests may be older than tags
  }),
});

Conversation.implement({ description: 'A conversation with a visitor.', interfaces: [Node], fields: stateFields });

// Caches key objects by their `id`. Under the one of the conversation, an old state would be put over a newer one.
ConversationSnapshot.implement({
  description:
    'A conversation as it was right after an event. It has no `id`, so that no cache takes it for the conversation.',
  fields: (t) => ({
    conversationId: t.exposeID('id', { description: 'The id of the conversation.' }),
    ...stateFields(t),
    current: t.field({
      type: Conversation,
      nullable: true,
      description: 'The conversation as it is now; null if it was deleted. Needs the scope `conversations:read`.',
      resolve: ({ id }, _, { loaders }) => loaders.conversation.load(id),
    }),
  }),
});

const { Connection: ConversationConnection, Edge: ConversationEdge } = connectionType('Conversation', Conversation);

builder.queryFields((t) => ({
  conversations: t.field({
    type: ConversationConnection,
    ...answering(listConversations),
    args: {
      ...pageArgs,
      sort: t.arg({ type: ConversationSort, description: 'The order of the list. Defaults to newest first.' }),
      status: t.arg({ type: ConversationStatus, description: 'Only conversations with this status.' }),
      statuses: t.arg({
        type: [ConversationStatus],
        description: 'Only conversations with one of these statuses; not together with `status`.',
      }),
      externalId: t.arg.string({ description: 'Only the conversation with this `externalId`.' }),
      visitorId: t.arg.string({ description: 'Only conversations of the visitor with this id.' }),
      visitorEmail: t.arg.string({
        description: 'Only conversations of visitors with this email address, in upper or lower case.',
      }),
      assigneeId: t.arg.string({ description: 'Only conversations that this agent has.' }),
      unassigned: t.arg.boolean({
        description: 'Only conversations that no agent has, or with `false` only those that one has.',
      }),
      unreadBy: t.arg.string({
        description: 'Only conversations in which this reader has a position, and messages after it.',
      }),
      tags: t.arg.stringList({ description: 'Only conversations with all of these tags.' }),
      createdAfter: t.arg({ type: 'DateTime', description: 'Only conversations created after this time.' }),
      createdBefore: t.arg({ type: 'DateTime', description: 'Only conversations created before this time.' }),
      updatedAfter: t.arg({ type: 'DateTime', description: 'Only conversations changed after this time.' }),
    },
    resolve: (_, args, context, info) => connectionOf(context, listConversations, info, ...filteredInput(args)),
  }),
  conversation: t.field({
    type: Conversation,
    nullable: true,
    extensions: calls(getConversation),
    description: 'Returns a conversation; null with `NOT_FOUND` if the caller can see none with this id.',
    args: { id: t.arg.id({ required: true, description: 'The id of the conversation.' }) },
    resolve: (_, { id }, context) =>
      context.countAsCall(getConversation, async () => {
        const found = await context.loaders.conversation.load(id);
        if (found === undefined) throw notFound('conversation');
        return found;
      }),
  }),
}));

export const VisitorInput = builder.inputType('VisitorInput', {
  description: 'The visitor of a conversation.',
  fields: (t) => ({
    id: t.string({ description: 'The visitor’s id in the client’s system: at most 128 characters.' }),
    name: t.string({ description: 'The visitor’s name: at most 200 characters.' }),
    email: t.string({ description: 'The visitor’s email address: at most 320 characters.' }),
  }),
});

export const AssigneeInput = builder.inputType('AssigneeInput', {
  description: 'The agent who has a conversation.',
  fields: (t) => ({
    id: t.string({ required: true, description: 'The agent’s id in the client’s system: 1 to 128 characters.' }),
    name: t.string({ description: 'Display name: at most 128 characters.' }),
  }),
});

const UpdateConversationInput = builder.inputType('UpdateConversationInput', {
  description: 'The fields to change; a field that is left out keeps its value.',
  fields: (t) => ({
    id: t.id({ required: true, description: 'The id of the conversation.' }),
    status: t.field({
      type: ConversationStatus,
      description: 'The new status. It cannot be null; leave it out to keep the current one.',
    }),
    subject: t.string({ description: 'Its topic: at most 200 characters, or null to remove it.' }),
    visitor: t.field({ type: VisitorInput, description: 'The visitor; replaced as a whole.' }),
    externalId: t.string({
      description: 'Its id in the client’s system: 1 to 128 characters, or null to remove it.',
    }),
    assignee: t.field({ type: AssigneeInput, description: 'Which agent has it; replaced as a whole.' }),
    tags: t.stringList({
      description: `Replaces all tags. ${tagsRule} Not together with \`addTags\` or \`removeTags\`.`,
    }),
    addTags: t.stringList({ description: 'Tags to add to those that it has.' }),
    removeTags: t.stringList({
      description: 'Tags to remove from those that it has; one that is also added is removed.',
    }),
    metadata: t.field({
      type: 'Metadata',
      description:
        'Merged into the existing metadata: a null value removes its key, and null in place of the object removes all keys.',
    }),
    expectedVersion: t.int({ description: expectedVersionDescription }),
  }),
});

function oneConversationInput(name: string, verb: string) {
  return builder.inputType(name, {
    description: `The conversation to ${verb}.`,
    fields: (t) => ({
      id: t.id({ required: true, description: 'The id of the conversation.' }),
      expectedVersion: t.int({ description: expectedVersionDescription }),
    }),
  });
}

const CloseConversationInput = oneConversationInput('CloseConversationInput', 'close');
const ReopenConversationInput = oneConversationInput('ReopenConversationInput', 'reopen');
const DeleteConversationInput = oneConversationInput('DeleteConversationInput', 'delete');

export const besideDescription = 'With a bound token, its fields that can be null need the scope `conversations:read`.';

/** The fields of a conversation that can be null, what others wrote and set among them. */
const nullableFields = [
  'subject',
  'visitor',
  'externalId',
  'assignee',
  'lastMessage',
  'firstResponseAt',
  'closedAt',
  'readPositions',
] as const satisfies readonly (keyof ListedConversation)[];

/**
 * A conversation beside what a page has made in it, of which REST shows nothing. The schema promises one, so a page that
 * may not read conversations is refused those of its fields.
 */
export function conversationBeside(conversation: ConversationShape, caller: Caller): ConversationShape {
  if (!isBound(caller) || caller.scopes.has('conversations:read')) return conversation;
  const shown = { ...conversation };
  const refusal = { get: () => getConversation.authorise(caller) };
  for (const name of nullableFields) Object.defineProperty(shown, name, refusal);
  return shown;
}

const conversationField = (t: PothosSchemaTypes.ObjectFieldBuilder<SchemaTypes, ChangedConversation>) => ({
  conversation: t.expose('conversation', { type: Conversation, description: 'The conversation after the change.' }),
});

const UpdateConversationPayload = payloadType('updateConversation', conversationField);
const CloseConversationPayload = payloadType('closeConversation', conversationField);
const ReopenConversationPayload = payloadType('reopenConversation', conversationField);
export const CreateConversationPayload = payloadType<ChangedConversation>('createConversation', (t) => ({
  ...conversationField(t),
  conversationEdge: edgeField(t, ConversationEdge, 'conversations', ({ conversation }) => ({
    node: conversation,
    cursor: conversationCursor(conversation),
  })),
}));

const DeleteConversationPayload = payloadType<ResultOf<typeof deleteConversation>>('deleteConversation', (t) => ({
  deletedConversationId: t.exposeID('deletedConversationId', { description: 'The id of the deleted conversation.' }),
}));

addMutation(updateConversation, UpdateConversationPayload, UpdateConversationInput, 'The changes.');
addMutation(deleteConversation, DeleteConversationPayload, DeleteConversationInput, 'The conversation.');
addMutation(updateConversation, CloseConversationPayload, CloseConversationInput, 'The conversation.', {
  name: 'closeConversation',
  description: 'Closes a conversation: `updateConversation` with the status CLOSED.',
  gives: { status: 'closed' },
});
addMutation(updateConversation, ReopenConversationPayload, ReopenConversationInput, 'The conversation.', {
  name: 'reopenConversation',
  description: 'Reopens a conversation: `updateConversation` with the status ACTIVE.',
  gives: { status: 'active' },
});
