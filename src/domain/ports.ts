import type { Account } from './accounts.ts';
import type { Awaitable } from './awaitable.ts';
import type { ErrorCode } from './errors.ts';
import type { EventFilter, LogEvent } from './events.ts';
import type { Ids } from './ids.ts';
import type { Storage } from './storage-port.ts';
import type { TokenGrant } from './tokens.ts';

/** All that the operations need of the world. `app.ts` brings it together. */
export interface World {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly ids: Ids;
  readonly secrets: Secrets;
  readonly tokens: TokenSigner;
  readonly limiter: Limiter;
  readonly liveEvents: LiveEvents;
  readonly webhookTargets: WebhookTargets;
}

export interface Clock {
  /** Epoch milliseconds. Somebody may set it, also back. */
  now(): number;
  /** Whole milliseconds since some moment, which nobody can set: the same to all processes of a machine. */
  uptimeMs(): number;
  /** Which start of which machine `uptimeMs` counts from. */
  readonly boot: string;
}

export interface Secrets {
  /** A new API key's secret: `cs_` and 256 random bits in base64url. */
  generate(): string;
  /** A new secret that signs webhooks: `whsec_` and 256 random bits in base64. */
  generateSigningSecret(): string;
  /** The SHA-256 of a secret, which is all of it that is stored. */
  hash(secret: string): Uint8Array;
}

export interface TokenSigner {
  /** Signs a token: text that nobody else can make, and that says what its bearer may do. */
  sign(grant: TokenGrant): Promise<string>;
}

/** How much of its hourly budget an account has left. */
export interface RateLimit {
  /** Requests in any 60 minutes. */
  readonly limit: number;
  readonly remaining: number;
  /** When `remaining` next grows, in epoch milliseconds. */
  readonly resetAtMs: number;
  /** How long that is, whatever the machine's clock is set to. */
  readonly resetAfterSeconds: number;
}

export interface Limiter {
  /** The account's budget as it stands, without spending of it. */
  peek(account: Account): Awaitable<RateLimit>;
}

/** What a request comes through; `page` is what needs no credential. */
export type Face = 'rest' | 'graphql' | 'socket' | 'page';

/** What a call ended with. */
export type CallCode = ErrorCode | 'OK';

/** Is told of what the service does, so that its operator can see how it fares. Telling it must cost next to nothing. */
export interface Telemetry {
  /**
   * An operation was called, a request was refused before it came to one, or something failed between them.
   * @param operation its name; undefined where there was none
   */
  called(face: Face, operation: string | undefined, code: CallCode, durationMs: number): void;
  /** An HTTP request was answered. */
  answered(face: Face, status: number, durationMs: number): void;
  /** It was tried to send to a webhook. */
  attempted(succeeded: boolean, durationMs: number): void;
}

/** Where webhooks may be sent. */
export interface WebhookTargets {
  /** What is wrong with sending there, or undefined. A name is judged by its addresses only when it is connected to. */
  faultOf(url: URL): string | undefined;
}

/** Where an account's log is followed as it grows. */
export interface LiveEvents {
  /** Follows an account's log from after a sequence, pulling: it reads no further ahead than it is asked. */
  follow(accountId: string, after: number, filter: EventFilter): EventFollower;
}

/**
 * A sequence of batches, each of one event or more, in the log's order. It can be gone through once. What was erased
 * is not in what it gives from then on, so who takes time for a part of a batch gives the rest back first.
 */
export interface EventFollower extends AsyncIterable<readonly LogEvent[]> {
  /** The last sequence that was given or passed over: the place to resume from. */
  readonly position: number;
  /** Gives the last batch back, from this event of it on: the next one begins there. */
  giveBack(from: LogEvent): void;
  /** Ends it, also while it waits for events or for its reader. Without that it has no end. */
  end(): void;
}
