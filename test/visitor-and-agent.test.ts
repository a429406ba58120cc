import { expect } from 'vitest';
import { consoleIn } from './console/agent.ts';
import { openPage, shows } from './support/browser.ts';
import { TestClock } from './support/clock.ts';
import { longTest as test } from './support/effort.ts';
import { startTestServer } from './support/server.ts';
import { eventually } from './support/wait.ts';
import { startWidgetSite, visitorIn } from './widget/visitor.ts';

// A visitor with the widget in one browser, and an agent with the console in another.

test('a visitor and an agent talk until one of them closes, and whose key is revoked no longer takes part', async (context) => {
  const site = await startWidgetSite();
  const clock = new TestClock(new Date().toISOString()); // the pages show the same time
  const server = await startTestServer({ clock, config: { corsOrigins: [site.origin] } });
  context.onTestFinished(() => server.close());
  const account = await server.account();
  await site.connect(server.url, account.secret);
  const key = (await account.rest('POST', '/api-keys', { body: { name: 'Grace' } })).body;

  const atDesk = await openPage(context, [server.url]);
  await atDesk.page.setViewportSize({ width: 1440, height: 900 });
  await atDesk.page.goto(`${server.url}/console`);
  const agent = consoleIn(atDesk.page);
  await agent.signIn(key.secret);
  await shows(() => agent.connection.textContent(), 'Live');
  await shows(agent.names, []);

  const atHome = await openPage(context, [site.origin, server.url]);
  await atHome.page.goto(site.origin);
  const visitor = visitorIn(atHome.page);
  await visitor.launcher.click();
  await visitor.write('Where is my parcel?');

  await shows(agent.names, ['Ada']);
  await agent.row('Ada').click();
  await shows(agent.texts, ['Where is my parcel?']);
  await agent.answer('On its way.');
  await shows(visitor.texts, ['Where is my parcel?', 'On its way.']);
  await visitor.widget.getByText('Grace · ').waitFor();

  // Who is not looking sees how much there is to read.
  await visitor.field.press('Escape');
  await agent.answer('It is there tomorrow.');
  await shows(visitor.unread, '1');
  await visitor.launcher.click();
  await shows(visitor.unread, '');
  await visitor.write('Thank you.');
  const all = ['Where is my parcel?', 'On its way.', 'It is there tomorrow.', 'Thank you.'];
  await shows(agent.texts, all);

  await agent.button('Close').click();
  await shows(visitor.notice, 'This conversation is closed. Write a message to start a new one.');
  await shows(visitor.texts, all);
  await visitor.write('And my tent?');
  await shows(visitor.texts, ['And my tent?']);
  await agent.list.getByText('And my tent?').waitFor();

  const { status } = await account.rest('DELETE', `/api-keys/${key.id}`);
  expect(status).toBe(204);
  await atDesk.page.getByRole('status').filter({ hasText: 'its API key was revoked' }).waitFor();
  await shows(() => agent.list.count(), 0);
  // The visitor's token was made with another key.
  await visitor.write('It is green.');
  await eventually(visitor.isSent, (isSent) => isSent);
  expect([atHome.errors, atHome.foreign, atDesk.foreign]).toEqual([[], [], []]);
});
