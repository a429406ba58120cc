import { createHash } from 'node:crypto';
import { isKnown } from './entity-tags.ts';
import type { RequestContext } from './request-context.ts';
import type { Reply } from './respond.ts';

/** A public page, constant while the program runs. */
export interface Page {
  readonly type: string;
  readonly headers: { readonly ETag: string } & Readonly<Record<string, string>>;
  /** Bytes, which all responses share, also those that their clients have not read yet. */
  readonly body: Uint8Array;
}

export const html = 'text/html; charset=utf-8';
const maxAgeSeconds = 300;

/** @param headers in addition to those of every page */
export function page(type: string, body: string | Uint8Array, headers: Readonly<Record<string, string>> = {}): Page {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const ETag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;
  return { type, body: bytes, headers: { ETag, 'Cache-Control': `public, max-age=${maxAgeSeconds}`, ...headers } };
}

/** The response to a request for a page, which may be 304. */
export function pageReply({ type, headers, body }: Page, { req }: RequestContext): Reply {
  return isKnown(req.headers['if-none-match'], headers.ETag)
    ? { status: 304, headers: { ...headers } }
    : { status: 200, headers: { ...headers, 'Content-Type': type }, body };
}
