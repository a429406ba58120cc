import type { IdempotencyRecordReads, IdempotencyRecordWrites } from '../../domain/storage-port.ts';
import { isBeingErased } from './erasure.ts';
import { deleteFirst, type Statements } from './statements.ts';
import type { idempotencyRecords } from './tables.ts';

type Row = Omit<typeof idempotencyRecords.$inferSelect, 'accountId' | 'idempotencyKey' | 'createdAt'> & {
  readonly createdAtMs: number;
};

export function idempotencyReads(db: Statements): IdempotencyRecordReads {
  const find = db.prepareForKeys<Row, 'accountId' | 'idempotencyKey'>(
    `SELECT at, fingerprint, conversation_id, created_at AS created_at_ms,
        CASE WHEN ${isBeingErased('kept_results')} THEN NULL ELSE result END AS result
      FROM :rows JOIN kept_results USING (account_id, idempotency_key)`,
    { texts: ['accountId', 'idempotencyKey'] },
  );
  return { find: (accountId, idempotencyKey) => find.get({ accountId, idempotencyKey }) };
}

export function idempotencyWrites(db: Statements): IdempotencyRecordWrites {
  const put = db.prepareForRows(
    `INSERT INTO kept_results (account_id, idempotency_key, fingerprint, result, conversation_id, created_at)
      SELECT account_id, key, decode(fingerprint, 'hex'), result, conversation_id, created_at_ms FROM :rows
      ON CONFLICT (account_id, idempotency_key) DO UPDATE SET fingerprint = excluded.fingerprint,
        result = excluded.result, conversation_id = excluded.conversation_id, created_at = excluded.created_at`,
    { texts: ['accountId', 'key', 'fingerprint', 'result', 'conversationId'], numbers: ['createdAtMs'] },
  );
  const removeOldest = db.prepare(deleteFirst('kept_results', 'created_at < :beforeMs ORDER BY created_at'));
  return {
    put: async (accountId, key, kept) => {
      await put.send({ ...kept, accountId, key, fingerprint: Buffer.from(kept.fingerprint).toString('hex') });
    },
    prune: (beforeMs, limit) => removeOldest.run({ beforeMs, limit }),
  };
}
