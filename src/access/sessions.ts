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

interface Session {
  readonly caller: Caller;
  readonly end: (reason: EndReason) => void;
}

/**
 * Long-lived connections: sockets and event streams. A session ends when its credential expires or is revoked, by any
 * process, and at shutdown.
 */
export class Sessions {
  readonly #storage: Storage;
  readonly #clock: Clock;
  readonly #onError: (error: unknown) => void;
  readonly #byAccount = new Map<string, Set<Session>>();
  #revocations = -1;
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
   * Opens a session.
   * @param end called at most once, and never before this returns, when the service ends the session
   * @returns a function that releases the session; undefined when there is no place for it
   */
  open(caller: Caller, end: (reason: EndReason) => void): (() => void) | undefined {
    const accountId = caller.account.id;
    let sessions = this.#byAccount.get(accountId);
    if (sessions === undefined) {
      sessions = new Set();
      this.#byAccount.set(accountId, sessions);
    }
    if (sessions.size >= maxSessions || !hasPlaceForBound(sessions, caller)) return undefined;
    const session: Session = { caller, end };
    sessions.add(session);
    this.#start();
    if (this.#closing) queueMicrotask(() => this.#end(session, 'shutdown'));
    // The credential may have been revoked after it was checked and before it was watched.
    else this.#endRevoked([session]).catch(this.#onError);
    return () => this.#release(session);
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
    const release = this.open(caller, (reason) => ended.abort(reason));
    if (release === undefined) {
      throw new DomainError(
        'QUOTA_EXCEEDED',
        isBound(caller)
          ? `Tokens that are bound to the same can have ${maxSessionsOfBinding} sockets and event streams open at once, and all bound ones ${maxBoundSessions}.`
          : `An account can have ${maxSessions} sockets and event streams open at once.`,
      );
    }
    res.once('close', () => {
      release();
      ended.abort();
    });
    return ended.signal;
  }

  /** Ends every session, and any opened later, at shutdown. */
  endAll(): void {
    this.#closing = true;
    for (const session of this.#all()) this.#end(session, 'shutdown');
  }

  #all(): Session[] {
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

  /** @returns whether the session was still open */
  #release(session: Session): boolean {
    const accountId = session.caller.account.id;
    const sessions = this.#byAccount.get(accountId);
    if (sessions?.delete(session) !== true) return false;
    if (sessions.size === 0) this.#byAccount.delete(accountId);
    if (this.#byAccount.size > 0) return true;
    this.#stop?.();
    this.#stop = undefined;
    return true;
  }

  #end(session: Session, reason: EndReason): void {
    if (this.#release(session)) session.end(reason);
  }

  #endExpired(): void {
    const now = this.#clock.now();
    for (const session of this.#all()) {
      const { expiresAtMs } = session.caller;
      if (expiresAtMs !== undefined && expiresAtMs <= now) this.#end(session, 'credential');
    }
  }

  /** Costs one statement while no key of any account was revoked. It is done again soon, so it is reported once if it fails. */
  async #lookForRevocations(): Promise<void> {
    try {
      const revocations = await this.#storage.read.apiKeys.revocations();
      if (revocations !== this.#revocations) await this.#endRevoked(this.#all());
      this.#revocations = revocations;
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#onError(error);
      this.#isFailing = true;
    }
  }

  async #endRevoked(sessions: readonly Session[]): Promise<void> {
    const byKey = Map.groupBy(sessions, ({ caller }) => caller.keyId);
    for (const [keyId, ofKey] of byKey) {
      const accountId = ofKey[0]?.caller.account.id ?? '';
      const key = await this.#storage.read.apiKeys.find(accountId, keyId);
      if (key !== undefined && key.revokedAt === null) continue;
      for (const session of ofKey) this.#end(session, 'credential');
    }
  }
}

function hasPlaceForBound(sessions: ReadonlySet<Session>, caller: Caller): boolean {
  const binding = bindingOf(caller);
  if (binding === undefined) return true;
  const bindings = [...sessions].flatMap((session) => bindingOf(session.caller) ?? []);
  if (bindings.length >= maxBoundSessions) return false;
  return bindings.filter((each) => each === binding).length < maxSessionsOfBinding;
}
