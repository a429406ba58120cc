import { existsSync, readFileSync } from 'node:fs';
import { Assets } from '../http/assets.ts';
import {
  alwaysAsked,
  compressed,
  formFor,
  html,
  type Page,
  type PageForms,
  page,
  scriptedPolicy,
} from '../http/page.ts';
import { assetsFolder, widgetScript } from '../layout.ts';
import { consolePage } from '../pages/console.ts';
import { favicon, welcomePage, welcomePolicy } from '../pages/welcome.ts';
import { version } from '../version.ts';
import { openApiDocument } from './openapi/document.ts';
import { docsPage } from './openapi/html.ts';
import type { Route } from './routes.ts';

const zipped = { Vary: 'Accept-Encoding' };
const scripted = { ...zipped, 'Content-Security-Policy': scriptedPolicy };

/** For a script that pages of any origin load, also those that are isolated from other origins. */
const scriptHeaders = { ...zipped, 'Cross-Origin-Resource-Policy': 'cross-origin' };

/**
 * The pages that need no credential, and the script of the chat widget. Each is rendered once, for its first request.
 * @param publicPath the path of `publicUrl`, without a trailing slash
 */
export function createPages(
  routes: readonly Route[],
  publicUrl: string | undefined,
  publicPath: string,
): (path: string, acceptEncoding: string | undefined) => Page | undefined {
  const assets = new Assets(assetsFolder);
  const document = once(() => openApiDocument(routes, publicUrl));
  const docs = (): PageForms => {
    const address = assets.areBuilt ? (name: string) => assets.addressOf(name) : undefined;
    return compressed(html, Buffer.from(docsPage(document(), address)), { ...alwaysAsked, ...scripted });
  };
  const pages = new Map<string, () => PageForms>([
    [
      '/',
      once(() => [
        page(html, welcomePage(version, publicUrl, publicPath), { 'Content-Security-Policy': welcomePolicy }),
      ]),
    ],
    ['/favicon.svg', once(() => [page('image/svg+xml', favicon)])],
    [
      '/openapi.json',
      once(() => compressed('application/json; charset=utf-8', Buffer.from(JSON.stringify(document())), zipped)),
    ],
    ['/docs', once(docs)],
  ]);
  const ofConsole = once((): PageForms => {
    const markup = consolePage((name) => assets.addressOf(name));
    return compressed(html, Buffer.from(markup), { ...alwaysAsked, ...scripted });
  });
  const widget = once(() => compressed('text/javascript; charset=utf-8', readFileSync(widgetScript), scriptHeaders));
  return (path, acceptEncoding) => {
    // The sources may be run without having been built.
    if (path === '/widget.js' && existsSync(widgetScript)) {
      return { ...formFor(widget(), acceptEncoding), isForAll: true };
    }
    const forms = path === '/console' && assets.areBuilt ? ofConsole : pages.get(path);
    return forms === undefined ? assets.at(path, acceptEncoding) : formFor(forms(), acceptEncoding);
  };
}

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
