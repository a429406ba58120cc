import type { IncomingHttpHeaders } from 'node:http';
import { Agent, type Dispatcher, errors } from 'undici';
import { AddressRefused } from './address-guard.ts';
import type { guardedConnector } from './connector.ts';
import type { Letter, Outcome } from './letter.ts';
import { retryAfterMs } from './schedule.ts';
import { sign } from './signature.ts';

const userAgent = 'conversation-service-webhooks/1';

export interface PostLimits {
  /** How long an attempt may take, connecting and the answer included. */
  readonly totalMs: number;
  /** Bytes of an answer's body that are read. */
  readonly maxResponseBytes: number;
}

/** Sends letters: one request each, whose redirects are not followed and whose answer is read only so far. */
export class Post {
  readonly #agent: Agent;
  readonly #limits: PostLimits;
  readonly #underway = new Set<Exchange>();
  #isGivenUp = false;

  constructor(connect: ReturnType<typeof guardedConnector>, limits: PostLimits) {
    const { totalMs } = limits;
    this.#limits = limits;
    this.#agent = new Agent({ connect, headersTimeout: totalMs, bodyTimeout: totalMs, maxHeaderSize: 16 * 1024 });
  }

  /** @param onEnd told once what became of it */
  send(letter: Letter, onEnd: (outcome: Outcome) => void): void {
    const exchange = new Exchange(letter.sentMs, this.#limits, (outcome) => {
      clearTimeout(timer);
      this.#underway.delete(exchange);
      onEnd(outcome);
    });
    const timer = setTimeout(() => exchange.giveUp(), this.#limits.totalMs);
    this.#underway.add(exchange);
    if (this.#isGivenUp) exchange.giveUp();
    else this.#dispatch(letter, exchange);
  }

  /** Waits for no answer any more, as at the end of a shutdown: neither of what is underway nor of what is still sent. */
  giveUp(): void {
    this.#isGivenUp = true;
    for (const exchange of this.#underway) exchange.giveUp();
  }

  #dispatch(letter: Letter, exchange: Exchange): void {
    try {
      const { origin, pathname, search } = new URL(letter.url);
      const path = pathname + search;
      this.#agent.dispatch({ origin, path, method: 'POST', headers: headersOf(letter), body: letter.body }, exchange);
    } catch (error) {
      exchange.fail(error); // what is wrong with one letter ends nothing but that
    }
  }
}

function headersOf({ id, sentMs, body, secrets, traceparent }: Letter): Record<string, string> {
  return {
    'content-type': 'application/json',
    'user-agent': userAgent,
    ...sign(id, sentMs, body, secrets),
    ...(traceparent !== undefined && { traceparent }),
  };
}

/**
 * What comes of one request. Of the answer only the first bytes are waited for: the status has said what counts.
 * undici tells it piece by piece what happens, which is cheaper than a stream of its own for each answer.
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #sentMs: number;
  readonly #limits: PostLimits;
  readonly #onEnd: (outcome: Outcome) => void;
  readonly #beganMs = performance.now();
  readonly #chunks: Buffer[] = [];
  #size = 0;
  #status: number | null = null;
  #retryAfter: string | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #ended = false;
  #isOurs = false;

  constructor(sentMs: number, limits: PostLimits, onEnd: (outcome: Outcome) => void) {
    this.#sentMs = sentMs;
    this.#limits = limits;
    this.#onEnd = onEnd;
  }

  /** Ends it with what there is of an answer. */
  giveUp(): void {
    this.#end(this.#status === null ? `No answer within ${this.#limits.totalMs / 1_000} s.` : brokenOff);
    this.#hangUp();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#ended) this.#hangUp();
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    if (status < 200) return; // the answer is still to come
    this.#status = status;
    const retryAfter = headers['retry-after'];
    this.#retryAfter = typeof retryAfter === 'string' ? retryAfter : undefined;
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    if (this.#size <= this.#limits.maxResponseBytes) return;
    this.#end(null);
    this.#hangUp();
  }

  onResponseEnd(): void {
    this.#end(null);
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.fail(error);
  }

  fail(error: unknown): void {
    this.#isOurs = shortages.has(codeOf(error));
    this.#end(this.#status === null ? wordsFor(error) : brokenOff);
  }

  #hangUp(): void {
    this.#controller?.abort(new Error('The answer is not waited for'));
  }

  #end(error: string | null): void {
    if (this.#ended) return;
    this.#ended = true;
    const status = this.#status;
    const durationMs = Math.round(performance.now() - this.#beganMs);
    if (status === null) {
      this.#onEnd({ status, body: null, error, durationMs, isOurs: this.#isOurs });
      return;
    }
    this.#onEnd({
      status,
      body: textOf(Buffer.concat(this.#chunks).subarray(0, this.#limits.maxResponseBytes)),
      error: error ?? (status >= 300 && status < 400 ? 'Redirects are not followed.' : null),
      durationMs,
      retryAfterMs: retryAfterMs(this.#retryAfter, this.#sentMs),
    });
  }
}

const brokenOff = 'The answer broke off.';

/** Bytes of whatever kind as text that can be stored and shown. A character that was cut in two is left out. */
function textOf(bytes: Buffer): string {
  if (bytes.length === 0) return '';
  return new TextDecoder().decode(bytes, { stream: true }).replaceAll('\0', '\ufffd');
}

function wordsFor(error: unknown): string {
  if (error instanceof AddressRefused) return `The URL ${error.message}.`;
  if (error instanceof errors.ConnectTimeoutError) return 'The connection could not be made in time.';
  if (error instanceof errors.HTTPParserError) return 'The answer is not HTTP.';
  const code = codeOf(error);
  const fallback = code.startsWith('ERR_SSL_') ? 'The TLS connection failed' : 'The request failed';
  return sentences[code] ?? (code === '' ? `${fallback}.` : `${fallback} (${code}).`);
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/** What the system says when a process, or all of them, have no descriptors or no memory left for a connection. */
const shortages: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM']);

const sentences: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'The connection was refused.',
  ECONNRESET: 'The connection was reset before an answer.',
  EHOSTUNREACH: 'The host cannot be reached.',
  ENETUNREACH: 'The network cannot be reached.',
  ENOTFOUND: 'The name of the host is not known.',
  EAI_AGAIN: 'The name of the host could not be looked up.',
  UND_ERR_SOCKET: 'The connection was closed before an answer.',
  UND_ERR_HEADERS_OVERFLOW: 'The answer’s headers are too large.',
  ETIMEDOUT: 'The connection could not be made in time.',
  ERR_SSL_WRONG_VERSION_NUMBER: 'The host does not speak TLS.',
  CERT_HAS_EXPIRED: 'The certificate has expired.',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'The certificate is self-signed.',
  SELF_SIGNED_CERT_IN_CHAIN: 'The certificate is not trusted.',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'The certificate is not trusted.',
  ERR_TLS_CERT_ALTNAME_INVALID: 'The certificate is for another name.',
};
