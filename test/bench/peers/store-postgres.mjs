import postgres from 'postgres';
import { conversationOf, idIn, isInForce, lastMessageOf, messageOf, newMessage, pageBody } from './rows.mjs';

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

/** Conversations, newest first, those after the cursor if there is one. */
export async function list(accountId, limit, cursor) {
  const rows =
    cursor == null
      ? await sql`SELECT * FROM conversations WHERE account_id = ${accountId} ORDER BY id DESC LIMIT ${limit}`
      : await sql`SELECT * FROM conversations WHERE account_id = ${accountId} AND id < ${idIn(cursor)}
          ORDER BY id DESC LIMIT ${limit}`;
  return rows.map(conversationOf);
}

/** The body of the service's answer to `GET /v1/conversations`. */
export async function listBody(accountId, { limit = 20, after }) {
  const [found, [totals]] = await Promise.all([
    list(accountId, limit + 1, after),
    sql`SELECT active + pending + closed AS total FROM account_totals WHERE account_id = ${accountId}`,
  ]);
  return pageBody(found, limit, totals.total);
}

export async function one(accountId, id, limit = null) {
  const [[row], messages] = await Promise.all([
    sql`SELECT * FROM conversations WHERE account_id = ${accountId} AND id = ${id}`,
    sql`SELECT * FROM messages WHERE account_id = ${accountId} AND conversation_id = ${id} ORDER BY sequence LIMIT ${limit}`,
  ]);
  return row && { ...conversationOf(row), messages: messages.map((message) => messageOf(message, id)) };
}

/** Whether a send is also an event of the account's log, with the next number of it. */
const hasLog = process.env.BENCH_LOG === 'ordered';

const nextOfLog = (tx, accountId) => tx`UPDATE account_totals SET event_sequence = event_sequence + 1
  WHERE account_id = ${accountId} RETURNING event_sequence AS sequence`;

const append = (tx, accountId, sequence, { id, conversationId }, now) =>
  tx`INSERT INTO events (account_id, sequence, id, type, conversation_id, timestamp, data)
    VALUES (${accountId}, ${sequence}, ${id}, 'message.sent', ${conversationId}, ${now}, '{}')`;

export function send(accountId, id, input) {
  return sql.begin(async (tx) => {
    const [[row], [event]] = await Promise.all([
      tx`SELECT message_count FROM conversations WHERE account_id = ${accountId} AND id = ${id} FOR UPDATE`,
      hasLog ? nextOfLog(tx, accountId) : [],
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
      event && append(tx, accountId, event.sequence, message, now),
    ]);
    return message;
  });
}
