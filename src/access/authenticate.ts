import type { Caller } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { World } from '../domain/ports.ts';
import { apiKeyPattern } from './secrets.ts';

/** A bearer credential as RFC 6750 has it in the `Authorization` header; the scheme in any case. */
const bearer = /^Bearer +([A-Za-z0-9._~+/=-]+)$/i;

/** One wording for an unknown, an expired and a revoked credential: which of them is nobody's business. */
function unauthenticated(): DomainError {
  return new DomainError('UNAUTHENTICATED', 'The credential is unknown, expired or revoked.');
}

/**
 * Finds out who is calling. The key is looked up on every request, so that a revocation holds at once,
 * whichever process made it.
 * @param authorization the `Authorization` header, if there was one
 * @throws UNAUTHENTICATED
 */
export async function authenticate(
  { storage, secrets, clock }: Pick<World, 'storage' | 'secrets' | 'clock'>,
  authorization: string | undefined,
): Promise<{ caller: Caller; lastUsedAt: string | null }> {
  if (authorization === undefined || authorization === '') {
    throw new DomainError('UNAUTHENTICATED', 'Send an API key: `Authorization: Bearer cs_…`.');
  }
  const secret = bearer.exec(authorization)?.[1];
  if (secret === undefined || !apiKeyPattern.test(secret)) throw unauthenticated();
  const found = await storage.read.apiKeys.findBySecret(secrets.hash(secret));
  if (found === undefined) throw unauthenticated();
  const { key, account } = found;
  const expired = key.expiresAt !== null && Date.parse(key.expiresAt) <= clock.now();
  if (expired || key.revokedAt !== null) throw unauthenticated();
  return {
    caller: {
      account,
      keyId: key.id,
      credential: 'key',
      scopes: new Set(key.scopes),
      expiresAtMs: key.expiresAt === null ? undefined : Date.parse(key.expiresAt),
    },
    lastUsedAt: key.lastUsedAt,
  };
}
