import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Arrival, Door } from '../access/admit.ts';
import type { Admission } from '../access/rate-limit.ts';
import type { Account } from '../domain/accounts.ts';
import type { Awaitable } from '../domain/awaitable.ts';
import type { Caller } from '../domain/caller.ts';
import type { Deprecation } from '../domain/deprecation.ts';
import { DomainError, type ErrorCode } from '../domain/errors.ts';
import type { CallCode, Face, RateLimit, Telemetry } from '../domain/ports.ts';
import { parseTraceparent, traceIdOf } from '../domain/trace.ts';
import { readJson } from './body.ts';

/** One HTTP request with what is learnt while it is processed; the source of its log line. */
export class Exchange {
  readonly requestId: string;
  readonly method: string;
  /** The path as sent, still percent-encoded, without the query. */
  readonly path: string;
  /** The query string without its question mark. */
  readonly query: string;
  readonly startedMs = performance.now();
  readonly req: IncomingMessage;
  /** The caller's trace. */
  readonly traceparent: string | undefined;
  /** The operation called, for the log; the first if there were several. */
  operation?: string;
  /** The error it ended with, if any. */
  code?: ErrorCode;
  /** A health or metrics probe: logged at debug level, not counted. */
  isProbe = false;
  /** Set if it used something deprecated. */
  deprecation?: Deprecation;
  account?: Account;
  rateLimit?: RateLimit;
  /** Logged at debug level only: an aggregate line covers it. */
  isLoggedInAggregate = false;
  #admission?: Admission;
  #caller?: Promise<Caller>;
  #body?: Promise<unknown>;

  constructor(req: IncomingMessage) {
    this.req = req;
    this.requestId = requestIdOf(req.headers['x-request-id']);
    this.traceparent = parseTraceparent(req.headers['traceparent']);
    this.method = req.method ?? 'GET';
    const url = req.url ?? '/';
    const mark = url.indexOf('?');
    this.path = mark === -1 ? url : url.slice(0, mark);
    this.query = mark === -1 ? '' : url.slice(mark + 1);
  }

  get traceId(): string | undefined {
    return this.traceparent && traceIdOf(this.traceparent);
  }

  get face(): Face {
    if (this.path === '/graphql') return 'graphql';
    return this.path === '/v1' || this.path.startsWith('/v1/') ? 'rest' : 'page';
  }

  get arrival(): Arrival {
    return arrivalOf(this.req);
  }

  /** Admits the request, once, and remembers the caller. */
  admit(door: Door): Promise<Caller> {
    this.#caller ??= this.#admit(door);
    return this.#caller;
  }

  /** The body, cached since it can be read only once. See `readJson` in body.ts for its errors. */
  readJson(): Promise<unknown> {
    this.#body ??= readJson(this.req);
    return this.#body;
  }

  /** Counts a completed operation of a request that may call several. */
  called(telemetry: Pick<Telemetry, 'called'>, operation: string, code: CallCode, durationMs: number): void {
    this.operation ??= operation;
    telemetry.called(this.face, operation, code, durationMs);
  }

  async #admit(door: Door): Promise<Caller> {
    const turn = door.enter(this.method === 'GET' || this.method === 'HEAD' ? 'reads' : 'others');
    if (turn !== undefined) await turn;
    const caller = await door.identify(this.arrival);
    this.account = caller.account;
    await this.#pay(door, caller, () => door.admit(caller, this.arrival));
    return this.traceparent === undefined ? caller : { ...caller, traceparent: this.traceparent };
  }

  /** Charges for the operations in the request beyond the unit paid on admission. */
  async chargeMore(door: Door, caller: Caller, units: number): Promise<void> {
    const admission = this.#admission;
    if (admission === undefined) throw new Error('A request is charged for more before it was admitted');
    await this.#pay(door, caller, () => door.chargeMore(caller, admission, units));
  }

  /** Remembers the account's rate limit, also when the request is refused. */
  async #pay(door: Door, caller: Caller, charge: () => Awaitable<Admission>): Promise<void> {
    try {
      this.#admission = await charge();
      this.rateLimit = this.#admission;
    } catch (error) {
      const known = error instanceof DomainError ? error.facts.rateLimit : undefined;
      const left = known ?? (await peeked(door, caller));
      if (left !== undefined) this.rateLimit = left;
      throw error;
    }
  }
}

/** The account's rate limit, or undefined on failure, which must not replace the error being reported. */
async function peeked(door: Door, caller: Caller): Promise<RateLimit | undefined> {
  try {
    return await door.peek(caller);
  } catch {
    return undefined;
  }
}

/** What admission needs from a request or an upgrade. */
export function arrivalOf({ headers, socket }: IncomingMessage): Arrival {
  return {
    authorization: headers.authorization,
    origin: headers.origin,
    host: headers.host,
    peer: socket.remoteAddress,
    forwardedFor: headers['x-forwarded-for'] as string | undefined,
  };
}

/** The client's request id if it is 1 to 128 visible ASCII characters, otherwise a new one. */
export function requestIdOf(header: string | string[] | undefined): string {
  return typeof header === 'string' && /^[\x21-\x7e]{1,128}$/.test(header) ? header : randomUUID();
}
