import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { onTestFinished } from 'vitest';
import { codeUnder, runGuide } from '../support/guide.ts';
import { type Answer, type Answers, startSite } from '../support/site.ts';
import { gate } from '../support/wait.ts';

// The site of the GUIDE, whose pages have the widget, and what a visitor does in one of them.

const heading = 'The ready-made widget';
const example = 'http://127.0.0.1:4000';

export interface Site {
  readonly origin: string;
  /** How many tokens its pages have asked for. */
  tokens(): number;
  /** Where the service is, and the key that the site makes tokens with. */
  connect(url: string, secret: string): Promise<void>;
  /** Who the site takes its visitor for, if it knows. */
  serve(visitor: { readonly id: string; readonly name: string } | undefined): void;
  /** Lets its tokens wait. @returns what gives them out */
  hold(): () => void;
}

export interface SiteOptions {
  /** Attributes of the widget, beside those that the GUIDE shows. */
  readonly attributes?: string;
  /** What is in the element. */
  readonly content?: string;
  /** Whether the site has the script from itself, and not from the service. */
  readonly hasScript?: boolean;
}

/** Starts it. Its page has a strict policy: nothing inline, and nothing that could run a text. */
export async function startWidgetSite({ attributes, content = '', hasScript }: SiteOptions = {}): Promise<Site> {
  let service = '';
  let endpoint = '';
  let tokens = 0;
  let visitor: { readonly id: string; readonly name: string } | undefined = { id: 'customer-7', name: 'Ada' };
  let waiting = Promise.resolve();
  const html = (): Answer => {
    const policy = [
      "default-src 'none'",
      `script-src ${hasScript ? "'self'" : service}`,
      `connect-src 'self' ${service}`,
      'img-src data:',
      "require-trusted-types-for 'script'",
    ].join('; ');
    const shown = codeUnder(heading, 'html').replace(example, hasScript ? '' : service);
    const given = [attributes, hasScript && `service="${service}/"`].filter(Boolean).join(' ');
    const widget = shown.replace(' token-url', ` ${given} token-url`).replace('></conv', `>${content}</conv`);
    const body = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Shop</title><link rel="icon" href="data:,">
      <meta http-equiv="Content-Security-Policy" content="${policy}"></head>
      <body><main><h1>Shop</h1></main>${widget}</body></html>`;
    return { type: 'text/html', body };
  };
  const answers: Answers = {
    '/': async () => html(),
    '/widget.js': async () => ({ type: 'text/javascript', body: await (await fetch(`${service}/widget.js`)).text() }),
    '/chat-token': async () => {
      tokens++;
      await waiting;
      const response = await fetch(`${endpoint}/chat-token`, { method: 'POST' });
      return { status: response.status, type: 'application/json', body: await response.text() };
    },
  };
  const { origin } = await startSite(answers);
  return {
    origin,
    tokens: () => tokens,
    serve: (next) => {
      visitor = next;
    },
    hold: () => {
      const { opened, open } = gate();
      waiting = opened;
      return open;
    },
    async connect(url, secret) {
      service = url;
      const globals = { process: { env: { CHAT_KEY: secret } }, visitorOf: () => visitor };
      const edit = (code: string) => code.replace(example, url).replace('listen(3000)', "listen(0, '127.0.0.1')");
      const server = await runGuide<Server>(heading, 'server', { 'node:http': { createServer } }, globals, edit);
      if (!server.listening) await once(server, 'listening');
      onTestFinished(() => {
        server.close();
        server.closeAllConnections();
      });
      endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    },
  };
}

/** A tab of the visitor's browser. */
export function visitorIn(page: Page) {
  const widget = page.locator('conversation-widget');
  const launcher = widget.locator('[part=launcher]');
  const field = widget.getByRole('textbox', { name: 'Your message' });
  const list = widget.getByRole('button', { name: 'Conversations', exact: true });
  return {
    page,
    widget,
    launcher,
    field,
    /** The button of the list of conversations. */
    list,
    panel: widget.getByRole('dialog', { name: 'Chat' }),
    /** What it says of itself, below the messages. */
    notice: async (): Promise<string> => (await widget.locator('[part=notice]').textContent()) ?? '',
    /** The texts in the log, in their order. */
    texts: async (): Promise<string[]> => {
      const texts = await widget.locator('[part=text]').allTextContents();
      return texts.map((text) => text.replace(/^[^:]*: /, ''));
    },
    /** Whether all that was written is confirmed. */
    isSent: async (): Promise<boolean> => (await widget.locator('li:not([data-state=sent])').count()) === 0,
    unread: async (): Promise<string> => (await widget.locator('[part=badge]').textContent()) ?? '',
    /** Opens the conversation with this subject. */
    openFromList: async (subject: string): Promise<void> => {
      if ((await list.getAttribute('aria-expanded')) === 'false') await list.click();
      await widget.locator('[part=conversation]', { hasText: subject }).click();
    },
    write: async (text: string): Promise<void> => {
      await field.fill(text);
      await field.press('Enter');
    },
  };
}
