import { readFileSync } from 'node:fs';
import { buildSchema, getOperationAST, getVariableValues, parse, validate } from 'graphql';
import type { Page } from 'playwright-core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { noteIds, withSeenIds } from '../../src/browser/ids.ts';
import { examplesOf } from '../../src/explorer/examples.ts';
import { axeFindings } from '../support/axe.ts';
import { type OpenPage, openPage, shows, signInToConsole } from '../support/browser.ts';
import { longTest } from '../support/effort.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { gate } from '../support/wait.ts';

// The page at `/graphql`: its examples, and what a person does with it.

let server: TestServer;
let account: TestAccount;
beforeEach(async () => {
  server = await startTestServer();
  account = await server.account();
});
afterEach(() => server.close());

describe('the examples', () => {
  const schema = buildSchema(readFileSync(new URL('../../schema.graphql', import.meta.url), 'utf8'));
  const examples = examplesOf(schema);

  test('there is a valid one for every operation of the schema, with its variables', () => {
    const fields = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()].flatMap((type) =>
      Object.keys(type?.getFields() ?? {}),
    );
    expect(examples.map(({ name }) => name)).toEqual(fields);
    for (const { name, document, variables } of examples) {
      const parsed = parse(document);
      const { variableDefinitions = [] } = getOperationAST(parsed) ?? {};
      const { errors = [] } = getVariableValues(schema, variableDefinitions, JSON.parse(variables));
      expect([name, ...validate(schema, parsed), ...errors]).toEqual([name]);
    }
  });

  test('they run as they are, once their ids are real', async () => {
    const conversation = await account.rest('POST', '/conversations', {
      body: { message: { content: 'Hi', sender: 'visitor' } },
    });
    noteIds(JSON.stringify(conversation.body));
    // What others need comes first, and what ends the credential last.
    const stages = [/^(create|capture|test)/, /^(?!delete|revoke)/, /^delete/, /^revoke/];
    const ordered = stages.flatMap((names, stage) =>
      examples.filter(({ name }) => names.test(name) && !stages.slice(0, stage).some((each) => each.test(name))),
    );
    const refused: string[] = [];
    for (const { kind, name, document, variables } of ordered) {
      if (kind === 'subscription') continue;
      const { data, errors } = await account.graphql(document, JSON.parse(withSeenIds(variables)));
      noteIds(JSON.stringify({ data }));
      if (errors) refused.push(`${name}: ${JSON.stringify(errors)}`);
    }
    expect(refused).toEqual([]);
  });
});

/** Opens the page in a browser. */
async function open(context: Parameters<typeof openPage>[0], width = 1_440): Promise<OpenPage> {
  const opened = await openPage(context, [server.url]);
  await opened.page.setViewportSize({ width, height: 844 });
  await opened.page.goto(`${server.url}/graphql`);
  return opened;
}

async function giveCredential(page: Page, credential = account.secret): Promise<void> {
  await page.getByLabel('API key or token').fill(credential);
  await page.getByRole('button', { name: 'Use it' }).click();
}

const answerOf = (page: Page) => page.getByRole('region', { name: 'Answer' });

describe('in a browser', () => {
  longTest.for([390, 1_440])('a query is run, at %i px', async (width, context) => {
    await account.rest('POST', '/conversations', { body: { subject: 'Parcel 1042' } });
    const { page, errors, foreign } = await open(context, width);
    await giveCredential(page);
    await page.getByLabel('Example').selectOption('query conversations');
    await page.getByRole('button', { name: 'Run' }).click();
    await answerOf(page).getByText('"Parcel 1042"').waitFor();
    await answerOf(page)
      .getByText(/^200 · \d+ ms · .* requests left$/)
      .waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0);
    expect([errors, foreign]).toEqual([[], []]);
  });

  longTest('nothing is asked of the service before there is a credential', async (context) => {
    const { page } = await open(context);
    const asked: string[] = [];
    page.on('request', (request) => asked.push(`${request.method()} ${new URL(request.url()).pathname}`));
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('alert').getByText('Give an API key or a token first.').waitFor();
    expect(await page.getByLabel('Example').isDisabled()).toBe(true);
    expect(asked.filter((each) => each !== 'GET /favicon.svg')).toEqual([]);
  });

  longTest('a subscription shows what happens, with the same credential, until it is stopped', async (context) => {
    const { page, errors, foreign } = await open(context);
    await giveCredential(page);
    await page.getByLabel('Example').selectOption('subscription conversationStarted');
    // Waited for from the opening on: it may come before the click is over.
    const acknowledged = page.waitForEvent('websocket').then((socket) => socket.waitForEvent('framereceived'));
    await page.getByRole('button', { name: 'Run' }).click();
    await acknowledged;
    const live = answerOf(page).getByText('"Heard live"');
    while (!(await live.first().isVisible())) {
      await account.rest('POST', '/conversations', { body: { subject: 'Heard live' } });
    }
    await page.getByRole('button', { name: 'Stop' }).click();
    await answerOf(page)
      .getByText(/^Ended after \d+ events?\.$/)
      .waitFor();
    await page.getByRole('button', { name: 'Run' }).waitFor();
    expect([errors, foreign]).toEqual([[], []]);
  });

  longTest('of a subscription the latest hundred events are shown, and all are counted', async (context) => {
    const { body } = await account.rest('GET', '/account');
    for (let each = 0; each < 101; each++) await account.rest('POST', '/conversations');
    const { page } = await open(context);
    await giveCredential(page);
    const query = page.getByRole('textbox', { name: 'Query' });
    await query.press('ControlOrMeta+a');
    await query.pressSequentially(`subscription { events(after: "${body.eventCursor}") { id `, { delay: 0 });
    await page.getByRole('button', { name: 'Run' }).click();
    const says = answerOf(page).getByRole('status');
    await shows(() => says.textContent(), 'Listening: the last 100 of 101 events, the newest first');
    await page.getByRole('button', { name: 'Stop' }).click();
    await shows(() => says.textContent(), 'Ended after 101 events.');
  });

  longTest('the answer to what was run last is shown, not the end of what ran before', async (context) => {
    const { page } = await open(context);
    await giveCredential(page);
    await page.getByLabel('Example').selectOption('subscription conversationStarted');
    const [socket] = await Promise.all([
      page.waitForEvent('websocket'),
      page.getByRole('button', { name: 'Run' }).click(),
    ]);
    await answerOf(page).getByText('Listening.').waitFor();
    await page.getByLabel('Example').selectOption('query account');
    const answering = gate();
    await page.route(`${server.url}/graphql`, async (route) => {
      await answering.opened;
      await route.continue();
    });
    const ended = socket.waitForEvent('close');
    await page.getByRole('textbox', { name: 'Query' }).press('ControlOrMeta+Enter');
    await ended;
    await shows(() => answerOf(page).getByRole('status').textContent(), 'Waiting …');
    answering.open();
    await answerOf(page).getByText(/^200/).waitFor();
  });

  longTest('a query is run where the browser keeps nothing for pages', async (context) => {
    const { page, errors } = await open(context);
    const refuse = `{ get() { throw new DOMException('Access is denied for this document.', 'SecurityError') } }`;
    await page.addInitScript(`for (const name of ['localStorage', 'sessionStorage'])
      Object.defineProperty(window, name, ${refuse})`);
    await page.reload();
    await giveCredential(page);
    await page.getByLabel('Example').selectOption('query account');
    await page.getByRole('button', { name: 'Run' }).click();
    await answerOf(page).getByText(/^200/).waitFor();
    expect(errors).toEqual([]);
  });

  longTest('a wrong credential is told, for the schema, a query and a subscription', async (context) => {
    const { page } = await open(context);
    await giveCredential(page, 'cs_wrong');
    await page.getByRole('alert').getByText('The credential is unknown, expired or revoked.').waitFor();
    await page.getByRole('button', { name: 'Run' }).click();
    await answerOf(page).getByText('UNAUTHENTICATED').waitFor();
    const query = page.getByRole('textbox', { name: 'Query' });
    await query.press('ControlOrMeta+a');
    await query.pressSequentially('subscription { events { id ', { delay: 0 });
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('alert').getByText('(4403)').waitFor();
  });

  longTest('why the schema could not be read is told in words', async (context) => {
    const { page } = await open(context, 390);
    const alert = page.getByRole('alert');
    await page.route('**/graphql', (route) => route.fulfill({ status: 502, body: '<h1>Bad Gateway</h1>' }));
    await giveCredential(page);
    await alert.getByText(/^The schema could not be read: 502 /).waitFor();
    await page.unroute('**/graphql');
    await page.route('**/graphql', (route) => route.abort());
    await page.getByRole('button', { name: 'Forget it' }).click();
    await giveCredential(page);
    await alert.getByText('The service cannot be reached.').waitFor();
    await page.unroute('**/graphql');
    await page.getByRole('button', { name: 'Forget it' }).click();
    await giveCredential(page);
    await expect.poll(() => page.getByLabel('Example').isEnabled()).toBe(true);
    expect(await alert.count()).toBe(0);
  });

  longTest('what is wrong in a document or its variables is told', async (context) => {
    const { page } = await open(context);
    await giveCredential(page);
    await page.getByLabel('Example').selectOption('query conversation');
    const variables = page.getByRole('textbox', { name: 'Variables' });
    await variables.press('ControlOrMeta+a');
    await variables.pressSequentially('nothing');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('alert').getByText('The variables are no JSON').waitFor();
    await variables.press('ControlOrMeta+a');
    await variables.press('Delete');
    await page.getByRole('button', { name: 'Run' }).click();
    await answerOf(page).getByText('`id` is required.').waitFor();
  });

  longTest('who has signed in to the console need not give a credential', async (context) => {
    const { page, errors } = await open(context);
    await signInToConsole(page, server.url, account.secret);
    await page.goto(`${server.url}/graphql`);
    await page.getByText('You are signed in to the console.').waitFor();
    await page.getByRole('button', { name: 'Run' }).click();
    await answerOf(page).getByText(/^200/).waitFor();
    expect(errors).toEqual([]);
  });

  longTest('a credential that was given is kept when the session of the console answers later', async (context) => {
    const { page } = await open(context);
    await signInToConsole(page, server.url, account.secret);
    const answering = gate();
    await page.route('**/console/session/token', async (route) => {
      await answering.opened;
      await route.continue();
    });
    await page.goto(`${server.url}/graphql`);
    await giveCredential(page);
    const words = page.getByText('Your credential is in the memory of this page alone.');
    await words.waitFor();
    const answered = page.waitForEvent('requestfinished', (request) => request.url().endsWith('/token'));
    answering.open();
    await answered;
    const [request] = await Promise.all([
      page.waitForRequest((each) => each.method() === 'POST'),
      page.getByRole('button', { name: 'Run' }).click(),
    ]);
    expect([request.headers()['authorization'], await words.isVisible()]).toEqual([`Bearer ${account.secret}`, true]);
  });

  longTest('a reload forgets the credential, and the browser keeps nothing of it', async (context) => {
    const { page } = await open(context);
    await giveCredential(page);
    await page.getByLabel('Example').selectOption('mutation createApiKey');
    await page.getByRole('button', { name: 'Run' }).click();
    await answerOf(page).getByText('"secret": "cs_').waitFor();
    const kept = await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])');
    expect(kept).not.toContain('cs_');
    expect(JSON.parse(String(kept))).toEqual([{}, { 'conversation-explorer-document': expect.any(String) }, '']);
    await page.reload();
    await page.getByLabel('API key or token').waitFor();
    expect(await page.getByLabel('Example').isDisabled()).toBe(true);
    await page.getByText('CreateApiKey', { exact: false }).first().waitFor(); // the document is still there
  });

  longTest('the schema is read: a type is found, and opened', async (context) => {
    const { page, errors } = await open(context);
    await giveCredential(page);
    await page.getByRole('button', { name: 'Schema' }).click();
    const schema = page.getByRole('region', { name: 'Schema', exact: true });
    await schema.getByLabel('Find a type or a field').fill('lastmessage');
    await schema.getByRole('button', { name: 'Conversation', exact: true }).click();
    await schema.getByRole('heading', { name: 'Conversation' }).waitFor();
    await schema.getByRole('button', { name: 'Message', exact: true }).first().click();
    const field = schema.getByRole('term').filter({ hasText: 'clientId' });
    await field.getByRole('button', { name: 'String' }).press('Enter');
    const focused = () => page.evaluate(`[document.activeElement.localName, document.activeElement.textContent]`);
    await shows(focused, ['h2', 'String']);
    await schema.getByRole('button', { name: '← Message' }).press('Enter');
    await shows(focused, ['h2', 'Message']);
    expect(
      await schema.getByRole('heading', { name: 'Message' }).evaluate((it) => it.getBoundingClientRect().top),
    ).toBeGreaterThan(0);
    await schema.getByRole('button', { name: '← Conversation' }).click();
    await schema.getByRole('button', { name: '← Operations' }).click();
    await schema.getByRole('heading', { name: 'Mutation' }).waitFor();
    expect(errors).toEqual([]);
  });

  longTest('what is typed is completed from the schema', async (context) => {
    const { page, errors } = await open(context);
    await giveCredential(page);
    await expect.poll(() => page.getByLabel('Example').isEnabled()).toBe(true);
    const query = page.getByRole('textbox', { name: 'Query' });
    await query.press('ControlOrMeta+a');
    await query.pressSequentially('{ acc');
    await page.getByRole('listbox').getByRole('option', { name: 'account' }).waitFor();
    expect(errors).toEqual([]);
  });

  longTest('axe finds nothing, light and dark, on a phone and on a desk', { timeout: 120_000 }, async (context) => {
    const { page } = await open(context);
    await giveCredential(page);
    await page.getByLabel('Example').selectOption('query account');
    await page.getByRole('button', { name: 'Run' }).click();
    await answerOf(page).getByText(/^200/).waitFor();
    await page.getByRole('button', { name: 'Schema' }).click();
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width: 1_440, height: 900 });
      expect(await axeFindings(page)).toEqual([]);
      await page.setViewportSize({ width: 390, height: 844 });
      for (const pane of ['Query', 'Answer', 'Schema']) {
        await page.getByRole('button', { name: pane, exact: true }).click();
        expect(await axeFindings(page)).toEqual([]);
      }
    }
  });
});
