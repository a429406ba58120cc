import { build } from 'esbuild';
import { expect } from 'vitest';
import { openPage } from '../support/browser.ts';
import { otherMachine } from '../support/chromium.ts';
import { longTest as test } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { codeUnder } from '../support/guide.ts';
import { startTestServer } from '../support/server.ts';
import { type Answers, startSite } from '../support/site.ts';
import { until } from '../support/wait.ts';
import { followThroughKills, tokenFrom } from './kills.ts';
import { seen } from './tour.ts';

// The client as it is published, in a page of another origin than the service.

/** A page with the client in modules, as a bundler makes them of the package. */
async function pages(): Promise<Answers> {
  const { outputFiles } = await build({
    stdin: {
      contents: `
        import * as own from 'conversation-service/client';
        import { follow, tour } from './tour.ts';
        globalThis.tour = (access) => tour(own, access);
        globalThis.follow = (following) => void follow(own, following, (id) => globalThis.heard(id));`,
      resolveDir: import.meta.dirname,
    },
    bundle: true,
    splitting: true,
    minify: true,
    format: 'esm',
    outdir: '/',
    entryNames: 'page',
    write: false,
  });
  const html = '<!doctype html><link rel="icon" href="data:,"><script type="module" src="/page.js"></script>';
  return {
    '/': { type: 'text/html', body: html },
    ...Object.fromEntries(outputFiles.map(({ path, contents }) => [path, { type: 'text/javascript', body: contents }])),
  };
}

/** A call in a page, of what is global there. */
const calling = (name: string, argument: unknown): string => `${name}(${JSON.stringify(argument)})`;

test.for([
  ['a page', '127.0.0.1'],
  ['a page of another machine without TLS', otherMachine],
] as const)('%s does the same as a program', async ([, host], context) => {
  let url = '';
  let secret = '';
  const site = await startSite({ ...(await pages()), '/agent-token': () => tokenFrom(url, secret) });
  const origin = site.origin.replace('127.0.0.1', host);
  const server = await startTestServer({ config: { corsOrigins: [origin] } });
  context.onTestFinished(() => server.close());
  url = server.url;
  secret = (await server.account()).secret;
  const { page, errors, foreign } = await openPage(context, [origin, url]);
  await page.goto(origin);
  expect(await page.evaluate(calling('tour', { url, tokenUrl: '/agent-token' }))).toEqual(seen);
  // Its console shows what is refused, and nothing else.
  const statuses = errors.map((error) => /status of (\d+)/.exec(error)?.[1] ?? error);
  expect(statuses).toEqual(['400', '404', '412', '400']);
  expect(foreign).toEqual([]);
});

/** What Chromium says of a server that does not answer or stops to. */
const unreachable = /net::ERR_(CONNECTION_(REFUSED|RESET|CLOSED)|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE)/;

test.for([['stream'], ['socket']] as const)(
  'over a %s, a page misses no event and gets none twice when the server is killed and its token revoked',
  async ([over], context) => {
    let opened: Awaited<ReturnType<typeof openPage>> | undefined;
    await followThroughKills({
      over,
      pages: await pages(),
      begin: async (following, site, heard) => {
        opened = await openPage(context, [site, following.url]);
        const { page } = opened;
        await page.exposeFunction('heard', heard);
        await page.goto(site);
        await page.evaluate(calling('follow', following));
      },
    });
    expect(opened?.foreign).toEqual([]);
    // A stream learns from 401 that its token was revoked, a socket from how it is closed.
    const others = opened?.errors.filter((error) => !unreachable.test(error));
    expect(others).toEqual(over === 'stream' ? [expect.stringMatching(/status of 401 .*\/v1\/events\/stream/)] : []);
  },
);

test('the page that the GUIDE makes of fetch alone follows events across a restart, also where streams cannot be looped over', async (context) => {
  const { origin } = await startSite({
    '/': { type: 'text/html', body: '<!doctype html><link rel="icon" href="data:,">' },
  });
  const databasePath = `${temporaryFolder()}/test.db`;
  const corsOrigins = [origin];
  const server = await startTestServer({ databasePath, config: { corsOrigins } });
  const account = await server.account();
  const { id } = (await account.rest('POST', '/conversations')).body;
  const { eventCursor } = (await account.rest('GET', '/account')).body;
  const { token } = (await account.rest('POST', '/tokens', { body: { scopes: ['events:read'] } })).body;
  const write = (content: string, { rest } = account as Pick<typeof account, 'rest'>) =>
    rest('POST', `/conversations/${id}/messages`, { body: { sender: 'visitor', content } });
  const { page } = await openPage(context, [origin, server.url]);
  const heard: string[] = [];
  await page.exposeFunction('heard', (content: string) => heard.push(content));
  await page.goto(origin);
  await page.evaluate(`void (async () => {
    delete ReadableStream.prototype[Symbol.asyncIterator];
    const authorization = async () => 'Bearer ${token}';
    ${codeUnder('Event streams with fetch alone').replaceAll('http://127.0.0.1:4000', server.url)}
    for await (const { data } of follow('${eventCursor}')) heard(data.message.content);
  })().catch((error) => heard(String(error)))`);
  await write('One');
  await until(() => heard.length === 1);
  await server.close();
  const port = Number(new URL(server.url).port);
  const again = await startTestServer({ databasePath, clock: server.clock, config: { corsOrigins, port } });
  context.onTestFinished(() => again.close());
  await write('Two', again.clientFor(account.secret));
  await until(() => heard.length === 2);
  expect(heard).toEqual(['One', 'Two']);
});
