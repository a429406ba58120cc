import type { SignIn } from '../../domain/sign-ins.ts';
import type { SignInReads, SignInWrites } from '../../domain/storage-port.ts';
import { insertInto } from '../sql.ts';
import type { Statements } from './statements.ts';

export function signInReads(db: Statements): SignInReads {
  const find = db.prepare<SignIn>(
    `SELECT account_id AS accountId, key_id AS keyId, expires_at AS expiresAtMs
      FROM sign_ins WHERE secret_hash = :secretHash`,
  );
  return { find: (secretHash) => find.get({ secretHash }) };
}

export function signInWrites(db: Statements): SignInWrites {
  const insert = db.prepare(
    insertInto('sign_ins', ['secretHash', 'accountId', 'keyId'], { expiresAt: ':expiresAtMs' }),
  );
  const remove = db.prepare('DELETE FROM sign_ins WHERE secret_hash = :secretHash');
  const removeOldest = db.prepare(
    `DELETE FROM sign_ins WHERE secret_hash IN
      (SELECT secret_hash FROM sign_ins WHERE account_id = :accountId AND key_id = :keyId
        ORDER BY expires_at DESC LIMIT -1 OFFSET :kept)`,
  );
  const prune = db.prepare(
    `DELETE FROM sign_ins WHERE secret_hash IN
      (SELECT secret_hash FROM sign_ins WHERE expires_at < :beforeMs ORDER BY expires_at LIMIT :limit)`,
  );
  return {
    insert: (signIn, secretHash) => {
      insert.run({ ...signIn, secretHash });
    },
    remove: (secretHash) => {
      remove.run({ secretHash });
    },
    removeOldest: (accountId, keyId, kept) => {
      removeOldest.run({ accountId, keyId, kept });
    },
    prune: (beforeMs, limit) => prune.run({ beforeMs, limit }),
  };
}
