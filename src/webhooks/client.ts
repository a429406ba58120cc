import { createHmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { Agent, type Dispatcher, errors } from 'undici';
import { AddressRefused } from './address-guard.ts';
import type { guardedConnector } from './connector.ts';
import type { Outcome, WebhookRequest } from './threaded-client.ts';

/** How long an idle connection is kept at most, so that their number follows that of the attempts in flight. */
const keepAliveMaxTimeout = 10_000;
const userAgent = 'conversation-service-webhooks/1';
/** How many interim responses a receiver may send. Each takes a few bytes and much work, and they could go on without end. */
const maxInterim = 10;
/** After so many attempts that were broken off, undici begins anew: it keeps 22 KiB for the host of each, for ever. */
const maxBrokenOff = 500;

interface ResponseLimits {
  /** Timeout of a whole attempt, from connecting to the end of the response. */
  readonly totalMs: number;
  /** How many bytes of a response body are read. */
  readonly maxResponseBytes: number;
}

/** Sends webhook requests over HTTP/1.1. It follows no redirects and reads only the beginning of a response body. */
export class WebhookClient {
  readonly #makeAgent: () => Agent;
  #agent: Agent;
  readonly #limits: ResponseLimits;
  readonly #inFlight = new Set<ResponseHandler>();
  #brokenOff = 0;
  #isGivenUp = false;

  constructor(connect: ReturnType<typeof guardedConnector>, limits: ResponseLimits) {
    this.#limits = limits;
    this.#makeAgent = () =>
      new Agent({
        connect,
        // `send` has a timer for all of an attempt. Those of undici can end before their time.
        headersTimeout: 0,
        bodyTimeout: 0,
        maxHeaderSize: 16 * 1024,
        keepAliveMaxTimeout, // receivers may ask for ten minutes
      });
    this.#agent = this.#makeAgent();
  }

  /** @param onOutcome called exactly once */
  send(request: WebhookRequest, onOutcome: (outcome: Outcome) => void): void {
    const handler = new ResponseHandler(request.sentMs, this.#limits, (outcome) => {
      clearTimeout(timer);
      this.#inFlight.delete(handler);
      if (handler.isBrokenOff) this.#countBrokenOff();
      onOutcome(outcome);
    });
    const timer = setTimeout(() => handler.giveUp(), this.#limits.totalMs);
    this.#inFlight.add(handler);
    if (this.#isGivenUp) handler.giveUp();
    else this.#dispatch(request, handler);
  }

  /** Stops waiting for responses, as at the end of a shutdown: to requests in flight and to those sent from now on. */
  giveUp(): void {
    this.#isGivenUp = true;
    for (const handler of this.#inFlight) handler.giveUp();
  }

  #countBrokenOff(): void {
    this.#brokenOff++;
    if (this.#brokenOff < maxBrokenOff) return;
    this.#brokenOff = 0;
    this.#agent.close().catch(() => {}); // what is in flight is brought to its end
    this.#agent = this.#makeAgent();
  }

  #dispatch(request: WebhookRequest, handler: ResponseHandler): void {
    try {
      const { origin, pathname, search } = new URL(request.url);
      const path = pathname + search;
      const headers = headersOf(request);
      this.#agent.dispatch({ origin, path, method: 'POST', headers, body: request.body }, handler);
    } catch (error) {
      handler.fail(error); // an invalid request must not affect others
    }
  }
}

function headersOf(request: WebhookRequest): Record<string, string> {
  const { traceparent } = request;
  return {
    'content-type': 'application/json',
    'user-agent': userAgent,
    ...sign(request),
    ...(traceparent !== undefined && { traceparent }),
  };
}

/** Signs a body according to Standard Webhooks 1.0: HMAC-SHA256 over id, time and body, once with each secret. */
function sign({ id, sentMs, body, secrets }: WebhookRequest): Record<string, string> {
  const seconds = String(Math.floor(sentMs / 1_000));
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
    return `v1,${createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64')}`;
  });
  return { 'webhook-id': id, 'webhook-timestamp': seconds, 'webhook-signature': signatures.join(' ') };
}

/**
 * Turns the response to one request into an outcome. The status decides about success, so the body is not read to its
 * end. A handler of undici's events is cheaper than a stream for each response.
 */
class ResponseHandler implements Dispatcher.DispatchHandler {
  readonly #sentMs: number;
  readonly #limits: ResponseLimits;
  readonly #onOutcome: (outcome: Outcome) => void;
  readonly #startedMs = performance.now();
  /** The beginning of the body, in one buffer: a receiver can send it in thousands of pieces. */
  #body = nothing;
  #size = 0;
  #status: number | null = null;
  #interim = 0;
  #retryAfter: string | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #ended = false;
  #isLocalFailure = false;
  /** Whether it was ended here, and not by the receiver. */
  isBrokenOff = false;

  constructor(sentMs: number, limits: ResponseLimits, onOutcome: (outcome: Outcome) => void) {
    this.#sentMs = sentMs;
    this.#limits = limits;
    this.#onOutcome = onOutcome;
  }

  /** Ends the attempt with what has arrived of a response. */
  giveUp(): void {
    this.#breakOff(this.#status === null ? `No response within ${this.#limits.totalMs / 1_000} s.` : cutOff);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#ended) this.#abort();
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200) {
      this.#interim++;
      if (status === 101) this.#breakOff(notAskedFor);
      else if (this.#interim > maxInterim) this.#breakOff('There were too many interim responses.');
      return;
    }
    this.#status = status;
    const retryAfter = headers['retry-after'];
    this.#retryAfter = typeof retryAfter === 'string' ? retryAfter : undefined;
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    const { maxResponseBytes } = this.#limits;
    const arrived = this.#size + chunk.length;
    if (arrived > this.#body.length) {
      const larger = Buffer.allocUnsafe(Math.min(2 * arrived, maxResponseBytes));
      this.#body.copy(larger, 0, 0, this.#size);
      this.#body = larger;
    }
    this.#size += chunk.copy(this.#body, this.#size);
    if (arrived > maxResponseBytes) this.#breakOff(null);
  }

  onResponseEnd(): void {
    this.#end(null);
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.fail(error);
  }

  fail(error: unknown): void {
    this.#isLocalFailure = shortages.has(codeOf(error));
    this.#end(this.#status === null ? describe(error) : cutOff);
  }

  #breakOff(error: string | null): void {
    this.isBrokenOff = true;
    this.#end(error);
    this.#abort();
  }

  #abort(): void {
    this.#controller?.abort(new Error('The rest of the response is not needed'));
  }

  #end(error: string | null): void {
    if (this.#ended) return;
    this.#ended = true;
    const status = this.#status;
    const durationMs = Math.round(performance.now() - this.#startedMs);
    if (status === null) {
      this.#onOutcome({ status, body: null, error, durationMs, isLocalFailure: this.#isLocalFailure });
      return;
    }
    this.#onOutcome({
      status,
      body: decode(this.#body.subarray(0, this.#size)),
      error: error ?? (redirects.has(status) ? 'Redirects are not followed.' : null),
      durationMs,
      retryAfterMs: parseRetryAfter(this.#retryAfter, this.#sentMs),
    });
  }
}

const nothing = Buffer.alloc(0);
const cutOff = 'The response was cut off.';
const notAskedFor = 'The response was 100 or 101, which was not asked for.';

/** The statuses whose `Location` a client would follow. */
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** The three forms of RFC 9110, section 5.6.7. `Date.parse` alone takes nearly anything for a date, `-5` and `Foo 2099` too. */
const httpDate =
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?:[a-z]*, \d\d[ -][A-Z][a-z][a-z][ -]\d\d(?:\d\d)? \d\d:\d\d:\d\d GMT| [A-Z][a-z][a-z] [ \d]\d \d\d:\d\d:\d\d \d{4})$/;

/**
 * Parses a `Retry-After` header (RFC 9110, section 10.2.3): seconds or a date.
 * @returns milliseconds, however many; undefined for anything else
 */
export function parseRetryAfter(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined;
  if (/^\d+$/.test(header)) return Number(header) * 1_000;
  if (!httpDate.test(header)) return undefined;
  const at = Date.parse(header.replace(/( GMT)?$/, ' GMT')); // the form of asctime names no zone
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}

/** Decodes arbitrary bytes to text that can be stored and shown, without a character that was cut in two at the end. */
function decode(bytes: Buffer): string {
  if (bytes.length === 0) return '';
  return new TextDecoder().decode(bytes, { stream: true }).replaceAll('\0', '\ufffd');
}

function describe(error: unknown): string {
  if (error instanceof AddressRefused) return `The URL ${error.message}.`;
  if (error instanceof errors.ConnectTimeoutError) return connectTimeout;
  if (error instanceof errors.HTTPParserError) return 'The response is not valid HTTP.';
  // undici ends the connection at 100, and at 101 with `Upgrade`, with the code of a connection that was closed.
  if (error instanceof errors.SocketError && /^bad (response|upgrade)$/.test(error.message)) {
    return notAskedFor;
  }
  const code = codeOf(error);
  const fallback = code.startsWith('ERR_SSL_') ? 'The TLS connection failed' : 'The request failed';
  return descriptions[code] ?? (code === '' ? `${fallback}.` : `${fallback} (${code}).`);
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/** Errors of a process or a system that has no file descriptor or memory left for a connection. */
const shortages: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM']);

const connectTimeout = 'Connecting took too long.';

const descriptions: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'The connection was refused.',
  ECONNRESET: 'The connection was reset before a response.',
  EHOSTUNREACH: 'The host cannot be reached.',
  ENETUNREACH: 'The network cannot be reached.',
  ENOTFOUND: 'The host name does not exist.',
  EAI_AGAIN: 'The host name could not be looked up.',
  UND_ERR_SOCKET: 'The connection was closed before a response.',
  UND_ERR_HEADERS_OVERFLOW: 'The response headers are too large.',
  ETIMEDOUT: connectTimeout,
  ERR_SSL_WRONG_VERSION_NUMBER: 'The host does not speak TLS.',
  CERT_HAS_EXPIRED: 'The certificate has expired.',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'The certificate is self-signed.',
  SELF_SIGNED_CERT_IN_CHAIN: 'The certificate is not trusted.',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'The certificate is not trusted.',
  ERR_TLS_CERT_ALTNAME_INVALID: 'The certificate is for another host name.',
};
