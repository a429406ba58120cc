import type { StoredConversation } from '../../domain/conversation-record.ts';
import { maxReadPositions } from '../../domain/read-position-record.ts';
import type { ReadPositionReads, ReadPositionWrites } from '../../domain/storage-port.ts';
import { type ReadPositionRow, readPositionColumns, toReadPosition, toReadPositions } from '../rows/read-positions.ts';
import { toMs } from '../rows/values.ts';
import { insertInto } from '../sql.ts';
import { arrayOf, columnsOf, jsonRows, type Statements } from './statements.ts';

/** The read positions of a conversation, to be read along with it. */
export const ownReadPositions = jsonRows('read_positions', readPositionColumns, {
  where: 'read_positions.account_id = :accountId AND read_positions.conversation_id = conversations.id',
  order: 'read_positions.reader',
});

export function readPositionReads(db: Statements): ReadPositionReads {
  const ofConversations = db.prepare<ReadPositionRow & { conversationId: string }>(
    `SELECT ${columnsOf('read_positions', readPositionColumns)}, conversation_id FROM read_positions
      WHERE account_id = :accountId AND conversation_id = ANY(:ids::text[]) ORDER BY conversation_id, reader`,
  );
  return {
    ofConversations: async (accountId, ids) => {
      const rows = Map.groupBy(
        await ofConversations.all({ accountId, ids: arrayOf(ids) }),
        ({ conversationId }) => conversationId,
      );
      return ids.map((id) => toReadPositions(rows.get(id) ?? []));
    },
  };
}

const ofConversation = 'account_id = :accountId AND conversation_id = :conversationId';

export function readPositionWrites(db: Statements): ReadPositionWrites {
  // Whoever moves a position locks the conversation first: one of two must see what the other has done.
  const lock = db.prepare(
    'SELECT 1 FROM conversations WHERE account_id = :accountId AND id = :conversationId FOR UPDATE',
  );
  const all = db.prepare<ReadPositionRow>(
    `SELECT ${columnsOf('read_positions', readPositionColumns)} FROM read_positions WHERE ${ofConversation}`,
  );
  const put = db.prepare(
    `${insertInto('read_positions', ['accountId', 'conversationId', ...readPositionColumns])}
      ON CONFLICT (account_id, conversation_id, reader)
      DO UPDATE SET sequence = excluded.sequence, read_at = excluded.read_at, move = excluded.move`,
  );
  const remove = db.prepare(`DELETE FROM read_positions WHERE ${ofConversation} AND reader = :reader`);
  const addUnread = db.prepare(
    insertInto('unread_conversations', ['accountId', 'reader', 'conversationId', 'lastActivityAt']),
  );
  const removeUnread = db.prepare(`DELETE FROM unread_conversations WHERE ${ofConversation} AND reader = :reader`);
  // The one that has not moved for longest gives way where there are too many, and the reader has none yet.
  const putAtEnd = db.prepareForRows(
    `WITH given AS MATERIALIZED (SELECT given.* FROM :rows),
        known AS MATERIALIZED (SELECT account_id, conversation_id, read_positions.reader, move,
            count(*) OVER conversation AS count, max(move) OVER conversation AS last_move,
            row_number() OVER (conversation ORDER BY move) AS place,
            bool_or(read_positions.reader = given.reader) OVER conversation AS has_own
          FROM given JOIN read_positions USING (account_id, conversation_id)
          WINDOW conversation AS (PARTITION BY account_id, conversation_id)),
        gone AS (SELECT account_id, conversation_id, reader FROM known
          WHERE place = 1 AND count >= ${maxReadPositions} AND NOT has_own),
        removed AS (DELETE FROM read_positions AS old USING gone WHERE old.account_id = gone.account_id
          AND old.conversation_id = gone.conversation_id AND old.reader = gone.reader),
        read AS (DELETE FROM unread_conversations AS unread
          USING (SELECT account_id, conversation_id, reader FROM given UNION ALL SELECT * FROM gone) AS done
          WHERE unread.account_id = done.account_id AND unread.conversation_id = done.conversation_id
            AND unread.reader = done.reader)
      INSERT INTO read_positions (account_id, conversation_id, reader, sequence, read_at, move)
        SELECT account_id, conversation_id, given.reader, given.sequence, given.read_at, coalesce(known.last_move, 0) + 1
          FROM given LEFT JOIN known USING (account_id, conversation_id) WHERE known.place IS NULL OR known.place = 1
      ON CONFLICT (account_id, conversation_id, reader)
        DO UPDATE SET sequence = excluded.sequence, read_at = excluded.read_at, move = excluded.move`,
    { texts: ['accountId', 'conversationId', 'reader'], numbers: ['sequence', 'readAt'] },
  );
  return {
    moveToEnd: async (accountId, { id: conversationId, messageCount }, reader, readAt) => {
      await putAtEnd.send({ accountId, conversationId, reader, sequence: messageCount, readAt: toMs(readAt) });
    },
    move: async (accountId, { id: conversationId, messageCount, lastActivityAt }, position) => {
      const place = { accountId, conversationId };
      const { reader, sequence, readAt } = position;
      const [locked, rows] = await Promise.all([lock.all(place), all.all(place)]);
      if (locked.length === 0) throw new Error(`There is no conversation ${conversationId}`);
      const present = rows.find((row) => row.reader === reader);
      if (present !== undefined && present.sequence >= sequence) {
        return { position: toReadPosition(present), hasMoved: false };
      }
      const byMove = rows.map((row) => row.move);
      if (present === undefined && rows.length >= maxReadPositions) {
        const first = rows[byMove.indexOf(Math.min(...byMove))] as ReadPositionRow;
        await remove.send({ ...place, reader: first.reader });
        await removeUnread.send({ ...place, reader: first.reader });
      }
      await put.send({ ...place, reader, sequence, readAt: toMs(readAt), move: Math.max(0, ...byMove) + 1 });
      if (sequence === messageCount) {
        if (present !== undefined) await removeUnread.send({ ...place, reader });
      } else if (present === undefined) {
        await addUnread.send({ ...place, reader, lastActivityAt: toMs(lastActivityAt) });
      }
      return { position, hasMoved: true };
    },
  };
}

/** What changes of a conversation mean for who has not read it. */
interface UnreadUpkeep {
  /** A message was added: it is unread by all who have not read up to it. */
  grew(accountId: string, conversation: StoredConversation): Promise<void>;
  /** Removes all positions in a conversation that is being erased. */
  remove(accountId: string, conversationId: string): Promise<void>;
}

export function unreadUpkeep(db: Statements): UnreadUpkeep {
  const grow = db.prepareForRows(
    `INSERT INTO unread_conversations (account_id, reader, conversation_id, last_activity_at)
      SELECT account_id, reader, conversation_id, given.last_activity_at
        FROM :rows JOIN read_positions USING (account_id, conversation_id)
        WHERE read_positions.sequence < given.message_count
      ON CONFLICT (account_id, reader, conversation_id) DO UPDATE SET last_activity_at = excluded.last_activity_at`,
    { texts: ['accountId', 'conversationId'], numbers: ['messageCount', 'lastActivityAt'] },
  );
  const removeAll = db.prepare(
    `WITH removed AS (DELETE FROM read_positions WHERE ${ofConversation} RETURNING reader)
      DELETE FROM unread_conversations WHERE ${ofConversation} AND reader IN (SELECT reader FROM removed)`,
  );
  return {
    grew: async (accountId, { id, messageCount, lastActivityAt }) => {
      await grow.send({ accountId, conversationId: id, messageCount, lastActivityAt: toMs(lastActivityAt) });
    },
    remove: async (accountId, conversationId) => {
      await removeAll.send({ accountId, conversationId });
    },
  };
}
