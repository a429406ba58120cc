import { join } from 'node:path';
import { expect, test } from 'vitest';
import { operatorOf } from '../../src/domain/caller.ts';
import { createConversation } from '../../src/domain/conversations.ts';
import { secondMs, TestClock } from '../support/clock.ts';
import { temporaryFolder } from '../support/files.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { eventually, gate, until } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';
import { sceneOf, startConversation } from '../support/webhooks.ts';

// What becomes of deliveries in flight when the server is closed, and how the next one goes on with them.

const webhookTotalMs = 60_000; // longer than any test

function start(databasePath: string, clock: TestClock, shutdownGraceMs: number): Promise<TestServer> {
  return startTestServer({
    clock,
    databasePath,
    config: { webhookPolicy: anywhere, shutdownGraceMs },
    timings: { webhookTotalMs },
  });
}

test('attempts in flight at a shutdown may finish, and count', async () => {
  const [clock, databasePath] = [new TestClock(), join(temporaryFolder(), 'test.db')];
  const server = await start(databasePath, clock, 10_000);
  const held = gate();
  const scene = await sceneOf(server, await server.account(), () => ({ after: held.opened }));
  const { id } = await scene.webhook();
  await startConversation(scene.client);
  await until(() => scene.receiver.deliveries.length === 1);
  const closed = server.close();
  held.open();
  await closed;

  const next = await start(databasePath, clock, 0);
  const [delivery] = (await next.clientFor(scene.client.secret).rest('GET', `/webhooks/${id}/deliveries`)).body.data;
  expect(delivery).toMatchObject({ status: 'succeeded', attemptCount: 1 });
  await next.close();
  expect(scene.receiver.deliveries).toHaveLength(1);
});

test('attempts that outlast the grace period are given up, and sent at once by the next server', async () => {
  const [clock, databasePath] = [new TestClock(), join(temporaryFolder(), 'test.db')];
  const server = await start(databasePath, clock, 50);
  const scene = await sceneOf(server, await server.account(), ({ number }) => (number <= 5 ? { instead: 'hang' } : {}));
  const { id } = await scene.webhook();
  for (let count = 0; count < 5; count++) await startConversation(scene.client);
  await until(() => scene.receiver.deliveries.length === 4);
  const startedMs = performance.now();
  await server.close();
  expect(performance.now() - startedMs).toBeLessThan(5_000);
  const interrupted = scene.receiver.deliveries.map(({ headers }) => headers['webhook-id']);

  const next = await start(databasePath, clock, 50);
  const client = next.clientFor(scene.client.secret);
  await until(() => scene.receiver.deliveries.length >= 9);
  const repeated = scene.receiver.deliveries.slice(4).map(({ headers }) => headers['webhook-id']);
  expect(repeated).toEqual(expect.arrayContaining(interrupted));
  // The fifth delivery hangs again; an attempt that was given up is no attempt.
  const list = await eventually(
    async () => (await client.rest('GET', `/webhooks/${id}/deliveries`)).body.data,
    (all) => all.filter(({ status }: { status: string }) => status === 'succeeded').length === 4,
  );
  expect(list.map(({ attemptCount }: { attemptCount: number }) => attemptCount).sort()).toEqual([0, 1, 1, 1, 1]);
  await next.close();
});

test('a redelivery during an attempt restarts the schedule, even if that attempt is given up', async () => {
  const [clock, databasePath] = [new TestClock(), join(temporaryFolder(), 'test.db')];
  const server = await start(databasePath, clock, 0);
  const scene = await sceneOf(server, await server.account(), ({ number }) =>
    number === 2 ? { instead: 'hang' } : { status: 500 },
  );
  const { id } = await scene.webhook();
  await startConversation(scene.client);
  const delivery = await scene.attempted(id, 1);
  await scene.advanceTo(delivery.nextAttemptAt);
  await until(() => scene.receiver.deliveries.length === 2);
  await scene.client.rest('POST', `/webhooks/${id}/deliveries/${delivery.id}/redeliver`);
  await server.close();

  const next = await start(databasePath, clock, 0);
  const client = next.clientFor(scene.client.secret);
  const { attempts, nextAttemptAt } = await eventually(
    async () => (await client.rest('GET', `/webhooks/${id}/deliveries/${delivery.id}`)).body,
    ({ attemptCount }) => attemptCount === 2,
  );
  expect(attempts.map(({ trigger }: { trigger: string }) => trigger)).toEqual(['schedule', 'manual']);
  expect(Date.parse(nextAttemptAt) - clock.nowMs, 'the first wait, and not the second').toBeLessThan(6.1 * secondMs);
  await next.close();
});

test('an attempt about to start at the end of the grace period does not delay the shutdown', async () => {
  const [clock, databasePath] = [new TestClock(), join(temporaryFolder(), 'test.db')];
  const server = await start(databasePath, clock, 0);
  const client = await server.account();
  const { receiver, webhook } = await sceneOf(server, client, () => ({ instead: 'hang' }));
  await webhook();
  const caller = operatorOf(client.account);
  await createConversation.execute(server.app.ports, caller, {});
  // The delivery is about to be claimed, in the next turn of the loop, and the grace time is over by then.
  const startedMs = performance.now();
  const stopped = server.app.webhooks.stop(0);
  while (performance.now() - startedMs < 5);
  await stopped;
  expect(performance.now() - startedMs).toBeLessThan(5_000);
  await server.close();
  expect(receiver.deliveries).toEqual([]);

  const next = await start(databasePath, clock, 0);
  await until(() => receiver.deliveries.length === 1);
  await next.close();
});

test('a shutdown with nothing in flight waits for nothing', async () => {
  const [clock, databasePath] = [new TestClock(), join(temporaryFolder(), 'test.db')];
  const server = await start(databasePath, clock, 60_000);
  const scene = await sceneOf(server, await server.account(), () => ({ status: 500 }));
  const { id } = await scene.webhook();
  await startConversation(scene.client);
  await scene.attempted(id, 1);
  await server.close();
});
