import Database from 'better-sqlite3';
import {
  conversationOf,
  idIn,
  isInForce,
  lastMessageOf,
  messageOf,
  newMessage,
  pageBody,
  positionOf,
  quarterOf,
  writesAll,
} from './rows.mjs';

// What the peers have of the service: its file, read and written by hand with the driver that the service uses. Unless one
// is to write the same as the service: no events, no search, no counts for reports, and `synchronous=NORMAL`.

const path = process.env.BENCH_DATABASE;

const db = new Database(path);
db.pragma('journal_mode = WAL');
db.pragma(`synchronous = ${writesAll ? 'FULL' : 'NORMAL'}`);
if (writesAll) db.exec('CREATE VIRTUAL TABLE words USING fts5 (content)');
db.pragma('cache_size = -16384');

const findKey = db.prepare('SELECT account_id AS accountId, ends_at AS endsAt FROM api_keys WHERE secret_hash = ?');
const page = db.prepare('SELECT * FROM conversations WHERE account_id = ? ORDER BY id DESC LIMIT ?');
const pageAfter = db.prepare('SELECT * FROM conversations WHERE account_id = ? AND id < ? ORDER BY id DESC LIMIT ?');
const totals = db.prepare('SELECT active + pending + closed AS total FROM account_totals WHERE account_id = ?').pluck();
const find = db.prepare('SELECT * FROM conversations WHERE account_id = ? AND id = ?');
const messages = db.prepare('SELECT * FROM messages WHERE conversation_key = ? ORDER BY sequence LIMIT ?');
const positions = db.prepare('SELECT * FROM read_positions WHERE conversation_key = ?');
const insert = db.prepare(
  `INSERT INTO messages (conversation_key, sequence, id, sender, content, author, metadata, created_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
);
const update = db.prepare(
  `UPDATE conversations SET message_count = ?, last_message = ?, last_activity_at = ?, updated_at = ?, version = version + 1
    WHERE key = ?`,
);

const nextOfLog = db
  .prepare(
    'UPDATE account_totals SET event_sequence = event_sequence + 1 WHERE account_id = ? RETURNING event_sequence',
  )
  .pluck();
const append = db.prepare(
  `INSERT INTO events (account_id, sequence, id, type, conversation_id, timestamp, data)
    VALUES (?, ?, ?, 'message.sent', ?, ?, '{}')`,
);
const addWords = writesAll && db.prepare('INSERT INTO words (content) VALUES (?)');
const count = db.prepare(
  `INSERT INTO analytics_counters VALUES (?, ?, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
    ON CONFLICT (account_id, quarter) DO UPDATE SET agent_messages = agent_messages + 1`,
);

/** The account of the key of this hash; undefined if there is none. */
export function accountOfKey(secretHash) {
  const key = findKey.get(secretHash);
  return isInForce(key) ? key.accountId : undefined;
}

const rowsOfPage = (accountId, limit, cursor) =>
  cursor == null ? page.all(accountId, limit) : pageAfter.all(accountId, idIn(cursor), limit);
const withPositions = (row) => ({ ...conversationOf(row), readPositions: positions.all(row.key).map(positionOf) });
const withMessages = (row, limit) => messages.all(row.key, limit).map((message) => messageOf(message, row.id));

/** Conversations, newest first, those after the cursor if there is one. */
export const list = (accountId, limit, cursor) => rowsOfPage(accountId, limit, cursor).map(conversationOf);

/** The body of the service's answer to `GET /v1/conversations`. */
export function listBody(accountId, { limit = 20, after }) {
  const rows = rowsOfPage(accountId, limit + 1, after);
  const page = { limit, hasMore: rows.length > limit, total: totals.get(accountId) };
  return pageBody(rows.slice(0, limit).map(withPositions), page);
}

export function one(accountId, id, limit) {
  const row = find.get(accountId, id);
  return row && { ...conversationOf(row), messages: withMessages(row, limit) };
}

/** The body of the service's answer to `GET /v1/conversations/{id}`. */
export function oneBody(accountId, id) {
  const row = find.get(accountId, id);
  return row && { ...withPositions(row), messages: withMessages(row, -1) };
}

export const send = db.transaction((accountId, id, input) => {
  const row = find.get(accountId, id);
  if (row === undefined) return undefined;
  const now = Date.now();
  const message = newMessage(id, row.message_count + 1, input, now);
  insert.run(row.key, message.sequence, message.id, message.sender, message.content, null, '{}', now);
  update.run(message.sequence, lastMessageOf(message, now), now, now, row.key);
  if (!writesAll) return message;
  append.run(accountId, nextOfLog.get(accountId), message.id, id, now);
  addWords.run(message.content);
  count.run(accountId, quarterOf(now));
  return message;
});
