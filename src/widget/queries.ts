const conversation = `
  id version status subject messageCount lastActivityAt
  lastMessage { preview }
  readPositions(readers: ["visitor"]) { sequence }`;
const page = `${conversation}
  messages(last: 30, before: $before) {
    nodes { sequence sender content clientId createdAt author { name } }
    pageInfo { startCursor }
  }`;
const list = (after: string): string => `
  conversations(first: 50, after: ${after}, sort: LAST_ACTIVITY_AT_DESC) {
    nodes { ${conversation} }
    pageInfo { endCursor hasNextPage }
  }`;

export const queries = {
  /** The cursor stands before the list, so that no change falls between them. */
  load: `query ($id: ID!, $isWanted: Boolean!, $before: String) {
    eventCursor
    ${list('null')}
    newest: conversations(first: 1, sort: LAST_ACTIVITY_AT_DESC) @skip(if: $isWanted) { nodes { ${page} } }
    node(id: $id) @include(if: $isWanted) { ... on Conversation { ${page} } }
  }`,
  /** The conversations after a cursor. */
  list: `query ($after: String) { ${list('$after')} }`,
  /** Messages of a conversation: the newest, or those before a cursor. */
  page: `query ($id: ID!, $before: String) { node(id: $id) { ... on Conversation { ${page} } } }`,
} as const;
