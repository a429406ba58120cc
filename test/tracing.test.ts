import { describe, expect, test } from 'vitest';
import { clientOf } from './support/client.ts';
import { openScene, startConversation } from './support/webhooks.ts';

// The trace of a request (W3C Trace Context) is found again in the log, and in the webhooks that the request causes.

const traceId = '0af7651916cd43dd8448eb211c80319c';
const spanId = 'b7ad6b7169203331';
const traced = { headers: { traceparent: `00-${traceId}-${spanId}-01` } };
const body = { message: { sender: 'visitor', content: 'hello' } };

describe('the trace of a request', () => {
  test('is in its line of the log, whichever face it came through, and when it was refused too', async () => {
    const { server, client } = await openScene();
    await client.rest('GET', '/conversations', traced);
    await client.graphql('{ account { id } }', {}, traced);
    await clientOf(server.url).rest('GET', '/conversations', traced);
    expect(server.logLines).toMatchObject([
      { msg: 'request', traceId, operation: 'listConversations' },
      { msg: 'request', traceId, operation: 'getAccount' },
      { msg: 'request', traceId, status: 401 },
    ]);
  });

  test('is overlooked when it is not valid, and not missed', async () => {
    const { server, client } = await openScene();
    await client.rest('GET', '/conversations', { headers: { traceparent: `00-${traceId}-${spanId}` } });
    await client.rest('GET', '/conversations');
    expect(server.logLines.map(({ status, traceId }) => ({ status, traceId }))).toEqual([
      { status: 200, traceId: undefined },
      { status: 200, traceId: undefined },
    ]);
  });

  test.each(['rest', 'graphql'] as const)('goes with the webhooks that it causes, over %s', async (face) => {
    const { client, webhook, attempted, receiver, server } = await openScene();
    const { id } = await webhook();
    if (face === 'rest') await client.rest('POST', '/conversations', { body, ...traced });
    else {
      const mutation =
        'mutation ($input: CreateConversationInput!) { createConversation(input: $input) { eventCursor } }';
      const input = { message: { sender: 'VISITOR', content: 'hello' } };
      expect((await client.graphql(mutation, { input }, traced)).errors).toBeUndefined();
    }
    await attempted(id, 1);
    const sent = receiver.deliveries.map(({ headers }) => headers['traceparent']);
    expect(sent.length).toBeGreaterThan(0);
    for (const header of sent) expect(header).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
    expect(new Set([...sent, `00-${traceId}-${spanId}-01`]).size, 'each from a span of its own').toBe(sent.length + 1);
    // The event itself is what it always is.
    expect(receiver.deliveries[0]?.body).not.toContain(traceId);
    const [event] = (await client.rest('GET', '/events')).body.data;
    expect(receiver.deliveries[0]?.event).toEqual(event);
    expect(server.logLines).toContainEqual(expect.objectContaining({ msg: 'request', traceId }));
  });

  test('stays with a delivery until it has come through, each attempt from a new span', async () => {
    let down = true;
    const { server, client, webhook, attempted, advance, receiver } = await openScene({
      replies: () => (down ? { status: 503 } : {}),
    });
    const { id } = await webhook();
    await client.rest('POST', '/conversations', { body: {}, ...traced });
    await attempted(id, 1);
    down = false;
    await advance(10_000);
    const { attemptCount } = await attempted(id, 2);
    expect(attemptCount).toBe(2);
    const spans = receiver.deliveries.map(({ headers }) => /^00-(\w+)-(\w+)-01$/.exec(headers['traceparent'] ?? ''));
    expect(spans.map((match) => match?.[1])).toEqual([traceId, traceId]);
    expect(new Set(spans.map((match) => match?.[2])).size).toBe(2);
    // What failed is in the log, where it can be found by its trace.
    expect(server.logLines).toContainEqual(
      expect.objectContaining({ msg: 'webhook attempt', traceId, spanId: spans[0]?.[2], status: 503 }),
    );
  });

  test('is of the request that caused the event, and not of the one that repeats its delivery', async () => {
    const { client, webhook, attempted, receiver } = await openScene();
    const { id } = await webhook();
    await client.rest('POST', '/conversations', { body: {}, ...traced });
    const delivery = await attempted(id, 1);
    const other = { headers: { traceparent: `00-${'1'.repeat(32)}-${spanId}-01` } };
    await client.rest('POST', `/webhooks/${id}/deliveries/${delivery.id}/redeliver`, other);
    await attempted(id, 2);
    expect(receiver.deliveries.map(({ headers }) => headers['traceparent'])).toEqual([
      expect.stringContaining(traceId),
      expect.stringContaining(traceId),
    ]);
  });

  test('is that of who tries a webhook out, for the sample', async () => {
    const { client, webhook, attempted, receiver } = await openScene();
    const { id } = await webhook();
    await client.rest('POST', `/webhooks/${id}/test`, traced);
    await attempted(id, 1);
    expect(receiver.deliveries[0]?.headers['traceparent']).toContain(traceId);
  });

  test('is not made up where there was none', async () => {
    const { client, webhook, attempted, receiver } = await openScene();
    const { id } = await webhook();
    await startConversation(client);
    await attempted(id, 1);
    expect(receiver.deliveries[0]?.headers).not.toHaveProperty('traceparent');
  });
});
