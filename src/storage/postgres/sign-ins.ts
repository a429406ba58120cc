import type { SignIn } from '../../domain/sign-ins.ts';
import type { SignInReads, SignInWrites } from '../../domain/storage-port.ts';
import { insertInto } from '../sql.ts';
import { deleteFirst, type Statements } from './statements.ts';

export function signInReads(db: Statements): SignInReads {
  const find = db.prepare<SignIn>(
    'SELECT account_id, key_id, expires_at AS expires_at_ms FROM sign_ins WHERE secret_hash = :secretHash',
  );
  return { find: (secretHash) => find.get({ secretHash }) };
}

export function signInWrites(db: Statements): SignInWrites {
  const insert = db.prepare(
    insertInto('sign_ins', ['secretHash', 'accountId', 'keyId'], { expiresAt: ':expiresAtMs' }),
  );
  const remove = db.prepare('DELETE FROM sign_ins WHERE secret_hash = :secretHash');
  const removeOldest = db.prepare(
    `DELETE FROM sign_ins WHERE (account_id, secret_hash) IN
      (SELECT account_id, secret_hash FROM sign_ins WHERE account_id = :accountId AND key_id = :keyId
        ORDER BY expires_at DESC OFFSET :kept)`,
  );
  const prune = db.prepare(deleteFirst('sign_ins', 'expires_at < :beforeMs ORDER BY expires_at'));
  return {
    insert: async (signIn, secretHash) => {
      await insert.send({ ...signIn, secretHash });
    },
    remove: async (secretHash) => {
      await remove.send({ secretHash });
    },
    removeOldest: async (accountId, keyId, kept) => {
      await removeOldest.send({ accountId, keyId, kept });
    },
    prune: (beforeMs, limit) => prune.run({ beforeMs, limit }),
  };
}
