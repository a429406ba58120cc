import { Assets } from '../http/assets.ts';
import { alwaysAsked, html, type Page, page, scriptedPolicy } from '../http/page.ts';
import { assetsFolder } from '../layout.ts';

// The page at `/graphql`, which a browser gets without a credential: everything in it is made by its script.

/** Where somebody types over a selection, browsers themselves write styles into attributes. */
const policy = `${scriptedPolicy}; style-src-attr 'unsafe-inline'`;

const assets = new Assets(assetsFolder);
let made: Page | undefined;

/** Whether there is one: the sources may be run without having been built. */
export const hasExplorer = (): boolean => assets.areBuilt;

export function explorerPage(): Page {
  made ??= page(html, markup(), {
    ...alwaysAsked,
    'Content-Security-Policy': policy,
    Vary: 'Accept',
  });
  return made;
}

const markup = (): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>GraphQL · Conversation service</title>
<link rel="icon" href="favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${assets.addressOf('explorer.css')}">
<script type="module" src="${assets.addressOf('explorer.js')}"></script>
</head>
<body><div id="explorer"></div><noscript>This page needs JavaScript. The API does not: see the <a href="docs">reference</a>.</noscript></body>
</html>
`;
