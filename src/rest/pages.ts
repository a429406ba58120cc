import { html, type Page, page } from '../http/page.ts';
import { openApiDocument } from './openapi/document.ts';
import { docsPage } from './openapi/html.ts';
import type { Route } from './routes.ts';
import { welcomePage } from './welcome.ts';

const policy = { 'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'" };

/**
 * The pages that need no credential. Each is rendered once, for its first request.
 * @param publicPath the path of `publicUrl`, without a trailing slash
 */
export function createPages(
  routes: readonly Route[],
  publicUrl: string | undefined,
  publicPath: string,
): (path: string) => Page | undefined {
  const document = once(() => openApiDocument(routes, publicUrl));
  const pages = new Map([
    ['/', once(() => page(html, welcomePage(publicPath), policy))],
    ['/openapi.json', once(() => page('application/json; charset=utf-8', JSON.stringify(document())))],
    ['/docs', once(() => page(html, docsPage(document()), policy))],
  ]);
  return (path) => pages.get(path)?.();
}

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
