import { refuseEnded } from '../domain/api-keys.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import { type Caller, isBound } from '../domain/caller.ts';
import { codeOf, DomainError } from '../domain/errors.ts';
import type { RateLimit } from '../domain/ports.ts';
import { timestamp } from '../domain/time.ts';
import { authenticate, authenticateSignIn, type CredentialStores } from './authenticate.ts';
import { clientAddress, FailedAttempts, network } from './failed-attempts.ts';
import { LateRefusals } from './late-refusals.ts';
import type { Asked, LoadShedder } from './load-shedder.ts';
import type { Origins, PageOrigin } from './origins.ts';
import type { Charge, RateLimiter } from './rate-limit.ts';
import { Shares } from './shares.ts';

/** A revocation by another process may take as long to be seen: before, a credential is not looked up again. */
export const revocationMs = 100;

/** What admission depends on, for requests and sockets alike. */
export interface Arrival extends PageOrigin {
  readonly authorization?: string | undefined;
  /** What the console's cookie holds, in place of any other credential. Nothing but its own paths looks at the cookie. */
  readonly signIn?: { readonly secret: string | undefined } | undefined;
  /** The address at the other end of the connection. */
  readonly peer?: string | undefined;
  readonly forwardedFor?: string | undefined;
}

/** What was charged for a request or an operation, and whether it has begun. */
interface Admitted {
  /** The budget that is left, also if it is refused for it. */
  rateLimit?: RateLimit;
  /** What was charged; undefined if it was refused. */
  charged: Charge | undefined;
  /** Whether something of it may have been done: it costs what was charged, however it ends. */
  hasBegun?: boolean;
}

/** A request as admission reads it, and what it finds out about it. */
export interface AdmissionContext extends Admitted {
  readonly arrival: Arrival;
  readonly asked: Asked;
  /** Whether it may turn out to cost more than a unit. */
  readonly mayCostMore: boolean;
  /** Whether its client has disconnected. */
  readonly isGone: boolean;
  readonly traceparent: string | undefined;
  /** When it arrived, by `performance.now()`. */
  readonly startedMs: number;
  /** Set as soon as it is known, also if the request is refused then. */
  caller?: Caller;
}

interface AdmissionOptions {
  readonly loadShedder: LoadShedder;
  readonly origins: Origins;
  readonly trustedProxies: number;
  /** Called when the last use of a key, or the return of units, could not be stored. */
  readonly onError: (error: unknown) => void;
}

/** Admission of requests and sockets, in this order: credential, overload, origin, rate limit. */
export class Admission {
  readonly #stores: CredentialStores;
  readonly #limiter: RateLimiter;
  readonly #shares: Shares;
  readonly #options: AdmissionOptions;
  readonly #failedAttempts: FailedAttempts;
  readonly #lateRefusals: LateRefusals;
  /** Keys whose use was recorded in this minute, so that each costs at most one write per minute. */
  readonly #recorded = { minute: 0, keyIds: new Set<string>() };

  constructor(stores: CredentialStores, limiter: RateLimiter, options: AdmissionOptions) {
    this.#stores = stores;
    this.#limiter = limiter;
    this.#shares = new Shares(limiter, stores.clock);
    this.#options = options;
    this.#failedAttempts = new FailedAttempts(stores.clock);
    this.#lateRefusals = new LateRefusals(stores.clock);
  }

  /**
   * Waits until it is the turn of a request or of an operation on a socket.
   * @param credential with which further requests are refused for a moment, if this one is
   * @returns undefined if it need not wait
   * @throws UNAVAILABLE when overloaded
   */
  enter(accountId: string, asked: Asked, credential?: string): Promise<void> | undefined {
    return this.#options.loadShedder.enter(accountId, asked, credential);
  }

  /**
   * Authenticates the caller.
   * @throws UNAUTHENTICATED, RATE_LIMITED after too many failures from one address, UNAVAILABLE
   */
  async identify(arrival: Arrival): Promise<Caller> {
    const { signIn } = arrival;
    const credential = (signIn ? signIn.secret : arrival.authorization) ?? '';
    const address = clientAddress(arrival.peer, arrival.forwardedFor, this.#options.trustedProxies);
    const refusal = this.#failedAttempts.refusalOf(address, credential);
    if (refusal !== undefined) throw refusal;
    try {
      const { caller, lastUsedAt } = await (signIn
        ? authenticateSignIn(this.#stores, signIn.secret)
        : authenticate(this.#stores, arrival.authorization));
      this.#recordUse(caller, lastUsedAt);
      return caller;
    } catch (error) {
      if (!(error instanceof DomainError) || error.code !== 'UNAUTHENTICATED') throw error;
      throw this.#failedAttempts.record(address, credential) ?? error;
    }
  }

  /** The network of a client's address. */
  networkOf({ peer, forwardedFor }: Arrival): string {
    return network(clientAddress(peer, forwardedFor, this.#options.trustedProxies));
  }

  /**
   * Refuses a caller whose credential has been revoked or has expired since. What was charged is then given back, unless what
   * it was charged for has begun.
   * @throws UNAUTHENTICATED
   */
  async refuseEnded(caller: Caller, admitted: Admitted = { charged: undefined }): Promise<void> {
    try {
      await refuseEnded(this.#stores.storage.read, { caller, clock: this.#stores.clock });
    } catch (error) {
      const { charged, hasBegun = false } = admitted;
      if (charged !== undefined && !hasBegun && codeOf(error) === 'UNAUTHENTICATED') {
        admitted.charged = undefined;
        await this.#refund(caller, charged).catch(this.#options.onError);
        await this.#noteLeft(admitted, caller);
      }
      throw error;
    }
  }

  /**
   * Refuses a request that has waited, if there is nobody to answer any more: its client has gone, or its credential has
   * ended, which is looked up if that could be seen by now.
   * @throws BAD_REQUEST; UNAUTHENTICATED as `refuseEnded`
   */
  async refuseLate(context: AdmissionContext): Promise<void> {
    refuseGone(context);
    const { caller, startedMs } = context;
    if (caller !== undefined && performance.now() - startedMs > revocationMs) await this.refuseEnded(caller, context);
  }

  /**
   * The pieces of an answer, for as long as the credential lasts: its client can take hours to read them. No generator, which
   * would keep each piece until the client has taken it.
   * @throws UNAUTHENTICATED from the iteration
   */
  whileValid<T>(pieces: AsyncIterable<T>, caller: Caller): AsyncIterable<T> {
    const source = pieces[Symbol.asyncIterator]();
    let lookedAtMs = performance.now();
    const next = async (): Promise<IteratorResult<T>> => {
      if (performance.now() - lookedAtMs > revocationMs) {
        await this.refuseEnded(caller);
        lookedAtMs = performance.now();
      }
      return await source.next();
    };
    const end = async (): Promise<IteratorResult<T>> => (await source.return?.()) ?? { done: true, value: undefined };
    return { [Symbol.asyncIterator]: () => ({ next, return: end }) };
  }

  /**
   * Admits a request for one unit of its account's budget.
   * @throws UNAUTHENTICATED; FORBIDDEN for a page that may not call, which costs no unit; RATE_LIMITED; UNAVAILABLE
   */
  async admit(context: AdmissionContext): Promise<Caller> {
    const { arrival, traceparent } = context;
    this.#options.loadShedder.refuseAgain(arrival.authorization);
    const known = await this.identify(arrival);
    const caller = traceparent === undefined ? known : { ...known, traceparent };
    context.caller = caller;
    refuseGone(context);
    if (await this.#waited(context, caller)) await this.refuseLate(context);
    const charge = (): Awaitable<Charge> =>
      context.mayCostMore && this.#lateRefusals.isOver(caller) ? this.#refuseUnread(caller) : this.charge(caller);
    await this.#chargeRequest(context, caller, () =>
      arrival.origin === undefined ? charge() : this.refuseForeignPage(caller, arrival).then(charge),
    );
    await this.refuseLate(context); // it may have waited to be charged for others who write, as a revocation does
    return caller;
  }

  /**
   * Charges an admitted request for so many operations instead of one, right before they run: all or none, so one that
   * is refused here has cost nothing more.
   * @throws RATE_LIMITED, UNAVAILABLE; BAD_REQUEST, UNAUTHENTICATED as `refuseLate`
   */
  async chargeFor(units: number, context: AdmissionContext): Promise<void> {
    const { caller, charged } = context;
    if (caller === undefined || charged === undefined) throw new Error('A request is charged before it was admitted');
    await this.refuseLate(context); // it may have waited for its turn, and for room
    if (units > 1) {
      try {
        await this.#chargeRequest(context, caller, () => this.chargeInstead(caller, charged, units));
      } catch (error) {
        if (codeOf(error) === 'RATE_LIMITED') this.#lateRefusals.record(caller);
        throw error;
      }
      refuseGone(context);
    }
    context.hasBegun = true;
  }

  /** @throws RATE_LIMITED; the budget's own where that is used up, which says how long to wait for it */
  async #refuseUnread(caller: Caller): Promise<never> {
    await this.#refund(caller, await this.charge(caller));
    throw this.#lateRefusals.refusal(await this.peek(caller));
  }

  /**
   * Waits for the turn of a request.
   * @returns whether it had to wait
   * @throws UNAVAILABLE when overloaded; what is left of the budget is then in the context
   */
  async #waited(context: AdmissionContext, caller: Caller): Promise<boolean> {
    try {
      const turn = this.enter(caller.account.id, context.asked, context.arrival.authorization);
      await turn;
      return turn !== undefined;
    } catch (error) {
      await this.#noteLeft(context, caller);
      throw error;
    }
  }

  /** Keeps what is left of the budget in the context, also when the request is refused. */
  async #chargeRequest(context: AdmissionContext, caller: Caller, charge: () => Awaitable<Charge>): Promise<void> {
    try {
      context.charged = await charge();
      context.rateLimit = context.charged;
    } catch (error) {
      context.charged = undefined; // all or nothing was charged
      const known = error instanceof DomainError ? error.facts.rateLimit : undefined;
      if (known === undefined) await this.#noteLeft(context, caller);
      else context.rateLimit = known;
      throw error;
    }
  }

  /** Keeps what is left of the budget in the context; a failure must not replace the error that is being reported. */
  async #noteLeft(context: Admitted, caller: Caller): Promise<void> {
    try {
      context.rateLimit = await this.peek(caller);
    } catch {
      // It is answered without.
    }
  }

  /**
   * Charges an admitted caller for so many operations instead of one: that unit is given back, and then all are charged or
   * none.
   * @throws RATE_LIMITED, UNAVAILABLE
   */
  async chargeInstead(caller: Caller, charged: Charge, units: number): Promise<Charge> {
    await this.#refund(caller, charged);
    return await this.charge(caller, units);
  }

  /** Gives back what was charged. @throws UNAVAILABLE */
  #refund(caller: Caller, charged: Charge): Promise<void> {
    return isBound(caller) ? this.#shares.refund(caller, charged) : this.#limiter.refund(caller.account, charged);
  }

  /**
   * Charges a caller for so many operations, all or none.
   * @throws RATE_LIMITED, UNAVAILABLE
   */
  charge(caller: Caller, units = 1): Awaitable<Charge> {
    return isBound(caller) ? this.#shares.admit(caller, units) : this.#limiter.admit(caller.account, units);
  }

  /** The budget of the caller's account, or its share of it, without spending any. */
  peek(caller: Caller): Awaitable<RateLimit> {
    return isBound(caller) ? this.#shares.peek(caller) : this.#limiter.peek(caller.account);
  }

  /**
   * Anyone who views a page can read the credential in it, so pages have to use tokens instead of API keys.
   * @throws FORBIDDEN for a key from any page but the service's own, and for a token from an origin that neither the
   *   server nor its account lists
   */
  async refuseForeignPage({ credential, account }: Caller, from: PageOrigin): Promise<void> {
    const { origins } = this.#options;
    if (from.origin === undefined || origins.isOwn(from)) return;
    if (credential === 'key') {
      throw new DomainError(
        'FORBIDDEN',
        'An API key must not be used in a browser page; mint a short-lived token on your server and use that.',
      );
    }
    if (!(await origins.isListed(from, account.id))) {
      throw new DomainError(
        'FORBIDDEN',
        'Pages of this origin may not call; `CORS_ORIGINS` and the account’s own origins list those that may.',
      );
    }
  }

  /** Records in the background the minute in which a key, or a token of it, was used. */
  #recordUse({ account, keyId }: Caller, lastUsedAt: string | null): void {
    const now = this.#stores.clock.now();
    const minute = Math.floor(now / 60_000);
    if (this.#recorded.minute !== minute) {
      this.#recorded.minute = minute;
      this.#recorded.keyIds.clear();
    }
    if (this.#recorded.keyIds.has(keyId)) return;
    this.#recorded.keyIds.add(keyId);
    if (lastUsedAt !== null && Math.floor(Date.parse(lastUsedAt) / 60_000) >= minute) return;
    this.#stores.storage
      .write(async (tx) => {
        const key = await tx.apiKeys.find(account.id, keyId);
        if (key !== undefined) await tx.apiKeys.update({ ...key, lastUsedAt: timestamp(minute * 60_000) });
      }, account.id)
      .catch(this.#options.onError);
  }
}

/** Whatever has been waited for, nothing more is done for a client that has gone. */
export function refuseGone({ isGone }: Pick<AdmissionContext, 'isGone'>): void {
  if (isGone) throw new DomainError('BAD_REQUEST', 'The client disconnected before its request was processed.');
}
