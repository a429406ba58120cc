import { randomUUID } from 'node:crypto';
import Database from 'better-sqlite3';

// What the peers have of the service: its file, read and written by hand with the driver that the service uses. No events,
// no search, no read positions, no counts for reports, and `synchronous=NORMAL`.

const path = process.env.BENCH_DATABASE;

export const db = new Database(path);
db.pragma('journal_mode = WAL');
db.pragma('synchronous = NORMAL');
db.pragma('cache_size = -16384');

const time = (epochMs) => (epochMs === null ? null : new Date(epochMs).toISOString());

const lastMessageOf = (json) => {
  if (json === null) return null;
  const [id, sequence, sender, author, createdAt, preview] = JSON.parse(json);
  return { id, sequence, sender, author, createdAt: time(createdAt), preview };
};

const conversationOf = (row) => ({
  id: row.id,
  status: row.status,
  subject: row.subject,
  visitor: row.visitor === null ? null : JSON.parse(row.visitor),
  externalId: row.external_id,
  assignee: row.assignee === null ? null : JSON.parse(row.assignee),
  tags: JSON.parse(row.tags),
  metadata: JSON.parse(row.metadata),
  messageCount: row.message_count,
  lastMessage: lastMessageOf(row.last_message),
  lastActivityAt: time(row.last_activity_at),
  firstResponseAt: time(row.first_response_at),
  closedAt: time(row.closed_at),
  version: row.version,
  createdAt: time(row.created_at),
  updatedAt: time(row.updated_at),
});

const messageOf = (row, conversationId) => ({
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

const page = db.prepare('SELECT * FROM conversations WHERE account_id = ? ORDER BY id DESC LIMIT ?');
const pageAfter = db.prepare('SELECT * FROM conversations WHERE account_id = ? AND id < ? ORDER BY id DESC LIMIT ?');
const totals = db.prepare('SELECT active + pending + closed AS total FROM account_totals WHERE account_id = ?').pluck();
const find = db.prepare('SELECT * FROM conversations WHERE account_id = ? AND id = ?');
const messages = db.prepare('SELECT * FROM messages WHERE conversation_key = ? ORDER BY sequence LIMIT ?');
const insert = db.prepare(
  `INSERT INTO messages (conversation_key, sequence, id, sender, content, author, metadata, created_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
);
const update = db.prepare(
  `UPDATE conversations SET message_count = ?, last_message = ?, last_activity_at = ?, updated_at = ?, version = version + 1
    WHERE key = ?`,
);

/** Conversations, newest first, those after the cursor if there is one. */
export function list(accountId, limit, cursor) {
  if (cursor == null) return page.all(accountId, limit).map(conversationOf);
  const [, id] = JSON.parse(Buffer.from(cursor, 'base64url'));
  return pageAfter.all(accountId, id, limit).map(conversationOf);
}

/** The body of the service's answer to `GET /v1/conversations`. */
export function listBody(accountId, { limit = 20, after }) {
  const found = list(accountId, limit + 1, after);
  const hasMore = found.length > limit;
  const data = found.slice(0, limit);
  const cursor = Buffer.from(JSON.stringify(['-createdAt', data.at(-1)?.id])).toString('base64url');
  return {
    data,
    pagination: { limit, offset: 0, total: totals.get(accountId), hasMore, nextCursor: hasMore ? cursor : null },
  };
}

export function one(accountId, id, limit = -1) {
  const row = find.get(accountId, id);
  if (row === undefined) return undefined;
  return { ...conversationOf(row), messages: messages.all(row.key, limit).map((message) => messageOf(message, id)) };
}

export const send = db.transaction((accountId, id, { content, sender }) => {
  const row = find.get(accountId, id);
  if (row === undefined) return undefined;
  const now = Date.now();
  const message = {
    id: `msg_${randomUUID().replaceAll('-', '').slice(0, 26)}`,
    conversationId: id,
    sequence: row.message_count + 1,
    sender,
    content,
    author: null,
    clientId: null,
    metadata: {},
    createdAt: time(now),
  };
  insert.run(row.key, message.sequence, message.id, sender, content, null, '{}', now);
  const last = [message.id, message.sequence, sender, null, now, content.slice(0, 200)];
  update.run(message.sequence, JSON.stringify(last), now, now, row.key);
  return message;
});
