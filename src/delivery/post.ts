import { Agent, errors, request } from 'undici';
import { maxResponseBytes } from '../domain/delivery.ts';
import { AddressRefused, type guardedConnector } from './address-guard.ts';
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

  /** @param totalMs how long an attempt may take, connecting and the answer included */
  constructor(connect: ReturnType<typeof guardedConnector>, totalMs: number) {
    this.#totalMs = totalMs;
    this.#agent = new Agent({ connect, headersTimeout: totalMs, bodyTimeout: totalMs, maxHeaderSize: 16 * 1024 });
  }

  /**
   * Never rejects.
   * @param signal gives it up, as at a shutdown
   */
  async send({ url, signature, traceparent, body }: Letter, nowMs: number, signal: AbortSignal): Promise<Outcome> {
    const stop = new AbortController();
    const giveUp = (): void => stop.abort();
    const timer = setTimeout(giveUp, this.#totalMs);
    signal.addEventListener('abort', giveUp);
    if (signal.aborted) giveUp(); // it tells of that only once
    try {
      const answer = await request(url, {
        method: 'POST',
        dispatcher: this.#agent,
        headers: {
          'content-type': 'application/json',
          'user-agent': userAgent,
          ...signature,
          ...(traceparent !== undefined && { traceparent }),
        },
        body,
        signal: stop.signal,
      });
      const { statusCode: status, headers } = answer;
      const read = await beginningOf(answer.body);
      const retryAfter = headers['retry-after'];
      return {
        status,
        ...read,
        error: read.error ?? (status >= 300 && status < 400 ? 'Redirects are not followed.' : null),
        retryAfterMs: retryAfterMs(typeof retryAfter === 'string' ? retryAfter : undefined, nowMs),
      };
    } catch (error) {
      return { status: null, body: null, error: wordsFor(error, stop.signal.aborted, this.#totalMs) };
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', giveUp);
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

/** The first bytes of an answer, as text. The rest is not waited for: the status has said what counts. */
async function beginningOf(stream: AsyncIterable<Buffer>): Promise<{ body: string; error: string | null }> {
  const chunks: Buffer[] = [];
  let size = 0;
  let error: string | null = null;
  try {
    for await (const chunk of stream) {
      chunks.push(chunk);
      size += chunk.length;
      if (size > maxResponseBytes) break; // leaving the loop ends the connection
    }
  } catch {
    error = 'The answer broke off.';
  }
  return { body: textOf(Buffer.concat(chunks).subarray(0, maxResponseBytes)), error };
}

/** Bytes of whatever kind as text that can be stored and shown. A character that was cut in two is left out. */
function textOf(bytes: Buffer): string {
  return new TextDecoder().decode(bytes, { stream: true }).replaceAll('\0', '\ufffd');
}

function wordsFor(error: unknown, timedOut: boolean, totalMs: number): string {
  if (timedOut) return `No answer within ${totalMs / 1_000} s.`;
  if (error instanceof AddressRefused) return `The URL ${error.message}.`;
  if (error instanceof errors.ConnectTimeoutError) return 'The connection could not be made in time.';
  if (error instanceof errors.HTTPParserError) return 'The answer is not HTTP.';
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
  const fallback = code.startsWith('ERR_SSL_') ? 'The TLS connection failed' : 'The request failed';
  return sentences[code] ?? (code === '' ? `${fallback}.` : `${fallback} (${code}).`);
}

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
