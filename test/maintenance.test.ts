import { expect, onTestFinished, test } from 'vitest';
import { dayMs, minuteMs } from './support/clock.ts';
import { isOnPostgres } from './support/postgres.ts';
import { sampleAttempt, sampleConversation, sampleDelivery, sampleEvent } from './support/samples.ts';
import { startTestServer } from './support/server.ts';
import { eventually, until } from './support/wait.ts';

// What the service does every minute.

test('what is old is removed, without anybody asking for it', async () => {
  const server = await startTestServer({ tickMs: 20 });
  onTestFinished(() => server.close());
  const client = await server.account();
  await client.rest('POST', '/conversations', { body: {} });
  const events = () => server.query('SELECT count(*) AS count FROM events');
  expect(await events()).toEqual([{ count: 1 }]);
  server.clock.nowMs += 31 * dayMs;
  await eventually(events, ([found]) => found?.['count'] === 0);
});

test('what is old is removed, though what is reserved of limits cannot be handed back', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const client = await server.account({ requestsPerHour: 1_000 });
  await client.rest('POST', '/conversations', { body: {} });
  server.clock.nowMs += 31 * dayMs; // what is spent stays spent: that goes by the time that passes
  server.clock.advance(minuteMs);
  await server.query('ALTER TABLE rate_windows RENAME TO gone');
  await expect(server.app.tick()).rejects.toThrow('rate_windows');
  await expect.poll(() => server.query('SELECT count(*) AS count FROM events')).toEqual([{ count: 0 }]);
  await server.query('ALTER TABLE gone RENAME TO rate_windows');
});

test('what is reserved of limits is handed back, though what is old cannot be removed', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const client = await server.account({ requestsPerHour: 1_000 });
  await client.rest('POST', '/conversations', { body: {} });
  server.clock.nowMs += 31 * dayMs; // what is spent stays spent: that goes by the time that passes
  server.clock.advance(minuteMs);
  const reserved = async () => (await server.query('SELECT sum(count) AS sum FROM rate_windows'))[0]?.['sum'];
  expect(await reserved()).toBeGreaterThan(1);
  await server.query('ALTER TABLE events RENAME TO gone');
  await server.app.tick();
  expect(await reserved()).toBe(1);
  expect(server.logLines).toContainEqual(
    expect.objectContaining({ level: 'warn', msg: 'could not remove expired data' }),
  );
  await server.query('ALTER TABLE gone RENAME TO events');
});

// On PostgreSQL, no request waits for it.
test.skipIf(isOnPostgres)(
  'what is old is removed a little at a time, however large it is: others come in between',
  async () => {
    const server = await startTestServer();
    onTestFinished(() => server.close());
    const client = await server.account();
    const wanting = { url: 'https://hooks.example.com', events: ['lead.captured'] };
    const { id } = (await client.rest('POST', '/webhooks', { body: wanting })).body;
    await server.storage.write(async (tx) => {
      for (let count = 0; count < 100; count++) {
        const delivery = sampleDelivery(id, { status: 'failed', attemptCount: 10, dueAt: null });
        await tx.deliveries.insert(client.account.id, delivery);
        for (let number = 1; number <= delivery.attemptCount; number++) {
          await tx.deliveries.insertAttempt(delivery.id, number, sampleAttempt({ responseBody: 'x'.repeat(16_384) }));
        }
      }
    });
    server.clock.nowMs += 31 * dayMs;
    const left = async () => (await server.query('SELECT count(*) AS count FROM deliveries'))[0]?.['count'];
    const removed = server.app.tick();
    expect((await client.rest('POST', '/conversations', { body: {} })).status).toBe(201);
    expect(await left()).toBeGreaterThan(0);
    await removed;
    expect(await left()).toBe(0);
  },
);

test('a removal in whose midst the server is stopped is no failure: the next one goes on', async () => {
  const server = await startTestServer();
  const client = await server.account();
  const old = Array.from({ length: 5_000 }, () => sampleEvent(sampleConversation()));
  await server.storage.write(async (tx) => tx.events.append(client.account.id, old));
  server.clock.nowMs += 31 * dayMs;
  const ticked = server.app.tick();
  await server.close();
  await ticked;
  expect(server.logLines.filter(({ level }) => level !== 'info')).toEqual([]);
});

test('what is old is removed by one removal at a time, however long it takes and however often it is due', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const client = await server.account();
  const conversation = sampleConversation();
  const old = Array.from({ length: 5_000 }, () => sampleEvent(conversation));
  await server.storage.write(async (tx) => tx.events.append(client.account.id, old));
  server.clock.nowMs += 31 * dayMs;
  const ticks = Array.from({ length: 8 }, () => server.app.tick());
  let isDone = false;
  void Promise.all(ticks).then(() => {
    isDone = true;
  });
  let most = 0;
  await until(() => {
    most = Math.max(most, server.storage.waitingWrites);
    return isDone;
  });
  expect(most).toBe(1);
  const { first, last } = await server.storage.read.events.bounds(client.account.id);
  expect(first).toBe(last + 1);
});

test('a key is listed for 30 days after it has expired, and a revoked one as long as it is among the last', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const client = await server.account();
  const make = async (name: string, input: object = {}): Promise<string> =>
    (await client.rest('POST', '/api-keys', { body: { name, ...input } })).body.id;
  const names = async (): Promise<string[]> =>
    (await client.rest('GET', '/api-keys')).body.data.map(({ name }: { name: string }) => name).toSorted();
  await make('expiring', { expiresAt: new Date(server.clock.now() + minuteMs).toISOString() });
  const revoked = await make('revoked');
  expect((await client.rest('DELETE', `/api-keys/${revoked}`)).status).toBe(204);
  server.clock.advance(minuteMs + 30 * dayMs);
  await server.app.tick();
  expect(await names()).toEqual(['expiring', 'first key', 'revoked']);
  server.clock.advance(1);
  await server.app.tick();
  expect(await names()).toEqual(['first key', 'revoked']);
  expect((await client.rest('DELETE', `/api-keys/${revoked}`)).status).toBe(204);
});
