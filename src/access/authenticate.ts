import { isValid } from '../domain/api-keys.ts';
import { type Caller, scopeSet, unauthenticated } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { Ports } from '../domain/ports.ts';
import type { FoundApiKey } from '../domain/storage-port.ts';
import { apiKeyPattern } from './secrets.ts';
import type { Tokens } from './tokens.ts';

/** A bearer credential in the `Authorization` header (RFC 6750); the scheme is case-insensitive. */
const bearer = /^Bearer +([A-Za-z0-9._~+/=-]+)$/i;

interface Identified {
  readonly caller: Caller;
  /** When the key, or a token of it, was last used. */
  readonly lastUsedAt: string | null;
}

/** Where credentials are looked up. */
export type CredentialStores = Pick<Ports, 'storage' | 'secrets' | 'clock'> & { readonly tokens: Tokens };

/**
 * Authenticates the caller. The key is looked up on every request, also for tokens, so that a revocation by any process
 * takes effect at once.
 * @param authorization the `Authorization` header, if any
 * @throws UNAUTHENTICATED, UNAVAILABLE
 */
export async function authenticate(stores: CredentialStores, authorization: string | undefined): Promise<Identified> {
  if (authorization === undefined || authorization === '') {
    throw new DomainError('UNAUTHENTICATED', 'Send an API key or a token: `Authorization: Bearer …`.');
  }
  const secret = bearer.exec(authorization)?.[1];
  const identified =
    secret === undefined
      ? undefined
      : apiKeyPattern.test(secret)
        ? await byKey(stores, secret)
        : await byToken(stores, secret);
  if (identified === undefined) throw unauthenticated();
  return identified;
}

/**
 * Authenticates the caller who has signed in to the console with an API key: it is as if the key itself were sent.
 * @param secret what the cookie holds, if there is one
 * @throws UNAUTHENTICATED, UNAVAILABLE
 */
export async function authenticateSignIn(
  { storage, secrets, clock }: CredentialStores,
  secret: string | undefined,
): Promise<Identified> {
  const known = secret === undefined ? undefined : await storage.read.signIns.find(secrets.hash(secret));
  if (known !== undefined && known.expiresAtMs > clock.now()) {
    const found = await storage.read.apiKeys.findWithAccount(known.accountId, known.keyId);
    if (found !== undefined && isValid(found.key, clock.now())) return identifiedBy(found);
  }
  throw new DomainError('UNAUTHENTICATED', 'Sign in to the console with an API key.');
}

async function byKey({ storage, secrets, clock }: CredentialStores, secret: string): Promise<Identified | undefined> {
  const found = await storage.read.apiKeys.findBySecret(secrets.hash(secret));
  return found !== undefined && isValid(found.key, clock.now()) ? identifiedBy(found) : undefined;
}

function identifiedBy({ key, account }: FoundApiKey): Identified {
  return {
    caller: {
      account,
      keyId: key.id,
      credential: 'key',
      scopes: scopeSet(key.scopes),
      expiresAtMs: key.expiresAt === null ? undefined : Date.parse(key.expiresAt),
    },
    lastUsedAt: key.lastUsedAt,
  };
}

async function byToken({ storage, tokens, clock }: CredentialStores, token: string): Promise<Identified | undefined> {
  const grant = await tokens.verify(token);
  if (grant === undefined) return undefined;
  const { accountId, keyId, scopes, conversationId, visitor, requestsPerHour, sender, trustedDocumentsOnly } = grant;
  const found = await storage.read.apiKeys.findWithAccount(accountId, keyId);
  if (found === undefined || !isValid(found.key, clock.now())) return undefined;
  const { key, account } = found;
  const expiresAtMs = grant.expiresAtSeconds * 1_000;
  return {
    caller: {
      account,
      keyId,
      credential: 'token',
      scopes: scopeSet(key.scopes.filter((scope) => scopes.includes(scope))),
      expiresAtMs: key.expiresAt === null ? expiresAtMs : Math.min(expiresAtMs, Date.parse(key.expiresAt)),
      ...(conversationId === null ? {} : { conversationId }),
      ...(visitor === null ? {} : { visitor }),
      ...(requestsPerHour === null ? {} : { requestsPerHour }),
      ...(sender === null ? {} : { sender }),
      ...(trustedDocumentsOnly ? { trustedDocumentsOnly } : {}),
    },
    lastUsedAt: key.lastUsedAt,
  };
}
