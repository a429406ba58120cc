import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Account } from '../domain/accounts.ts';
import type { Caller } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { RateLimit } from '../domain/ports.ts';
import type { Arrival, Door } from './admit.ts';

/** What Yoga hands to its hooks beside the request, when it runs on a Node server. */
export interface ServerContext {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  exchange?: Exchange;
}

/** One HTTP request and what becomes known of it on its way; the log line is made of it. */
export class Exchange {
  readonly requestId: string;
  readonly method: string;
  /** The path as it was sent, percent-encoding and all, without the query. */
  readonly path: string;
  /** The query string without its question mark. */
  readonly query: string;
  readonly startedMs = performance.now();
  readonly req: IncomingMessage;
  /** The operation that was called, for the log. */
  operation?: string;
  account?: Account;
  rateLimit?: RateLimit;

  constructor(req: IncomingMessage) {
    this.req = req;
    this.requestId = requestIdOf(req.headers['x-request-id']);
    this.method = req.method ?? 'GET';
    const url = req.url ?? '/';
    const mark = url.indexOf('?');
    this.path = mark === -1 ? url : url.slice(0, mark);
    this.query = mark === -1 ? '' : url.slice(mark + 1);
  }

  get arrival(): Arrival {
    const { headers, socket } = this.req;
    return {
      authorization: headers.authorization,
      origin: headers.origin,
      host: headers.host,
      peer: socket.remoteAddress,
      forwardedFor: headers['x-forwarded-for'] as string | undefined,
    };
  }

  /**
   * Lets the request in through the door, and remembers whose it is and what the account has left,
   * also when it is refused.
   */
  async admit(door: Door): Promise<Caller> {
    const caller = await door.identify(this.arrival);
    this.account = caller.account;
    try {
      this.rateLimit = await door.admit(caller, this.arrival);
    } catch (error) {
      this.rateLimit = (error instanceof DomainError ? error.facts.rateLimit : undefined) ?? (await door.peek(caller));
      throw error;
    }
    return caller;
  }

  /** Charges for what the request turned out to hold, beside the unit paid at the door. */
  async chargeMore(door: Door, caller: Caller, units: number): Promise<void> {
    try {
      this.rateLimit = await door.chargeMore(caller, units);
    } catch (error) {
      this.rateLimit = await door.peek(caller);
      throw error;
    }
  }
}

/** Takes over the caller's own id if it is 1 to 128 visible ASCII characters. */
function requestIdOf(header: string | string[] | undefined): string {
  return typeof header === 'string' && /^[\x21-\x7e]{1,128}$/.test(header) ? header : randomUUID();
}
