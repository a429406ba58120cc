import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operatorOf } from '../../src/domain/caller.ts';
import { recoverWebhook } from '../../src/domain/deliveries.ts';
import type { StoredDelivery } from '../../src/domain/delivery-record.ts';
import { eventTypes } from '../../src/domain/event-types.ts';
import { timestamp } from '../../src/domain/time.ts';
import type { Json } from '../support/client.ts';
import { dayMs, hourMs, minuteMs } from '../support/clock.ts';
import { isOnPostgres } from '../support/postgres.ts';
import { sampleAttempt, sampleDelivery } from '../support/samples.ts';
import * as select from '../support/selections.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { eventually, gate } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';
import { openScene, type Scene, sceneOf, startConversation } from '../support/webhooks.ts';

// What the operations on webhooks and deliveries do beyond what both faces are held to in `parity.test.ts`.

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer({ config: { webhookPolicy: anywhere } });
});
afterAll(() => server.close());

const url = 'https://hooks.example.com'; // a name that is not known

async function hook(client: TestAccount, body: object = {}): Promise<Json> {
  return (await client.rest('POST', '/webhooks', { body: { url, ...body } })).body;
}

const pointersOf = ({ body }: Json): string[] =>
  body.errors.map(({ pointer, parameter }: Json) => pointer ?? `?${parameter}`).sort();

describe('over REST', () => {
  test('creating responds with 201, the Location of the webhook and its secret', async () => {
    const client = await server.account();
    const answer = await client.rest('POST', '/webhooks', { body: { url } });
    expect(answer.status).toBe(201);
    expect(answer.headers['location']).toBe(`/v1/webhooks/${answer.body.id}`);
    const { secret, ...webhook } = answer.body;
    expect(secret).toMatch(/^whsec_/);
    expect((await client.rest('GET', `/webhooks/${webhook.id}`)).body).toEqual(webhook);
    expect(webhook.id).toMatch(/^whk_[0-9a-z]{26}$/);
  });

  test('unknown fields and parameters are reported with all other faults', async () => {
    const client = await server.account();
    const { id } = await hook(client);
    const post = (path: string, body: unknown) => client.rest('POST', path, { body });
    expect(pointersOf(await post('/webhooks', { Url: 1, secret: 'whsec_mine', url: 5, events: 'all' }))).toEqual([
      '/Url',
      '/events',
      '/secret',
      '/url',
    ]);
    expect(pointersOf(await post('/webhooks', {}))).toEqual(['/url']);
    expect(pointersOf(await post('/webhooks', { url, events: ['lead.captured', 'lead.lost', 7] }))).toEqual([
      '/events/1',
      '/events/2',
    ]);
    expect(
      pointersOf(await post('/webhooks', { url, events: Array(eventTypes.length + 1).fill('lead.captured') })),
    ).toEqual(['/events']);
    expect(pointersOf(await post('/webhooks', { url, enabled: false }))).toEqual(['/enabled']);
    const patched = await client.rest('PATCH', `/webhooks/${id}`, {
      body: { enabled: 'yes', id, disabledReason: null },
    });
    expect(pointersOf(patched)).toEqual(['/disabledReason', '/enabled', '/id']);
    expect(pointersOf(await post(`/webhooks/${id}/test`, { eventType: 'lead.lost', id }))).toEqual([
      '/eventType',
      '/id',
    ]);
    expect(pointersOf(await post(`/webhooks/${id}/rotate-secret`, { secret: 'mine' }))).toEqual(['/secret']);
    expect(pointersOf(await post(`/webhooks/${id}/recover`, {}))).toEqual(['/since']);
    expect(pointersOf(await post(`/webhooks/${id}/recover`, { since: 5 }))).toEqual(['/since']);
    expect(pointersOf(await post(`/webhooks/${id}/recover`, { since: 'yesterday', until: 'now' }))).toEqual([
      '/since',
      '/until',
    ]);
    expect((await post(`/webhooks/${id}/recover`, undefined)).body.code).toBe('BAD_REQUEST');
    expect((await post('/webhooks', [])).body.code).toBe('BAD_REQUEST');
    expect(pointersOf(await client.rest('GET', `/webhooks/${id}/deliveries?status=failed&limit=0`))).toEqual([
      '?limit',
      '?status',
    ]);
    expect((await client.rest('GET', '/webhooks')).body.data).toHaveLength(1);
  });

  test('only the responses to creation and rotation have the secret, and the server log never has it', async () => {
    const client = await server.account();
    const { id, secret } = await hook(client);
    const rotated = (await client.rest('POST', `/webhooks/${id}/rotate-secret`)).body;
    expect(rotated.secret).toMatch(/^whsec_/);
    expect(rotated.secret).not.toBe(secret);
    await client.rest('POST', `/webhooks/${id}/test`);
    expect(server.logLines).toContainEqual(expect.objectContaining({ path: `/v1/webhooks/${id}/rotate-secret` }));
    expect(JSON.stringify(server.logLines)).not.toContain('whsec_');
  });

  test('lists continue by cursor and link without a gap', async () => {
    const client = await server.account();
    const { id } = await hook(client);
    const made: string[] = [];
    for (let count = 0; count < 5; count++) made.push((await client.rest('POST', `/webhooks/${id}/test`)).body.id);
    const seen: string[] = [];
    let path: string | undefined = `/webhooks/${id}/deliveries?limit=2`;
    while (path !== undefined) {
      const { body, headers }: Json = await client.rest('GET', path);
      seen.push(...body.data.map((each: Json) => each.id));
      path = /<[^>]*\/v1([^>]*)>; rel="next"/.exec(headers.link ?? '')?.[1];
      expect(path === undefined).toBe(body.pagination.nextCursor === null);
    }
    expect(seen).toEqual(made.reverse());
  });
});

test('a delivery has as many attempts as it counts, also more than can be repeated', async () => {
  const client = await server.account();
  const { id } = await hook(client, { events: ['lead.captured'] });
  await client.rest('PATCH', `/webhooks/${id}`, { body: { enabled: false } });
  const { body } = await client.rest('POST', `/webhooks/${id}/test`);
  const stored = Array.from({ length: 108 }, () => sampleAttempt());
  await server.storage.write(async (tx) => {
    for (const [index, attempt] of stored.entries()) await tx.deliveries.insertAttempt(body.id, index + 1, attempt);
  }, client.account.id);
  for (const attemptCount of [0, 3, 100, 101, 107]) {
    await server.storage.write(async (tx) => {
      const delivery = await tx.deliveries.find(client.account.id, body.id);
      await tx.deliveries.update(client.account.id, { ...(delivery as StoredDelivery), attemptCount });
    });
    const delivery = (await client.rest('GET', `/webhooks/${id}/deliveries/${body.id}`)).body;
    expect(delivery).toMatchObject({ attemptCount, attempts: stored.slice(0, attemptCount) });
  }
});

test('a further rotation is accepted once the oldest secret of the day has expired', async () => {
  const own = await startTestServer();
  const client = await own.account();
  const { id } = await hook(client);
  const rotate = async () => (await client.rest('POST', `/webhooks/${id}/rotate-secret`)).status;
  const statuses: number[] = [];
  for (let count = 0; count < 9; count++) {
    statuses.push(await rotate());
    own.clock.advance(minuteMs);
  }
  expect(statuses).toEqual(Array(9).fill(200));
  expect(await rotate()).toBe(409);
  own.clock.advance(24 * hourMs - 9 * minuteMs - 1);
  expect(await rotate()).toBe(409);
  own.clock.advance(1);
  expect([await rotate(), await rotate()]).toEqual([200, 409]);
  await own.close();
});

describe('recover', () => {
  test('validates `since` before it looks for the webhook', async () => {
    const client = await server.account();
    const path = '/webhooks/whk_01m7z9f005fjrbbpn7ckr0m2wr/recover';
    const { body } = await client.rest('POST', path, { body: { since: 'yesterday' } });
    expect(body.errors).toEqual([
      { pointer: '/since', detail: 'must be an RFC 3339 time or a cursor of the event log' },
    ]);
  });

  /**
   * A webhook with four deliveries that have failed for good and a sample that has, and when each of the four was made
   * and had failed: an hour from one to the next.
   */
  async function failed(): Promise<Scene & { id: string; cursors: string[]; made: string[]; ended: string[] }> {
    const scene = await openScene({ replies: () => ({ status: 500 }) });
    const { id } = await scene.webhook();
    const [cursors, made, ended]: [string[], string[], string[]] = [[], [], []];
    for (let count = 0; count < 4; count++) {
      made.push(timestamp(scene.clock.nowMs));
      await startConversation(scene.client);
      await scene.attempted(id, 1);
      cursors.push((await scene.client.graphql('{ eventCursor }')).data.eventCursor);
      scene.clock.advance(hourMs);
    }
    await scene.client.rest('POST', `/webhooks/${id}/test`);
    await eventually(
      () => scene.deliveries(id),
      ([newest]) => newest.status === 'failed',
    );
    await scene.client.rest('PATCH', `/webhooks/${id}`, { body: { enabled: false } });
    const [, ...events] = await scene.deliveries(id);
    // What ten attempts over three days would come to.
    scene.clock.advance(3 * dayMs);
    for (const { id: deliveryId } of events.reverse()) {
      scene.clock.advance(hourMs);
      const completedAt = timestamp(scene.clock.nowMs);
      ended.push(completedAt);
      await scene.server.storage.write(async (tx) => {
        const delivery = await tx.deliveries.find(scene.client.account.id, deliveryId);
        const gone = { status: 'failed', dueAt: null, step: 10, completedAt } as const;
        await tx.deliveries.update(scene.client.account.id, { ...(delivery as StoredDelivery), ...gone });
      });
    }
    return { ...scene, id, cursors, made, ended };
  }

  test('repeats what failed since a time, whenever it was created, and nothing else', async () => {
    const { client, id, made, ended, deliveries } = await failed();
    const recover = async (since = '') =>
      (await client.rest('POST', `/webhooks/${id}/recover`, { body: { since } })).body;
    expect(await recover(ended[3]?.replace('.000Z', '.001Z'))).toEqual({ count: 0 });
    // Made before the outage, and given up in it.
    expect(await recover(ended[2])).toEqual({ count: 2 });
    expect((await deliveries(id)).map(({ status }) => status)).toEqual([
      'failed',
      'paused',
      'paused',
      'failed',
      'failed',
    ]);
    expect(await recover(made[0])).toEqual({ count: 2 });
    expect(await recover(made[0])).toEqual({ count: 0 });
  });

  test('finds recent failures behind many older ones', async () => {
    const client = await server.account();
    const { id } = await hook(client);
    await client.rest('PATCH', `/webhooks/${id}`, { body: { enabled: false } });
    const since = timestamp(server.clock.nowMs);
    const before = { status: 'failed', dueAt: null, completedAt: timestamp(server.clock.nowMs - 1) } as const;
    await server.storage.write(async (tx) => {
      for (let count = 0; count < 500; count++) {
        const completedAt = count % 240 === 239 ? since : before.completedAt;
        await tx.deliveries.insert(client.account.id, sampleDelivery(id, { ...before, completedAt }));
      }
    });
    const answer = await client.rest('POST', `/webhooks/${id}/recover`, { body: { since } });
    expect(answer.body).toEqual({ count: 2 });
  });

  // On PostgreSQL, no account waits for another's.
  test.skipIf(isOnPostgres)('lets a write of another account in after each of its small steps', async () => {
    const [client, other] = [await server.account(), await server.account()];
    const { id } = await hook(client);
    await client.rest('PATCH', `/webhooks/${id}`, { body: { enabled: false } });
    const before = { status: 'failed', dueAt: null, completedAt: timestamp(server.clock.nowMs) } as const;
    await server.storage.write(async (tx) => {
      for (let count = 0; count < 500; count++) {
        await tx.deliveries.insert(client.account.id, sampleDelivery(id, before));
      }
    });
    const caller = operatorOf(client.account);
    const since = timestamp(server.clock.nowMs - 1);
    const { storage } = server;
    const left = async () =>
      (await storage.read.deliveries.failed(client.account.id, id, { fromId: '', limit: 500 })).length;
    const leftWhenLetIn = new Promise<number>((resolve) => {
      const stop = storage.watch(() => {
        void left().then((count) => {
          if (count === 500) return;
          stop();
          resolve(storage.write(async () => {}, other.account.id).then(left)); // right behind the first step
        });
      });
    });
    const recovering = recoverWebhook.execute(server.app.ports, caller, { id, since });
    expect(await leftWhenLetIn).toBeGreaterThanOrEqual(500 - 2 * 64);
    expect((await recovering).count).toBe(500);
  });

  test('repeats failed deliveries of events after a cursor, and sends them', async () => {
    const { client, receiver, id, cursors, deliveries } = await failed();
    const before = receiver.deliveries.length;
    receiver.replies = () => ({});
    const answer = await client.rest('POST', `/webhooks/${id}/recover`, { body: { since: cursors[0] } });
    expect([answer.status, answer.body]).toEqual([202, { count: 3 }]);
    await client.rest('PATCH', `/webhooks/${id}`, { body: { enabled: true } });
    const list = await eventually(
      () => deliveries(id),
      (found) => found.filter(({ status }) => status === 'succeeded').length === 3,
    );
    expect(list.map(({ status }) => status)).toEqual(['failed', 'succeeded', 'succeeded', 'succeeded', 'failed']);
    expect(receiver.deliveries).toHaveLength(before + 3);
    const { data } = await client.graphql('{ eventCursor }');
    expect((await client.rest('POST', `/webhooks/${id}/recover`, { body: { since: data.eventCursor } })).body).toEqual({
      count: 0,
    });
  });
});

describe('redeliver', () => {
  test('of a delivery with an attempt in progress leaves it to that attempt', async () => {
    const held = gate();
    const scene = await sceneOf(server, await server.account(), () => ({ after: held.opened, status: 200 }));
    const { id } = await scene.webhook();
    await startConversation(scene.client);
    const [delivery] = await eventually(
      () => scene.deliveries(id),
      ([newest]) => newest.nextAttemptAt === null,
    );
    const answer = await scene.client.rest('POST', `/webhooks/${id}/deliveries/${delivery.id}/redeliver`);
    expect(answer.body).toMatchObject({ status: 'pending', nextAttemptAt: null, attempts: [] });
    held.open();
    expect(await scene.attempted(id, 1)).toMatchObject({ status: 'succeeded', attemptCount: 1 });
    expect(scene.receiver.deliveries).toHaveLength(1);
  });

  test('replayed under an idempotency key shows the attempts of the first time, whose responses are stored once', async () => {
    const body = 'x'.repeat(16_384);
    const scene = await sceneOf(server, await server.account(), ({ number }) => ({
      status: number < 3 ? 500 : 200,
      body,
    }));
    const { id } = await scene.webhook();
    await startConversation(scene.client);
    const { id: deliveryId } = await scene.attempted(id, 1);
    const redeliver = () =>
      scene.client.rest('POST', `/webhooks/${id}/deliveries/${deliveryId}/redeliver`, {
        headers: { 'idempotency-key': 'again' },
      });
    const first = await redeliver();
    expect(first.body).toMatchObject({ attemptCount: 1, attempts: [{ responseBody: body }] });
    await scene.attempted(id, 2);
    const again = await redeliver();
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect(again.body).toEqual(first.body);
    const statement = 'SELECT length(result) AS length FROM kept_results WHERE account_id = ?';
    const [kept] = await server.query(statement, scene.client.account.id);
    expect(kept?.['length']).toBeLessThan(1_000);
    await scene.client.rest('DELETE', `/webhooks/${id}`);
    expect((await redeliver()).body, 'they are gone with their webhook').toEqual({ ...first.body, attempts: [] });
  });

  test('is rejected after a hundred attempts', async () => {
    const client = await server.account();
    const { id } = await hook(client, { events: ['lead.captured'] });
    await client.rest('PATCH', `/webhooks/${id}`, { body: { enabled: false } });
    const { body } = await client.rest('POST', `/webhooks/${id}/test`);
    const attempted = async (attemptCount: number) =>
      await server.storage.write(async (tx) => {
        const delivery = await tx.deliveries.find(client.account.id, body.id);
        await tx.deliveries.update(client.account.id, { ...(delivery as StoredDelivery), attemptCount });
      });
    await attempted(99);
    const path = `/webhooks/${id}/deliveries/${body.id}/redeliver`;
    expect((await client.rest('POST', path)).status).toBe(202);
    await attempted(100);
    expect((await client.rest('POST', path)).body.code).toBe('QUOTA_EXCEEDED');
  });

  test('on the path of another webhook of the account is NOT_FOUND', async () => {
    const client = await server.account();
    const [{ id }, other] = [await hook(client), await hook(client)];
    const { body } = await client.rest('POST', `/webhooks/${id}/test`);
    for (const [method, path] of [
      ['GET', `/webhooks/${other.id}/deliveries/${body.id}`],
      ['POST', `/webhooks/${other.id}/deliveries/${body.id}/redeliver`],
    ] as const) {
      expect((await client.rest(method, path)).body.code).toBe('NOT_FOUND');
    }
  });
});

describe('over GraphQL', () => {
  const query = `query ($id: ID!, $first: Int, $after: String) {
    webhook(id: $id) { ${select.webhook} deliveries(first: $first, after: $after) {
      edges { cursor node { ${select.deliveryWithAttempts} webhook { id url } } } totalCount
      pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
    } }
  }`;

  test('a delivery with its attempts is the same as over REST', async () => {
    const scene = await openScene({ replies: ({ number }) => ({ status: number < 3 ? 500 : 200, body: `${number}` }) });
    const { client } = scene;
    const { id } = await scene.webhook();
    await startConversation(client);
    await scene.attempted(id, 1);
    await scene.advance(6_000);
    await scene.attempted(id, 2);
    await scene.advance(6 * minuteMs);
    const fromRest = await scene.attempted(id, 3);
    expect(fromRest.attempts).toHaveLength(3);
    const { data } = await client.graphql(`query ($id: ID!) { delivery(id: $id) { ${select.deliveryWithAttempts} } }`, {
      id: fromRest.id,
    });
    const { attempts, status, eventType, ...rest } = data.delivery;
    const trigger = (attempt: Json) => ({ ...attempt, trigger: attempt.trigger.toLowerCase() });
    expect([status, eventType]).toEqual(['SUCCEEDED', 'CONVERSATION_STARTED']);
    expect({
      ...rest,
      status: 'succeeded',
      eventType: 'conversation.started',
      attempts: attempts.nodes.map(trigger),
    }).toEqual(fromRest);
    expect(fromRest.attempts.map(({ responseBody }: Json) => responseBody)).toEqual(['1', '2', '3']);

    // The attempts, by pages.
    const page = async (first: number, after: string | null) =>
      (
        await client.graphql(
          `query ($id: ID!, $first: Int, $after: String) { delivery(id: $id) { attempts(first: $first, after: $after) {
            edges { cursor node { id } } totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } } }`,
          { id: fromRest.id, first, after },
        )
      ).data.delivery.attempts;
    const ids = fromRest.attempts.map((attempt: Json) => attempt.id);
    const one = await page(2, null);
    expect(one.edges.map(({ node }: Json) => node.id)).toEqual(ids.slice(0, 2));
    expect(one).toMatchObject({ totalCount: 3, pageInfo: { hasNextPage: true, hasPreviousPage: false } });
    const two = await page(2, one.pageInfo.endCursor);
    expect(two.edges.map(({ node }: Json) => node.id)).toEqual(ids.slice(2));
    expect(two.pageInfo).toMatchObject({ hasNextPage: false, hasPreviousPage: true });
    expect((await page(2, two.pageInfo.endCursor)).edges).toEqual([]);
  });

  test('response bodies count towards the size limit of an answer', async () => {
    const scene = await sceneOf(server, await server.account(), () => ({ status: 200, body: 'x'.repeat(16_384) }));
    const { id } = await scene.webhook();
    await startConversation(scene.client);
    const delivery = await scene.attempted(id, 1);
    const ask = (times: number) => {
      const bodies = Array.from({ length: 200 }, (_, index) => `b${index}: responseBody`).join(' ');
      const again = Array.from({ length: times }, (_, index) => `d${index}: delivery(id: $id) { ...D }`).join(' ');
      return scene.client.graphql(
        `query ($id: ID!) { ${again} } fragment D on Delivery { attempts { nodes { ${bodies} } } }`,
        { id: delivery.id },
      );
    };
    expect((await ask(2)).errors).toBeUndefined();
    expect((await ask(3)).errors?.[0]?.extensions.code).toBe('QUERY_TOO_COMPLEX');
  });

  test('the deliveries of a webhook are a connection, each with its attempts and its webhook', async () => {
    const client = await server.account();
    const { id } = await hook(client);
    for (let count = 0; count < 3; count++) await client.rest('POST', `/webhooks/${id}/test`);
    const first = (await client.graphql(query, { id, first: 2 })).data.webhook.deliveries;
    expect(first).toMatchObject({ totalCount: 3, pageInfo: { hasNextPage: true, hasPreviousPage: false } });
    expect(first.edges.map(({ node }: Json) => node.webhook)).toEqual([
      { id, url },
      { id, url },
    ]);
    const second = (await client.graphql(query, { id, first: 2, after: first.pageInfo.endCursor })).data.webhook;
    expect(second.deliveries.edges).toHaveLength(1);
    expect(second.deliveries.pageInfo).toMatchObject({ hasNextPage: false, hasPreviousPage: true });
    const rest = (await client.rest('GET', `/webhooks/${id}/deliveries`)).body.data;
    const nodes = [...first.edges, ...second.deliveries.edges].map(({ node }: Json) => node.id);
    expect(nodes).toEqual(rest.map((each: Json) => each.id));
  });

  test.each(['nonsense', 'WyItY3JlYXRlZEF0IiwiYSJd'])('attempts from the cursor %s are rejected', async (after) => {
    const client = await server.account();
    const { id } = await hook(client);
    const { body } = await client.rest('POST', `/webhooks/${id}/test`);
    const { errors } = await client.graphql(
      'query ($id: ID!, $after: String) { delivery(id: $id) { attempts(after: $after) { totalCount } } }',
      { id: body.id, after },
    );
    expect(errors?.[0]?.extensions).toMatchObject({ code: 'VALIDATION_FAILED', errors: [{ pointer: '/after' }] });
  });

  test('node finds webhooks and deliveries, without a secret', async () => {
    const client = await server.account();
    const { id } = await hook(client);
    const { body } = await client.rest('POST', `/webhooks/${id}/test`);
    const { data, errors } = await client.graphql(
      `query ($ids: [ID!]!) { nodes(ids: $ids) { __typename id
        ... on Webhook { url secret } ... on Delivery { test webhookId attempts { totalCount } } } }`,
      { ids: [id, body.id, body.eventId, 'whk_01m7yzcf3tfz1aan3df712nas7'] },
    );
    expect(errors).toBeUndefined();
    expect(data.nodes).toEqual([
      { __typename: 'Webhook', id, url, secret: null },
      expect.objectContaining({ __typename: 'Delivery', id: body.id, test: true, webhookId: id }),
      null,
      null,
    ]);
  });

  test('the secret is only in the payloads of creation and rotation', async () => {
    const client = await server.account();
    const made = await client.graphql(
      `mutation { createWebhook(input: { url: "${url}" }) { webhook { id secret } eventCursor } }`,
    );
    const { id, secret } = made.data.createWebhook.webhook;
    expect(secret).toMatch(/^whsec_/);
    expect(made.data.createWebhook.eventCursor).toEqual(expect.any(String));
    const rotated = await client.graphql(
      'mutation ($id: ID!) { rotateWebhookSecret(input: { id: $id }) { webhook { id secret } } }',
      { id },
    );
    expect(rotated.data.rotateWebhookSecret.webhook.secret).not.toBe(secret);
    const updated = await client.graphql(
      'mutation ($id: ID!) { updateWebhook(input: { id: $id, description: "x" }) { webhook { secret } } }',
      { id },
    );
    expect(updated.data.updateWebhook.webhook.secret).toBeNull();
    expect(
      (await client.graphql('query ($id: ID!) { webhook(id: $id) { secret } }', { id })).data.webhook.secret,
    ).toBeNull();
  });

  test('nothing of it is accessible without the scope', async () => {
    const client = await server.account();
    const { id } = await hook(client);
    const { body } = await client.rest('POST', `/webhooks/${id}/test`);
    const other = await client.withScopes('conversations:read', 'conversations:write', 'events:read', 'leads:read');
    for (const text of [
      '{ webhooks { totalCount } }',
      `{ webhook(id: "${id}") { id } }`,
      `{ delivery(id: "${body.id}") { id } }`,
      `{ node(id: "${id}") { id } }`,
      `{ node(id: "${body.id}") { id } }`,
      `mutation { testWebhook(input: { id: "${id}" }) { delivery { id } } }`,
      `mutation { redeliver(input: { id: "${body.id}" }) { delivery { id } } }`,
      `mutation { deleteWebhook(input: { id: "${id}" }) { deletedWebhookId } }`,
    ]) {
      const { data, errors } = await other.graphql(text);
      expect(errors?.[0]?.extensions.code, text).toBe('FORBIDDEN');
      expect(errors?.[0]?.message).toContain('webhooks:manage');
      expect(Object.values(data)).toEqual([null]);
    }
    const manager = await client.withScopes('webhooks:manage');
    expect((await manager.graphql(query, { id, first: 2 })).errors).toBeUndefined();
  });
});
