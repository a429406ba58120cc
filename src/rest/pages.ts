import { existsSync, readFileSync } from 'node:fs';
import { compressed, formFor, html, type Page, page } from '../http/page.ts';
import { consoleFiles, widgetScript } from '../layout.ts';
import { consolePage, consolePolicy } from '../pages/console.ts';
import { favicon, welcomePage, welcomePolicy } from '../pages/welcome.ts';
import { version } from '../version.ts';
import { openApiDocument } from './openapi/document.ts';
import { docsPage } from './openapi/html.ts';
import type { Route } from './routes.ts';

const policy = { 'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'" };

/** For a script that pages of any origin load, also those that are isolated from other origins. */
const scriptHeaders = { Vary: 'Accept-Encoding', 'Cross-Origin-Resource-Policy': 'cross-origin' };

/**
 * The pages that need no credential, and the script of the chat widget. Each is rendered once, for its first request.
 * @param publicPath the path of `publicUrl`, without a trailing slash
 */
export function createPages(
  routes: readonly Route[],
  publicUrl: string | undefined,
  publicPath: string,
): (path: string, acceptEncoding: string | undefined) => Page | undefined {
  const document = once(() => openApiDocument(routes, publicUrl));
  const pages = new Map([
    [
      '/',
      once(() => page(html, welcomePage(version, publicUrl, publicPath), { 'Content-Security-Policy': welcomePolicy })),
    ],
    ['/favicon.svg', once(() => page('image/svg+xml', favicon))],
    ['/openapi.json', once(() => page('application/json; charset=utf-8', JSON.stringify(document())))],
    ['/docs', once(() => page(html, docsPage(document()), policy))],
  ]);
  const zipped = { Vary: 'Accept-Encoding' };
  const files = new Map([
    [
      '/console',
      once(() => compressed(html, Buffer.from(consolePage), { ...zipped, 'Content-Security-Policy': consolePolicy })),
    ],
    [
      '/console/app.js',
      once(() => compressed('text/javascript; charset=utf-8', readFileSync(consoleFiles.script), zipped)),
    ],
    ['/console/app.css', once(() => compressed('text/css; charset=utf-8', readFileSync(consoleFiles.styles), zipped))],
  ]);
  const widget = once(() => compressed('text/javascript; charset=utf-8', readFileSync(widgetScript), scriptHeaders));
  return (path, acceptEncoding) => {
    // The sources may be run without having been built.
    const file = files.get(path);
    if (file !== undefined && existsSync(consoleFiles.script)) return formFor(file(), acceptEncoding);
    if (path !== '/widget.js' || !existsSync(widgetScript)) return pages.get(path)?.();
    return { ...formFor(widget(), acceptEncoding), isForAll: true };
  };
}

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
