import { execFile } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { noteIds, withSeenIds } from '../../src/browser/ids.ts';
import { openApiDocument } from '../../src/rest/openapi/document.ts';
import { docsPage } from '../../src/rest/openapi/html.ts';
import { type Call, curlSample, localService, typeScriptSample } from '../../src/rest/openapi/samples.ts';
import { routes } from '../../src/rest/routes.ts';
import { axeFindings } from '../support/axe.ts';
import { type OpenPage, openPage, shows, signInToConsole } from '../support/browser.ts';
import { otherMachine } from '../support/chromium.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { gate } from '../support/wait.ts';

// The page of `/docs`: its samples, and what can be tried on it.

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));

let server: TestServer;
let account: TestAccount;
beforeEach(async () => {
  server = await startTestServer();
  account = await server.account();
});
afterEach(() => server.close());

const document = openApiDocument(routes);
const calls = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]): Call => ({ method: method.toUpperCase(), path, operation })),
);
const nameOf = ({ operation }: Call): string => operation.operationId;

describe('the samples', () => {
  test('each operation has one in curl and one in TypeScript', () => {
    const page = docsPage(document);
    expect(calls.length).toBe(routes.length);
    for (const call of calls) {
      const section = page.slice(page.indexOf(`id="${nameOf(call)}"`));
      const samples = [
        ...section.slice(0, section.indexOf('</section>')).matchAll(/<code>((?:curl|import) [^<]+)<\/code>/g),
      ];
      expect([nameOf(call), samples.length]).toEqual([nameOf(call), 2]);
    }
  });

  longTest(
    'those in curl run as they are, once their ids are real, and are answered',
    { timeout: 60_000 },
    async () => {
      // What others need comes first, and what ends the credential last.
      const stages = [/^create(Conversation|Webhook)$/, /^(?!delete|revoke|stream)/, /^delete/, /^revoke/];
      const ordered = stages.flatMap((names, stage) =>
        calls.filter(
          (call) => names.test(nameOf(call)) && !stages.slice(0, stage).some((each) => each.test(nameOf(call))),
        ),
      );
      expect(ordered.length).toBe(calls.length - 1); // a stream does not end
      const refused: string[] = [];
      for (const call of ordered) {
        const command = withSeenIds(curlSample(call, document)).replaceAll(localService, server.url);
        const env = { PATH: process.env['PATH'], KEY: account.secret };
        const { stdout } = await run('bash', ['-c', `${command} --silent --write-out '%{http_code}'`], { env });
        noteIds(stdout);
        if (!/2\d\d$/.test(stdout)) refused.push(`${nameOf(call)}: ${stdout}`);
      }
      expect(refused).toEqual([]);
    },
  );

  longTest('those in TypeScript are programs without a mistake, and run', { timeout: 120_000 }, async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(root, join(folder, 'node_modules/conversation-service'));
    symlinkSync(join(root, 'node_modules/@types'), join(folder, 'node_modules/@types'));
    for (const call of calls) {
      const program = typeScriptSample(call, document).replaceAll(localService, server.url);
      writeFileSync(join(folder, `${nameOf(call)}.mts`), program);
    }
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    await run(process.execPath, [tsc, '-p', 'tsconfig.client.json'], { cwd: root });
    const compilerOptions = {
      strict: true,
      target: 'es2023',
      module: 'nodenext',
      types: ['node'],
      noEmit: true,
      skipLibCheck: true,
    };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.mts'] }));
    await run(process.execPath, [tsc, '-p', folder]).catch(({ stdout }) => expect(stdout).toBe(''));

    const env = { ...process.env, KEY: account.secret };
    for (const name of ['createConversation', 'listConversations', 'search', 'getAccount', 'createWebhook']) {
      const { stdout } = await run(process.execPath, [join(folder, `${name}.mts`)], { env });
      expect(stdout).toMatch(/^\{/);
    }
  });
});

/** Opens the page in a browser. */
async function open(context: Parameters<typeof openPage>[0]): Promise<OpenPage> {
  const opened = await openPage(context, [server.url]);
  await opened.page.goto(`${server.url}/docs`);
  return opened;
}

async function giveCredential(page: Page, credential = account.secret): Promise<void> {
  await page.getByLabel('API key or token').fill(credential);
  await page.getByRole('button', { name: 'Use it' }).click();
}

describe('in a browser', () => {
  longTest('an operation is tried, and what it has made is filled in for the next', async (context) => {
    const { page, errors, foreign } = await open(context);
    await giveCredential(page);
    const create = page.locator('#createConversation');
    await create.getByRole('button', { name: 'Try it' }).click();
    await create.getByText('Optional parameters and headers').click();
    await create.getByLabel('Idempotency-Key').fill('tried-once');
    await create.getByRole('button', { name: 'Send' }).click();
    await create.getByText('201 Created').waitFor();
    const answer = create.getByLabel('Answer');
    for (const name of ['x-request-id', 'x-ratelimit-remaining', 'etag', 'location']) {
      await answer.getByText(name, { exact: true }).waitFor();
    }
    const { id } = JSON.parse((await answer.locator('pre').textContent()) ?? '');
    expect((await account.rest('GET', `/conversations/${id}`)).body.subject).toBe('Parcel 1042');

    await create.getByRole('button', { name: 'Send' }).click();
    await answer.getByText('idempotent-replayed').waitFor();

    const get = page.locator('#getConversation');
    await get.getByRole('button', { name: 'Try it' }).click();
    expect(await get.getByLabel('id path').inputValue()).toBe(id);
    await get.getByRole('button', { name: 'Send' }).click();
    await get.getByText('200 OK').waitFor();
    expect([errors, foreign]).toEqual([[], []]);
  });

  longTest.for([
    ['getConversation', 'INPUT'],
    ['listConversations', 'SUMMARY'], // of its parameters, none of which is required
    ['createToken', 'TEXTAREA'],
    ['getAccount', 'BUTTON'],
  ])('the keyboard goes on in the form of %s, at its first %s', async ([name, element], context) => {
    const { page } = await open(context);
    await page.getByRole('button', { name: `Try it: ${name}`, exact: true }).press('Enter');
    const focused = `document.activeElement.closest('#${name} form') && document.activeElement.tagName`;
    await shows(() => page.evaluate(focused), element);
  });

  longTest('a form that could not be made is told, and made with another try', async (context) => {
    const { page } = await open(context);
    await page.route('**/openapi.json', (route) => route.fulfill({ status: 503, body: '{ "code": "UNAVAILABLE" }' }));
    const section = page.locator('#getAccount');
    await section.getByRole('button', { name: 'Try it' }).click();
    const again = section.getByText('The service cannot be reached: try again');
    await again.waitFor();
    await page.unroute('**/openapi.json');
    await again.click();
    await section.getByRole('button', { name: 'Send' }).waitFor();
  });

  longTest('nothing is sent without a credential, and a wrong one is told', async (context) => {
    const { page, errors } = await open(context);
    const section = page.locator('#getAccount');
    await section.getByRole('button', { name: 'Try it' }).click();
    await section.getByRole('button', { name: 'Send' }).click();
    await section.getByRole('alert').getByText('Give an API key or a token first.').waitFor();
    expect(errors).toEqual([]);
    await giveCredential(page, 'cs_wrong');
    await section.getByRole('button', { name: 'Send' }).click();
    await section.getByText('401 Unauthorized').waitFor();
    await section.getByText('UNAUTHENTICATED').first().waitFor();
    expect(errors.every((error) => error.includes('401'))).toBe(true); // the browser itself says so
  });

  longTest('an answer is shown whole, however long it is', async (context) => {
    const { id } = (await account.rest('POST', '/conversations', { body: {} })).body;
    const body = { sender: 'visitor', content: 'x'.repeat(16_384) };
    for (let sent = 0; sent < 10; sent++) await account.rest('POST', `/conversations/${id}/messages`, { body });
    const { page } = await open(context);
    await giveCredential(page);
    const section = page.locator('#listMessages');
    await section.getByRole('button', { name: 'Try it' }).click();
    await section.getByLabel('conversationId path').fill(id);
    await section.getByRole('button', { name: 'Send' }).click();
    const answer = section.getByLabel('Answer').locator('pre');
    await answer.waitFor();
    const shown = (await answer.textContent()) ?? '';
    expect(JSON.parse(shown).data.map(({ content }: { content: string }) => content.length)).toEqual(
      Array(10).fill(16_384),
    );
  });

  longTest('events are shown as they arrive, until they are stopped', async (context) => {
    const { page, errors, foreign } = await open(context);
    await giveCredential(page);
    const section = page.locator('#streamEvents');
    await section.getByRole('button', { name: 'Try it' }).click();
    await section.getByRole('button', { name: 'Send' }).click();
    await section.getByText('200 OK').waitFor();
    await account.rest('POST', '/conversations', { body: { subject: 'Heard live' } });
    await section.getByText('Heard live').waitFor();
    await section.getByRole('button', { name: 'Stop' }).click();
    await section.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
    await section.getByText('Heard live').waitFor();
    expect([errors, foreign]).toEqual([[], []]);
  });

  longTest('who has signed in to the console need not give a credential', async (context) => {
    const { page, errors } = await open(context);
    await signInToConsole(page, server.url, account.secret);
    await page.goto(`${server.url}/docs`);
    await page.getByText('You are signed in to the console.').waitFor();
    const section = page.locator('#getAccount');
    await section.getByRole('button', { name: 'Try it' }).click();
    await section.getByRole('button', { name: 'Send' }).click();
    await section.getByText('200 OK').waitFor();
    expect(errors).toEqual([]);
  });

  longTest('the first call comes with a token that is valid, however long the page has been open', async (context) => {
    const { page, errors } = await open(context);
    await page.clock.install({ time: server.clock.nowMs });
    await signInToConsole(page, server.url, account.secret);
    await page.goto(`${server.url}/docs`);
    await page.getByText('You are signed in to the console.').waitFor();
    await page.clock.fastForward(16 * 60_000);
    const renewed = page.waitForRequest('**/console/session/token');
    const section = page.locator('#getAccount');
    await section.getByRole('button', { name: 'Try it' }).click();
    await section.getByRole('button', { name: 'Send' }).click();
    await renewed;
    await section.getByText('200 OK').waitFor();
    expect(errors).toEqual([]);
  });

  longTest('what is tried is sent once, also by a double click while its credential is renewed', async (context) => {
    const { page } = await open(context);
    await page.clock.install({ time: server.clock.nowMs });
    await signInToConsole(page, server.url, account.secret);
    await page.goto(`${server.url}/docs`);
    await page.getByText('You are signed in to the console.').waitFor();
    const section = page.locator('#createConversation');
    await section.getByRole('button', { name: 'Try it' }).click();
    await page.clock.fastForward(16 * 60_000);
    const renewing = gate();
    await page.route('**/console/session/token', async (route) => {
      await renewing.opened;
      await route.continue();
    });
    await section.getByRole('button', { name: 'Send' }).dblclick();
    renewing.open();
    await section.getByText('201 Created').waitFor();
    expect((await account.rest('GET', '/conversations')).body.data).toHaveLength(1);
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Send');
  });

  longTest('a credential is forgotten with the page', async (context) => {
    const { page } = await open(context);
    await giveCredential(page);
    await page.getByText('Your credential is in the memory of this page alone.').waitFor();
    const kept = await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])');
    expect(kept).toBe('[{},{},""]');
    await page.reload();
    await page.getByLabel('API key or token').waitFor();
  });

  longTest('operations are found by words, and a sample is copied with the address of the service', async (context) => {
    const { page, errors } = await open(context);
    await page.getByLabel('Find an operation').fill('rotate-secret');
    await page.getByText('1 found').waitFor();
    expect(await page.locator('nav li:visible').allTextContents()).toEqual(['rotateWebhookSecret POST']);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Copy: curl sample of getAccount' }).click();
    await page.getByRole('button', { name: 'Copied: curl sample of getAccount' }).waitFor();
    const copied = String(await page.evaluate('navigator.clipboard.readText()'));
    expect(copied).toContain(`curl '${server.url}/v1/account'`);
    expect(errors).toEqual([]);
  });

  longTest('where a page may not write to the clipboard, the sample is selected', async (context) => {
    const origin = `http://${otherMachine}:${new URL(server.url).port}`;
    const { page, errors } = await openPage(context, [origin]);
    await page.goto(`${origin}/docs`);
    await page.getByRole('button', { name: 'Copy: curl sample of getAccount' }).click();
    const isSelected = async () =>
      String(await page.evaluate('String(getSelection())')).startsWith(`curl '${origin}/v1/account'`);
    await shows(isSelected, true);
    expect(errors).toEqual([]);
  });

  longTest('axe finds nothing, light and dark, on a phone and on a desk', { timeout: 120_000 }, async (context) => {
    const { page } = await open(context);
    await giveCredential(page);
    const section = page.locator('#createConversation');
    await section.getByRole('button', { name: 'Try it' }).click();
    await section.getByText('Optional parameters and headers').click();
    await section.getByRole('button', { name: 'Send' }).click();
    await section.getByText('201 Created').waitFor();
    for (const width of [320, 1_440]) {
      await page.setViewportSize({ width, height: 900 });
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        expect(await axeFindings(page)).toEqual([]);
      }
      expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0);
    }
  });
});
