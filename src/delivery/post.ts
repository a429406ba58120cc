import type { IncomingHttpHeaders } from 'node:http';
import { Agent, type Dispatcher, errors } from 'undici';
import { maxResponseBytes } from '../domain/delivery.ts';
import { AddressRefused } from './address-guard.ts';
import type { guardedConnector } from './connector.ts';
import { retryAfterMs } from './schedule.ts';
import type { SignatureHeaders } from './signature.ts';

/** What became of one attempt. */
export interface Outcome {
  /** The status of the answer; null when there was none. */
  readonly status: number | null;
  /** The beginning of the answer's body, as text; null when there was no answer. */
  readonly body: string | null;
  /** What went wrong, beside a status that is no success; null when nothing did. */
  readonly error: string | null;
  /** How long the receiver asks to be left alone. */
  readonly retryAfterMs?: number | undefined;
  /** Nothing was sent, for want of something on this side: that says nothing of the receiver. */
  readonly isOurs?: boolean;
}

export interface Letter {
  readonly url: string;
  readonly signature: SignatureHeaders;
  /** The trace that it is part of (W3C Trace Context). */
  readonly traceparent?: string | undefined;
  /** JSON. */
  readonly body: string;
}

const userAgent = 'conversation-service-webhooks/1';

/** Sends letters: one request each, whose redirects are not followed and whose answer is read only so far. */
export class Post {
  readonly #agent: Agent;
  readonly #totalMs: number;
  readonly #underway = new Set<Exchange>();
  #isGivenUp = false;

  /** @param totalMs how long an attempt may take, connecting and the answer included */
  constructor(connect: ReturnType<typeof guardedConnector>, totalMs: number) {
    this.#totalMs = totalMs;
    this.#agent = new Agent({ connect, headersTimeout: totalMs, bodyTimeout: totalMs, maxHeaderSize: 16 * 1024 });
  }

  /** Never rejects. */
  send({ url, signature, traceparent, body }: Letter, nowMs: number): Promise<Outcome> {
    return new Promise((resolve) => {
      const { origin, pathname, search } = new URL(url);
      const exchange = new Exchange(nowMs, this.#totalMs, (outcome) => {
        clearTimeout(timer);
        this.#underway.delete(exchange);
        resolve(outcome);
      });
      const timer = setTimeout(() => exchange.giveUp(), this.#totalMs);
      this.#underway.add(exchange);
      const headers = {
        'content-type': 'application/json',
        'user-agent': userAgent,
        ...signature,
        ...(traceparent !== undefined && { traceparent }),
      };
      if (this.#isGivenUp) exchange.giveUp();
      else this.#agent.dispatch({ origin, path: pathname + search, method: 'POST', headers, body }, exchange);
    });
  }

  /** Waits for no answer any more, as at the end of a shutdown: neither of what is underway nor of what is still sent. */
  giveUp(): void {
    this.#isGivenUp = true;
    for (const exchange of this.#underway) exchange.giveUp();
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

/**
 * What comes of one request. Of the answer only the first bytes are waited for: the status has said what counts.
 * undici tells it piece by piece what happens, which is cheaper than a stream of its own for each answer.
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #nowMs: number;
  readonly #totalMs: number;
  readonly #onEnd: (outcome: Outcome) => void;
  readonly #chunks: Buffer[] = [];
  #size = 0;
  #status: number | null = null;
  #retryAfter: string | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #ended = false;
  #isOurs = false;

  constructor(nowMs: number, totalMs: number, onEnd: (outcome: Outcome) => void) {
    this.#nowMs = nowMs;
    this.#totalMs = totalMs;
    this.#onEnd = onEnd;
  }

  /** Ends it with what there is of an answer. */
  giveUp(): void {
    this.#end(this.#status === null ? `No answer within ${this.#totalMs / 1_000} s.` : brokenOff);
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
    if (this.#size <= maxResponseBytes) return;
    this.#end(null);
    this.#hangUp();
  }

  onResponseEnd(): void {
    this.#end(null);
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
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
    if (status === null) {
      this.#onEnd({ status, body: null, error, isOurs: this.#isOurs });
      return;
    }
    this.#onEnd({
      status,
      body: textOf(Buffer.concat(this.#chunks).subarray(0, maxResponseBytes)),
      error: error ?? (status >= 300 && status < 400 ? 'Redirects are not followed.' : null),
      retryAfterMs: retryAfterMs(this.#retryAfter, this.#nowMs),
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
