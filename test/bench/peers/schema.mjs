import { list, one } from './store.mjs';

// The part of the service's schema that the benchmark asks for, resolved by hand.

export const typeDefs = `
  enum ConversationStatus { ACTIVE CLOSED PENDING }
  enum Sender { AGENT VISITOR BOT }
  type Message { id: ID! sequence: Int! sender: Sender! content: String! createdAt: String! }
  type MessageConnection { nodes: [Message!]! }
  type Conversation {
    id: ID! status: ConversationStatus! subject: String lastActivityAt: String!
    messages(first: Int = 20): MessageConnection
  }
  type ConversationConnection { nodes: [Conversation!]! }
  type Query {
    conversations(first: Int = 20, after: String): ConversationConnection
    conversation(id: ID!): Conversation
  }
`;

export const resolvers = {
  Query: {
    conversations: (_, { first, after }, { accountId }) => ({ nodes: list(accountId, first, after) }),
    conversation: (_, { id }, { accountId }) => one(accountId, id, 10),
  },
  Conversation: {
    status: ({ status }) => status.toUpperCase(),
    messages: ({ messages }, { first }) => ({ nodes: messages.slice(0, first) }),
  },
  Message: { sender: ({ sender }) => sender.toUpperCase() },
};
