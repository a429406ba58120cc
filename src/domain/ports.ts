import type { Account } from './accounts.ts';
import type { Awaitable } from './awaitable.ts';
import type { ErrorCode } from './errors.ts';
import type { LogPosition } from './event-cursor.ts';
import type { EventFilter, LogEvent } from './events.ts';
import type { Ids } from './ids.ts';
import type { Storage } from './storage-port.ts';
import type { TokenGrant } from './tokens.ts';

/** Everything outside the domain that operations depend on. `src/ports.ts` wires it. */
export interface Ports {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly secrets: Secrets;
  readonly tokens: TokenSigner;
  /** Loads what encrypts the event cursors of bound tokens. */
  readonly cursorSeal: () => Promise<CursorSeal>;
  readonly limiter: Limiter;
  readonly liveEvents: LiveEvents;
  readonly webhookTargets: WebhookTargets;
  readonly turns: Turns;
}

export interface Clock {
  /** Epoch milliseconds. The clock may be set, also back. */
  now(): number;
  /** Whole milliseconds on a monotonic clock, the same for all processes of a machine. */
  uptimeMs(): number;
  /** Identifies the boot of the machine from which `uptimeMs` counts. */
  readonly boot: string;
}

export interface Secrets {
  /** A new API key's secret: `cs_` and 256 random bits in base64url. */
  generate(): string;
  /** What a cookie holds that stands for an API key: 256 random bits in base64url. */
  generateSignInSecret(): string;
  /** A new signing secret of a webhook: `whsec_` and 256 random bits in base64. */
  generateSigningSecret(): string;
  /** The SHA-256 of a secret: what is stored of an API key, beside its prefix. */
  hash(secret: string): Uint8Array;
}

export interface TokenSigner {
  /** Makes a signed token that grants its bearer this. */
  sign(grant: TokenGrant): Promise<string>;
}

/**
 * Encrypts event cursors for callers who must not learn from them how busy the account is: one and the same cursor
 * looks different each time.
 */
export interface CursorSeal {
  /** @param binding what the caller is bound to: only with the same can the cursor be opened */
  seal(cursor: string, binding: string): string;
  /** The cursor; undefined for anything but one that was sealed for this binding. */
  open(sealed: string, binding: string): string | undefined;
}

/** What an account has left of its hourly budget. */
export interface RateLimit {
  /** Requests in any 60 minutes. */
  readonly limit: number;
  readonly remaining: number;
  /** When `remaining` next grows, in epoch milliseconds. */
  readonly resetAtMs: number;
  /** Time until then, independent of changes to the machine's clock. */
  readonly resetAfterSeconds: number;
  /** Set if it is not the budget of the account, but the share of it that a bound token may spend. */
  readonly policy?: 'share';
}

export interface Limiter {
  /** The account's current budget, without spending any of it. */
  peek(account: Account): Awaitable<RateLimit>;
}

/** What a request comes through; `page` stands for everything that needs no credential. */
export type Face = 'rest' | 'graphql' | 'mcp' | 'socket' | 'page';

/** The outcome of a call. */
export type CallCode = ErrorCode | 'OK';

/** Receives measurements for the operator's metrics. Its methods are on the path of every request and must be cheap. */
export interface Telemetry {
  /**
   * An operation was called, or a request failed without one.
   * @param operation undefined where no operation was called
   */
  called(face: Face, operation: string | undefined, code: CallCode, durationMs: number): void;
  /** An HTTP request was answered. */
  answered(face: Face, status: number, durationMs: number): void;
  /** An attempt at a webhook delivery has ended. */
  attempted(succeeded: boolean, durationMs: number): void;
}

/** The policy for webhook URLs. */
export interface WebhookTargets {
  /** Why a URL is not allowed, or undefined. A host name is resolved and its addresses checked only when connecting. */
  faultOf(url: URL): string | undefined;
}

/** The turns of accounts in work that takes long, so that nobody waits for all of another's. */
export interface Turns {
  /** Resolves when the account may take another step, of a few milliseconds. */
  step(accountId: string): Promise<void>;
}

/** Live reading of event logs. */
export interface LiveEvents {
  /** Follows an account's log after a position. It is pulled: it reads no further ahead than its reader asks. */
  follow(accountId: string, after: LogPosition, filter: EventFilter): EventFollower;
}

/**
 * Non-empty batches of events in the order of the log, for a single iteration. Batches yielded after an erasure no
 * longer contain the erased data, so a reader that pauses within a batch gives the rest back first.
 */
export interface EventFollower extends AsyncIterable<readonly LogEvent[]> {
  /** The last sequence yielded or filtered out: where to resume. */
  readonly position: number;
  /** Whether some of the last batch may have been erased since it was read. */
  readonly mayBeErased: boolean;
  /** Returns the rest of the last batch, from this event on: the next batch starts with it. */
  giveBack(from: LogEvent): void;
  /** Ends the iteration, also while it waits for events or for its reader. It has no other end. */
  end(): void;
}
