import postgres from 'postgres';
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

// The same on PostgreSQL, as one writes it with the driver that the service uses: statements are prepared, and those that
// need no answer of each other are sent together.

const asText = { to: 114, from: [114, 3802], serialize: (text) => text, parse: (text) => text };
const sql = postgres(process.env.BENCH_DATABASE, {
  max: 10,
  fetch_types: false,
  types: { bigint: { to: 20, from: [20], serialize: String, parse: Number }, json: asText },
});

/** The account of the key of this hash; undefined if there is none. */
export async function accountOfKey(secretHash) {
  const [key] =
    await sql`SELECT account_id AS "accountId", ends_at AS "endsAt" FROM api_keys WHERE secret_hash = ${secretHash}`;
  return isInForce(key) ? key.accountId : undefined;
}

const rowsOfPage = (accountId, limit, cursor) =>
  cursor == null
    ? sql`SELECT * FROM conversations WHERE account_id = ${accountId} ORDER BY id DESC LIMIT ${limit}`
    : sql`SELECT * FROM conversations WHERE account_id = ${accountId} AND id < ${idIn(cursor)}
        ORDER BY id DESC LIMIT ${limit}`;

/** Conversations, newest first, those after the cursor if there is one. */
export async function list(accountId, limit, cursor) {
  return (await rowsOfPage(accountId, limit, cursor)).map(conversationOf);
}

/** The body of the service's answer to `GET /v1/conversations`. */
export async function listBody(accountId, { limit = 20, after }) {
  const [rows, [{ total }]] = await Promise.all([
    rowsOfPage(accountId, limit + 1, after),
    sql`SELECT active + pending + closed AS total FROM account_totals WHERE account_id = ${accountId}`,
  ]);
  const found = rows.slice(0, limit);
  const ids = found.map(({ id }) => id);
  const positions =
    ids.length === 0
      ? []
      : await sql`SELECT * FROM read_positions WHERE account_id = ${accountId} AND conversation_id IN ${sql(ids)}`;
  const ofEach = Map.groupBy(positions, (position) => position.conversation_id);
  const data = found.map((row) => ({
    ...conversationOf(row),
    readPositions: (ofEach.get(row.id) ?? []).map(positionOf),
  }));
  return pageBody(data, { limit, hasMore: rows.length > limit, total });
}

const rowsOf = (accountId, id, limit) => [
  sql`SELECT * FROM conversations WHERE account_id = ${accountId} AND id = ${id}`,
  sql`SELECT * FROM messages WHERE account_id = ${accountId} AND conversation_id = ${id} ORDER BY sequence LIMIT ${limit}`,
];

export async function one(accountId, id, limit) {
  const [[row], messages] = await Promise.all(rowsOf(accountId, id, limit));
  return row && { ...conversationOf(row), messages: messages.map((message) => messageOf(message, id)) };
}

/** The body of the service's answer to `GET /v1/conversations/{id}`. */
export async function oneBody(accountId, id) {
  const [[row], messages, positions] = await Promise.all([
    ...rowsOf(accountId, id, null),
    sql`SELECT * FROM read_positions WHERE account_id = ${accountId} AND conversation_id = ${id}`,
  ]);
  const readPositions = positions.map(positionOf);
  return row && { ...conversationOf(row), readPositions, messages: messages.map((message) => messageOf(message, id)) };
}

const nextOfLog = (tx, accountId) => tx`UPDATE account_totals SET event_sequence = event_sequence + 1
  WHERE account_id = ${accountId} RETURNING event_sequence AS sequence`;

/** What the service writes beside the message: an event in the account's log, the words to search for, and a count. */
const restOf = (tx, accountId, event, { id, conversationId, sequence, content }, now) => [
  tx`INSERT INTO events (account_id, sequence, id, type, conversation_id, timestamp, data)
    VALUES (${accountId}, ${event.sequence}, ${id}, 'message.sent', ${conversationId}, ${now}, '{}')`,
  tx`INSERT INTO search_texts (account_id, number, conversation_id, sequence, created_at, terms)
    SELECT ${accountId}, 1 + coalesce(max(number), 0), ${conversationId}, ${sequence}, ${now},
      to_tsvector('simple', ${content}) FROM search_texts WHERE account_id = ${accountId}`,
  tx`INSERT INTO analytics_counters VALUES (${accountId}, ${quarterOf(now)}, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
    ON CONFLICT (account_id, quarter) DO UPDATE SET agent_messages = analytics_counters.agent_messages + 1`,
];

export function send(accountId, id, input) {
  return sql.begin(async (tx) => {
    const [[row], [event]] = await Promise.all([
      tx`SELECT message_count FROM conversations WHERE account_id = ${accountId} AND id = ${id} FOR UPDATE`,
      writesAll ? nextOfLog(tx, accountId) : [],
    ]);
    if (row === undefined) return undefined;
    const now = Date.now();
    const message = newMessage(id, row.message_count + 1, input, now);
    await Promise.all([
      tx`INSERT INTO messages (account_id, conversation_id, sequence, id, sender, content, metadata, created_at)
        VALUES (${accountId}, ${id}, ${message.sequence}, ${message.id}, ${message.sender}, ${message.content}, '{}', ${now})`,
      tx`UPDATE conversations SET message_count = ${message.sequence}, last_message = ${lastMessageOf(message, now)},
        last_activity_at = ${now}, updated_at = ${now}, version = version + 1
        WHERE account_id = ${accountId} AND id = ${id}`,
      ...(writesAll ? restOf(tx, accountId, event, message, now) : []),
    ]);
    return message;
  });
}
