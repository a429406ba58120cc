import type { JWTPayload } from 'jose';
import { type Scope, scopes } from '../domain/caller.ts';
import { lazily } from '../domain/lazily.ts';
import { type Sender, senders } from '../domain/messages.ts';
import type { Clock, TokenSigner } from '../domain/ports.ts';
import type { Storage } from '../domain/storage-port.ts';
import { maxTokenSeconds, type TokenGrant } from '../domain/tokens.ts';

// Tokens are JWTs (RFC 7519) with the checks that RFC 8725 asks for: one algorithm, a type, an issuer and an
// audience of their own, so that no other JWT, whoever has signed it, is ever taken for one.

const algorithm = 'HS256';
const type = 'conversation-token+jwt';
const issuer = 'conversation-service';
const audience = 'conversation-service';

/** The form of a signed JWT: three parts of base64url. An API key has no dots in it. */
const form = /^[\w-]+\.[\w-]+\.[\w-]+$/;
/** Far above what the longest grant takes. */
const maxLength = 2_048;

/** Makes tokens, and reads those that it, or another process on the same database, has made. */
export class Tokens implements TokenSigner {
  readonly #storage: Storage;
  readonly #clock: Clock;
  /** Loads what the first token would wait for: a start has no use for it. */
  readonly load = lazily(() => import('jose'));
  /** Read once: the key never changes. */
  readonly #readKey = lazily(() => this.#importKey());

  constructor({ storage, clock }: { storage: Storage; clock: Clock }) {
    this.#storage = storage;
    this.#clock = clock;
  }

  async sign(grant: TokenGrant): Promise<string> {
    const { SignJWT } = await this.load();
    return await new SignJWT({
      account: grant.accountId,
      scope: grant.scopes.join(' '), // as RFC 8693, section 4.2, has it
      ...(grant.conversationId === null ? {} : { conversation: grant.conversationId }),
      ...(grant.sender === null ? {} : { sender: grant.sender }),
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
   * What a token grants now, as far as the token itself says: its API key is to be looked at, too.
   * @returns undefined for what is no token of this service, or one that is not valid at this time
   * @throws UNAVAILABLE
   */
  async verify(token: string): Promise<TokenGrant | undefined> {
    if (token.length > maxLength || !form.test(token)) return undefined;
    const { errors, jwtVerify } = await this.load();
    const key = await this.#readKey();
    try {
      const { payload } = await jwtVerify(token, key, {
        algorithms: [algorithm],
        typ: type,
        issuer,
        audience,
        requiredClaims: ['sub', 'exp'],
        maxTokenAge: maxTokenSeconds, // which also refuses one from the future
        clockTolerance: 0,
        currentDate: new Date(this.#clock.now()),
      });
      return grantOf(payload);
    } catch (error) {
      if (error instanceof errors.JOSEError) return undefined;
      throw error;
    }
  }

  async #importKey(): Promise<CryptoKey> {
    const bytes = new Uint8Array(await this.#storage.read.apiKeys.tokenKey());
    return await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign', 'verify']);
  }
}

/** Undefined when a claim is not what this version of the program puts there: what it says is not guessed. */
function grantOf(claims: JWTPayload): TokenGrant | undefined {
  const { sub, account, scope, conversation = null, sender = null, iat, exp } = claims;
  if (typeof sub !== 'string' || typeof account !== 'string' || typeof scope !== 'string') return undefined;
  if (iat === undefined || exp === undefined) return undefined;
  if (conversation !== null && typeof conversation !== 'string') return undefined;
  if (sender !== null && !isSender(sender)) return undefined;
  const granted = scope.split(' ');
  if (!granted.every(isScope)) return undefined;
  return {
    accountId: account,
    keyId: sub,
    scopes: granted,
    conversationId: conversation,
    sender,
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
