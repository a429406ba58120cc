import { expect, test } from 'vitest';
import { dayMs, hourMs } from '../support/clock.ts';
import type { TestServer } from '../support/server.ts';
import { eventually, gate, until } from '../support/wait.ts';
import { openScene, startConversation } from '../support/webhooks.ts';

// Deliveries and attempts stay as long as the events, and no longer.

const config = { eventRetentionMs: dayMs };

/** How many rows are stored. */
async function rowsOf(server: TestServer): Promise<Record<string, number>> {
  const count = async (table: string) => (await server.query(`SELECT count(*) AS count FROM ${table}`))[0]?.['count'];
  return {
    webhooks: await count('webhooks'),
    deliveries: await count('deliveries'),
    attempts: await count('attempts'),
  };
}

test('deliveries are removed with their events, and their attempts with them', async () => {
  const { server, client, clock, webhook, deliveries, delivery, attempted } = await openScene({ config });
  const { id } = await webhook();
  await startConversation(client);
  const old = await attempted(id, 1);
  clock.advance(hourMs);
  await startConversation(client);
  const young = await attempted(id, 1);
  clock.advance(dayMs - 1);
  await server.app.tick();
  expect((await deliveries(id)).map((each) => each.id)).toEqual([young.id]);
  expect((await client.rest('GET', '/events')).body.data.map((event: { id: string }) => event.id)).toEqual([
    young.eventId,
  ]);
  expect((await delivery(id, old.id)).code).toBe('NOT_FOUND');
  expect((await client.rest('POST', `/webhooks/${id}/deliveries/${old.id}/redeliver`)).body.code).toBe('NOT_FOUND');
  expect(await delivery(id, young.id)).toEqual(young);
  expect(await rowsOf(server)).toEqual({ webhooks: 1, deliveries: 1, attempts: 1 });
});

test('a delivery paused for that long is gone when its webhook is enabled again', async () => {
  let status = 410;
  const { server, client, clock, receiver, webhook, deliveries, attempted } = await openScene({
    config,
    replies: () => ({ status }),
  });
  const { id } = await webhook();
  await startConversation(client);
  await attempted(id, 1);
  clock.advance(2 * dayMs);
  await server.app.tick();
  status = 200;
  await client.rest('PATCH', `/webhooks/${id}`, { body: { enabled: true } });
  await startConversation(client);
  await attempted(id, 1);
  expect(receiver.deliveries).toHaveLength(2);
  expect(await deliveries(id)).toHaveLength(1);
});

test('what a deleted webhook leaves behind is removed by the next tick', async () => {
  const { server, client, webhook, attempted } = await openScene({ config });
  const [gone, kept] = [await webhook('/gone'), await webhook('/kept')];
  for (let count = 0; count < 3; count++) await startConversation(client);
  await eventually(
    () => rowsOf(server),
    ({ attempts }) => attempts === 6,
  );
  await client.rest('DELETE', `/webhooks/${gone.id}`);
  await server.app.tick();
  expect(await rowsOf(server)).toEqual({ webhooks: 1, deliveries: 3, attempts: 3 });
  expect(await attempted(kept.id, 1)).toMatchObject({ status: 'succeeded' });
});

test('an attempt whose delivery is removed meanwhile ends without a trace', async () => {
  const held = gate();
  const { server, client, clock, receiver, webhook, deliveries } = await openScene({
    config,
    replies: ({ number }) => (number === 1 ? { after: held.opened } : {}),
  });
  const { id } = await webhook();
  await startConversation(client);
  await until(() => receiver.deliveries.length === 1);
  clock.advance(2 * dayMs);
  await server.app.tick();
  held.open();
  await until(() => receiver.open === 0);
  await startConversation(client);
  await eventually(
    () => deliveries(id),
    ([newest]) => newest?.status === 'succeeded',
  );
  expect(await rowsOf(server)).toEqual({ webhooks: 1, deliveries: 1, attempts: 1 });
  expect(server.logLines.filter(({ level }) => level !== 'info')).toEqual([]);
});

test('an attempt on a webhook that is deleted meanwhile ends without a trace', async () => {
  const held = gate();
  const { server, client, receiver, webhook } = await openScene({ replies: () => ({ after: held.opened }) });
  const { id } = await webhook();
  await startConversation(client);
  await until(() => receiver.deliveries.length === 1);
  await client.rest('DELETE', `/webhooks/${id}`);
  await server.app.tick();
  held.open();
  await until(() => receiver.open === 0);
  await server.app.webhooks.look();
  await server.storage.write(async () => undefined);
  expect(await rowsOf(server)).toEqual({ webhooks: 0, deliveries: 0, attempts: 0 });
  expect(server.logLines.filter(({ level }) => level !== 'info')).toEqual([]);
});
