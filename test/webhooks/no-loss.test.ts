import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json } from '../support/client.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../support/clock.ts';
import { effort } from '../support/effort.ts';
import type { Reply } from '../support/receiver.ts';
import { eventually } from '../support/wait.ts';
import { openScene, type Scene, startConversation } from '../support/webhooks.ts';

// Whatever its receivers answer and whatever is asked of it in between, no event is lost, and every delivery
// that was sent is an attempt that is shown.

const paths = ['/a', '/b'] as const;
const answers: Record<string, Reply> = {
  good: { status: 200 },
  bad: { status: 500 },
  gone: { status: 410 },
  busy: { status: 429, headers: { 'retry-after': '60' } },
  rude: { instead: 'close' },
};

type Step =
  | { readonly kind: 'event' | 'repeat' | 'recover' | 'sample' | 'rotate'; readonly at: number }
  | { readonly kind: 'switch'; readonly at: number; readonly enabled: boolean }
  | { readonly kind: 'answer'; readonly at: number; readonly answer: string }
  | { readonly kind: 'wait'; readonly ms: number };

const at = fc.nat(paths.length - 1);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('event' as const), at }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('wait' as const),
      ms: fc.constantFrom(0, 7 * secondMs, 6 * minuteMs, 36 * minuteMs, 12 * hourMs),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('answer' as const),
      at,
      answer: fc.constantFrom(...Object.keys(answers)),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('switch' as const), at, enabled: fc.boolean() }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom('repeat' as const, 'recover' as const, 'sample' as const, 'rotate' as const),
      at,
    }),
  },
);

/** Waits until nothing is in flight, not even to a webhook that was disabled meanwhile, and nothing is due by now. */
async function quiet(scene: Scene, ids: readonly string[]): Promise<void> {
  await scene.server.app.webhooks.look();
  const { deliveries } = scene.server.storage.read;
  for (const id of ids) {
    await eventually(
      async () => await deliveries.page(scene.client.account.id, id, { limit: 1_000, offset: 0 }),
      ({ items }) => items.every(({ isTried }) => !isTried),
    );
    await eventually(
      () => scene.deliveries(id),
      (all) =>
        all.every(({ status, nextAttemptAt }) => status !== 'pending' || Date.parse(nextAttemptAt) > scene.clock.nowMs),
    );
  }
}

async function act(scene: Scene, { kind, ...one }: Step, ids: readonly string[], chosen: string[]): Promise<void> {
  const { client } = scene;
  const index = 'at' in one ? one.at : 0;
  const path = `/webhooks/${ids[index]}`;
  switch (kind) {
    case 'event':
      await startConversation(client);
      return;
    case 'wait':
      await quiet(scene, ids);
      await scene.advance('ms' in one ? one.ms : 0);
      return;
    case 'answer':
      chosen[index] = 'answer' in one ? one.answer : 'good';
      return;
    case 'switch':
      await client.rest('PATCH', path, { body: { enabled: 'enabled' in one && one.enabled } });
      return;
    case 'sample':
      await client.rest('POST', `${path}/test`);
      return;
    case 'recover':
      await client.rest('POST', `${path}/recover`, { body: { since: '2026-01-01T00:00:00Z' } });
      return;
    case 'rotate': {
      const { body } = await client.rest('POST', `${path}/rotate-secret`);
      if (body.secret !== undefined) scene.receiver.trust(paths[index] ?? '', body.secret);
      return;
    }
    case 'repeat': {
      const [newest] = await scene.deliveries(ids[index] ?? '');
      if (newest !== undefined) await client.rest('POST', `${path}/deliveries/${newest.id}/redeliver`);
    }
  }
}

test('no event is lost, and every request received is an attempt', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), async (steps) => {
      const chosen = paths.map(() => 'good');
      const scene = await openScene({
        replies: ({ path }) => answers[chosen[paths.indexOf(path as '/a')] ?? 'good'] ?? {},
        config: { eventRetentionMs: 3_650 * dayMs },
      });
      const webhooks: Json[] = [];
      for (const path of paths) webhooks.push(await scene.webhook(path));
      const ids = webhooks.map(({ id }) => id);
      for (const one of steps) await act(scene, one, ids, chosen);

      // Everything is well again, for as long as it takes. What is on its way has been answered before: a late
      // 410 would disable a webhook that was enabled again.
      await quiet(scene, ids);
      chosen.fill('good');
      for (const id of ids) await scene.client.rest('PATCH', `/webhooks/${id}`, { body: { enabled: true } });
      await scene.client.rest('POST', `/webhooks/${ids[0]}/recover`, { body: { since: '2026-01-01T00:00:00Z' } });
      await scene.client.rest('POST', `/webhooks/${ids[1]}/recover`, { body: { since: '2026-01-01T00:00:00Z' } });
      await quiet(scene, ids);
      await scene.advance(2 * dayMs);
      await quiet(scene, ids);
      for (const [index, id] of ids.entries()) {
        const deliveries = scene.receiver.to(paths[index] ?? '').map(({ headers }) => headers['webhook-id']);
        const shown: string[] = [];
        for (const { id: deliveryId, test: isTest, eventId, status } of await scene.deliveries(id)) {
          expect(status === 'succeeded' || (isTest && status === 'failed')).toBe(true);
          const { attempts, attemptCount } = await scene.delivery(id, deliveryId);
          expect(attempts).toHaveLength(attemptCount);
          shown.push(...attempts.map(() => eventId));
        }
        expect(deliveries.toSorted()).toEqual(shown.toSorted());
      }
    }),
    { numRuns: effort(2, 20) },
  );
});
