// Every field of each resource, so that what GraphQL gives can be compared whole with what REST gives.

export const message = 'id conversationId sequence sender content author { id name } clientId metadata createdAt';

export const readPosition = 'reader sequence readAt';

/** Without its read positions, as it is part of something else. */
export const plainConversation = `id status subject visitor { id name email } externalId assignee { id name } tags metadata messageCount
  lastMessage { id sequence sender author { id name } createdAt preview } lastActivityAt
  firstResponseAt closedAt version createdAt updatedAt`;

export const conversation = `${plainConversation} readPositions { ${readPosition} }`;

/** The same of a snapshot, whose type has no field named `id`. */
export const snapshot = plainConversation.replace(/^id /, 'id: conversationId ');

export const conversationWithMessages = `${conversation} messages(first: 100) { nodes { ${message} } }`;

export const account = 'id name plan rateLimit { limit remaining resetAt } eventCursor createdAt';

export const apiKey = 'id name prefix scopes expiresAt lastUsedAt createdAt revokedAt';

export const token =
  'expiresAt scopes conversationId visitor { id name email } sender requestsPerHour trustedDocumentsOnly';

export const document = 'id text createdAt';

export const lead = 'id conversationId name email phone company metadata createdAt';

const durations = '{ count mean median p90 }';

const figures = `from to conversationsStarted conversationsClosed conversationsReopened messages { agent visitor bot } leads
  conversionRate firstResponseSeconds ${durations} resolutionSeconds ${durations}`;

export const analytics = `period { from to interval timezone } openNow { active pending }
  totals { ${figures} } previous { ${figures} } series { ${figures} }`;

export const event = `__typename id erased type timestamp sequence cursor apiVersion accountId
  ... on ConversationStartedEvent { conversation { ${snapshot} } }
  ... on MessageReceivedEvent { message { ${message} } conversation { ${snapshot} } }
  ... on ConversationClosedEvent { conversation { ${snapshot} } }
  ... on MessageSentEvent { message { ${message} } conversation { ${snapshot} } }
  ... on ConversationReopenedEvent { conversation { ${snapshot} } }
  ... on ConversationUpdatedEvent { conversation { ${snapshot} } changes { field key from to } }
  ... on ConversationReadEvent { conversationId readPosition { ${readPosition} } }
  ... on ConversationDeletedEvent { conversationId }
  ... on LeadCapturedEvent { lead { ${lead} } conversation { ${snapshot} } }`;

export const webhook = 'id url events description enabled disabledReason createdAt updatedAt';

export const attempt = 'id startedAt durationMs trigger responseStatus responseBody error';

export const delivery = 'id webhookId eventId eventType test status attemptCount nextAttemptAt createdAt completedAt';

export const deliveryWithAttempts = `${delivery} attempts(first: 100) { nodes { ${attempt} } }`;
