/** A constructed sheet needs no `unsafe-inline` in the policy of the page. */
export function styles(): CSSStyleSheet {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  return sheet;
}

const css = `
:host {
  all: initial;
  --accent: var(--conversation-widget-accent, #0b5cad);
  --on-accent: var(--conversation-widget-on-accent, #fff);
  --background: var(--conversation-widget-background, #fff);
  --text: var(--conversation-widget-text, #1c2733);
  --muted: var(--conversation-widget-muted, #52606d);
  --bubble: var(--conversation-widget-bubble, #eef2f6);
  --border: var(--conversation-widget-border, #cbd5df);
  --error: var(--conversation-widget-error, #b3261e);
  color-scheme: light dark;
  font: 15px/1.45 var(--conversation-widget-font, system-ui, sans-serif);
  color: var(--text);
  position: fixed;
  inset: auto 1rem 1rem auto;
  z-index: var(--conversation-widget-layer, 2147483000);
}
@media (prefers-color-scheme: dark) {
  :host {
    --accent: var(--conversation-widget-accent, #7cc0ff);
    --on-accent: var(--conversation-widget-on-accent, #0b1620);
    --background: var(--conversation-widget-background, #161d24);
    --text: var(--conversation-widget-text, #e3eaf1);
    --muted: var(--conversation-widget-muted, #a9b6c2);
    --bubble: var(--conversation-widget-bubble, #28333d);
    --border: var(--conversation-widget-border, #45525e);
    --error: var(--conversation-widget-error, #ffb4ab);
  }
}
:host([hidden]), [hidden] { display: none !important }
* { box-sizing: border-box }
button, textarea { font: inherit; color: inherit; letter-spacing: inherit }
button { cursor: pointer; border: 0; border-radius: 8px; background: none; padding: .4rem .6rem }
button:disabled { cursor: default; opacity: .6 }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
svg { display: block; width: 24px; height: 24px; fill: none; stroke: currentcolor; stroke-width: 2; stroke-linecap: round; stroke-linejoin: round }
ol, ul { list-style: none; margin: 0; padding: 0 }
p { margin: 0 }
.name { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap }
.launcher { display: block; margin-left: auto; padding: 1rem; border-radius: 50%; background: var(--accent); color: var(--on-accent); box-shadow: 0 2px 10px #0004 }
.badge { position: absolute; right: -4px; bottom: 40px; min-width: 1.5em; padding: 0 .4em; border-radius: 1em; background: #b3261e; color: #fff; font-size: 13px; line-height: 1.5; text-align: center; pointer-events: none }
.badge:empty { visibility: hidden }
.panel { display: flex; flex-direction: column; width: 23rem; max-width: calc(100vw - 2rem); height: 34rem; max-height: calc(100vh - 6.5rem); margin-bottom: .75rem; border: 1px solid var(--border); border-radius: 12px; overflow: hidden; background: var(--background); color: var(--text); box-shadow: 0 6px 28px #0004 }
.header { display: flex; align-items: center; gap: .25rem; padding: .4rem .5rem; border-bottom: 1px solid var(--border) }
.title { flex: 1; padding-inline-start: .4rem; font-weight: 600 }
.log, .list { flex: 1; overflow-y: auto; overflow-anchor: none; overscroll-behavior: contain; padding: .75rem }
.older { display: block; margin: 0 auto .75rem; color: var(--accent) }
.message { display: flex; flex-direction: column; align-items: flex-start; margin-bottom: .6rem }
.message.visitor { align-items: flex-end }
.text { max-width: 85%; padding: .45rem .75rem; border-radius: 12px; background: var(--bubble); white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext }
.visitor .text { background: var(--accent); color: var(--on-accent) }
.meta { font-size: 12px; color: var(--muted); padding: 0 .3rem; overflow-wrap: anywhere }
time { unicode-bidi: plaintext }
.failed { color: var(--error) }
.failed button { padding: .1rem .4rem; text-decoration: underline }
.conversation { display: flex; width: 100%; gap: .5rem; justify-content: space-between; text-align: start; padding: .6rem }
.conversation[aria-current] { background: var(--bubble) }
.conversation .subject { flex: 1; min-width: 0; overflow: hidden; white-space: nowrap; text-overflow: ellipsis }
.count { min-width: 1.5em; padding: 0 .4em; border-radius: 1em; background: var(--accent); color: var(--on-accent); font-size: 13px; text-align: center }
.notice { padding: .3rem .9rem; font-size: 13px; color: var(--muted) }
.notice:empty { padding: 0 }
.retry { color: var(--accent); align-self: flex-start; margin: 0 .5rem .3rem }
.form { display: flex; align-items: flex-end; gap: .4rem; padding: .6rem; border-top: 1px solid var(--border) }
textarea { flex: 1; min-width: 0; max-height: 8rem; padding: .45rem .6rem; border: 1px solid var(--muted); border-radius: 8px; background: var(--background); font-size: 16px; resize: none; field-sizing: content; unicode-bidi: plaintext }
textarea::placeholder { color: var(--muted); opacity: 1 }
.send, .begin { background: var(--accent); color: var(--on-accent) }
.begin { margin-bottom: .5rem }
@media print { :host { display: none } }
@media (max-width: 30rem) {
  .panel { position: fixed; inset: 0; z-index: 1; width: auto; max-width: none; height: auto; max-height: none; margin: 0; border: 0; border-radius: 0 }
  .panel:not([hidden]) ~ .launcher { visibility: hidden }
}
`;
