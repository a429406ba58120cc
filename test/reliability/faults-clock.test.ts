import { expect, test } from 'vitest';
import { clientOf, type Json } from '../support/client.ts';
import { hourMs, minuteMs } from '../support/clock.ts';
import { SseReader } from '../support/sse.ts';
import { eventually, until } from '../support/wait.ts';
import { openScene, startConversation } from '../support/webhooks.ts';

// The clock of the machine is set: an hour forward, and back. What limits make of it is in access/rate-limit.test.ts.

const jumps = [0, hourMs, -hourMs, -hourMs, hourMs];

test('a clock that jumps leaves the log in order and without a gap, for everybody who reads it', async () => {
  const { server, clock, client, receiver, webhook } = await openScene();
  await webhook();
  const stream = await SseReader.open(`${server.url}/v1/events/stream`, { authorization: `Bearer ${client.secret}` });
  const made: string[] = [];
  for (const ms of jumps) {
    clock.nowMs += ms;
    for (let count = 0; count < 5; count++) {
      const { id } = await startConversation(client, { message: { sender: 'visitor', content: 'Hello' } });
      made.push(id);
    }
    // At once, and each once: none waits for the clock to come by again.
    await until(() => receiver.deliveries.length >= 2 * made.length);
  }
  const count = 2 * made.length;
  const sequences = Array.from({ length: count }, (_, index) => index + 1);
  await stream.until(({ events }) => events.length === count);
  stream.close();
  expect(stream.events.map(({ sequence }) => sequence)).toEqual(sequences);
  const log = (await client.rest('GET', '/events?limit=100')).body.data;
  expect(log).toEqual(stream.events);
  expect(new Set(log.map(({ id }: Json) => id)).size).toBe(count);

  await server.app.webhooks.look();
  expect(receiver.deliveries.map(({ event }) => event.sequence).toSorted((a, b) => a - b)).toEqual(sequences);

  // However they are sorted, page by page each comes once.
  for (const sort of ['createdAt', '-createdAt', 'lastActivityAt', '-lastActivityAt']) {
    const found: string[] = [];
    for (let after = ''; ; ) {
      const { data, pagination } = (await client.rest('GET', `/conversations?limit=7&sort=${sort}${after}`)).body;
      found.push(...data.map(({ id }: Json) => id));
      if (!pagination.hasMore) break;
      after = `&after=${encodeURIComponent(pagination.nextCursor)}`;
    }
    expect(found.toSorted()).toEqual(made.toSorted());
  }
});

test('a conversation goes on when the clock is set back: its messages keep their order, and no time is negative', async () => {
  const { clock, client } = await openScene();
  const { id } = await startConversation(client, { message: { sender: 'visitor', content: '1' } });
  clock.nowMs -= hourMs;
  for (const [content, sender] of Object.entries({ 2: 'agent', 3: 'visitor' })) {
    const body = { content, sender };
    expect((await client.rest('POST', `/conversations/${id}/messages`, { body })).status).toBe(201);
  }
  expect((await client.rest('PATCH', `/conversations/${id}`, { body: { status: 'closed' } })).status).toBe(200);
  const { messages } = (await client.rest('GET', `/conversations/${id}`)).body;
  expect(messages.map(({ sequence, content }: Json) => [sequence, content])).toEqual([
    [1, '1'],
    [2, '2'],
    [3, '3'],
  ]);
  clock.nowMs += hourMs;
  const { totals } = (await client.rest('GET', '/analytics')).body;
  expect(totals).toMatchObject({
    conversationsStarted: 1,
    conversationsClosed: 1,
    firstResponseSeconds: { count: 1, mean: 0.001 },
    resolutionSeconds: { count: 1, mean: 0.003 },
  });
});

test('what happens in a conversation is sent at once when the clock is set back, though its times are ahead', async () => {
  const { clock, client, receiver, webhook } = await openScene();
  await webhook();
  const { id } = await startConversation(client);
  await until(() => receiver.deliveries.length === 1);
  clock.nowMs -= hourMs;
  await client.rest('POST', `/conversations/${id}/messages`, { body: { sender: 'visitor', content: 'Hello' } });
  await client.rest('POST', '/leads', { body: { email: 'ada@example.com', conversationId: id } });
  await client.rest('PATCH', `/conversations/${id}`, { body: { status: 'closed' } });
  await until(() => receiver.deliveries.length === 4);
  const events = receiver.deliveries.map(({ event }) => event).toSorted((a, b) => a.sequence - b.sequence);
  expect(events.map(({ type }) => type)).toEqual([
    'conversation.started',
    'message.received',
    'lead.captured',
    'conversation.closed',
  ]);
  const times = events.map(({ timestamp }) => Date.parse(timestamp));
  const [start = 0] = times;
  // A lead changes nothing in its conversation.
  expect(
    times.map((time) => time - start),
    'each change has a time of its own',
  ).toEqual([0, 1, 2, 2]);
});

test('a token lives by the clock, and a request is repeated under its key, whatever the clock does', async () => {
  const { server, clock, client } = await openScene();
  const headers = { 'idempotency-key': 'once' };
  const ask = () => client.rest('POST', '/conversations', { body: { subject: 'once' }, headers });
  const tokenNow = async () => {
    const made = await client.rest('POST', '/tokens', { body: { scopes: ['conversations:read'] } });
    return clientOf(server.url, made.body.token);
  };
  const statusFor = async (holder: typeof client | ReturnType<typeof clientOf>) =>
    (await holder.rest('GET', '/conversations')).status;

  const first = await ask();
  const early = await tokenNow();
  clock.nowMs += hourMs;
  expect(await statusFor(early), 'it has ended by the clock').toBe(401);
  const late = await tokenNow();
  expect(await statusFor(late)).toBe(200);
  expect((await ask()).body).toEqual(first.body);
  clock.nowMs -= hourMs;
  expect(await statusFor(early)).toBe(200);
  expect(await statusFor(late), 'made in an hour that was none: its page asks for another').toBe(401);
  expect(await statusFor(await tokenNow())).toBe(200);
  expect((await ask()).body).toEqual(first.body);
  clock.nowMs -= hourMs;
  const again = await ask();
  expect([again.status, again.headers['idempotent-replayed']]).toEqual([201, 'true']);
  expect((await client.rest('GET', '/conversations')).body.pagination.total).toBe(1);
});

test('an attempt that failed is repeated by the clock, once, when it is set forward and when it is set back', async () => {
  const { server, clock, client, receiver, webhook, attempted, deliveries } = await openScene({
    replies: ({ number }) => ({ status: number === 1 || number === 2 ? 500 : 204 }),
  });
  const set = async (byMs: number): Promise<void> => {
    clock.nowMs += byMs;
    await server.app.webhooks.look();
  };
  const { id } = await webhook();
  await startConversation(client);
  expect(await attempted(id, 1)).toMatchObject({ status: 'pending', attemptCount: 1 });
  await set(-hourMs);
  await startConversation(client);
  const both = await eventually(
    () => deliveries(id),
    (list) => list.length === 2 && list.every(({ attemptCount }) => attemptCount === 1),
  );
  expect(both.map(({ status }) => status)).toEqual(['pending', 'pending']);
  await set(2 * hourMs);
  await until(() => receiver.deliveries.length === 4);
  await set(-hourMs);
  await set(2 * hourMs + minuteMs);
  const done = await eventually(
    () => deliveries(id),
    (list) => list.every(({ status }) => status === 'succeeded'),
  );
  expect(done.map(({ attemptCount }) => attemptCount)).toEqual([2, 2]);
  expect(receiver.deliveries).toHaveLength(4);
});

test('an address whose attempts have failed is not held up for longer than a minute', async () => {
  const { server, clock } = await openScene();
  const stranger = clientOf(server.url, 'cs_of-nobody');
  clock.nowMs += hourMs;
  for (let count = 0; count < 20; count++) expect((await stranger.rest('GET', '/account')).status).toBe(401);
  const refused = await stranger.rest('GET', '/account');
  expect([refused.status, refused.headers['retry-after']]).toEqual([429, '60']);
  clock.nowMs -= hourMs;
  expect((await stranger.rest('GET', '/account')).headers['retry-after']).toBe('60');
  clock.advance(minuteMs);
  expect((await stranger.rest('GET', '/account')).status).toBe(401);
});
