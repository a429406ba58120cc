import { hash, randomBytes } from 'node:crypto';
import type { Secrets } from '../domain/ports.ts';

/** API keys: `cs_` and 43 characters of base64url, which hold 256 random bits. */
export const apiKeyPattern = /^cs_[A-Za-z0-9_-]{43}$/;

export const secrets: Secrets = {
  generate: () => `cs_${randomBytes(32).toString('base64url')}`,
  generateSigningSecret: () => `whsec_${randomBytes(32).toString('base64')}`,
  hash: (secret) => hash('sha256', secret, 'buffer'),
};

/** How keys and the secrets of webhooks begin, and tokens: `{"` in base64url. */
const secretInside = /(cs_|whsec_|eyJ).*/s;
/** What has to be in a path that holds one, also in percent-encoding; most paths have nothing of it. */
const suspicious = /cs_|whsec_|eyJ|%/;

/**
 * A path as the log and errors may have it. Somebody revokes a key by the key itself: of what may be a secret it is shown how
 * it begins, and nothing that comes then.
 */
export function withoutSecrets(path: string): string {
  if (!suspicious.test(path)) return path;
  // Malformed encodings are left as they are: a secret can stand beside them.
  const plain = path.replace(/%([2-7][0-9a-f])/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
  return secretInside.test(plain) ? plain.replace(secretInside, '$1***') : path;
}
