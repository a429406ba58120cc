import type { StoredConversation } from '../../domain/conversation-record.ts';
import { maxReadPositions, type ReadPosition } from '../../domain/read-position-record.ts';
import type { ReadPositionReads, ReadPositionWrites } from '../../domain/storage-port.ts';
import { type ReadPositionRow, readPositionColumns, toReadPosition, toReadPositions } from '../rows/read-positions.ts';
import { toMs } from '../rows/values.ts';
import { insertInto } from '../sql.ts';
import { columnsOf, jsonList, type Statement, type Statements } from './statements.ts';

const selected = `SELECT ${columnsOf('read_positions', readPositionColumns)}`;

/** The statement that reads those of a conversation, by its key. */
export function readPositionsOfKey(db: Statements): Statement<ReadPositionRow> {
  return db.prepare(`${selected} FROM read_positions WHERE conversation_key = :conversationKey`);
}

export function readPositionReads(db: Statements): ReadPositionReads {
  // CROSS JOIN makes SQLite begin with the table that is named first: so the rows come by conversation, then by reader.
  const ofConversations = db.prepare<ReadPositionRow & { place: number }>(
    `${selected}, asked.key AS place
      FROM json_each(:asked) AS asked CROSS JOIN conversations CROSS JOIN read_positions
      WHERE conversations.account_id = :accountId AND conversations.id = asked.value
        AND read_positions.conversation_key = conversations.key`,
  );
  return {
    ofConversations: (accountId, ids) => {
      const rows: ReadPositionRow[][] = ids.map(() => []);
      for (const row of ofConversations.all({ accountId, asked: jsonList(ids) })) rows[row.place]?.push(row);
      return rows.map(toReadPositions);
    },
  };
}

export function readPositionWrites(db: Statements): ReadPositionWrites {
  const findKey = db.prepare<{ key: number }>(
    'SELECT key FROM conversations WHERE account_id = :accountId AND id = :conversationId',
  );
  const ofKey = readPositionsOfKey(db);
  const put = db.prepare(
    `${insertInto('read_positions', ['conversationKey', ...readPositionColumns])}
      ON CONFLICT DO UPDATE SET sequence = excluded.sequence, read_at = excluded.read_at, move = excluded.move`,
  );
  const remove = db.prepare(
    'DELETE FROM read_positions WHERE conversation_key = :conversationKey AND reader = :reader',
  );
  const addUnread = db.prepare(
    insertInto('unread_conversations', ['accountId', 'reader', 'conversationId', 'lastActivityAt']),
  );
  const removeUnread = db.prepare(
    `DELETE FROM unread_conversations
      WHERE account_id = :accountId AND reader = :reader AND conversation_id = :conversationId`,
  );
  const move = (
    accountId: string,
    { id: conversationId, messageCount, lastActivityAt }: StoredConversation,
    position: ReadPosition,
  ) => {
    const ofConversation = { accountId, conversationId };
    const { reader, sequence, readAt } = position;
    const conversationKey = findKey.get(ofConversation)?.key;
    if (conversationKey === undefined) throw new Error(`There is no conversation ${conversationId}`);
    const rows = ofKey.all({ conversationKey });
    const present = rows.find((row) => row.reader === reader);
    if (present !== undefined && present.sequence >= sequence) {
      return { position: toReadPosition(present), hasMoved: false };
    }
    const byMove = rows.map((row) => row.move);
    if (present === undefined && rows.length >= maxReadPositions) {
      const first = rows[byMove.indexOf(Math.min(...byMove))] as ReadPositionRow;
      remove.run({ conversationKey, reader: first.reader });
      removeUnread.run({ ...ofConversation, reader: first.reader });
    }
    put.run({ conversationKey, reader, sequence, readAt: toMs(readAt), move: Math.max(0, ...byMove) + 1 });
    if (sequence === messageCount) {
      if (present !== undefined) removeUnread.run({ ...ofConversation, reader });
    } else if (present === undefined) {
      addUnread.run({ ...ofConversation, reader, lastActivityAt: toMs(lastActivityAt) });
    }
    return { position, hasMoved: true };
  };
  return {
    move,
    moveToEnd: (accountId, conversation, reader, readAt) => {
      move(accountId, conversation, { reader, sequence: conversation.messageCount, readAt });
    },
  };
}

/** What changes of a conversation mean for who has not read it. */
interface UnreadUpkeep {
  /** A message was added: it is unread by all who have not read up to it. */
  grew(accountId: string, conversation: StoredConversation): void;
  /** Removes all positions in a conversation that is being erased. */
  remove(accountId: string, conversation: { id: string; key: number }): void;
}

export function unreadUpkeep(db: Statements): UnreadUpkeep {
  const grow = db.prepare(
    `INSERT INTO unread_conversations (account_id, reader, conversation_id, last_activity_at)
      SELECT :accountId, reader, :conversationId, :lastActivityAt FROM read_positions
      WHERE conversation_key = (SELECT key FROM conversations WHERE account_id = :accountId AND id = :conversationId)
        AND sequence < :messageCount
      ON CONFLICT DO UPDATE SET last_activity_at = excluded.last_activity_at`,
  );
  const removeUnread = db.prepare(
    `DELETE FROM unread_conversations WHERE account_id = :accountId AND conversation_id = :conversationId
      AND reader IN (SELECT reader FROM read_positions WHERE conversation_key = :conversationKey)`,
  );
  const removePositions = db.prepare('DELETE FROM read_positions WHERE conversation_key = :conversationKey');
  return {
    grew: (accountId, { id, messageCount, lastActivityAt }) => {
      grow.run({ accountId, conversationId: id, messageCount, lastActivityAt: toMs(lastActivityAt) });
    },
    remove: (accountId, { id, key }) => {
      removeUnread.run({ accountId, conversationId: id, conversationKey: key });
      removePositions.run({ conversationKey: key });
    },
  };
}
