import { expect, test } from 'vitest';
import { operatorOf } from '../../src/domain/caller.ts';
import { createConversation } from '../../src/domain/conversations.ts';
import { createWebhook, deleteWebhook } from '../../src/domain/webhooks.ts';
import { TestClock } from '../support/clock.ts';
import { longTest } from '../support/effort.ts';
import type { ReceivedWebhook, Reply } from '../support/receiver.ts';
import type { TestAccount, TestServer } from '../support/server.ts';
import { eventually, gate, until } from '../support/wait.ts';
import { openScene, type Scene } from '../support/webhooks.ts';

// One receiver delays no other, and what is in flight is bounded: for each webhook and in all.

const webhookTotalMs = 60_000; // longer than any test
const healthy: Reply = {};

/** Makes events without the way through HTTP, which is not what is tested here. */
async function makeEvents(server: TestServer, client: TestAccount, count: number): Promise<void> {
  const made = Array.from({ length: count }, () =>
    createConversation.execute(server.app.ports, operatorOf(client.account), {}),
  );
  await Promise.all(made);
}

/** Webhooks of an account to paths of the scene's receiver. */
async function webhooks({ server, receiver }: Scene, client: TestAccount, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const input = { url: `${receiver.url}${path}` };
    const { webhook } = await createWebhook.execute(server.app.ports, operatorOf(client.account), input);
    receiver.trust(path, String(webhook.secret));
  }
}

const paths = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `/${name}/${index}`);

/** Waits until all that the server could have claimed by now is claimed, and has arrived. */
async function settled({ server, receiver }: Scene): Promise<void> {
  for (let turn = 0; turn < 3; turn++) {
    await server.app.webhooks.look();
    await server.storage.write(async () => undefined); // its claims queue before this
  }
  const underway = async () => (await server.query('SELECT count(*) AS count FROM delivery_leases'))[0]?.['count'];
  await eventually(underway, (count) => count === receiver.open);
}

/** Answers that wait until the test lets them go. */
class Hold {
  #waiting: (() => void)[] = [];

  readonly reply = (): Reply => ({ after: new Promise<void>((resolve) => this.#waiting.push(resolve)) });

  get count(): number {
    return this.#waiting.length;
  }

  release(): void {
    for (const go of this.#waiting.splice(0)) go();
  }
}

test('while one webhook hangs and another is slow, a healthy one gets everything', async () => {
  const slow = gate();
  const replies = ({ path }: ReceivedWebhook): Reply =>
    path === '/hangs' ? { instead: 'hang' } : path === '/slow' ? { after: slow.opened } : healthy;
  const scene = await openScene({ replies, timings: { webhookTotalMs } });
  const { server, client, receiver } = scene;
  await webhooks(scene, client, ['/hangs', '/slow', '/healthy']);
  await makeEvents(server, client, 50);
  await until(() => receiver.to('/healthy').length === 50);
  await settled(scene);
  expect(receiver.to('/hangs')).toHaveLength(4);
  expect(receiver.to('/slow')).toHaveLength(4);
  slow.open();
  await until(() => receiver.to('/slow').length === 50);
  expect(receiver.to('/hangs')).toHaveLength(4);
});

test('while forty webhooks hang, the healthy ones get everything', async () => {
  const replies = ({ path }: ReceivedWebhook): Reply => (path.startsWith('/hangs') ? { instead: 'hang' } : healthy);
  const scene = await openScene({ replies, timings: { webhookTotalMs } });
  const { server, client, receiver } = scene;
  const [second, third] = [await server.account(), await server.account()];
  const hanging = paths('hangs', 40);
  await webhooks(scene, client, [...hanging.slice(0, 19), '/healthy/beside']);
  await webhooks(scene, second, hanging.slice(19, 39));
  await webhooks(scene, third, [...hanging.slice(39), '/healthy/apart']);
  for (const account of [second, client, third]) await makeEvents(server, account, 6);
  await until(() => receiver.to('/healthy/beside').length === 6 && receiver.to('/healthy/apart').length === 6);
  await settled(scene);
  expect(receiver.open).toBeLessThanOrEqual(160);
});

test('a webhook is sent four requests at a time, up to 40 when they succeed, and one when they fail', async () => {
  const hold = new Hold();
  let status = 204;
  const scene = await openScene({ replies: () => ({ ...hold.reply(), status }), timings: { webhookTotalMs } });
  const { server, client, receiver } = scene;
  await webhooks(scene, client, ['/hooks']);
  await makeEvents(server, client, 120);
  await until(() => hold.count === 4);
  await settled(scene);
  expect(receiver.deliveries).toHaveLength(4);
  hold.release();
  // Answers that come one by one leave up to a quarter of the places free: so many are claimed together at least.
  await until(() => hold.count > 30);
  await settled(scene);
  expect(receiver.open).toBeGreaterThan(30);
  status = 500;
  hold.release(); // these were asked for as successes
  await until(() => hold.count > 30);
  await settled(scene);
  hold.release();
  await until(() => hold.count === 1);
  await settled(scene);
  expect(receiver.open).toBe(1);
  expect(receiver.mostOpen).toBeLessThanOrEqual(40);
});

longTest('slow webhooks at their limit of requests in flight do not hold up others', async () => {
  const hold = new Hold();
  let holds = true;
  // Each has shown first that it can take many.
  const replies = ({ path, number }: ReceivedWebhook): Reply =>
    holds && path.startsWith('/slow') && number > 4 ? hold.reply() : healthy;
  const scene = await openScene({ replies, timings: { webhookTotalMs } });
  const { server, client, receiver } = scene;
  const other = await server.account();
  const slow = paths('slow', 12);
  await webhooks(scene, client, slow);
  await makeEvents(server, client, 34);
  await until(() => hold.count >= 170);
  await settled(scene);
  expect(receiver.open, 'half of all').toBeLessThanOrEqual(192);
  expect(Math.min(...slow.map((path) => receiver.to(path).length))).toBeGreaterThan(4);

  const healthyPaths = paths('healthy', 20);
  await webhooks(scene, other, healthyPaths);
  await makeEvents(server, other, 5);
  await until(() => healthyPaths.every((path) => receiver.to(path).length === 5));
  holds = false;
  hold.release();
  await until(() => receiver.deliveries.length === 12 * 34 + 100);
  expect(receiver.mostOpen).toBeLessThanOrEqual(384);
});

longTest('an account that deletes webhooks and makes them anew at a receiver that hangs delays nobody', async () => {
  const replies = ({ path }: ReceivedWebhook): Reply => (path.startsWith('/hangs') ? { instead: 'hang' } : healthy);
  const scene = await openScene({ replies, timings: { webhookTotalMs } });
  const { server, client, receiver } = scene;
  const other = await server.account();
  await webhooks(scene, other, ['/healthy']);
  for (let round = 0; round < 4; round++) {
    const hanging = paths(`hangs/${round}`, 20);
    const made: string[] = [];
    for (const path of hanging) {
      const { webhook } = await createWebhook.execute(server.app.ports, operatorOf(client.account), {
        url: receiver.url + path,
      });
      receiver.trust(path, String(webhook.secret));
      made.push(webhook.id);
    }
    await makeEvents(server, client, 4);
    await settled(scene);
    for (const id of made) await deleteWebhook.execute(server.app.ports, operatorOf(client.account), { id });
  }
  expect(receiver.open, 'what hangs is half of all').toBeLessThanOrEqual(192);
  expect(receiver.open).toBeGreaterThan(150);
  const startedMs = performance.now();
  await makeEvents(server, other, 1);
  await until(() => receiver.to('/healthy').length === 1);
  expect(performance.now() - startedMs).toBeLessThan(1_000);
});

longTest('at most 384 requests are in flight, and waiting for a free place does not poll', async () => {
  let asked = 0;
  class CountingClock extends TestClock {
    override now(): number {
      asked++;
      return super.now();
    }
  }
  const clock = new CountingClock();
  const scene = await openScene({ clock, replies: () => ({ instead: 'hang' }), timings: { webhookTotalMs } });
  const { server, receiver } = scene;
  // Each of them gets at most half of what is free: the last place needs many.
  for (let account = 0; account < 15; account++) {
    const client = await server.account();
    await webhooks(scene, client, paths(String(account), 20));
    await makeEvents(server, client, 2);
  }
  await until(() => receiver.open >= 384);
  await settled(scene);
  asked = 0;
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(asked).toBeLessThan(10);
  expect(receiver.mostOpen).toBeLessThanOrEqual(384);
});
