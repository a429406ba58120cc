// A program with graphql-request, whose documents GraphQL Code Generator types and gives ids, by which they are called. It
// prints what it has seen.
import type { TypedDocumentNode } from '@graphql-typed-document-node/core';
import { ClientError, GraphQLClient } from 'graphql-request';
import { createClient } from 'graphql-ws';
import { graphql } from './generated';
import type { ListQuery } from './generated/graphql';

const listQuery = graphql(`
  query List($first: Int!, $after: String) {
    eventCursor
    conversations(first: $first, after: $after, sort: CREATED_AT_ASC) {
      nodes {
        id
        subject
      }
      pageInfo {
        endCursor
        hasNextPage
      }
    }
  }
`);
const createMutation = graphql(`
  mutation Create($input: CreateConversationInput!) {
    createConversation(input: $input) {
      conversation {
        id
        status
      }
    }
  }
`);
const sendMutation = graphql(`
  mutation Send($input: SendMessageInput!) {
    sendMessage(input: $input) {
      message {
        sequence
      }
    }
  }
`);
const receivedSubscription = graphql(`
  subscription Received($after: String) {
    messageReceived(after: $after) {
      cursor
      message {
        content
      }
    }
  }
`);

const url = process.env['BASE_URL'] ?? '';
const endpoint = `${url}/graphql`;
const authorization = `Bearer ${process.env['TOKEN']}`;

const hashOf = (document: object) => (document as { __meta__?: { hash: string } }).__meta__?.hash ?? '';

/** Sends the id of the document in the place of its text. */
function ask<Data, Variables extends object>(
  document: TypedDocumentNode<Data, Variables>,
  variables: NoInfer<Variables>,
  headers: Record<string, string> = { authorization },
): Promise<Data> {
  const body = JSON.stringify({ documentId: hashOf(document), variables });
  const client = new GraphQLClient(endpoint, { headers, requestMiddleware: (request) => ({ ...request, body }) });
  return client.request({ document, variables } as Parameters<typeof client.request<Data>>[0]);
}

/** What an error of a request says. */
function problemOf(error: unknown): object {
  if (!(error instanceof ClientError)) throw error;
  const { status, errors, headers } = error.response;
  const retryAfter = (headers as Headers | undefined)?.has('Retry-After');
  return { status, codes: errors?.map(({ extensions }) => extensions['code']), retryAfter };
}

const subjects: (string | null | undefined)[][] = [];
let after: string | null | undefined;
let eventCursor: string | null | undefined;
do {
  const data: ListQuery = await ask(listQuery, { first: 2, after });
  subjects.push(data.conversations?.nodes.map(({ subject }) => subject) ?? []);
  eventCursor = data.eventCursor;
  after = data.conversations?.pageInfo.hasNextPage ? data.conversations.pageInfo.endCursor : null;
} while (after);

const { createConversation } = await ask(createMutation, { input: { subject: 'Refund', metadata: { orderId: 1042 } } });
const conversation = createConversation?.conversation;
const input = { conversationId: conversation?.id ?? '', sender: 'AGENT', content: 'How much was it?' } as const;
const { sendMessage } = await ask(sendMutation, { input });

// graphql-request has no subscriptions: graphql-ws stands beside it.
const socket = createClient({ url: endpoint.replace('http', 'ws'), connectionParams: { authorization } });
const following = { query: '', documentId: hashOf(receivedSubscription), variables: { after: eventCursor } };
const events = socket.iterate<{ messageReceived: { message: { content: string } } }>(following);
console.log(`opened ${input.conversationId}`);
const { value } = await events.next();
await socket.dispose();

const refused = await ask(sendMutation, { input }).catch(problemOf);
const spent = { authorization: `Bearer ${process.env['SPENT_KEY']}` };
const limited = await ask(listQuery, { first: 1 }, spent).catch(problemOf);

console.log(
  JSON.stringify({
    subjects,
    status: conversation?.status,
    sequence: sendMessage?.message.sequence,
    received: value.data?.messageReceived.message.content,
    refused,
    limited,
  }),
);
