import { createHmac, timingSafeEqual } from 'node:crypto';
import type { JWTPayload } from 'jose';
import { type BoundVisitor, type Scope, scopes } from '../domain/caller.ts';
import { type Sender, senders } from '../domain/message-record.ts';
import type { Clock, TokenSigner } from '../domain/ports.ts';
import type { Storage } from '../domain/storage-port.ts';
import { maxTokenSeconds, type TokenGrant } from '../domain/tokens.ts';
import { lazily } from '../runtime/lazily.ts';

// Tokens are JWTs (RFC 7519) with the checks required by RFC 8725: one algorithm, and a specific type, issuer and
// audience, so that no other JWT, whoever signed it, is accepted as a token.

const algorithm = 'HS256';
const type = 'conversation-token+jwt';
const issuer = 'conversation-service';
const audience = 'conversation-service';

/** The form of a signed JWT: three parts of base64url. API keys contain no dots. */
const form = /^[\w-]+\.[\w-]+\.[\w-]+$/;
/** Longer than any token that the service makes: a visitor's id, name and email address can take 2,600 bytes. */
const maxLength = 5_120;
/** By how much the clock of the machine that has signed a token may be ahead of this one's. */
const clockDifferenceSeconds = 60;

/** Signs tokens, and verifies those signed by any process on the same database. */
export class Tokens implements TokenSigner {
  readonly #storage: Storage;
  readonly #clock: Clock;
  /** Loads jose, which a start does not need, so that the first token need not wait for it. */
  readonly load = lazily(() => import('jose'));
  /** Read once: the key never changes. */
  readonly #readBytes = lazily(async () => new Uint8Array(await this.#storage.read.apiKeys.tokenKey()));
  readonly #readKey = lazily(async () => {
    const hmac = { name: 'HMAC', hash: 'SHA-256' };
    return await crypto.subtle.importKey('raw', await this.#readBytes(), hmac, false, ['sign', 'verify']);
  });

  constructor({ storage, clock }: { storage: Storage; clock: Clock }) {
    this.#storage = storage;
    this.#clock = clock;
  }

  async sign(grant: TokenGrant): Promise<string> {
    const { SignJWT } = await this.load();
    return await new SignJWT({
      account: grant.accountId,
      scope: grant.scopes.join(' '), // RFC 8693, section 4.2
      ...(grant.conversationId === null ? {} : { conversation: grant.conversationId }),
      ...(grant.visitor === null ? {} : { visitor: grant.visitor }),
      ...(grant.requestsPerHour === null ? {} : { requestsPerHour: grant.requestsPerHour }),
      ...(grant.sender === null ? {} : { sender: grant.sender }),
      ...(grant.trustedDocumentsOnly ? { trustedDocumentsOnly: true } : {}),
    })
      .setProtectedHeader({ alg: algorithm, typ: type })
      .setIssuer(issuer)
      .setAudience(audience)
      .setSubject(grant.keyId)
      .setIssuedAt(grant.issuedAtSeconds)
      .setExpirationTime(grant.expiresAtSeconds)
      .sign(await this.#readKey());
  }

  /**
   * Verifies a token by itself. The caller has to check its API key, too.
   * @returns undefined for anything but a currently valid token of this service
   * @throws UNAVAILABLE
   */
  async verify(token: string): Promise<TokenGrant | undefined> {
    if (token.length > maxLength || !form.test(token)) return undefined;
    // Forgeries end here, at a tenth of what jose takes to refuse one.
    if (!isSigned(token, await this.#readBytes())) return undefined;
    const { errors, jwtVerify } = await this.load();
    const key = await this.#readKey();
    const now = this.#clock.now();
    try {
      const { payload } = await jwtVerify(token, key, {
        algorithms: [algorithm],
        typ: type,
        issuer,
        audience,
        requiredClaims: ['sub', 'exp'],
        clockTolerance: 0,
        currentDate: new Date(now),
      });
      const grant = grantOf(payload);
      const ageSeconds = Math.floor(now / 1_000) - (grant?.issuedAtSeconds ?? 0);
      return ageSeconds < -clockDifferenceSeconds || ageSeconds > maxTokenSeconds ? undefined : grant;
    } catch (error) {
      if (error instanceof errors.JOSEError) return undefined;
      throw error;
    }
  }
}

/** Whether a signature is that of this key. It says nothing of the header, which jose checks, or of the claims. */
function isSigned(token: string, key: Uint8Array): boolean {
  const dot = token.lastIndexOf('.');
  const expected = createHmac('sha256', key).update(token.slice(0, dot)).digest();
  const signature = Buffer.from(token.slice(dot + 1), 'base64url');
  return signature.length === expected.length && timingSafeEqual(signature, expected);
}

/** Undefined unless every claim is one that this version of the program would have written. */
function grantOf(claims: JWTPayload): TokenGrant | undefined {
  const { sub, account, scope, iat, exp } = claims;
  const { conversation = null, visitor = null, requestsPerHour = null, sender = null } = claims;
  const { trustedDocumentsOnly } = claims;
  if (typeof sub !== 'string' || typeof account !== 'string' || typeof scope !== 'string') return undefined;
  if (iat === undefined || exp === undefined) return undefined;
  if (conversation !== null && typeof conversation !== 'string') return undefined;
  if (visitor !== null && (!isVisitor(visitor) || conversation !== null)) return undefined;
  if (requestsPerHour !== null && typeof requestsPerHour !== 'number') return undefined;
  if (sender !== null && !isSender(sender)) return undefined;
  if (trustedDocumentsOnly !== undefined && trustedDocumentsOnly !== true) return undefined;
  const granted = scope.split(' ');
  if (!granted.every(isScope)) return undefined;
  return {
    accountId: account,
    keyId: sub,
    scopes: granted,
    conversationId: conversation,
    visitor,
    requestsPerHour,
    sender,
    trustedDocumentsOnly: trustedDocumentsOnly === true,
    issuedAtSeconds: iat,
    expiresAtSeconds: exp,
  };
}

function isScope(text: string): text is Scope {
  return (scopes as readonly string[]).includes(text);
}

function isSender(value: unknown): value is Sender {
  return (senders as readonly unknown[]).includes(value);
}

function isVisitor(value: unknown): value is BoundVisitor {
  if (typeof value !== 'object' || value === null) return false;
  const { id, name, email } = value as Record<string, unknown>;
  return typeof id === 'string' && [name, email].every((text) => text === null || typeof text === 'string');
}
