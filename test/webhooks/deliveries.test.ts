import { request } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventTypes } from '../../src/domain/event-types.ts';
import type { Json } from '../support/client.ts';
import { hourMs, minuteMs } from '../support/clock.ts';
import { serviceConformance } from '../support/conformance.ts';
import type { ReceivedWebhook, Replies } from '../support/receiver.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { eventually, until } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';
import { type Scene, sceneOf, startConversation } from '../support/webhooks.ts';

// What is sent to a webhook: which events, how often, in which form, signed by what. Each delivery is verified
// by the package that receivers use; see `Receiver`.

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer({ config: { webhookPolicy: anywhere } });
});
afterAll(() => server.close());

/** An account and a receiver of one test's own. */
async function openScene(replies?: Replies): Promise<Scene> {
  return await sceneOf(server, await server.account(), replies);
}

/** The answer of `GET /v1/events` as it came over the wire. */
async function eventsText(client: TestAccount): Promise<string> {
  const headers = { authorization: `Bearer ${client.secret}` };
  return await (await request(`${server.url}/v1/events?limit=100`, { headers })).body.text();
}

/** One event of each type but a deletion. */
async function makeOneOfEach(client: TestAccount): Promise<Json> {
  const { id } = await startConversation(client, {
    subject: 'Péché 📦 "quoted" </script>',
    metadata: { b: 1.5, a: true, '10': 'ten', '2': 'two' },
    message: { content: 'Hello\n\u2028wörld', sender: 'visitor' },
  });
  await client.rest('POST', `/conversations/${id}/messages`, { body: { content: 'Hi', sender: 'agent' } });
  await client.rest('PUT', `/conversations/${id}/read-positions/agent-3`, { body: { sequence: 1 } });
  await client.rest('PATCH', `/conversations/${id}`, { body: { status: 'closed' } });
  await client.rest('PATCH', `/conversations/${id}`, { body: { status: 'active' } });
  await client.rest('POST', '/leads', { body: { conversationId: id, email: 'ada@example.com' } });
  return id;
}

const typesOf = (deliveries: readonly Json[]): string[] => deliveries.map(({ event }) => event.type).sort();

test('every event is sent once, with the same bytes as in the log', async () => {
  const { client, receiver, webhook, deliveries } = await openScene();
  const { id } = await webhook('/hooks', { events: eventTypes });
  await makeOneOfEach(client);
  await until(() => receiver.deliveries.length === 8);
  const done = await eventually(
    () => deliveries(id),
    (list) => list.every(({ status }) => status === 'succeeded'),
  );
  expect(done).toHaveLength(8);

  const text = await eventsText(client);
  for (const { body } of receiver.deliveries) expect(text).toContain(body);
  const { data } = JSON.parse(text);
  expect(
    [...receiver.deliveries].sort((a, b) => a.event.sequence - b.event.sequence).map(({ event }) => event),
  ).toEqual(data);
  // Looking again sends nothing again.
  await server.app.webhooks.look();
  await startConversation(client);
  await until(() => receiver.deliveries.length === 9);
  expect(new Set(receiver.deliveries.map(({ headers }) => headers['webhook-id'])).size).toBe(9);
});

test('a request is a POST of JSON with the headers of Standard Webhooks and the id of the event', async () => {
  const { clock, client, receiver, webhook } = await openScene();
  await webhook();
  await startConversation(client);
  await until(() => receiver.deliveries.length === 1);
  const [delivery] = receiver.deliveries;
  expect(delivery?.method).toBe('POST');
  expect(delivery?.headers).toMatchObject({
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(delivery?.body ?? '')),
    'user-agent': expect.stringContaining('webhooks'),
    'webhook-id': delivery?.event.id,
    'webhook-timestamp': String(Math.floor(clock.nowMs / 1_000)),
    'webhook-signature': expect.stringMatching(/^v1,[A-Za-z0-9+/]{43}=$/),
  });
});

test('requests match openapi.json: events, an erased one, samples, with a trace and two signatures', async () => {
  const { client, receiver, webhook, deliveries } = await openScene();
  const { id } = await webhook('/hooks', { events: eventTypes });
  const conversationId = await makeOneOfEach(client);
  const headers = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' };
  await client.rest('POST', '/leads', { body: { phone: '+49 30 1234' }, headers });
  for (const eventType of eventTypes) {
    await client.rest('POST', `/webhooks/${id}/test`, { body: { eventType } });
  }
  const sent = await eventually(
    () => deliveries(id),
    (list) => list.length === 18 && list.every(({ status }) => status === 'succeeded'),
  );
  await client.rest('POST', `/webhooks/${id}/rotate-secret`);
  await client.rest('DELETE', `/conversations/${conversationId}`);
  // The erasure is an event too, which may arrive before the repetition or after it.
  const repeated = sent.at(-1);
  await client.rest('POST', `/webhooks/${id}/deliveries/${repeated?.id}/redeliver`);
  await until(() => receiver.deliveries.length === 20);

  const last = receiver.deliveries.findLast(({ event }) => event.id === repeated?.eventId) as ReceivedWebhook;
  expect([last.event.data, last.headers['webhook-signature']?.split(' ').length]).toEqual([{ erased: true }, 2]);
  expect(receiver.deliveries.filter((delivery) => 'traceparent' in delivery.headers)).toHaveLength(1);
  expect(receiver.deliveries.flatMap((delivery) => serviceConformance().faultsOfDelivery(delivery))).toEqual([]);

  const wrong: Partial<ReceivedWebhook>[] = [
    { event: { ...last.event, extra: 1 } },
    { event: { ...last.event, sequence: 0 } },
    { headers: { ...last.headers, 'webhook-signature': 'v1,none' } },
    { headers: { ...last.headers, 'webhook-note': 'new' } },
  ];
  for (const part of wrong) expect(serviceConformance().faultsOfDelivery({ ...last, ...part })).not.toEqual([]);
});

test('each webhook gets the events that it subscribes to, and no others', async () => {
  const { client, receiver, webhook } = await openScene();
  const stranger = await server.account();
  await stranger.rest('POST', '/webhooks', { body: { url: `${receiver.url}/stranger` } });
  await webhook('/all');
  await webhook('/some', { events: ['lead.captured', 'conversation.closed'] });
  await webhook('/none', { events: ['message.received'] });
  const { body } = await client.rest('GET', '/webhooks');
  const changed = body.data.find(({ url }: Json) => url.endsWith('/none'));
  await client.rest('PATCH', `/webhooks/${changed.id}`, { body: { events: ['conversation.started'] } });

  await makeOneOfEach(client);
  await until(() => receiver.deliveries.length === 7);
  expect(typesOf(receiver.to('/all'))).toEqual([
    'conversation.closed',
    'conversation.started',
    'lead.captured',
    'message.received',
  ]);
  expect(typesOf(receiver.to('/some'))).toEqual(['conversation.closed', 'lead.captured']);
  expect(typesOf(receiver.to('/none'))).toEqual(['conversation.started']);
  expect(receiver.to('/stranger')).toEqual([]);
});

test('nothing is sent for a write that failed', async () => {
  const { client, receiver, webhook, deliveries } = await openScene();
  const { id } = await webhook();
  await startConversation(client, { externalId: 'order-1' });
  const refusals = [
    await client.rest('POST', '/conversations', { body: { externalId: 'order-1' } }),
    await client.rest('POST', '/conversations', { body: { status: 'closed' } }),
    await client.rest('POST', '/leads', { body: { name: 'unreachable' } }),
    await client.rest('POST', '/leads', { body: { phone: '1', conversationId: 'conv_01m7yzcf3tfz1aan3df712nas7' } }),
  ];
  expect(refusals.map(({ status }) => status)).toEqual([409, 400, 400, 404]);
  await startConversation(client, { subject: 'the last' });
  await until(() => receiver.deliveries.length === 2);
  expect(receiver.deliveries.map(({ event }) => event.data.conversation.subject)).toEqual([null, 'the last']);
  expect(await deliveries(id)).toHaveLength(2);
});

test('an event from before the creation of the webhook is not sent', async () => {
  const { client, receiver, webhook } = await openScene();
  await startConversation(client, { subject: 'before' });
  await webhook();
  await startConversation(client, { subject: 'after' });
  await until(() => receiver.deliveries.length === 1);
  expect(receiver.deliveries[0]?.event.data.conversation.subject).toBe('after');
});

test.each(eventTypes)(
  'a sample of %s has the form of such an event, is marked as a test, and is not in the log',
  async (eventType) => {
    const { client, receiver, webhook, attempted } = await openScene();
    const { id } = await webhook('/hooks', { events: ['lead.captured'] });
    await makeOneOfEach(client);
    const { id: gone } = await startConversation(client);
    await client.rest('DELETE', `/conversations/${gone}`);
    const answer = await client.rest('POST', `/webhooks/${id}/test`, { body: { eventType } });
    expect(answer.status).toBe(202);
    expect(answer.body).toMatchObject({ eventType, test: true, status: 'pending', attemptCount: 0, attempts: [] });
    expect(await attempted(id, 1)).toMatchObject({ id: answer.body.id, status: 'succeeded', test: true });

    const sample = receiver.deliveries.find(({ event }) => event.test)?.event;
    const { data } = (await client.rest('GET', '/events')).body;
    const real = data.find(({ type }: Json) => type === eventType);
    expect(Object.keys(sample)).toEqual([...Object.keys(real), 'test']);
    expect(sample).toMatchObject({ type: eventType, accountId: real.accountId, test: true });
    expect(Object.keys(sample.data)).toEqual(Object.keys(real.data));
    const { changes: _, ...resources } = real.data; // of which a sample has others
    for (const [name, resource] of Object.entries(resources)) {
      expect(Object.keys(sample.data[name])).toEqual(Object.keys(resource as object));
    }
    expect(data).toHaveLength(10);
    expect(data.map(({ id: eventId }: Json) => eventId)).not.toContain(sample.id);
  },
);

test.each(['message.received', 'message.sent'])(
  'in a sample of %s the message is the last one of the conversation, as in such an event',
  async (eventType) => {
    const { client, receiver, webhook, attempted } = await openScene();
    const { id } = await webhook();
    await client.rest('POST', `/webhooks/${id}/test`, { body: { eventType } });
    await attempted(id, 1);
    const { event } = receiver.deliveries[0] as ReceivedWebhook;
    const { message, conversation } = event.data;
    const { content: preview, conversationId, clientId: _, metadata: __, ...last } = message;
    expect(conversation).toMatchObject({
      id: conversationId,
      status: eventType === 'message.sent' ? 'active' : 'pending',
      messageCount: message.sequence,
      lastMessage: { ...last, preview },
      version: message.sequence,
    });
  },
);

test('a sample is by default of the first type that the webhook subscribes to', async () => {
  const { client, webhook } = await openScene();
  const { id } = await webhook('/hooks', { events: ['lead.captured', 'message.received'] });
  expect((await client.rest('POST', `/webhooks/${id}/test`)).body.eventType).toBe('message.received');
});

test('the secret from the creation signs, and is never shown again', async () => {
  const { client, receiver, webhook } = await openScene();
  const { id, secret } = await webhook();
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  const other = await webhook('/other');
  expect(other.secret).not.toBe(secret);
  const answers = [
    (await client.rest('GET', '/webhooks')).body,
    (await client.rest('GET', `/webhooks/${id}`)).body,
    (await client.rest('PATCH', `/webhooks/${id}`, { body: { description: 'x' } })).body,
    (await client.rest('POST', `/webhooks/${id}/test`)).body,
    (await client.rest('GET', `/webhooks/${id}/deliveries`)).body,
    (await client.graphql('{ webhooks { nodes { id url secret } } }')).data,
  ];
  expect(JSON.stringify(answers)).not.toMatch(/whsec_|"secret":"/);
  await until(() => receiver.deliveries.length === 1);
  expect(receiver.deliveries[0]?.verifiedBy).toEqual([secret]);
});

test('after a rotation the new secret signs at once, and the old one as well for 24 hours', async () => {
  const { clock, client, receiver, webhook } = await openScene();
  const { id, secret: old } = await webhook();
  const send = async () => {
    const count = receiver.deliveries.length;
    await startConversation(client);
    await until(() => receiver.deliveries.length > count);
    return receiver.deliveries.at(-1);
  };
  const rotated = await client.rest('POST', `/webhooks/${id}/rotate-secret`);
  expect(rotated.status).toBe(200);
  const { secret } = rotated.body;
  receiver.trust('/hooks', secret);
  const both = await send();
  expect(both?.verifiedBy).toEqual([old, secret]);
  expect(both?.headers['webhook-signature']?.split(' ')).toHaveLength(2);

  clock.advance(24 * hourMs - 1);
  expect((await send())?.verifiedBy).toEqual([old, secret]);
  clock.advance(1);
  const alone = await send();
  expect(alone?.verifiedBy).toEqual([secret]);
  expect(alone?.headers['webhook-signature']?.split(' ')).toHaveLength(1);
});

test('several rotations in a day leave each secret its 24 hours', async () => {
  const { clock, client, receiver, webhook } = await openScene();
  const made = await webhook();
  const secrets = [made.secret];
  for (let count = 0; count < 3; count++) {
    clock.advance(hourMs);
    const { body } = await client.rest('POST', `/webhooks/${made.id}/rotate-secret`);
    receiver.trust('/hooks', body.secret);
    secrets.push(body.secret);
  }
  for (let gone = 0; gone < 4; gone++) {
    await startConversation(client);
    await until(() => receiver.deliveries.length === gone + 1);
    expect(receiver.deliveries[gone]?.verifiedBy).toEqual(secrets.slice(gone));
    clock.advance(gone === 0 ? 22 * hourMs : hourMs); // the first rotation was two hours before the last
  }
});

test('each attempt of a failing delivery has a new signature and timestamp, and the same id', async () => {
  const { client, receiver, webhook, attempted, advance } = await openScene(({ number }) => ({
    status: number < 3 ? 500 : 200,
  }));
  const { id } = await webhook();
  await startConversation(client);
  await attempted(id, 1);
  const { body } = await client.rest('POST', `/webhooks/${id}/rotate-secret`);
  receiver.trust('/hooks', body.secret);
  await advance(6_000);
  await attempted(id, 2);
  await advance(6 * minuteMs);
  expect(await attempted(id, 3)).toMatchObject({ status: 'succeeded', attemptCount: 3, nextAttemptAt: null });
  const headers = receiver.deliveries.map((delivery) => delivery.headers);
  expect(new Set(headers.map((each) => each['webhook-id'])).size).toBe(1);
  expect(headers.map((each) => Number(each['webhook-timestamp']) - Number(headers[0]?.['webhook-timestamp']))).toEqual([
    0, 6, 366,
  ]);
  expect(receiver.deliveries.map(({ verifiedBy }) => verifiedBy.length)).toEqual([1, 2, 2]);
  expect(new Set(receiver.deliveries.map(({ body: sent }) => sent)).size).toBe(1);
});

test('a failed delivery is sent again on request', async () => {
  const { client, receiver, webhook, attempted } = await openScene(({ number }) => ({
    status: number === 1 ? 400 : 200,
  }));
  const { id } = await webhook();
  await startConversation(client);
  const failed = await attempted(id, 1);
  expect(failed).toMatchObject({ status: 'pending', completedAt: null });
  const answer = await client.rest('POST', `/webhooks/${id}/deliveries/${failed.id}/redeliver`);
  expect(answer.status).toBe(202);
  expect(answer.headers['location']).toBe(`/v1/webhooks/${id}/deliveries/${failed.id}`);
  const done = await attempted(id, 2);
  expect(done).toMatchObject({ id: failed.id, status: 'succeeded', attemptCount: 2 });
  expect(done.attempts.map(({ trigger }: Json) => trigger)).toEqual(['schedule', 'manual']);
  expect(receiver.deliveries.map(({ headers }) => headers['webhook-id'])).toEqual([failed.eventId, failed.eventId]);
  // One that succeeded can be had once more, too.
  await client.rest('POST', `/webhooks/${id}/deliveries/${failed.id}/redeliver`);
  expect((await attempted(id, 3)).attempts[2]).toMatchObject({ trigger: 'manual', responseStatus: 200 });
});
