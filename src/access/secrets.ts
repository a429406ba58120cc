import { hash, randomBytes } from 'node:crypto';
import type { Secrets } from '../domain/ports.ts';

/** An API key: `cs_` and 256 random bits as 43 characters of base64url. */
export const apiKeyPattern = /^cs_[A-Za-z0-9_-]{43}$/;

export const secrets: Secrets = {
  generate: () => `cs_${randomBytes(32).toString('base64url')}`,
  generateSignInSecret: () => randomBytes(32).toString('base64url'),
  generateSigningSecret: () => `whsec_${randomBytes(32).toString('base64')}`,
  hash: (secret) => hash('sha256', secret, 'buffer'),
};

/** The beginnings of API keys, webhook secrets and tokens (`{"` in base64url). */
const secretInside = /(cs_|whsec_|eyJ).*/s;
/** Cheap pre-check: every text with a secret contains one of these, also when percent-encoded. */
const suspicious = /cs_|whsec_|eyJ|%/;
/** An ASCII character that was percent-encoded any number of times: `%63`, `%2563`, `%252563`. */
const encoded = /%(?:25)*([2-7][0-9a-f])/gi;
/** What is still encoded after so many rounds, because digits of the codes were encoded in turn, is nobody's path. */
const maxRounds = 4;

/** So many characters of a path are shown at most. */
export const maxShownPath = 500;

/**
 * A path with possible secrets masked, for logs and errors: a client may put the key itself into the URL when revoking
 * it. Only the prefix remains. Of a long path there is the beginning.
 */
export function withoutSecrets(whole: string): string {
  const path = whole.slice(0, maxShownPath);
  if (!suspicious.test(path)) return path;
  const plain = decoded(path);
  if (plain === undefined) return `${path.slice(0, path.indexOf('%')).replace(secretInside, '$1')}***`;
  return secretInside.test(plain) ? plain.replace(secretInside, '$1***') : path;
}

/** Stricter than in paths: an id with `docs_` in it is an ordinary one. */
const secretInId = /\bcs_|cs_[\w-]{43}|whsec_|eyJ[\w-]+\./;

/** Whether an id that a client has chosen seems to hold a secret, so that it must not be shown or logged. */
export function holdsSecret(id: string): boolean {
  if (!suspicious.test(id)) return false;
  const plain = decoded(id);
  return plain === undefined || secretInId.test(plain);
}

/** Not by decodeURIComponent, which throws on malformed encodings: there may be a secret beside them. */
function decoded(text: string): string | undefined {
  let plain = text;
  for (let round = 0; round < maxRounds; round++) {
    const before = plain;
    plain = before.replace(encoded, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
    if (plain === before) return plain;
  }
  return undefined;
}
