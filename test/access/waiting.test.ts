import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { scheduler } from '../../src/runtime/scheduler.ts';
import { openWire, requestText, type WireResponse } from '../http/wire.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

// What becomes of a request that waits for its account's turn, on both faces. The account is kept busy by work of its own,
// which the server in this process takes from the same scheduler.

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

const some = { workers: 150, eachMs: 1 };
/** Some two seconds of work. */
const tooMany = { workers: 500, eachMs: 4 };

/** Keeps an account's turns for as long as the condition holds. Other work of the event loop goes on. */
async function keepBusy({ account }: TestAccount, condition: () => boolean, { workers, eachMs } = some): Promise<void> {
  const working = async (isRead: boolean): Promise<void> => {
    while (condition()) {
      await scheduler.request(account.id, isRead);
      for (const endMs = performance.now() + eachMs; performance.now() < endMs; );
    }
  };
  await Promise.all(Array.from({ length: workers }, (_, index) => working(index % 2 === 0)));
}

const faces = {
  REST: (authorization: string) =>
    requestText('POST', '/v1/conversations', { headers: { authorization }, body: '{"subject":"too late"}' }),
  GraphQL: (authorization: string) =>
    requestText('POST', '/graphql', {
      headers: { authorization },
      body: JSON.stringify({
        query: 'mutation { createConversation(input: {subject: "too late"}) { conversation { id } } }',
      }),
    }),
};

describe.each(Object.entries(faces))('a request that waits for its turn, over %s', (_, textOf) => {
  test('does nothing and costs nothing if its client has gone', async () => {
    const client = await server.account();
    const before = await server.app.ports.limiter.peek(client.account);
    const wire = openWire(server.url);
    let isWaiting = true;
    const busy = keepBusy(client, () => isWaiting);
    await wire.send(textOf(`Bearer ${client.secret}`));
    await until(() => scheduler.waitingRequests > some.workers);
    wire.cut();
    await until(() => server.logLines.some(({ accountId }) => accountId === client.account.id));
    isWaiting = false;
    await busy;
    const { body } = await client.rest('GET', '/conversations');
    expect(body.data).toEqual([]);
    expect((await server.app.ports.limiter.peek(client.account)).remaining).toBe(before.remaining - 1);
  });

  test('is refused if its credential was revoked meanwhile, unless it has waited no longer than 100 ms', async () => {
    const client = await server.account();
    const { body: key } = await client.rest('POST', '/api-keys', { body: { name: 'short-lived' } });
    const wire = openWire(server.url);
    let isWaiting = true;
    const busy = keepBusy(client, () => isWaiting);
    const sentMs = performance.now();
    await wire.send(textOf(`Bearer ${key.secret}`));
    await until(() => scheduler.waitingRequests > some.workers);
    await server.app.ports.storage.write(async (tx) => {
      const found = await tx.apiKeys.find(client.account.id, key.id);
      if (found !== undefined)
        await tx.apiKeys.update({ ...found, revokedAt: new Date(server.clock.now()).toISOString() });
    });
    await until(() => performance.now() - sentMs > 150);
    isWaiting = false;
    await busy;
    expect(await wire.response()).toMatchObject({ status: 401 });
    expect((await client.rest('GET', '/conversations')).body.data).toEqual([]);
  });

  test('is refused at once, with what is left of its budget, if its account has too much waiting; others are served', async () => {
    const [hostile, neighbour] = [await server.account(), await server.account()];
    let isOver = false;
    const busy = keepBusy(hostile, () => !isOver, tooMany);
    const refusals: WireResponse[] = [];
    const served: WireResponse[] = [];
    const asked: Promise<unknown>[] = [];
    const ask = async ({ secret }: TestAccount): Promise<WireResponse> => {
      const wire = openWire(server.url);
      await wire.send(textOf(`Bearer ${secret}`));
      return await wire.response();
    };
    for (const endMs = performance.now() + 10_000; refusals.length === 0 && performance.now() < endMs; ) {
      asked.push(ask(hostile).then((response) => response.status === 503 && refusals.push(response)));
      served.push(await ask(neighbour));
    }
    isOver = true;
    await Promise.all([busy, ...asked]);
    expect(refusals[0]?.headers).toMatchObject({ 'retry-after': '1', 'ratelimit-policy': expect.any(String) });
    expect(served.filter(({ status }) => status >= 300)).toEqual([]);
  });
});
