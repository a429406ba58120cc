import { createHash } from 'node:crypto';

// The page at `/`, for a person who has just started the service: what it is, and the first calls, ready to be copied.

interface FirstCall {
  readonly name: string;
  readonly about: string;
  readonly command: string;
}

/** Stands for the address of the service until that is known. */
const localService = 'http://127.0.0.1:4000';

/** @param service the address of the service */
const firstCalls = (service: string): readonly FirstCall[] => [
  {
    name: 'Start a conversation',
    about: 'REST. A visitor’s message begins it; the answer is the whole conversation, with its id.',
    command: `curl ${service}/v1/conversations \\
  -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\
  -d '{ "subject": "Parcel 1042", "message": { "sender": "visitor", "content": "Where is my parcel?" } }'`,
  },
  {
    name: 'Ask for what you need',
    about: 'GraphQL. The latest conversations, each with its last message, in one request.',
    command: `curl ${service}/graphql \\
  -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\
  -d '{ "query": "{ conversations(first: 5) { nodes { id status subject lastMessage { preview } } } }" }'`,
  },
  {
    name: 'Hear of what happens',
    about: 'A subscription, here as Server-Sent Events. Leave it open, and start another conversation beside it.',
    command: `curl -N ${service}/graphql \\
  -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' -H 'Accept: text/event-stream' \\
  -d '{ "query": "subscription { events { type cursor } }" }'`,
  },
  {
    name: 'Have it sent to you',
    about: 'A webhook. Every event is sent to your address, signed with the secret in the answer.',
    command: `curl ${service}/v1/webhooks \\
  -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\
  -d '{ "url": "https://example.com/hooks" }'`,
  },
];

const style = `
:root { color-scheme: light dark; --text: #1c2733; --muted: #52606d; --accent: #0b5cad; --background: #fff; --raised: #f2f6fa; --border: #d3dce5 }
@media (prefers-color-scheme: dark) { :root { --text: #e3eaf1; --muted: #a9b6c2; --accent: #7cc0ff; --background: #11171d; --raised: #1a222a; --border: #3a4753 } }
* { box-sizing: border-box }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; color: var(--text); background: var(--background) }
main { max-width: 52rem; margin: 0 auto; padding: 3rem 1rem }
header { display: flex; gap: 1rem; align-items: center }
header img { width: 3rem; height: 3rem }
h1 { font-size: 1.9rem; line-height: 1.1; margin: 0 }
h1 small { font-size: 1rem; font-weight: 400; color: var(--muted) }
h2 { font-size: 1.05rem; margin: 0 }
p { margin: .25rem 0 }
.muted { color: var(--muted) }
a { color: var(--accent) }
nav ul { display: grid; grid-template-columns: repeat(auto-fit, minmax(14rem, 1fr)); gap: .75rem; list-style: none; padding: 0; margin: 1.5rem 0 }
nav a { display: block; height: 100%; padding: .75rem 1rem; border: 1px solid var(--border); border-radius: 8px; text-decoration: none; color: var(--text) }
nav a:hover, nav a:focus-visible { border-color: var(--accent) }
nav b { color: var(--accent); display: block }
section { margin-top: 1.5rem }
pre { background: var(--raised); border: 1px solid var(--border); border-radius: 8px; padding: .75rem 1rem; margin: .5rem 0 0; overflow-x: auto; font: 14px/1.5 ui-monospace, monospace }
.top { display: flex; justify-content: space-between; align-items: end; gap: 1rem }
button { font: inherit; font-size: .9rem; color: var(--text); background: var(--background); border: 1px solid var(--border); border-radius: 6px; padding: .2rem .6rem; cursor: pointer }
button:hover { border-color: var(--accent) }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
code { font: 14px ui-monospace, monospace }
`;

/** Puts the address at which the page was opened into the commands, and adds the buttons that copy them. */
const script = `
for (const code of document.querySelectorAll('code')) {
  code.textContent = code.textContent.replaceAll('${localService}', location.origin);
}
for (const section of document.querySelectorAll('section')) {
  const code = section.querySelector('code');
  const button = document.createElement('button');
  const name = section.querySelector('h2').textContent;
  const label = (text) => { button.textContent = text; button.setAttribute('aria-label', text + ': ' + name); };
  label('Copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      label('Copied');
      setTimeout(() => label('Copy'), 2000);
    } catch {
      getSelection().selectAllChildren(code); // over http, a page of another machine has no clipboard
    }
  });
  section.querySelector('.top').append(button);
}
`;

const scriptHash = createHash('sha256').update(script).digest('base64');

/** Nothing but what is in the page itself. */
export const welcomePolicy = [
  "default-src 'none'",
  "style-src 'unsafe-inline'",
  `script-src 'sha256-${scriptHash}'`,
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Two speech bubbles, the icon of all pages. */
export const favicon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="#7cc0ff" d="M12 3h14a4 4 0 0 1 4 4v9a4 4 0 0 1-4 4v5l-5-5h-9a4 4 0 0 1-4-4V7a4 4 0 0 1 4-4z"/><path fill="#0b5cad" d="M6 10h12a4 4 0 0 1 4 4v7a4 4 0 0 1-4 4h-7l-5 5v-5a4 4 0 0 1-4-4v-7a4 4 0 0 1 4-4z"/></svg>`;

const links: readonly [path: string, name: string, about: string][] = [
  ['/console', 'Console', 'Sign in, and watch an account: inbox, events, webhooks, figures'],
  ['/docs', 'Reference', 'Every operation of REST, to be read and tried'],
  ['/graphql', 'GraphQL', 'Write and run operations, and see the schema'],
  ['/openapi.json', 'openapi.json', 'The same for programs: OpenAPI 3.1'],
];

const section = ({ name, about, command }: FirstCall): string => `<section>
<div class="top"><div><h2>${name}</h2><p class="muted">${about}</p></div></div>
<pre tabindex="0" aria-label="${name}: the command"><code>${escaped(command)}</code></pre>
</section>`;

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/**
 * @param version of the service
 * @param publicUrl its address, if it is known; else a script puts in where the page was opened
 * @param base the path of that, without a trailing slash
 */
export const welcomePage = (version: string, publicUrl: string | undefined, base: string): string => {
  const service = publicUrl?.replace(/\/$/, '') ?? localService;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Conversation service</title>
<link rel="icon" href="${base}/favicon.svg" type="image/svg+xml">
<style>${style}</style>
</head>
<body>
<main>
<header><img src="${base}/favicon.svg" alt=""><div><h1>Conversation service <small>${version}</small></h1>
<p class="muted">It is running: conversations, messages and events, over REST and GraphQL.</p></div></header>
<nav aria-label="Pages"><ul>
${links.map(([path, name, about]) => `<li><a href="${base}${path}"><b>${name}</b> ${about}</a></li>`).join('\n')}
</ul></nav>
<p>Every call needs a credential. The first start has printed an API key: <code>export KEY=cs_…</code></p>
${firstCalls(service).map(section).join('\n')}
<section>
<div class="top"><div><h2>Let visitors chat</h2><p class="muted">One element in your page; your server gives it tokens.</p></div></div>
<pre tabindex="0" aria-label="Let visitors chat: the markup"><code>&lt;script type="module" src="${service}/widget.js">&lt;/script>
&lt;conversation-widget token-url="/chat-token">&lt;/conversation-widget></code></pre>
</section>
<p class="muted">Models call the same operations as tools of the Model Context Protocol, at <code>${service}/mcp</code>.</p>
</main>
<script>${script}</script>
</body>
</html>
`;
};
