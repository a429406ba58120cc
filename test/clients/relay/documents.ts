import { graphql } from 'relay-runtime';

// Asked again with `after`, it continues the list that the store has under its key.
export const inboxQuery = graphql`
  query documentsInboxQuery($first: Int!, $after: String) {
    conversations(first: $first, after: $after, sort: CREATED_AT_DESC) @connection(key: "Inbox_conversations", filters: []) {
      __id
      edges {
        node {
          id
          subject
          status
          visitor {
            id
            name
          }
        }
      }
      pageInfo {
        endCursor
        hasNextPage
      }
    }
  }
`;

export const threadQuery = graphql`
  query documentsThreadQuery($id: ID!) {
    eventCursor
    conversation(id: $id) {
      status
      messages(first: 50) @connection(key: "Thread_messages") {
        __id
        edges {
          node {
            id
            sequence
            content
          }
        }
      }
    }
  }
`;

export const createMutation = graphql`
  mutation documentsCreateMutation($input: CreateConversationInput!, $connections: [ID!]!) {
    createConversation(input: $input) {
      conversationEdge @prependEdge(connections: $connections) {
        node {
          id
          subject
          status
          visitor {
            id
            name
          }
        }
      }
    }
  }
`;

export const sendMutation = graphql`
  mutation documentsSendMutation($input: SendMessageInput!, $connections: [ID!]!) {
    sendMessage(input: $input) {
      messageEdge @appendEdge(connections: $connections) {
        node {
          id
          sequence
          content
        }
      }
    }
  }
`;

export const changesSubscription = graphql`
  subscription documentsChangesSubscription($id: ID!, $after: String) {
    event: conversationChanged(conversationId: $id, after: $after) {
      cursor
      type
      ... on MessageReceivedEvent {
        message {
          id
          sequence
          content
        }
      }
      ... on MessageSentEvent {
        message {
          id
          sequence
          content
        }
      }
      ... on ConversationClosedEvent {
        conversation {
          current {
            id
            status
          }
        }
      }
    }
  }
`;
