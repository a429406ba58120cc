import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { isKnown } from './entity-tags.ts';
import type { RequestContext } from './request-context.ts';
import type { Reply } from './respond.ts';

/** A public page, constant while the program runs. */
export interface Page {
  readonly type: string;
  readonly headers: { readonly ETag: string } & Readonly<Record<string, string>>;
  /** Bytes, which all responses share, also those that their clients have not read yet. */
  readonly body: Uint8Array;
  /** Whether pages of any origin may load it. */
  readonly isForAll?: boolean;
}

/** A page in the two encodings that it is sent in. */
export interface PageForms {
  readonly plain: Page;
  readonly zipped: Page;
}

export const html = 'text/html; charset=utf-8';
const maxAgeSeconds = 300;

/** The path under which a proxy exposes the service, without a trailing slash; empty without a proxy. */
export function publicPathOf(publicUrl: string | undefined): string {
  return publicUrl === undefined ? '' : new URL(publicUrl).pathname.replace(/\/$/, '');
}

/** @param headers in addition to those of every page */
export function page(type: string, body: string | Uint8Array, headers: Readonly<Record<string, string>> = {}): Page {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const ETag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;
  return { type, body: bytes, headers: { ETag, 'Cache-Control': `public, max-age=${maxAgeSeconds}`, ...headers } };
}

/** A page in both forms; its headers have to vary by `Accept-Encoding`. */
export function compressed(
  type: string,
  plain: Uint8Array,
  headers: Readonly<Record<string, string>>,
  zipped: Uint8Array = gzipSync(plain),
): PageForms {
  return { plain: page(type, plain, headers), zipped: page(type, zipped, { ...headers, 'Content-Encoding': 'gzip' }) };
}

/** @param acceptEncoding the header of the request */
export function formFor({ plain, zipped }: PageForms, acceptEncoding: string | undefined): Page {
  return takesGzip(acceptEncoding) ? zipped : plain;
}

/** RFC 9110, section 12.5.3. */
function takesGzip(acceptEncoding = ''): boolean {
  return acceptEncoding.split(',').some((entry) => {
    const [coding, weight] = entry.toLowerCase().split(';');
    return coding?.trim() === 'gzip' && !/^\s*q\s*=\s*0(\.0*)?\s*$/.test(weight ?? '');
  });
}

/** The response to a request for a page, which may be 304. */
export function pageReply({ type, headers, body, isForAll }: Page, http: RequestContext): Reply {
  if (isForAll) http.listedOrigin = '*';
  return isKnown(http.req.headers['if-none-match'], headers.ETag)
    ? { status: 304, headers: { ...headers } }
    : { status: 200, headers: { ...headers, 'Content-Type': type }, body };
}
