import { hash, randomBytes } from 'node:crypto';
import type { Secrets } from '../domain/ports.ts';

/** An API key: `cs_` and 256 random bits as 43 characters of base64url. */
export const apiKeyPattern = /^cs_[A-Za-z0-9_-]{43}$/;

export const secrets: Secrets = {
  generate: () => `cs_${randomBytes(32).toString('base64url')}`,
  generateSigningSecret: () => `whsec_${randomBytes(32).toString('base64')}`,
  hash: (secret) => hash('sha256', secret, 'buffer'),
};

/** The beginnings of API keys, webhook secrets and tokens (`{"` in base64url). */
const secretInside = /(cs_|whsec_|eyJ).*/s;
/** Cheap pre-check: every path with a secret contains one of these, also when percent-encoded. */
const suspicious = /cs_|whsec_|eyJ|%/;

/**
 * A path with possible secrets masked, for logs and errors: a client may put the key itself into the URL when revoking
 * it. Only the prefix remains.
 */
export function withoutSecrets(path: string): string {
  if (!suspicious.test(path)) return path;
  // Not decodeURIComponent, which throws on malformed encodings: there may be a secret beside them.
  const plain = path.replace(/%([2-7][0-9a-f])/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
  return secretInside.test(plain) ? plain.replace(secretInside, '$1***') : path;
}
