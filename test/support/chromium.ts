import type { Browser } from 'playwright-core';

/** Where Debian's package puts the browser. */
export const executablePath = '/usr/bin/chromium';

/** A name of this machine that is none to the browser: pages of it are as those of another machine, without TLS. */
export const otherMachine = 'machine.example';

/** Starts the browser, which asks nobody for anything by itself. */
export async function launchBrowser(): Promise<Browser> {
  const { chromium } = await import('playwright-core'); // takes long to load
  return await chromium.launch({
    executablePath,
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-background-networking',
      `--host-resolver-rules=MAP ${otherMachine} 127.0.0.1`,
    ],
  });
}
