import type { ServerResponse } from 'node:http';
import { bindingOf, type Caller, isBound } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { Clock } from '../domain/ports.ts';
import type { Storage } from '../domain/storage-port.ts';

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
    else this.#endRevoked([[session, caller]]).catch((error: unknown) => this.#failed(error));
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
      this.#endExpired();
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

  #endExpired(): void {
    const now = this.#clock.now();
    for (const [session, caller] of this.#all()) {
      const { expiresAtMs } = caller;
      if (expiresAtMs !== undefined && expiresAtMs <= now) this.#end(session, caller, 'credential');
    }
  }

  /** Costs one statement while no key of any account was revoked. It is done again soon, so it is reported once if it fails. */
  async #lookForRevocations(): Promise<void> {
    const hadUnchecked = this.#hasUnchecked;
    this.#hasUnchecked = false;
    try {
      const revocations = await this.#storage.read.apiKeys.revocations();
      if (hadUnchecked || revocations !== this.#revocations) await this.#endRevoked(this.#all());
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

  async #endRevoked(sessions: readonly (readonly [Session, Caller])[]): Promise<void> {
    const byKey = Map.groupBy(sessions, ([, caller]) => caller.keyId);
    for (const [keyId, ofKey] of byKey) {
      const accountId = ofKey[0]?.[1].account.id ?? '';
      const key = await this.#storage.read.apiKeys.find(accountId, keyId);
      if (key !== undefined && key.revokedAt === null) continue;
      for (const [session, caller] of ofKey) this.#end(session, caller, 'credential');
    }
  }
}

function hasPlaceForBound(sessions: ReadonlyMap<Session, Caller>, caller: Caller): boolean {
  const binding = bindingOf(caller);
  if (binding === undefined) return true;
  const bindings = [...sessions.values()].flatMap((each) => bindingOf(each) ?? []);
  if (bindings.length >= maxBoundSessions) return false;
  return bindings.filter((each) => each === binding).length < maxSessionsOfBinding;
}
