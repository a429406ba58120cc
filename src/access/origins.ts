import type { IncomingMessage } from 'node:http';
import type { Awaitable } from '../domain/awaitable.ts';
import type { Storage } from '../domain/storage-port.ts';

/** The methods and headers that listed pages may use, whatever the operation. */
const allowedMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'].join(', ');
const allowedHeaders = [
  'Authorization',
  'Content-Type',
  'GraphQL-Cost',
  'Idempotency-Key',
  'If-Match',
  'If-None-Match',
  'Last-Event-ID',
  'Mcp-Method',
  'Mcp-Name',
  'Mcp-Protocol-Version',
  'X-Request-Id',
  'traceparent',
  'tracestate',
].join(', ');
/** The response headers that pages can read. */
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
/** How long browsers may cache a preflight: two hours is Chromium's maximum. */
const maxAgeSeconds = 7_200;

/** The origin of a request sent by a page. */
export interface PageOrigin {
  /** The `Origin` header, which a page cannot choose. */
  readonly origin?: string | undefined;
  readonly host?: string | undefined;
}

interface OriginsOptions {
  /** The public URL of the service, if it differs from `Host`. */
  readonly publicUrl?: string | undefined;
  /** Origins, as browsers send them, whose pages may call with the tokens of every account. */
  readonly listed: readonly string[];
  /** Has the origins that accounts have added for their own. */
  readonly storage: Pick<Storage, 'read'>;
}

/**
 * The CORS policy (Fetch, section 3.2) of all faces: the service's own pages may call with any credential,
 * listed pages with tokens. No response allows all origins, but that with the script of the chat widget, which holds
 * nothing of anybody, or credentialed requests: the APIs look at no cookie.
 */
export class Origins {
  readonly #own: string | undefined;
  readonly #listed: ReadonlySet<string>;
  readonly #storage: Pick<Storage, 'read'>;

  constructor({ publicUrl, listed, storage }: OriginsOptions) {
    this.#own = publicUrl === undefined ? undefined : new URL(publicUrl).origin;
    this.#listed = new Set(listed);
    this.#storage = storage;
  }

  /**
   * Whether the origin is the service itself, at its public URL or at the requested host.
   *
   * The client controls `Host`: with DNS rebinding, a foreign page can send a `Host` that equals its `Origin`. It gains
   * nothing: the page must already have a key, and a key can be used without a browser; the console's cookie is sent to
   * the name for which it was set, and not to that one. The rule serves to keep keys out of pages, not to keep pages out.
   */
  isOwn({ origin, host }: PageOrigin): boolean {
    if (origin === undefined) return false;
    if (origin === this.#own) return true;
    return host !== undefined && (origin === `http://${host}` || origin === `https://${host}`);
  }

  /**
   * Whether pages of the origin may call with tokens of this account, or of any account if none is given. The origin
   * `null` of sandboxed pages is never listed.
   */
  isListed({ origin }: PageOrigin, accountId?: string): Awaitable<boolean> {
    if (origin === undefined) return false;
    return this.#listed.has(origin) || this.#storage.read.accounts.hasOrigin(origin, accountId);
  }
}

/**
 * The CORS headers of every response, including errors and streams.
 * @param origin that of a listed page, if one has asked; `*` for what pages of all origins may read
 */
export function corsHeaders(origin: string | undefined): readonly [string, string][] {
  const vary: [string, string] = ['Vary', 'Origin'];
  if (origin === undefined) return [vary];
  return [vary, ['Access-Control-Allow-Origin', origin], ['Access-Control-Expose-Headers', exposedHeaders]];
}

/** The additional headers of the response to a preflight of a listed page. */
export const preflightHeaders = {
  'Access-Control-Allow-Methods': allowedMethods,
  'Access-Control-Allow-Headers': allowedHeaders,
  'Access-Control-Max-Age': String(maxAgeSeconds),
};

/** Whether a request is a CORS preflight, which carries no credential. */
export function isPreflight({ method, headers }: IncomingMessage): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
}
