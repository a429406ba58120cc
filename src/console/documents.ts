// The GraphQL documents of the console: a test validates each of them.

const person = 'id name';
const rowFields = `id version status subject visitor { ${person} email } assignee { ${person} } tags messageCount createdAt
  lastActivityAt lastMessage { preview sender }`;
const messageFields = `id sequence sender author { ${person} } content clientId createdAt`;

const snapshot = `conversation { conversationId current { ${rowFields} } }`;

/** What is selected of each event. */
export const eventFields = `sequence erased
  ... on ConversationStartedEvent { ${snapshot} }
  ... on ConversationUpdatedEvent { ${snapshot} }
  ... on ConversationClosedEvent { ${snapshot} }
  ... on ConversationReopenedEvent { ${snapshot} }
  ... on MessageReceivedEvent { ${snapshot} message { ${messageFields} } }
  ... on MessageSentEvent { ${snapshot} message { ${messageFields} } }
  ... on ConversationReadEvent { conversationId readPosition { reader sequence } }
  ... on ConversationDeletedEvent { conversationId }
  ... on LeadCapturedEvent { lead { id name email } }`;

/** A page of the inbox. */
export const inbox = `query Inbox($agent: String!, $first: Int!, $after: String, $statuses: [ConversationStatus!],
    $assigneeId: String, $unassigned: Boolean, $unreadBy: String, $tags: [String!]) {
  conversations(first: $first, after: $after, sort: LAST_ACTIVITY_AT_DESC, statuses: $statuses, assigneeId: $assigneeId,
      unassigned: $unassigned, unreadBy: $unreadBy, tags: $tags) {
    nodes { ${rowFields} unreadCount(reader: $agent) }
    pageInfo { endCursor hasNextPage }
  }
}`;

export const search = `query Search($agent: String!, $q: String!, $statuses: [ConversationStatus!]) {
  search(first: 30, q: $q, statuses: $statuses) {
    nodes { excerpt { text match } conversation { ${rowFields} unreadCount(reader: $agent) } }
  }
}`;

/** The last messages of a conversation, or those before a cursor. */
export const thread = `query Thread($id: ID!, $agent: String!, $before: String) {
  conversation(id: $id) {
    ${rowFields} unreadCount(reader: $agent) metadata
    messages(last: 50, before: $before) { nodes { ${messageFields} } pageInfo { startCursor hasPreviousPage } }
  }
}`;

export const sendMessage = `mutation Send($input: SendMessageInput!) {
  sendMessage(input: $input) { message { ${messageFields} } }
}`;
export const updateConversation = `mutation Update($input: UpdateConversationInput!) {
  updateConversation(input: $input) { conversation { ${rowFields} } }
}`;
export const markRead = `mutation MarkRead($input: MarkReadInput!) { markRead(input: $input) { eventCursor } }`;
