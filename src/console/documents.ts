// The GraphQL documents of the console: a test validates each of them.

const person = 'id name';
const rowFields = `id version status subject visitor { ${person} email } assignee { ${person} } tags messageCount
  lastActivityAt lastMessage { preview sender }`;
const messageFields = `id sequence sender author { ${person} } content clientId createdAt`;

/**
 * What is selected of each event.
 * @param agent whose unread messages are counted
 * @param scopes without that for conversations, nothing is asked of them that the key may not know
 */
export function eventFields(agent: string, scopes: readonly string[]): string {
  if (!scopes.includes('conversations:read')) return 'sequence erased';
  const unread = `unreadCount(reader: ${JSON.stringify(agent)})`;
  const now = (more = ''): string => `conversation { conversationId current { ${rowFields} ${unread} ${more} } }`;
  return `sequence erased
  ... on ConversationStartedEvent { ${now()} }
  ... on ConversationUpdatedEvent { ${now('metadata')} }
  ... on ConversationClosedEvent { ${now()} }
  ... on ConversationReopenedEvent { ${now()} }
  ... on MessageReceivedEvent { ${now()} message { ${messageFields} } }
  ... on MessageSentEvent { ${now()} message { ${messageFields} } }
  ... on ConversationReadEvent { conversationId readPosition { reader sequence } }
  ... on ConversationDeletedEvent { conversationId }
  ... on LeadCapturedEvent { lead { id name email } }`;
}

/** A page of the inbox. */
export const inbox = `query Inbox($agent: String!, $first: Int!, $after: String, $statuses: [ConversationStatus!],
    $assigneeId: String, $unassigned: Boolean, $unreadBy: String, $tags: [String!]) {
  conversations(first: $first, after: $after, sort: LAST_ACTIVITY_AT_DESC, statuses: $statuses, assigneeId: $assigneeId,
      unassigned: $unassigned, unreadBy: $unreadBy, tags: $tags) {
    nodes { ${rowFields} unreadCount(reader: $agent) }
    pageInfo { endCursor hasNextPage }
  }
}`;

/** What an agent looks for, in the conversations of a filter. */
export const search = `query Search($agent: String!, $q: String!, $after: String, $statuses: [ConversationStatus!],
    $assigneeId: String, $tags: [String!]) {
  search(first: 30, after: $after, q: $q, statuses: $statuses, assigneeId: $assigneeId, tags: $tags) {
    nodes { excerpt { text match } message { id } conversation { ${rowFields} unreadCount(reader: $agent) } }
    pageInfo { endCursor hasNextPage }
  }
}`;

/** A conversation as it is now. */
export const row = `query Row($id: ID!, $agent: String!) {
  conversation(id: $id) { ${rowFields} unreadCount(reader: $agent) metadata }
}`;

/** The last messages of a conversation, or those before a cursor. */
export const thread = `query Thread($id: ID!, $agent: String!, $before: String) {
  conversation(id: $id) {
    ${rowFields} unreadCount(reader: $agent) metadata
    messages(last: 50, before: $before) { nodes { ${messageFields} } pageInfo { startCursor hasPreviousPage } }
  }
}`;

export const sendMessage = `mutation Send($input: SendMessageInput!, $agent: String!) {
  sendMessage(input: $input) { message { ${messageFields} } conversation { ${rowFields} unreadCount(reader: $agent) } }
}`;
export const updateConversation = `mutation Update($input: UpdateConversationInput!, $agent: String!) {
  updateConversation(input: $input) { conversation { ${rowFields} unreadCount(reader: $agent) metadata } }
}`;
export const markRead = `mutation MarkRead($input: MarkReadInput!) { markRead(input: $input) { eventCursor } }`;
