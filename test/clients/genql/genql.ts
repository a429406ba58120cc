// A program with the client that genql makes of the schema: what it asks for is an object, which gives the result its type.
// It prints what it has seen.
import { createClient, GenqlError } from './generated';

const clientOf = (key = '') =>
  createClient({ url: `${process.env['BASE_URL']}/graphql`, headers: { Authorization: `Bearer ${key}` } });
const client = clientOf(process.env['API_KEY']);

/** The codes of the errors of a call, or the text with which a refused request fails. */
async function refusal(call: Promise<unknown>): Promise<unknown> {
  const error: unknown = await call.catch((thrown: unknown) => thrown);
  if (error instanceof GenqlError) return error.errors.map(({ extensions }) => extensions?.['code']);
  return error instanceof Error ? error.message.includes('RATE_LIMITED') : error;
}

async function list(after: string | null): Promise<(string | null)[][]> {
  const { conversations } = await client.query({
    conversations: {
      __args: { first: 2, after, sort: 'CREATED_AT_ASC' },
      nodes: { id: true, subject: true },
      pageInfo: { endCursor: true, hasNextPage: true },
    },
  });
  if (!conversations) return [];
  const { nodes, pageInfo } = conversations;
  return [nodes.map(({ subject }) => subject), ...(pageInfo.hasNextPage ? await list(pageInfo.endCursor) : [])];
}
const subjects = await list(null);

const { createConversation } = await client.mutation({
  createConversation: {
    __args: { input: { subject: 'Refund' } },
    conversation: { __scalar: true, visitor: { name: true } },
  },
});
const { id = '', status, metadata } = createConversation?.conversation ?? {};
const send = () =>
  client.mutation({
    sendMessage: {
      __args: { input: { conversationId: id, sender: 'AGENT', content: 'How much was it?' } },
      message: { sequence: true },
    },
  });
const { sendMessage } = await send();
const { node } = await client.query({ node: { __args: { id }, on_Conversation: { messageCount: true } } });
await client.mutation({
  updateConversation: { __args: { input: { id, status: 'CLOSED' } }, conversation: { id: true } },
});

console.log(
  JSON.stringify({
    subjects,
    status,
    metadata,
    sequence: sendMessage?.message.sequence,
    messageCount: node && 'messageCount' in node ? node.messageCount : undefined,
    refused: await refusal(send()),
    limited: await refusal(clientOf(process.env['SPENT_KEY']).query({ eventCursor: true })),
  }),
);
