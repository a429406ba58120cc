import { createHash } from 'node:crypto';
import { openApiDocument } from './openapi/document.ts';
import { docsPage } from './openapi/page.ts';
import type { Route } from './routes.ts';
import { welcomePage } from './welcome.ts';

/** Something that anybody may see. It is the same as long as the program is. */
export interface Page {
  readonly type: string;
  readonly headers: { readonly ETag: string } & Readonly<Record<string, string>>;
  readonly body: string;
}

const html = 'text/html; charset=utf-8';
const maxAgeSeconds = 300;

/**
 * The pages that need no credential, by path. Each is made once, when it is first asked for.
 * @param publicPath the path of `publicUrl`, without a slash at its end
 */
export function createPages(
  routes: readonly Route[],
  publicUrl: string | undefined,
  publicPath: string,
): (path: string) => Page | undefined {
  const document = once(() => openApiDocument(routes, publicUrl));
  const pages = new Map([
    ['/', once(() => page(html, welcomePage(publicPath)))],
    ['/openapi.json', once(() => page('application/json; charset=utf-8', JSON.stringify(document())))],
    ['/docs', once(() => page(html, docsPage(document())))],
  ]);
  return (path) => pages.get(path)?.();
}

function page(type: string, body: string): Page {
  const ETag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
  const policy = type === html ? { 'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'" } : {};
  return { type, body, headers: { ETag, 'Cache-Control': `public, max-age=${maxAgeSeconds}`, ...policy } };
}

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
