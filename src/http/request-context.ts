import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { type Admission, type AdmissionContext, type Arrival, refuseGone } from '../access/admission.ts';
import type { Asked } from '../access/load-shedder.ts';
import type { Charge } from '../access/rate-limit.ts';
import { holdsSecret } from '../access/secrets.ts';
import type { Caller } from '../domain/caller.ts';
import type { DomainError, ErrorCode } from '../domain/errors.ts';
import type { CallCode, Face, RateLimit, Telemetry } from '../domain/ports.ts';
import { parseTraceparent, traceIdOf } from '../domain/trace.ts';
import { readJson } from './body.ts';
import { protocolFault } from './protocol.ts';
import { RequestMemory } from './request-memory.ts';

/** One HTTP request with what is learnt while it is processed; the source of its log line. */
export class RequestContext implements AdmissionContext {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly requestId: string;
  readonly method: string;
  /** The path as sent, still percent-encoded, without the query. */
  readonly path: string;
  /** The query string without its question mark. */
  readonly query: string;
  readonly startedMs = performance.now();
  /** How it violates HTTP, if it does. */
  readonly fault: DomainError | undefined;
  /** The caller's trace. */
  readonly traceparent: string | undefined;
  /** The origin of the page that asks, if its pages may call with tokens of any account. */
  listedOrigin?: string;
  /** The cookie in whose place it has no other credential: see `Arrival`. */
  signIn?: { readonly secret: string | undefined };
  /** Whose request it is, once that is known. */
  caller?: Caller;
  rateLimit?: RateLimit;
  /** What was charged for it, unless it was refused. */
  charged: Charge | undefined;
  /** Set when an operation begins that costs what was charged, however it ends. */
  hasBegun?: boolean;
  /** The operation called, for the log; the first if there were several. */
  operation?: string;
  /** The error it ended with, if any. */
  code?: ErrorCode;
  /** A health or metrics probe: logged at debug level, not counted. */
  isProbe = false;
  #body: Promise<unknown> | undefined;
  #memory: RequestMemory | undefined;

  constructor(req: IncomingMessage, res: ServerResponse) {
    this.req = req;
    this.res = res;
    this.requestId = requestIdOf(req.headers['x-request-id']);
    this.traceparent = parseTraceparent(req.headers['traceparent']);
    this.method = req.method ?? 'GET';
    const url = req.url ?? '/';
    const mark = url.indexOf('?');
    this.path = mark === -1 ? url : url.slice(0, mark);
    this.query = mark === -1 ? '' : url.slice(mark + 1);
    this.fault = protocolFault(req);
  }

  get traceId(): string | undefined {
    return this.traceparent && traceIdOf(this.traceparent);
  }

  get face(): Face {
    if (this.path === '/graphql') return 'graphql';
    if (this.path === '/mcp') return 'mcp';
    return this.path === '/v1' || this.path.startsWith('/v1/') ? 'rest' : 'page';
  }

  /** Whether it is a GET, or a HEAD, which is a GET whose response Node sends without its body. */
  get isRead(): boolean {
    return this.method === 'GET' || this.method === 'HEAD';
  }

  get asked(): Asked {
    if (this.isRead) return 'read';
    return this.face === 'graphql' || this.face === 'mcp' ? 'either' : 'write';
  }

  get mayCostMore(): boolean {
    return this.face === 'graphql' && !this.isRead;
  }

  /** Whether a GraphQL answer is to say what it was counted to cost. */
  get wantsCost(): boolean {
    return this.req.headers['graphql-cost'] === '1';
  }

  get arrival(): Arrival {
    return arrivalOf(this.req, this.signIn);
  }

  get isGone(): boolean {
    const { socket } = this.req;
    return socket.destroyed || socket.writableEnded;
  }

  /** Counts what is held of the parameters of an admitted request. */
  get memory(): RequestMemory {
    if (this.caller === undefined) throw new Error('Parameters are read before their request was admitted');
    if (this.#memory === undefined) {
      this.#memory = new RequestMemory(this.caller);
      this.res.once('close', () => this.forgetParameters()); // also if it cannot be answered
    }
    return this.#memory;
  }

  /** Lets go of the parameters, once nothing more of the answer depends on them. */
  forgetParameters(): void {
    this.#memory?.release();
    this.#body = undefined;
  }

  /**
   * The body of an admitted request, cached since it can be read only once.
   * @throws UNAUTHENTICATED for a credential that has ended; see `readJson` in body.ts for others
   */
  readJson(admission: Admission): Promise<unknown> {
    this.#body ??= this.#readJson(admission);
    return this.#body;
  }

  async #readJson(admission: Admission): Promise<unknown> {
    const { req, caller } = this;
    if (caller === undefined) throw new Error('A body is read before its request was admitted');
    const hadArrived = req.complete;
    const body = await readJson(req, this.memory, async () => {
      refuseGone(this);
      if (!hadArrived) await admission.refuseEnded(caller, this); // it may have been revoked while the body was on its way
    });
    refuseGone(this);
    return body;
  }

  /** Remembers whose the connection is. */
  noteOwner(): void {
    const { caller, req } = this;
    if (caller !== undefined) owners.set(req.socket, caller.account.id);
  }

  /** Counts a completed operation of a request that may call several. */
  called(telemetry: Pick<Telemetry, 'called'>, operation: string, code: CallCode, durationMs: number): void {
    this.operation ??= operation;
    telemetry.called(this.face, operation, code, durationMs);
  }
}

const owners = new WeakMap<Duplex, string>();

/** The account whose request was answered last on a connection. */
export function ownerOf(connection: Duplex): string | undefined {
  return owners.get(connection);
}

/** What admission needs from a request or an upgrade. */
export function arrivalOf({ headers, socket }: IncomingMessage, signIn?: Arrival['signIn']): Arrival {
  return {
    authorization: headers.authorization,
    signIn,
    origin: headers.origin,
    host: headers.host,
    peer: socket.remoteAddress,
    forwardedFor: headers['x-forwarded-for'] as string | undefined,
  };
}

/** The client's request id if it is 1 to 128 visible ASCII characters without a secret in them, otherwise a new one. */
export function requestIdOf(header: string | string[] | undefined): string {
  const isUsable = typeof header === 'string' && /^[\x21-\x7e]{1,128}$/.test(header) && !holdsSecret(header);
  return isUsable ? header : randomUUID();
}
