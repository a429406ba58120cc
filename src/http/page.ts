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

/** A page in the encodings that it is sent in, the best one first; the last one is not encoded. */
export type PageForms = readonly [Page, ...Page[]];

export const html = 'text/html; charset=utf-8';
const maxAgeSeconds = 300;

/** For pages that load assets by their names: after an upgrade, an older page would ask for what is no longer there. */
export const alwaysAsked = { 'Cache-Control': 'public, no-cache' };

/**
 * The policy of pages that are made by their script: everything comes from the service itself, and nothing inline runs.
 */
export const scriptedPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ');

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

/** A page in two forms; its headers have to vary by `Accept-Encoding`. */
export function compressed(type: string, plain: Uint8Array, headers: Readonly<Record<string, string>>): PageForms {
  return [encoded('gzip', type, gzipSync(plain), headers), page(type, plain, headers)];
}

/** A page in one of the encodings. */
export function encoded(
  encoding: string,
  type: string,
  bytes: Uint8Array,
  headers: Readonly<Record<string, string>>,
): Page {
  return page(type, bytes, { ...headers, 'Content-Encoding': encoding });
}

/** @param acceptEncoding the header of the request */
export function formFor(forms: PageForms, acceptEncoding: string | undefined): Page {
  return forms.find(({ headers }) => takes(headers['Content-Encoding'], acceptEncoding)) ?? forms[0];
}

/** RFC 9110, section 12.5.3. */
function takes(encoding: string | undefined, acceptEncoding = ''): boolean {
  if (encoding === undefined) return true;
  return acceptEncoding.split(',').some((entry) => {
    const [coding, weight] = entry.toLowerCase().split(';');
    return coding?.trim() === encoding && !/^\s*q\s*=\s*0(\.0*)?\s*$/.test(weight ?? '');
  });
}

/** The response to a request for a page, which may be 304. */
export function pageReply({ type, headers, body, isForAll }: Page, http: RequestContext): Reply {
  if (isForAll) http.listedOrigin = '*';
  return isKnown(http.req.headers['if-none-match'], headers.ETag)
    ? { status: 304, headers: { ...headers } }
    : { status: 200, headers: { ...headers, 'Content-Type': type }, body };
}
