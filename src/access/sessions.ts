import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { bindingOf, type Caller, isBound } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { Clock } from '../domain/ports.ts';
import type { Storage } from '../domain/storage-port.ts';
import { afterMicrotasks } from '../runtime/after-microtasks.ts';

/** Open sockets and event streams per account. */
const maxSessions = 1_000;
/**
 * Of these, those of all tokens that are bound to a conversation or a visitor, and those of tokens that are bound to the
 * same: visitors cannot take the places of the agents, nor of each other.
 */
const maxBoundSessions = maxSessions / 2;
const maxSessionsOfBinding = 20;
/** Interval of the check for expired credentials, and for revocations that were not notified. */
const checkMs = 1_000;
/** How long credentials are looked up, and sessions ended, in one turn of the event loop. */
const turnMs = 5;

/** Why the service ended a session. */
export type EndReason = 'credential' | 'shutdown';

export interface Session {
  /** Called at most once, and not before `Sessions.open` has returned, when the service ends the session. */
  endSession(reason: EndReason): void;
}

/**
 * Long-lived connections: sockets and event streams. A session ends when its credential expires or is revoked, by any
 * process, and at shutdown.
 */
export class Sessions {
  readonly #storage: Storage;
  readonly #clock: Clock;
  readonly #onError: (error: unknown) => void;
  readonly #byAccount = new Map<string, Map<Session, Caller>>();
  #revocations = -1;
  /** Whether the credential of a session could not be looked up when it was opened. */
  #hasUnchecked = false;
  #isFailing = false;
  #isLooking = false;
  /** Whether there may be more revocations than those that are being looked for. */
  #mustLook = false;
  #stop: (() => void) | undefined;
  #closing = false;

  constructor({ storage, clock, onError }: { storage: Storage; clock: Clock; onError: (error: unknown) => void }) {
    this.#storage = storage;
    this.#clock = clock;
    this.#onError = onError;
  }

  /** Number of open sessions of all accounts. */
  get size(): number {
    return [...this.#byAccount.values()].reduce((sum, sessions) => sum + sessions.size, 0);
  }

  /**
   * Opens a session, until it is closed or ended.
   * @returns false when there is no place for it
   */
  open(caller: Caller, session: Session): boolean {
    const accountId = caller.account.id;
    let sessions = this.#byAccount.get(accountId);
    if (sessions === undefined) {
      sessions = new Map();
      this.#byAccount.set(accountId, sessions);
    }
    if (sessions.size >= maxSessions || !hasPlaceForBound(sessions, caller)) return false;
    sessions.set(session, caller);
    this.#start();
    if (this.#closing) queueMicrotask(() => this.#end(session, caller, 'shutdown'));
    // The credential may have been revoked after it was checked and before it was watched.
    else void this.#endRevoked([[session, caller]]);
    return true;
  }

  /** @returns whether it was still open */
  close({ account }: Caller, session: Session): boolean {
    const sessions = this.#byAccount.get(account.id);
    if (sessions?.delete(session) !== true) return false;
    if (sessions.size === 0) this.#byAccount.delete(account.id);
    if (this.#byAccount.size > 0) return true;
    this.#stop?.();
    this.#stop = undefined;
    return true;
  }

  /**
   * Opens a session for the duration of a response.
   * @returns a signal that aborts when the session ends, with an EndReason if the service ended it
   * @throws QUOTA_EXCEEDED when there is no place for it
   */
  openDuring(res: ServerResponse, caller: Caller): AbortSignal {
    const ended = new AbortController();
    if (res.destroyed || res.closed) {
      ended.abort(); // the client has disconnected, and there will be no further `close` event
      return ended.signal;
    }
    const session: Session = { endSession: (reason) => ended.abort(reason) };
    if (!this.open(caller, session)) {
      throw new DomainError(
        'QUOTA_EXCEEDED',
        isBound(caller)
          ? `Tokens that are bound to the same can have ${maxSessionsOfBinding} sockets and event streams open at once, and all bound ones ${maxBoundSessions}.`
          : `An account can have ${maxSessions} sockets and event streams open at once.`,
      );
    }
    res.once('close', () => {
      this.close(caller, session);
      ended.abort();
    });
    return ended.signal;
  }

  /** Ends every session, and any opened later, at shutdown. */
  endAll(): void {
    this.#closing = true;
    for (const [session, caller] of this.#all()) this.#end(session, caller, 'shutdown');
  }

  #all(): [Session, Caller][] {
    return [...this.#byAccount.values()].flatMap((sessions) => [...sessions]);
  }

  #start(): void {
    if (this.#stop !== undefined) return;
    const unwatch = this.#storage.watch((touched) => {
      if (touched === undefined) void this.#lookForRevocations();
    });
    const checking = setInterval(() => {
      void this.#endExpired();
      void this.#lookForRevocations();
    }, checkMs).unref();
    this.#stop = () => {
      unwatch();
      clearInterval(checking);
    };
  }

  #end(session: Session, caller: Caller, reason: EndReason): void {
    if (this.close(caller, session)) session.endSession(reason);
  }

  async #endExpired(): Promise<void> {
    const now = this.#clock.now();
    const nextTurnIfOver = turns();
    for (const [session, caller] of this.#all()) {
      const { expiresAtMs } = caller;
      if (expiresAtMs === undefined || expiresAtMs > now) continue;
      this.#end(session, caller, 'credential');
      await nextTurnIfOver();
    }
  }

  /** Never two at a time, which could pile up: another one begins when the first is over. */
  async #lookForRevocations(): Promise<void> {
    this.#mustLook = true;
    if (this.#isLooking) return;
    this.#isLooking = true;
    while (this.#mustLook) {
      this.#mustLook = false;
      await this.#lookOnce();
    }
    this.#isLooking = false;
  }

  /** Costs one statement while no key of any account was revoked. It is done again soon, so it is reported once if it fails. */
  async #lookOnce(): Promise<void> {
    const hadUnchecked = this.#hasUnchecked;
    this.#hasUnchecked = false;
    try {
      const revocations = await this.#storage.read.apiKeys.revocations();
      const mustCheck = hadUnchecked || revocations !== this.#revocations;
      if (mustCheck && !(await this.#endRevoked(this.#all()))) return;
      this.#revocations = revocations;
      this.#isFailing = false;
    } catch (error) {
      this.#failed(error);
    }
  }

  /** All are looked at again, a second later at the latest. */
  #failed(error: unknown): void {
    this.#hasUnchecked = true;
    if (!this.#isFailing) this.#onError(error);
    this.#isFailing = true;
  }

  /** @returns whether every credential could be looked up: one account's failure keeps none of another from ending */
  async #endRevoked(sessions: readonly (readonly [Session, Caller])[]): Promise<boolean> {
    let isComplete = true;
    const nextTurnIfOver = turns();
    for (const [accountId, ofAccount] of Map.groupBy(sessions, ([, caller]) => caller.account.id)) {
      try {
        const keyIds = [...new Set(ofAccount.map(([, { keyId }]) => keyId))];
        const keys = await this.#storage.read.apiKeys.findMany(accountId, keyIds);
        const live = new Set(keys.flatMap((key) => (key?.revokedAt === null ? key.id : [])));
        for (const [session, caller] of ofAccount) {
          if (live.has(caller.keyId)) continue;
          this.#end(session, caller, 'credential');
          await nextTurnIfOver();
        }
      } catch (error) {
        isComplete = false;
        this.#failed(error);
      }
      await nextTurnIfOver();
    }
    return isComplete;
  }
}

/**
 * Lets the event loop turn once what is done in one turn has taken long, with all that follows from it at once: a socket
 * ends with all its subscriptions, and an account may have a thousand sockets.
 */
function turns(): () => Promise<void> {
  let sinceMs = performance.now();
  return async () => {
    await new Promise<void>(afterMicrotasks);
    if (performance.now() - sinceMs < turnMs) return;
    await nextTurn();
    sinceMs = performance.now();
  };
}

function hasPlaceForBound(sessions: ReadonlyMap<Session, Caller>, caller: Caller): boolean {
  const binding = bindingOf(caller);
  if (binding === undefined) return true;
  const bindings = [...sessions.values()].flatMap((each) => bindingOf(each) ?? []);
  if (bindings.length >= maxBoundSessions) return false;
  return bindings.filter((each) => each === binding).length < maxSessionsOfBinding;
}
