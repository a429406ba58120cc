import type { Awaitable } from '../domain/awaitable.ts';
import type { Caller } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { RateLimit, World } from '../domain/ports.ts';
import { timestamp } from '../domain/time.ts';
import { authenticate, type CredentialStores } from './authenticate.ts';
import { clientAddress, FailedAttempts } from './failed-attempts.ts';
import type { Origins, PageOrigin } from './origins.ts';
import type { Admission, RateLimiter } from './rate-limit.ts';
import type { Tokens } from './tokens.ts';
import type { Line, Turnstile } from './turnstile.ts';

/** What admission depends on, for REST requests, GraphQL requests and sockets alike. */
export interface Arrival extends PageOrigin {
  readonly authorization?: string | undefined;
  /** The address at the other end of the connection. */
  readonly peer?: string | undefined;
  readonly forwardedFor?: string | undefined;
}

export interface DoorOptions {
  readonly turnstile: Turnstile;
  readonly tokens: Tokens;
  readonly origins: Origins;
  readonly trustedProxies: number;
  /** Called when the last use of a key could not be stored. */
  readonly onError: (error: unknown) => void;
}

/** Admission for REST, GraphQL and sockets, in this order: overload, credential, origin, rate limit. */
export class Door {
  readonly #world: Omit<World, 'limiter'>;
  readonly #stores: CredentialStores;
  readonly #limiter: RateLimiter;
  readonly #options: DoorOptions;
  readonly #failedAttempts: FailedAttempts;
  /** Keys whose use was recorded in this minute, so that each costs at most one write per minute. */
  readonly #recorded = { minute: 0, keyIds: new Set<string>() };

  constructor(world: Omit<World, 'limiter'>, limiter: RateLimiter, options: DoorOptions) {
    this.#world = world;
    this.#stores = { ...world, tokens: options.tokens };
    this.#limiter = limiter;
    this.#options = options;
    this.#failedAttempts = new FailedAttempts(world.clock);
  }

  /**
   * Waits until there is capacity for a request or an operation on a socket.
   * @param line the queue to wait in
   * @returns undefined if there is capacity now
   * @throws UNAVAILABLE when overloaded
   */
  enter(line: Line): Promise<void> | undefined {
    return this.#options.turnstile.enter(line);
  }

  /**
   * Authenticates the caller.
   * @throws UNAUTHENTICATED, RATE_LIMITED after too many failures from one address, UNAVAILABLE
   */
  async identify(arrival: Arrival): Promise<Caller> {
    try {
      const { caller, lastUsedAt } = await authenticate(this.#stores, arrival.authorization);
      this.#recordUse(caller, lastUsedAt);
      return caller;
    } catch (error) {
      if (!(error instanceof DomainError) || error.code !== 'UNAUTHENTICATED') throw error;
      const address = clientAddress(arrival.peer, arrival.forwardedFor, this.#options.trustedProxies);
      throw this.#failedAttempts.record(address) ?? error;
    }
  }

  /**
   * Admits a caller for one unit of its account's budget.
   * @throws FORBIDDEN for a request from a page that may not call, which costs no unit; RATE_LIMITED, UNAVAILABLE
   */
  admit(caller: Caller, arrival: Arrival): Awaitable<Admission> {
    this.refuseForeignPage(caller, arrival);
    return this.#limiter.admit(caller.account);
  }

  /**
   * Charges an admitted caller for the additional operations in its request. The unit already paid is charged again
   * with them, all or none, so a request refused here has cost nothing.
   * @throws RATE_LIMITED, UNAVAILABLE
   */
  async chargeMore(caller: Caller, admission: Admission, units: number): Promise<Admission> {
    await this.#limiter.refund(caller.account, admission, 1);
    return await this.#limiter.admit(caller.account, 1 + units);
  }

  /**
   * Charges a caller on an open socket for one more operation.
   * @throws RATE_LIMITED, UNAVAILABLE
   */
  charge(caller: Caller): Awaitable<RateLimit> {
    return this.#limiter.admit(caller.account);
  }

  /** The budget of the caller's account, without spending any of it. */
  peek(caller: Caller): Awaitable<RateLimit> {
    return this.#limiter.peek(caller.account);
  }

  /**
   * Anyone who views a page can read the credential in it, so pages have to use tokens instead of API keys.
   * @throws FORBIDDEN for a key from any page but the service's own, and for a token from an unlisted origin
   */
  refuseForeignPage({ credential }: Caller, from: PageOrigin): void {
    const { origins } = this.#options;
    if (from.origin === undefined || origins.isOwn(from)) return;
    if (credential === 'key') {
      throw new DomainError(
        'FORBIDDEN',
        'An API key must not be used in a browser page; mint a short-lived token on your server and use that.',
      );
    }
    if (!origins.isListed(from)) {
      throw new DomainError('FORBIDDEN', 'Pages of this origin may not call; `CORS_ORIGINS` lists those that may.');
    }
  }

  /** Records in the background the minute in which a key, or a token of it, was used. */
  #recordUse({ account, keyId }: Caller, lastUsedAt: string | null): void {
    const now = this.#world.clock.now();
    const minute = Math.floor(now / 60_000);
    if (this.#recorded.minute !== minute) {
      this.#recorded.minute = minute;
      this.#recorded.keyIds.clear();
    }
    if (this.#recorded.keyIds.has(keyId)) return;
    this.#recorded.keyIds.add(keyId);
    if (lastUsedAt !== null && Math.floor(Date.parse(lastUsedAt) / 60_000) >= minute) return;
    this.#world.storage
      .write(async (tx) => {
        const key = await tx.apiKeys.find(account.id, keyId);
        if (key !== undefined) await tx.apiKeys.update({ ...key, lastUsedAt: timestamp(minute * 60_000) });
      })
      .catch(this.#options.onError);
  }
}
