// A page with urql, whose documents gql.tada types: they are checked with the program, and called by their ids. It prints
// what it has seen.
import {
  type CombinedError,
  createClient,
  fetchExchange,
  type OperationResult,
  subscriptionExchange,
} from '@urql/core';
import { persistedExchange } from '@urql/exchange-persisted';
import { initGraphQLTada, type ResultOf } from 'gql.tada';
import { createClient as createSocket } from 'graphql-ws';
import type { introspection } from './generated/graphql-env.d.ts';

const graphql = initGraphQLTada<{
  introspection: introspection;
  scalars: { DateTime: string; JSON: unknown; Metadata: Record<string, string | number | boolean> };
}>();

const row = graphql(`
  fragment Row on Conversation @_unmask {
    id
    subject
    status
  }
`);
const list = graphql.persisted(
  'list',
  graphql(
    `
      query List($first: Int!, $after: String) {
        eventCursor
        conversations(first: $first, after: $after, sort: CREATED_AT_ASC) {
          nodes {
            ...Row
          }
          pageInfo {
            endCursor
            hasNextPage
          }
        }
      }
    `,
    [row],
  ),
);
const create = graphql.persisted(
  'create',
  graphql(
    `
      mutation Create($input: CreateConversationInput!) {
        createConversation(input: $input) {
          conversation {
            ...Row
          }
        }
      }
    `,
    [row],
  ),
);
const send = graphql.persisted(
  'send',
  graphql(`
    mutation Send($input: SendMessageInput!) {
      sendMessage(input: $input) {
        message {
          sequence
          createdAt
        }
      }
    }
  `),
);
const events = graphql.persisted(
  'events',
  graphql(`
    subscription Events($after: String) {
      events(after: $after, types: [MESSAGE_RECEIVED, CONVERSATION_CLOSED]) {
        __typename
        cursor
        ... on MessageReceivedEvent {
          message {
            content
          }
        }
        ... on ConversationClosedEvent {
          conversation {
            conversationId
          }
        }
      }
    }
  `),
);

const url = process.env['BASE_URL'] ?? '';

function clientWith(credential: string) {
  const authorization = `Bearer ${credential}`;
  const socket = createSocket({ url: `${url.replace('http', 'ws')}/graphql`, connectionParams: { authorization } });
  return createClient({
    url: `${url}/graphql`,
    preferGetMethod: false,
    fetchOptions: { headers: { authorization } },
    exchanges: [
      persistedExchange({
        enforcePersistedQueries: true,
        enableForMutation: true,
        enableForSubscriptions: true,
        generateHash: async (_, document) => (document as { documentId?: string }).documentId ?? '',
      }),
      fetchExchange,
      subscriptionExchange({
        forwardSubscription: ({ query = '', variables, extensions }) => ({
          subscribe: (sink) => ({
            unsubscribe: socket.subscribe({ query, variables: variables ?? {}, extensions: extensions ?? {} }, sink),
          }),
        }),
      }),
    ],
  });
}

const client = clientWith(process.env['TOKEN'] ?? '');

const subjects: (string | null)[][] = [];
let after: string | null = null;
let eventCursor: string | null = null;
do {
  const { data, error }: OperationResult<ResultOf<typeof list>> = await client.query(list, { first: 2, after });
  if (!data?.conversations) throw error ?? new Error('There is no list.');
  subjects.push(data.conversations.nodes.map(({ subject }) => subject));
  ({ eventCursor } = data);
  after = data.conversations.pageInfo.hasNextPage ? data.conversations.pageInfo.endCursor : null;
} while (after !== null);

const created = await client.mutation(create, { input: { subject: 'Refund', metadata: { orderId: 1042 } } });
const conversation = created.data?.createConversation?.conversation;
const conversationId = conversation?.id ?? '';
const sent = await client.mutation(send, { input: { conversationId, sender: 'AGENT', content: 'How much was it?' } });

const received: string[] = [];
const over = Promise.withResolvers<void>();
client.subscription(events, { after: eventCursor }).subscribe(({ data, error }) => {
  if (error) return over.reject(error);
  const event = data?.events;
  if (event?.__typename === 'MessageReceivedEvent') received.push(event.message?.content ?? 'erased');
  if (event?.__typename === 'ConversationClosedEvent') over.resolve();
});
console.log(`opened ${conversationId}`);
await over.promise;

const codes = (error: CombinedError | undefined) => error?.graphQLErrors.map(({ extensions }) => extensions['code']);
const late = await client.mutation(send, { input: { conversationId, sender: 'AGENT', content: 'Hello?' } });
const limited = await clientWith(process.env['SPENT_KEY'] ?? '').query(list, { first: 1 });

console.log(
  JSON.stringify({
    subjects,
    status: conversation?.status,
    sequence: sent.data?.sendMessage?.message.sequence,
    received,
    refused: codes(late.error),
    limited: [
      limited.error?.response?.status,
      codes(limited.error),
      limited.error?.response?.headers.has('Retry-After'),
    ],
  }),
);
process.exit(); // the socket would stay open
