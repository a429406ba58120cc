import type { IncomingMessage } from 'node:http';

/** The methods and headers that a listed page may use; what of them an operation knows is its own affair. */
const allowedMethods = ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'].join(', ');
const allowedHeaders = [
  'Authorization',
  'Content-Type',
  'Idempotency-Key',
  'If-Match',
  'If-None-Match',
  'Last-Event-ID',
  'X-Request-Id',
  'traceparent',
  'tracestate',
].join(', ');
/** The headers of an answer that a page is to see. */
const exposedHeaders = [
  'RateLimit',
  'RateLimit-Policy',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
  'Retry-After',
  'X-Request-Id',
  'ETag',
  'Link',
  'Location',
  'Idempotent-Replayed',
  'Deprecation',
  'Sunset',
].join(', ');
/** How long a browser may remember a preflight: two hours, which is the most that Chromium does. */
const maxAgeSeconds = 7_200;

/** Where a request comes from, if a page has sent it. */
export interface PageOrigin {
  /** The `Origin` header, which a page cannot choose. */
  readonly origin?: string | undefined;
  readonly host?: string | undefined;
}

/**
 * Which pages may call, on both faces: the service's own, with any credential, and those that are listed,
 * with tokens. This is the whole of its CORS policy (Fetch, section 3.2), and no answer is ever for all
 * origins, or lets a browser add credentials of its own: there are none.
 */
export class Origins {
  readonly #own: string | undefined;
  readonly #listed: ReadonlySet<string>;

  /**
   * @param publicUrl the address that the service is reached at, when it is not the one in `Host`
   * @param listed origins as a browser writes them
   */
  constructor({ publicUrl, listed = [] }: { publicUrl?: string | undefined; listed?: readonly string[] | undefined }) {
    this.#own = publicUrl === undefined ? undefined : new URL(publicUrl).origin;
    this.#listed = new Set(listed);
  }

  /**
   * Whether it is a page of the service itself, at its public address or at the one that was asked.
   *
   * `Host` is what the client says. A page that gives its own name the service's address (DNS rebinding)
   * does have a `Host` that equals its `Origin`. It gains nothing: a browser adds no credential of ours by
   * itself, so the page has to bring a key, and whoever has a key needs no browser to use it. The rule is
   * there to keep keys out of pages, not to keep pages out.
   */
  isOwn({ origin, host }: PageOrigin): boolean {
    if (origin === undefined) return false;
    if (origin === this.#own) return true;
    return host !== undefined && (origin === `http://${host}` || origin === `https://${host}`);
  }

  /** Whether it is a page that may call with a token. `null`, a sandboxed page's origin, never is. */
  isListed({ origin }: PageOrigin): boolean {
    return origin !== undefined && this.#listed.has(origin);
  }

  /** The headers of every answer, errors and streams included, that say which page may read it. */
  headersFor(from: PageOrigin): readonly [string, string][] {
    const vary: [string, string] = ['Vary', 'Origin'];
    if (from.origin === undefined || !this.isListed(from)) return [vary];
    return [vary, ['Access-Control-Allow-Origin', from.origin], ['Access-Control-Expose-Headers', exposedHeaders]];
  }

  /** What a preflight is answered beside that: nothing to a page that may not call. */
  preflightHeaders(from: PageOrigin): Record<string, string> {
    if (!this.isListed(from)) return {};
    return {
      'Access-Control-Allow-Methods': allowedMethods,
      'Access-Control-Allow-Headers': allowedHeaders,
      'Access-Control-Max-Age': String(maxAgeSeconds),
    };
  }
}

/** Whether a browser asks what a page may send, before it sends it. It has no credential with it. */
export function isPreflight({ method, headers }: IncomingMessage): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
}
