import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import type { CursorSeal } from '../domain/ports.ts';
import type { Storage } from '../domain/storage-port.ts';
import { lazily } from '../runtime/lazily.ts';

const algorithm = 'aes-256-gcm';
const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;
/** Every cursor is filled up to this, so that its length does not tell how large its sequence is. */
const textBytes = 48;

/** Loads the seal of a database, whose key is derived from the one that signs its tokens. */
export function cursorSealOf({ read }: Pick<Storage, 'read'>): () => Promise<CursorSeal> {
  return lazily(async () => {
    const tokenKey = await read.apiKeys.tokenKey();
    const key = Buffer.from(hkdfSync('sha256', tokenKey, '', 'event cursors of bound tokens', keyBytes));
    return {
      seal(cursor, binding) {
        const nonce = randomBytes(nonceBytes);
        const cipher = createCipheriv(algorithm, key, nonce).setAAD(Buffer.from(binding));
        const text = Buffer.concat([cipher.update(cursor.padEnd(textBytes)), cipher.final()]);
        return Buffer.concat([nonce, text, cipher.getAuthTag()]).toString('base64url');
      },
      open(sealed, binding) {
        const bytes = Buffer.from(sealed, 'base64url');
        if (bytes.length !== nonceBytes + textBytes + tagBytes || bytes.toString('base64url') !== sealed)
          return undefined;
        const cipher = createDecipheriv(algorithm, key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
          .setAAD(Buffer.from(binding))
          .setAuthTag(bytes.subarray(-tagBytes));
        try {
          const text = cipher.update(bytes.subarray(nonceBytes, -tagBytes));
          return Buffer.concat([text, cipher.final()]).toString().trimEnd();
        } catch {
          return undefined; // of another binding, of another database, or changed
        }
      },
    };
  });
}
