import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { timestamp } from '../../src/domain/time.ts';
import type { Json } from '../support/client.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../support/clock.ts';
import type { Reply } from '../support/receiver.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { eventually } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';
import { openScene, type Scene, sceneOf, startConversation } from '../support/webhooks.ts';

// When a delivery is tried, and when no more: over days that pass in an instant.

/** As the contract has them, after the first attempt, which is made at once. */
const waitsMs = [
  5 * secondMs,
  5 * minuteMs,
  30 * minuteMs,
  2 * hourMs,
  5 * hourMs,
  10 * hourMs,
  14 * hourMs,
  20 * hourMs,
  24 * hourMs,
];

/** How long a delivery waits from now on for its next attempt. */
const waitOf = (scene: Scene, { nextAttemptAt }: Json): number => Date.parse(nextAttemptAt) - scene.clock.nowMs;

/** Waits until all that the server could have claimed by now is claimed: its claims queue before this write. */
async function settled({ server }: Scene): Promise<void> {
  await server.app.webhooks.look();
  await server.storage.write(async () => undefined);
  await server.storage.write(async () => undefined);
}

/**
 * A delivery that fails at its first attempt, with the webhook that it is to.
 * @param server one that is there already, if it is not to be the test's own
 */
async function failing(
  reply: () => Reply = () => ({ status: 500 }),
  server?: TestServer,
): Promise<Scene & { id: string; first: Json }> {
  const replies = () => reply();
  const scene = await (server === undefined
    ? openScene({ replies })
    : sceneOf(server, await server.account(), replies));
  const { id } = await scene.webhook();
  await startConversation(scene.client);
  return { ...scene, id, first: await scene.attempted(id, 1) };
}

describe('a delivery that never succeeds', () => {
  test('is attempted ten times, each at its time and not before, and then fails', async () => {
    const scene = await failing();
    const { id, clock, receiver } = scene;
    let delivery = scene.first;
    for (const [index, waitMs] of waitsMs.entries()) {
      expect(delivery).toMatchObject({ status: 'pending', attemptCount: index + 1, completedAt: null });
      const wait = waitOf(scene, delivery);
      expect(wait).toBeGreaterThanOrEqual(0.8 * waitMs);
      expect(wait).toBeLessThanOrEqual(1.2 * waitMs);
      clock.nowMs = Date.parse(delivery.nextAttemptAt) - 1;
      await settled(scene);
      expect(await scene.delivery(id, delivery.id)).toEqual(delivery);
      await scene.advance(1);
      delivery = await scene.attempted(id, index + 2);
      expect(delivery.attempts.at(-1).startedAt).toBe(timestamp(clock.nowMs));
    }
    expect(delivery).toMatchObject({
      status: 'failed',
      attemptCount: 10,
      nextAttemptAt: null,
      completedAt: timestamp(clock.nowMs),
    });
    expect(new Set(delivery.attempts.map((attempt: Json) => attempt.id)).size).toBe(10);
    await scene.advance(30 * dayMs);
    await settled(scene);
    expect(receiver.deliveries).toHaveLength(10);
  });

  test('is attempted by the whole schedule again after redeliver', async () => {
    const scene = await failing();
    const { id, client } = scene;
    let delivery = scene.first;
    for (let count = 2; count <= 10; count++) {
      await scene.advanceTo(delivery.nextAttemptAt);
      delivery = await scene.attempted(id, count);
    }
    const answer = await client.rest('POST', `/webhooks/${id}/deliveries/${delivery.id}/redeliver`);
    expect(answer.body).toMatchObject({ status: 'pending', attemptCount: 10, completedAt: null });
    expect(answer.body.attempts).toHaveLength(10);
    delivery = await scene.attempted(id, 11);
    expect(delivery.attempts.at(-1).trigger).toBe('manual');
    expect(delivery.status).toBe('pending');
    expect(waitOf(scene, delivery)).toBeLessThanOrEqual(6 * secondMs);
    await scene.advanceTo(delivery.nextAttemptAt);
    expect((await scene.attempted(id, 12)).attempts.at(-1).trigger).toBe('schedule');
  });
});

test('a delivery that is due soon does not wait for the next look at what is due, which comes every 5 s', async () => {
  const scene = await failing();
  const { id, clock, first } = scene;
  clock.advance(waitOf(scene, first) - 50);
  await settled(scene);
  const startedMs = performance.now();
  clock.advance(50);
  await scene.attempted(id, 2);
  expect(performance.now() - startedMs).toBeLessThan(4_000);
});

test('deliveries that fail together are not retried together', async () => {
  const scene = await openScene({ replies: () => ({ status: 500 }) });
  const { id } = await scene.webhook();
  for (let count = 0; count < 12; count++) await startConversation(scene.client);
  for (const waitMs of waitsMs.slice(0, 3)) {
    const count = 1 + waitsMs.indexOf(waitMs);
    const all = await eventually(
      () => scene.deliveries(id),
      (found) => found.every(({ attemptCount, nextAttemptAt }) => attemptCount === count && nextAttemptAt !== null),
    );
    const waits = all.map((delivery) => waitOf(scene, delivery));
    for (const wait of waits) {
      expect(wait).toBeGreaterThanOrEqual(0.8 * waitMs);
      expect(wait).toBeLessThanOrEqual(1.2 * waitMs);
    }
    expect(new Set(waits).size).toBeGreaterThan(6);
    await scene.advance(1.2 * waitMs);
  }
});

describe('Retry-After', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startTestServer({ config: { webhookPolicy: anywhere } });
  });
  afterAll(() => server.close());

  test.each([
    ['in seconds lengthens the wait', '3600', hourMs],
    ['as a date lengthens it', 'Sat, 21 Nov 2026 08:12:00 GMT', 2 * hourMs],
    ['as a date of RFC 850 lengthens it', 'Saturday, 21-Nov-26 08:12:00 GMT', 2 * hourMs],
    ['as a date of asctime lengthens it', 'Sat Nov 21 08:12:00 2026', 2 * hourMs],
    ['lengthens it to a day at most', '9999999999', dayMs],
    ['lengthens it to a day at most, however many digits it has', '9'.repeat(400), dayMs],
    ['lengthens it to a day at most, as a date', 'Fri, 31 Dec 2999 23:59:59 GMT', dayMs],
  ])('%s', async (_, value, expected) => {
    const scene = await failing(() => ({ status: 429, headers: { 'retry-after': value } }), server);
    expect(waitOf(scene, scene.first)).toBe(expected);
  });

  test.each([
    '0',
    '-5',
    '1',
    'soon',
    '1.5',
    '1e9',
    '0x99999',
    '-99999999999',
    'Foo 2999',
    'Sat, 21 Nov 2020 00:00:00 GMT',
  ])('of %j neither shortens nor lengthens it', async (value) => {
    const scene = await failing(() => ({ status: 503, headers: { 'retry-after': value } }), server);
    expect(waitOf(scene, scene.first)).toBeGreaterThanOrEqual(4 * secondMs);
    expect(waitOf(scene, scene.first)).toBeLessThanOrEqual(6 * secondMs);
  });
});

describe('a webhook', () => {
  test('whose receiver responds with 410 is disabled at once, and pending deliveries are paused', async () => {
    let status = 500;
    const scene = await failing(() => ({ status }));
    const { id, client, receiver } = scene;
    status = 410;
    await startConversation(client);
    const gone = await scene.attempted(id, 1);
    expect((await client.rest('GET', `/webhooks/${id}`)).body).toMatchObject({
      enabled: false,
      disabledReason: 'gone',
    });
    expect(gone).toMatchObject({ status: 'paused', nextAttemptAt: null, completedAt: null, attemptCount: 1 });
    expect(gone.attempts[0]).toMatchObject({ responseStatus: 410 });
    expect(await scene.delivery(id, scene.first.id)).toMatchObject({ status: 'paused', nextAttemptAt: null });

    // Nothing is sent while it is disabled, and nothing of what happens then is for it.
    await startConversation(client);
    await scene.advance(dayMs);
    await settled(scene);
    expect(receiver.deliveries).toHaveLength(2);
    expect(await scene.deliveries(id)).toHaveLength(2);

    // Enabled again, it goes on with what was paused.
    status = 200;
    const { body } = await client.rest('PATCH', `/webhooks/${id}`, { body: { enabled: true } });
    expect(body).toMatchObject({ enabled: true, disabledReason: null });
    expect(await scene.attempted(id, 2)).toMatchObject({ id: gone.id, status: 'succeeded', attemptCount: 2 });
    await eventually(
      () => scene.deliveries(id),
      (found) => found.every((one) => one.status === 'succeeded' && one.attemptCount === 2),
    );
    expect(receiver.deliveries).toHaveLength(4);
  });

  test('with a new URL stays enabled when its old receiver responds with 410 at last', async () => {
    const moved = Promise.withResolvers<void>();
    const scene = await openScene({
      replies: ({ path }) => (path === '/old' ? { status: 410, after: moved.promise } : {}),
    });
    const { client, receiver } = scene;
    const { id, secret } = await scene.webhook('/old');
    receiver.trust('/new', secret);
    await startConversation(client);
    await eventually(
      async () => receiver.to('/old').length,
      (count) => count === 1,
    );
    await client.rest('PATCH', `/webhooks/${id}`, { body: { url: `${receiver.url}/new` } });
    moved.resolve();
    const gone = await scene.attempted(id, 1);
    expect(gone.attempts).toMatchObject([{ responseStatus: 410 }]);
    expect((await client.rest('GET', `/webhooks/${id}`)).body).toMatchObject({ enabled: true, disabledReason: null });
    await scene.advanceTo(gone.nextAttemptAt);
    expect(await scene.attempted(id, 2)).toMatchObject({ status: 'succeeded' });
    expect(receiver.to('/new')).toHaveLength(1);
  });

  test('disabled by its owner pauses pending deliveries, which continue by the schedule when it is enabled', async () => {
    const scene = await failing();
    const { id, client, receiver, first } = scene;
    const disabled = await client.rest('PATCH', `/webhooks/${id}`, { body: { enabled: false } });
    expect(disabled.body).toMatchObject({ enabled: false, disabledReason: 'requested' });
    expect(await scene.delivery(id, first.id)).toMatchObject({
      status: 'paused',
      nextAttemptAt: null,
      attemptCount: 1,
    });
    const sample = await client.rest('POST', `/webhooks/${id}/test`);
    expect(sample.body).toMatchObject({ status: 'paused', nextAttemptAt: null });
    const repeated = await client.rest('POST', `/webhooks/${id}/deliveries/${first.id}/redeliver`);
    expect(repeated.body).toMatchObject({ status: 'paused', nextAttemptAt: null });
    await scene.advance(hourMs);
    await settled(scene);
    expect(receiver.deliveries).toHaveLength(1);
    await client.rest('PATCH', `/webhooks/${id}`, { body: { enabled: true } });
    await eventually(
      () => scene.deliveries(id),
      (found) => found.every(({ attemptCount }) => attemptCount > 0),
    );
    await eventually(
      () => scene.delivery(id, first.id),
      ({ attemptCount }) => attemptCount === 2,
    );
    expect(receiver.deliveries).toHaveLength(3);
  });

  test('without a success for five days is disabled, and starts afresh when it is enabled', async () => {
    const scene = await failing();
    const { id, client, clock } = scene;
    const since = clock.nowMs;
    const state = async () => (await client.rest('GET', `/webhooks/${id}`)).body;
    let count = 1;
    const failAt = async (afterMs: number) => {
      clock.nowMs = since + afterMs;
      await startConversation(client);
      count++;
      // The others may be tried before it, and end it all.
      await eventually(
        () => scene.deliveries(id),
        ([newest]) => newest.attemptCount > 0 || newest.status === 'paused',
      );
    };
    await failAt(5 * dayMs - 1);
    expect(await state()).toMatchObject({ enabled: true });
    await failAt(5 * dayMs);
    expect(await state()).toMatchObject({
      enabled: false,
      disabledReason: 'failing',
      updatedAt: timestamp(clock.nowMs),
    });
    expect((await scene.deliveries(id)).map(({ status }) => status)).toEqual(Array(count).fill('paused'));

    await client.rest('PATCH', `/webhooks/${id}`, { body: { enabled: false } });
    expect(await state()).toMatchObject({ enabled: false, disabledReason: 'failing' });
    await client.rest('PATCH', `/webhooks/${id}`, { body: { enabled: true } });
    await failAt(5 * dayMs + minuteMs);
    await failAt(10 * dayMs - hourMs);
    expect(await state()).toMatchObject({ enabled: true, disabledReason: null });
    await failAt(10 * dayMs + hourMs);
    expect(await state()).toMatchObject({ enabled: false, disabledReason: 'failing' });
  });

  test('with a success within five days is not disabled', async () => {
    let status = 500;
    const scene = await failing(() => ({ status }));
    const { id, client, clock } = scene;
    clock.advance(4 * dayMs);
    status = 200;
    await client.rest('POST', `/webhooks/${id}/test`);
    expect((await scene.attempted(id, 1)).status).toBe('succeeded');
    status = 500;
    clock.advance(2 * dayMs);
    await startConversation(client);
    await scene.attempted(id, 1);
    expect((await client.rest('GET', `/webhooks/${id}`)).body.enabled).toBe(true);
  });

  test('is not disabled by samples that fail for longer than that', async () => {
    const scene = await openScene({ replies: () => ({ status: 500 }) });
    const { id } = await scene.webhook();
    for (let day = 0; day < 7; day++) {
      const { body } = await scene.client.rest('POST', `/webhooks/${id}/test`);
      const failed = await scene.attempted(id, 1);
      // A sample is tried once: whoever asks for it wants to know now.
      expect(failed).toMatchObject({ id: body.id, status: 'failed', attemptCount: 1 });
      expect(failed.attempts[0].trigger).toBe('manual');
      await scene.advance(dayMs);
    }
    await startConversation(scene.client);
    await scene.attempted(id, 1);
    expect((await scene.client.rest('GET', `/webhooks/${id}`)).body.enabled).toBe(true);
  });

  test('with a new URL gets the next attempt there', async () => {
    const scene = await failing();
    const { id, client, receiver, first } = scene;
    const { body } = await client.rest('PATCH', `/webhooks/${id}`, { body: { url: `${receiver.url}/moved` } });
    const [secret] = receiver.deliveries[0]?.verifiedBy ?? [];
    receiver.trust('/moved', String(secret));
    expect(body.url).toBe(`${receiver.url}/moved`);
    await scene.advanceTo(first.nextAttemptAt);
    await scene.attempted(id, 2);
    expect(receiver.deliveries.map(({ path }) => path)).toEqual(['/hooks', '/moved']);
  });

  test('that is deleted is sent nothing more, and its deliveries are gone', async () => {
    const scene = await failing();
    const { id, client, receiver, first } = scene;
    expect((await client.rest('DELETE', `/webhooks/${id}`)).status).toBe(204);
    await startConversation(client);
    await scene.advance(10 * dayMs);
    await settled(scene);
    expect(receiver.deliveries).toHaveLength(1);
    for (const path of ['', '/deliveries', `/deliveries/${first.id}`]) {
      expect((await client.rest('GET', `/webhooks/${id}${path}`)).body.code).toBe('NOT_FOUND');
    }
    expect((await client.rest('POST', `/webhooks/${id}/deliveries/${first.id}/redeliver`)).body.code).toBe('NOT_FOUND');
    expect((await client.graphql('query ($id: ID!) { node(id: $id) { id } }', { id: first.id })).data.node).toBeNull();
    expect((await client.rest('GET', '/webhooks')).body.data).toEqual([]);
  });
});
