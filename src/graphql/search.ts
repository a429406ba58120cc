import { descriptionOf } from '../domain/descriptions.ts';
import {
  type ExcerptPart,
  excerptPartShape,
  maxExcerptParts,
  type SearchResult as SearchResultShape,
  search,
  searchResultShape,
} from '../domain/search.ts';
import { answering, builder, fieldsOf } from './builder.ts';
import { type Connection, connectionType, filteredInput, forwards, pageArgs, totalFor } from './connection.ts';
import { Conversation, ConversationStatus } from './conversations.ts';
import { listOfAtMost } from './measure.ts';
import { MessageType } from './messages.ts';

const ExcerptPartType = builder.objectRef<ExcerptPart>('ExcerptPart').implement({
  description: descriptionOf(excerptPartShape),
  fields: (t) => fieldsOf(t, excerptPartShape, { text: 'String', match: 'Boolean' }),
});

const SearchResult = builder.objectRef<SearchResultShape>('SearchResult').implement({
  description: descriptionOf(searchResultShape),
  fields: (t) => ({
    ...fieldsOf(t, searchResultShape, { conversation: Conversation, message: MessageType }),
    excerpt: t.expose('excerpt', {
      type: [ExcerptPartType],
      description: descriptionOf(searchResultShape.shape.excerpt),
      extensions: listOfAtMost(maxExcerptParts),
    }),
  }),
});

interface SearchConnection extends Connection<SearchResultShape> {
  readonly totalIsMore: () => Promise<boolean>;
}

const { Connection: SearchResultConnection } = connectionType<SearchResultShape, SearchConnection>(
  'SearchResult',
  SearchResult,
  (t) => ({
    totalCount: t.int({
      description: 'Number of results on all pages, counted up to 1,000. Counted only if it is selected.',
      resolve: ({ total }) => total(),
    }),
    totalIsMore: t.boolean({
      description: 'Whether there are more results than `totalCount`. Counted only if it is selected.',
      resolve: ({ totalIsMore }) => totalIsMore(),
    }),
  }),
);

const { first, after } = pageArgs;

builder.queryField('search', (t) =>
  t.field({
    type: SearchResultConnection,
    ...answering(search),
    args: {
      q: t.arg.string({
        required: true,
        description:
          'The words: 1 to 256 characters and at most 10 words, the last one as a beginning. Case, width and accents do not count; quotes and operators mean nothing. In scripts without spaces between words, any run of characters is found.',
      }),
      first,
      after,
      status: t.arg({ type: ConversationStatus, description: 'Only in conversations with this status.' }),
      statuses: t.arg({
        type: [ConversationStatus],
        description: 'Only in conversations with one of these statuses; not together with `status`.',
      }),
      assigneeId: t.arg.string({ description: 'Only in conversations that this agent has.' }),
      tags: t.arg.stringList({ description: 'Only in conversations with all of these tags.' }),
      createdAfter: t.arg({
        type: 'DateTime',
        description: 'Only messages sent, and conversations created, after this time.',
      }),
      createdBefore: t.arg({
        type: 'DateTime',
        description: 'Only messages sent, and conversations created, before this time.',
      }),
    },
    resolve: async (_, args, context, info) => {
      const [input, faults] = filteredInput(args);
      const list = await context.call(search, { ...input, ...totalFor(info) }, faults);
      return { ...forwards(list, args.after), totalIsMore: () => list.totalIsMore() };
    },
  }),
);
