import { randomUUID } from 'node:crypto';

// What the peers' stores share: what is in the rows of both databases, and the answers that are made of them.

/** Whether a send writes all that the service writes, and not the message and its conversation alone. */
export const writesAll = process.env.BENCH_WRITES === 'all';

/** The quarter of an hour by which the service counts. */
export const quarterOf = (epochMs) => Math.floor(epochMs / 900_000);

export const time = (epochMs) => (epochMs === null ? null : new Date(epochMs).toISOString());

const lastMessageIn = (json) => {
  if (json === null) return null;
  const [id, sequence, sender, author, createdAt, preview] = JSON.parse(json);
  return { id, sequence, sender, author, createdAt: time(createdAt), preview };
};

export const conversationOf = (row) => ({
  id: row.id,
  status: row.status,
  subject: row.subject,
  visitor: row.visitor === null ? null : JSON.parse(row.visitor),
  externalId: row.external_id,
  assignee: row.assignee === null ? null : JSON.parse(row.assignee),
  tags: JSON.parse(row.tags),
  metadata: JSON.parse(row.metadata),
  messageCount: row.message_count,
  lastMessage: lastMessageIn(row.last_message),
  lastActivityAt: time(row.last_activity_at),
  firstResponseAt: time(row.first_response_at),
  closedAt: time(row.closed_at),
  version: row.version,
  createdAt: time(row.created_at),
  updatedAt: time(row.updated_at),
});

export const messageOf = (row, conversationId) => ({
  id: row.id,
  conversationId,
  sequence: row.sequence,
  sender: row.sender,
  content: row.content,
  author: row.author === null ? null : JSON.parse(row.author),
  clientId: row.client_id,
  metadata: JSON.parse(row.metadata),
  createdAt: time(row.created_at),
});

export const positionOf = ({ reader, sequence, read_at }) => ({ reader, sequence, readAt: time(read_at) });

export function isInForce(key) {
  return key !== undefined && (key.endsAt === null || key.endsAt > Date.now());
}

/**
 * The body of the service's answer to `GET /v1/conversations`.
 * @param data the first of those found, as many as the limit
 */
export function pageBody(data, { limit, hasMore, total }) {
  const cursor = Buffer.from(JSON.stringify(['-createdAt', data.at(-1)?.id])).toString('base64url');
  return { data, pagination: { limit, offset: 0, total, hasMore, nextCursor: hasMore ? cursor : null } };
}

/** The id that a page comes after. */
export function idIn(cursor) {
  const [, id] = JSON.parse(Buffer.from(cursor, 'base64url'));
  return id;
}

export function newMessage(conversationId, sequence, { content, sender }, now) {
  return {
    id: `msg_${randomUUID().replaceAll('-', '').slice(0, 26)}`,
    conversationId,
    sequence,
    sender,
    content,
    author: null,
    clientId: null,
    metadata: {},
    createdAt: time(now),
  };
}

/** What a conversation's row has of its last message. */
export function lastMessageOf({ id, sequence, sender, content }, now) {
  return JSON.stringify([id, sequence, sender, null, now, content.slice(0, 200)]);
}
