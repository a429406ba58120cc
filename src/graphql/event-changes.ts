import type { ConversationChanges } from '../domain/conversation-events.ts';
import { maxKeys } from '../domain/metadata.ts';
import { builder } from './builder.ts';

interface Change {
  readonly field: string;
  readonly key: string | null;
  readonly from: unknown;
  readonly to: unknown;
}

/** The fields, with all keys of metadata that one change can remove and add. */
export const maxChanges = 6 + 2 * maxKeys;

export const ConversationChange = builder.objectRef<Change>('ConversationChange').implement({
  description: 'A field of a conversation that was changed, or a key of its metadata.',
  fields: (t) => ({
    field: t.exposeString('field', { description: 'The name of the field.' }),
    key: t.exposeString('key', { nullable: true, description: 'The key, if the field is `metadata`.' }),
    from: t.expose('from', { type: 'JSON', nullable: true, description: 'The value before, spelt as in REST.' }),
    to: t.expose('to', { type: 'JSON', nullable: true, description: 'The value afterwards, spelt as in REST.' }),
  }),
});

/** Changes as a list, with each key of metadata on its own. */
export function changeList({ metadata = {}, ...fields }: ConversationChanges): Change[] {
  const listed = (field: string, key: string | null, change: Pick<Change, 'from' | 'to'> | undefined): Change[] =>
    change === undefined ? [] : [{ field, key, from: change.from, to: change.to }];
  return [
    ...Object.entries(fields).flatMap(([field, change]) => listed(field, null, change)),
    ...Object.entries(metadata).flatMap(([key, change]) => listed('metadata', key, change)),
  ];
}
