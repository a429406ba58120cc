import * as z from 'zod';
import type { StoredConversation } from './conversation-record.ts';
import { validationFailed } from './errors.ts';
import { initialStatus, newStatuses, requestedStatus, statuses } from './lifecycle.ts';
import type { Message } from './message-record.ts';
import { addMessage, messageInput } from './messages.ts';
import { mergeMetadata, metadataInput, metadataPatchInput, metadataSizeFault } from './metadata.ts';
import type { Moment } from './operation.ts';
import { changedTags, tagsInput, tagsRule } from './tags.ts';
import { line } from './text.ts';
import { timestamp } from './time.ts';

// How a conversation begins and changes, as pure functions.

const visitorInput = z
  .strictObject({
    id: line(128).nullable().default(null).describe('The visitor’s id in the client’s system.'),
    name: line(200)
      .nullable()
      .default(null)
      .describe('The visitor’s name.')
      .meta({ examples: ['Ada'] }),
    email: line(320).nullable().default(null).describe('The visitor’s email address.'),
  })
  .nullable();
const subjectInput = line(200)
  .nullable()
  .describe('Its topic.')
  .meta({ examples: ['Parcel 1042'] });
const assigneeInput = z
  .strictObject({
    id: line(128, 1)
      .describe('The agent’s id in the client’s system.')
      .meta({ examples: ['agent-3'] }),
    name: line(128)
      .nullable()
      .default(null)
      .describe('Display name.')
      .meta({ examples: ['Grace'] }),
  })
  .nullable();
const externalIdInput = line(128, 1).nullable().describe('Its id in the client’s system, unique in the account.');

export const newConversationInput = z.strictObject({
  subject: subjectInput.default(null),
  status: z
    .enum(newStatuses)
    .nullish()
    .describe(
      '`active` by default, or `pending` if the first message is a visitor’s. With an agent’s message it is `active` in any case.',
    ),
  visitor: visitorInput.default(null).describe('The visitor.'),
  externalId: externalIdInput.default(null),
  assignee: assigneeInput.default(null).describe('Which agent has it.'),
  tags: tagsInput.nullable().default(null).describe(`Its tags: ${tagsRule}`),
  metadata: metadataInput.default({}).describe('Arbitrary client data: a flat object of at most 50 keys and 8 KiB.'),
  message: z.strictObject(messageInput).nullish().describe('The first message.'),
});

type ConversationInput = z.output<typeof newConversationInput>;

/** The fields of a conversation that a client can change. */
export const conversationChangesInput = {
  status: z.enum(statuses).optional().describe('The new status.'),
  subject: subjectInput.optional(),
  visitor: visitorInput.optional().describe('The visitor; replaced as a whole.'),
  externalId: externalIdInput.optional(),
  assignee: assigneeInput.optional().describe('Which agent has it; replaced as a whole.'),
  tags: tagsInput
    .nullable()
    .optional()
    .describe(`Replaces all tags. ${tagsRule} Not together with \`addTags\` or \`removeTags\`.`),
  addTags: tagsInput.nullish().describe('Tags to add to those that it has.'),
  removeTags: tagsInput.nullish().describe('Tags to remove from those that it has; one that is also added is removed.'),
  metadata: metadataPatchInput
    .nullable()
    .optional()
    .describe(
      'Merged into the existing metadata: a null value removes its key, and null in place of the object removes all keys.',
    ),
};

type ConversationChanges = z.output<z.ZodObject<typeof conversationChangesInput>>;

/** A new conversation, with its first message if one is given. */
export function newConversation(
  input: ConversationInput,
  { ids, now }: Moment,
): { conversation: StoredConversation; message?: Message } {
  const at = timestamp(now);
  const empty: StoredConversation = {
    id: ids.next('conversation', now),
    status: initialStatus(input.status ?? undefined, input.message?.sender),
    subject: input.subject,
    visitor: input.visitor,
    externalId: input.externalId,
    assignee: input.assignee,
    tags: input.tags ?? [],
    metadata: input.metadata,
    messageCount: 0,
    lastMessage: null,
    lastActivityAt: at,
    firstResponseAt: null,
    closedAt: null,
    version: 1,
    createdAt: at,
    updatedAt: at,
    firstVisitorMessageAt: null,
    reopenedAt: null,
    contentBytes: 0,
  };
  return input.message == null ? { conversation: empty } : addMessage(empty, input.message, { ids, now });
}

/**
 * The conversation after the changes; the same object if they change nothing.
 * @throws INVALID_TRANSITION, VALIDATION_FAILED when the merged metadata is too large or there are too many tags
 */
export function applyChanges(
  previous: StoredConversation,
  changes: ConversationChanges,
  now: number,
): StoredConversation {
  const status = changes.status === undefined ? previous.status : requestedStatus(previous.status, changes.status);
  const at = timestamp(now);
  const next: StoredConversation = {
    ...previous,
    status,
    subject: changes.subject === undefined ? previous.subject : changes.subject,
    visitor: changes.visitor === undefined ? previous.visitor : changes.visitor,
    externalId: changes.externalId === undefined ? previous.externalId : changes.externalId,
    assignee: changes.assignee === undefined ? previous.assignee : changes.assignee,
    tags: changedTags(previous.tags, changes),
    metadata: changes.metadata === undefined ? previous.metadata : mergeMetadata(previous.metadata, changes.metadata),
    closedAt: status === 'closed' ? (previous.closedAt ?? at) : null,
    reopenedAt: previous.status === 'closed' && status !== 'closed' ? at : previous.reopenedAt,
  };
  const sizeFault = metadataSizeFault(next.metadata);
  if (sizeFault !== undefined) throw validationFailed([{ path: ['metadata'], detail: `${sizeFault} after merging` }]);
  if (status === previous.status && JSON.stringify(next) === JSON.stringify(previous)) return previous;
  return { ...next, version: previous.version + 1, updatedAt: at };
}
