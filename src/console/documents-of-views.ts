// The GraphQL documents of all views but the inbox: a test validates each of them.

const pageInfo = 'pageInfo { endCursor hasNextPage }';

const leadFields = 'id name email phone company conversationId createdAt';

export const leads = `query Leads($email: String, $after: String) {
  leads(first: 50, email: $email, after: $after) { nodes { ${leadFields} } ${pageInfo} }
}`;

/** Leads that events have told of. */
export const leadsById = `query LeadsById($ids: [ID!]!) { nodes(ids: $ids) { ... on Lead { ${leadFields} } } }`;

/** What is selected of each event of the log, beside what a followed one has anyway. */
const told = 'conversation { conversationId subject visitor { name } }';
const message = 'message { sender author { name } preview }';
export const logFields = `sequence erased
  ... on ConversationStartedEvent { ${told} }
  ... on ConversationUpdatedEvent { ${told} changes { field key from to } }
  ... on ConversationClosedEvent { ${told} }
  ... on ConversationReopenedEvent { ${told} }
  ... on MessageReceivedEvent { ${told} ${message} }
  ... on MessageSentEvent { ${told} ${message} }
  ... on ConversationReadEvent { conversationId readPosition { reader sequence } }
  ... on ConversationDeletedEvent { conversationId }
  ... on LeadCapturedEvent { ${told} lead { name email phone } }`;

/** A page of the event log, oldest first, and where the log ends. */
export const log = `query Log($after: String, $types: [EventType!]) {
  eventCursor
  events(first: 100, after: $after, types: $types) { nodes { id type timestamp cursor ${logFields} } ${pageInfo} }
}`;

const webhookFields = 'id url description events enabled disabledReason createdAt';
const deliveryFields = 'id eventId eventType status test attemptCount nextAttemptAt createdAt completedAt';

export const webhooks = `query Webhooks($after: String) {
  webhooks(first: 20, after: $after) { nodes { ${webhookFields} } ${pageInfo} }
}`;
export const webhook = `query Webhook($id: ID!) { webhook(id: $id) { ${webhookFields} } }`;
export const deliveries = `query Deliveries($id: ID!, $after: String) {
  webhook(id: $id) { deliveries(first: 20, after: $after) { nodes { ${deliveryFields} } ${pageInfo} } }
}`;
export const delivery = `query Delivery($id: ID!) { delivery(id: $id) { ${deliveryFields} } }`;
export const attempts = `query Attempts($id: ID!, $after: String) {
  delivery(id: $id) {
    attempts(first: 20, after: $after) {
      nodes { id startedAt durationMs trigger responseStatus responseBody error } ${pageInfo}
    }
  }
}`;
export const createWebhook = `mutation CreateWebhook($input: CreateWebhookInput!) {
  createWebhook(input: $input) { webhook { ${webhookFields} secret } }
}`;
export const updateWebhook = `mutation UpdateWebhook($input: UpdateWebhookInput!) {
  updateWebhook(input: $input) { webhook { ${webhookFields} } }
}`;
export const rotateWebhookSecret = `mutation RotateWebhookSecret($input: RotateWebhookSecretInput!) {
  rotateWebhookSecret(input: $input) { webhook { secret } }
}`;
export const deleteWebhook = `mutation DeleteWebhook($input: DeleteWebhookInput!) {
  deleteWebhook(input: $input) { deletedWebhookId }
}`;
export const testWebhook = `mutation TestWebhook($input: TestWebhookInput!) {
  testWebhook(input: $input) { delivery { ${deliveryFields} } }
}`;
export const redeliver = `mutation Redeliver($input: RedeliverInput!) {
  redeliver(input: $input) { delivery { ${deliveryFields} } }
}`;
export const recoverWebhook = `mutation RecoverWebhook($input: RecoverWebhookInput!) {
  recoverWebhook(input: $input) { count }
}`;

const keyFields = 'id name prefix scopes createdAt lastUsedAt expiresAt revokedAt';

export const account = `query Account { account { name plan rateLimit { limit remaining resetAt } } }`;
export const apiKeys = `query ApiKeys($after: String) {
  apiKeys(first: 20, after: $after) { nodes { ${keyFields} } ${pageInfo} }
}`;
export const createApiKey = `mutation CreateApiKey($input: CreateApiKeyInput!) {
  createApiKey(input: $input) { apiKey { ${keyFields} secret } }
}`;
export const revokeApiKey = `mutation RevokeApiKey($input: RevokeApiKeyInput!) {
  revokeApiKey(input: $input) { revokedApiKeyId }
}`;

const figures = `from conversationsStarted conversationsClosed conversationsReopened messages { visitor agent bot } leads
  conversionRate firstResponseSeconds { median } resolutionSeconds { median }`;

export const analytics = `query Analytics($from: DateTime!, $interval: AnalyticsInterval!, $timezone: String!) {
  analytics(from: $from, interval: $interval, timezone: $timezone) {
    period { from to }
    openNow { active pending }
    totals { ${figures} }
    previous { ${figures} }
    series { ${figures} }
  }
}`;
