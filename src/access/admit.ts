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

/** What the door looks at: the same of a REST request, a GraphQL request and a socket. */
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
  /** Called when the storage could not note that a key was used. */
  readonly onError: (error: unknown) => void;
}

/** The one door of every face: is there time for it, then credential, then its origin, then the rate limit. */
export class Door {
  readonly #world: Omit<World, 'limiter'>;
  readonly #stores: CredentialStores;
  readonly #limiter: RateLimiter;
  readonly #options: DoorOptions;
  readonly #failedAttempts: FailedAttempts;
  /** The keys whose use was noted in this minute, so that a key costs one write a minute at most. */
  readonly #noted = { minute: 0, keyIds: new Set<string>() };

  constructor(world: Omit<World, 'limiter'>, limiter: RateLimiter, options: DoorOptions) {
    this.#world = world;
    this.#stores = { ...world, tokens: options.tokens };
    this.#limiter = limiter;
    this.#options = options;
    this.#failedAttempts = new FailedAttempts(world.clock);
  }

  /**
   * Lets a request or an operation on a socket come in when there is time for it, at once if that is now.
   * @param line where it waits for its turn
   * @throws UNAVAILABLE when there will be none soon
   */
  enter(line: Line): Promise<void> | undefined {
    return this.#options.turnstile.enter(line);
  }

  /**
   * Finds out who is calling.
   * @throws UNAUTHENTICATED, RATE_LIMITED after too many failures from one address, UNAVAILABLE
   */
  async identify(arrival: Arrival): Promise<Caller> {
    try {
      const { caller, lastUsedAt } = await authenticate(this.#stores, arrival.authorization);
      this.#noteUse(caller, lastUsedAt);
      return caller;
    } catch (error) {
      if (!(error instanceof DomainError) || error.code !== 'UNAUTHENTICATED') throw error;
      const address = clientAddress(arrival.peer, arrival.forwardedFor, this.#options.trustedProxies);
      throw this.#failedAttempts.record(address) ?? error;
    }
  }

  /**
   * Lets a caller in, for one unit of its account's budget.
   * @throws FORBIDDEN for what comes from a page that may not call, which costs nothing; RATE_LIMITED, UNAVAILABLE
   */
  admit(caller: Caller, arrival: Arrival): Awaitable<Admission> {
    this.refuseForeignPage(caller, arrival);
    return this.#limiter.admit(caller.account);
  }

  /**
   * Charges a caller that is in already for what else its request turned out to hold, together with
   * the unit that it paid at the door: a request that is refused here has cost nothing.
   * @throws RATE_LIMITED, UNAVAILABLE
   */
  async chargeMore(caller: Caller, admission: Admission, units: number): Promise<Admission> {
    await this.#limiter.refund(caller.account, admission, 1);
    return await this.#limiter.admit(caller.account, 1 + units);
  }

  /**
   * Charges a caller on a socket, which came through the door before, for one more operation.
   * @throws RATE_LIMITED, UNAVAILABLE
   */
  charge(caller: Caller): Awaitable<RateLimit> {
    return this.#limiter.admit(caller.account);
  }

  /** What the caller's account has left, without spending of it. */
  peek(caller: Caller): Awaitable<RateLimit> {
    return this.#limiter.peek(caller.account);
  }

  /**
   * A key in a browser page is in the hands of whoever looks at the page; a token is made for it.
   * @throws FORBIDDEN for a key from any page but the service's own, and for a token from one that is not listed
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

  /** Notes the minute in which a key, or a token of it, was used, in the background: nobody waits for it. */
  #noteUse({ account, keyId }: Caller, lastUsedAt: string | null): void {
    const now = this.#world.clock.now();
    const minute = Math.floor(now / 60_000);
    if (this.#noted.minute !== minute) {
      this.#noted.minute = minute;
      this.#noted.keyIds.clear();
    }
    if (this.#noted.keyIds.has(keyId)) return;
    this.#noted.keyIds.add(keyId);
    if (lastUsedAt !== null && Math.floor(Date.parse(lastUsedAt) / 60_000) >= minute) return;
    this.#world.storage
      .write(async (tx) => {
        const key = await tx.apiKeys.find(account.id, keyId);
        if (key !== undefined) await tx.apiKeys.update({ ...key, lastUsedAt: timestamp(minute * 60_000) });
      })
      .catch(this.#options.onError);
  }
}
