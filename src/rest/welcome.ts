/**
 * The page at `/`: what the service is, with links to both APIs and the documentation.
 * @param base the public path of the service, without a trailing slash
 */
export const welcomePage = (base: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Conversation service</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1rem; color: #1c2733; background: #fff }
  code { background: #eef2f6; padding: .1em .3em; border-radius: 4px }
  a { color: #0b63b5 }
  @media (prefers-color-scheme: dark) { body { color: #dde5ee; background: #11171d } code { background: #222c36 } a { color: #7cc0ff } }
</style>
</head>
<body>
<main>
<h1>Conversation service</h1>
<p>Conversations, messages and events for client programs, through the APIs of one service:</p>
<ul>
<li>REST under <code>${base}/v1</code>, for example <code>GET ${base}/v1/conversations</code></li>
<li>GraphQL at <a href="${base}/graphql"><code>${base}/graphql</code></a>, which opens GraphiQL in a browser</li>
<li>tools of language models (Model Context Protocol) at <code>${base}/mcp</code></li>
</ul>
<p>A chat for the visitors of a page is one element, <code>&lt;conversation-widget&gt;</code>, of the script
<code>${base}/widget.js</code>.</p>
<p>Every operation is described in <a href="${base}/docs">the documentation</a> and, for programs, in
<a href="${base}/openapi.json"><code>openapi.json</code></a>.</p>
<p>Every request needs a credential: <code>Authorization: Bearer cs_…</code></p>
</main>
</body>
</html>
`;
