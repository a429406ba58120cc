import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Holder } from '../../src/access/memory-owner.ts';
import { revokeApiKey } from '../../src/domain/api-keys.ts';
import { operatorOf } from '../../src/domain/caller.ts';
import { AnswerBudget } from '../../src/graphql/answer-budget.ts';
import { inRoom } from '../../src/graphql/requests.ts';
import { scheduler } from '../../src/runtime/scheduler.ts';
import { openWire, requestText, type WireResponse } from '../http/wire.ts';
import { clientOf } from '../support/client.ts';
import { minuteMs } from '../support/clock.ts';
import { postMcp, toolCall } from '../support/mcp.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';
import { eventually, gate, until } from '../support/wait.ts';

// What becomes of a request that waits for its account's turn, on both faces. The account is kept busy by work of its own,
// which the server in this process takes from the same scheduler.

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

/** Keeps the event loop for so long, as work would, but leaves the processor to others. */
const workFor = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

/** More than a second of work: a key is revoked meanwhile, for which a busy machine takes its time. */
const some = { workers: 150, eachMs: 10 };
/** Some two seconds of work. */
const tooMany = { workers: 500, eachMs: 4 };

/** Keeps an account's turns for as long as the condition holds. Other work of the event loop goes on. */
async function keepBusy({ account }: TestAccount, condition: () => boolean, { workers, eachMs } = some): Promise<void> {
  const working = async (isRead: boolean): Promise<void> => {
    while (condition()) {
      await scheduler.request(account.id, isRead);
      if (condition()) workFor(eachMs);
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
    expect(await remainingOf(client)).toBe(before.remaining - 1);
  });

  test('is refused if its credential was revoked meanwhile, unless it has waited no longer than 100 ms', async () => {
    const client = await server.account();
    const { body: key } = await client.rest('POST', '/api-keys', { body: { name: 'short-lived' } });
    const wire = openWire(server.url);
    let isWaiting = true;
    const busy = keepBusy(client, () => isWaiting);
    await wire.send(textOf(`Bearer ${key.secret}`));
    await until(() => scheduler.waitingRequests > some.workers);
    const sinceMs = performance.now();
    await revoke(client, key.id);
    await until(() => performance.now() - sinceMs > 150);
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

const query = '{ account { id } }';
const mutation = 'mutation { createConversation(input: {}) { conversation { id } } }';
const overSocket = async ({ secret }: TestAccount, text: string): Promise<() => Promise<unknown>> => {
  const socket = await new RawSocket(server.url).init(secret);
  return () => {
    socket.subscribe('1', text);
    return socket.first('1', 'next');
  };
};

/** How to ask for a read or a change, once all that comes before is done. */
const asking: Record<string, (client: TestAccount, isRead: boolean) => Promise<() => Promise<unknown>>> = {
  'over REST': async (client, isRead) => () => client.rest(isRead ? 'GET' : 'POST', '/conversations'),
  'by POST over GraphQL': async (client, isRead) => () => client.graphql(isRead ? query : mutation),
  'in a batch over GraphQL': async ({ secret }, isRead) => {
    const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
    const body = JSON.stringify([{ query }, { query: isRead ? query : mutation }]);
    return () => fetch(`${server.url}/graphql`, { method: 'POST', headers, body });
  },
  'by a tool': async (client, isRead) => {
    const call = (name: string) => postMcp(server.url, client.secret, toolCall(name));
    await call('getAccount'); // the library is loaded
    return () => call(isRead ? 'getAccount' : 'createConversation');
  },
  'on a socket': (client, isRead) => overSocket(client, isRead ? query : mutation),
};

test.each(Object.entries(asking))(
  'what reads %s does not wait for the account’s writes, and what changes something waits among them',
  async (_, prepare) => {
    const client = await server.account();
    const [read, change] = [await prepare(client, true), await prepare(client, false)];
    const workers = 200;
    let written = 0;
    let isOver = false;
    const writing = async (): Promise<void> => {
      while (!isOver) {
        await scheduler.request(client.account.id, false);
        workFor(1);
        written++;
      }
    };
    const busy = Array.from({ length: workers }, writing);
    const writtenDuring = async (ask: () => Promise<unknown>): Promise<number> => {
      const before = written;
      await ask();
      return written - before;
    };
    const duringRead = await writtenDuring(read);
    const duringChange = await writtenDuring(change);
    isOver = true;
    await Promise.all(busy);
    expect(duringRead).toBeLessThan(workers / 2);
    expect(duringChange).toBeGreaterThan(0.9 * workers);
  },
);

/** Revokes a key of an account, as another process would. */
async function revoke({ account }: TestAccount, id: string): Promise<void> {
  await server.app.ports.storage.write(async (tx) => {
    const found = await tx.apiKeys.find(account.id, id);
    if (found !== undefined)
      await tx.apiKeys.update({ ...found, revokedAt: new Date(server.clock.now()).toISOString() });
  });
}

/** What a GraphQL request waits for once it has been admitted; resolves when it is to go on, and then has ended. */
const waits: Record<string, (client: TestAccount, until: Promise<void>) => Promise<void>> = {
  async 'a turn to prepare its document, and to run'({ account }, until) {
    let isOver = false;
    void until.then(() => {
      isOver = true;
    });
    const step = async (): Promise<void> => {
      while (!isOver) {
        await scheduler.step(account.id);
        workFor(1);
      }
    };
    await Promise.all(Array.from({ length: 500 }, step)); // it waits behind so many
  },
  'room for what it could answer': (caller, until) => fillRoom(caller, until),
};

async function fillRoom(caller: Holder, until: Promise<void>): Promise<void> {
  const everything = { depth: 1, objects: 1, values: 1, slowFields: 0, bytes: 32 * 1024 * 1024, payloadBytes: 0 };
  const budget = new AnswerBudget();
  budget.spendCost(everything);
  await inRoom(caller, budget, () => until);
}

const remainingOf = async ({ account }: TestAccount): Promise<number> =>
  (await server.app.ports.limiter.peek(account)).remaining;
const unauthenticated = expect.stringContaining('UNAUTHENTICATED');
const create = 'createConversation(input: {}) { conversation { messages(first: 50) { nodes { content } } } }';
const two = { query: `mutation { a: ${create} b: ${create} }` };

describe.each([
  ['one operation', two],
  ['a batch', [two]],
])('a GraphQL request of %s that has been admitted', (_, body) => {
  test.each(Object.entries(waits))(
    'runs nothing, and costs its one unit, if its client goes while it waits for %s',
    async (_, wait) => {
      const client = await server.account();
      const remaining = () => remainingOf(client);
      const before = await remaining();
      const { opened, open } = gate();
      const waited = wait(client, opened);
      const wire = openWire(server.url);
      const headers = { authorization: `Bearer ${client.secret}` };
      await wire.send(requestText('POST', '/graphql', { headers, body: JSON.stringify(body) }));
      await eventually(remaining, (left) => left === before - 1);
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
      wire.cut();
      await wire.ended;
      await clientOf(server.url).rest('GET', '/account'); // by now the server knows
      open();
      await waited;
      await until(() => server.logLines.some(({ accountId }) => accountId === client.account.id));
      expect(await remaining()).toBe(before - 1);
      expect((await client.rest('GET', '/conversations')).body.data).toEqual([]);
      const { errors, data } = await client.graphql(two.query); // there is room again
      expect([errors, Object.keys(data)]).toEqual([undefined, ['a', 'b']]);
    },
  );
});

const large: Record<string, (authorization: string) => string> = {
  'one GraphQL operation': (authorization) =>
    requestText('POST', '/graphql', { headers: { authorization }, body: JSON.stringify(two) }),
  'a GraphQL batch': (authorization) =>
    requestText('POST', '/graphql', { headers: { authorization }, body: JSON.stringify([two]) }),
  'a page over REST': (authorization) => requestText('GET', '/v1/events?limit=100', { headers: { authorization } }),
};

test.each(Object.entries(large))(
  '%s does not wait until there is room for the answers of visitors',
  async (_, textOf) => {
    const { account, secret } = await server.account();
    const { opened, open } = gate();
    const visitor = { id: 'customer-7', name: null, email: null };
    const waiting = Array.from({ length: 200 }, () => fillRoom({ account, visitor }, opened));
    const wire = openWire(server.url);
    await wire.send(textOf(`Bearer ${secret}`));
    expect((await wire.response()).status).toBe(200);
    open();
    await Promise.all(waiting);
  },
);

test.each(Object.entries(large))(
  '%s is refused, and costs nothing, if its credential is revoked while it waits for room',
  async (_, textOf) => {
    const client = await server.account();
    const { body: key } = await client.rest('POST', '/api-keys', { body: { name: 'short-lived' } });
    const remaining = () => remainingOf(client);
    const before = await remaining();
    const { opened, open } = gate();
    const waited = waits['room for what it could answer']?.(client, opened);
    const wire = openWire(server.url);
    await wire.send(textOf(`Bearer ${key.secret}`));
    await eventually(remaining, (left) => left < before); // so it has been admitted
    const sinceMs = performance.now();
    await revoke(client, key.id);
    await until(() => performance.now() - sinceMs > 150);
    open();
    await waited;
    const headers = { 'x-ratelimit-remaining': `${before}` };
    expect(await wire.response()).toMatchObject({ status: 401, headers, body: unauthenticated });
    expect(await remaining()).toBe(before);
    expect((await client.rest('GET', '/conversations')).body.data).toEqual([]);
  },
);

test.each(Object.entries({ ...faces, 'a GraphQL batch': large['a GraphQL batch'] as (typeof faces)['GraphQL'] }))(
  'a request is refused, and costs nothing, if its credential is revoked while its body is on its way, over %s',
  async (_, textOf) => {
    const client = await server.account();
    const { body: key } = await client.rest('POST', '/api-keys', { body: { name: 'short-lived' } });
    const remaining = () => remainingOf(client);
    const before = await remaining();
    const wire = openWire(server.url);
    const text = textOf(`Bearer ${key.secret}`);
    await wire.send(text.slice(0, -1));
    await eventually(remaining, (left) => left < before); // so it has been admitted
    await revoke(client, key.id);
    await wire.send(text.slice(-1));
    const headers = { 'x-ratelimit-remaining': `${before}` };
    expect(await wire.response()).toMatchObject({ status: 401, headers, body: unauthenticated });
    expect(await remaining()).toBe(before);
    expect((await client.rest('GET', '/conversations')).body.data).toEqual([]);
  },
);

const revocations: Record<string, (client: TestAccount, id: string) => Promise<unknown>> = {
  'by this process': ({ account }, id) => revokeApiKey.execute(server.app.ports, operatorOf(account), { id }),
  'by another process': revoke,
};

test.each(
  Object.entries(revocations).flatMap(([by, revoking]) => [
    [by, 'a mutation of one field', revoking, mutation] as const,
    [by, 'a mutation of two fields', revoking, two.query] as const,
  ]),
)(
  'a socket whose credential is revoked %s while %s waits to be charged is closed, and that costs nothing',
  async (_, __, revoking, text) => {
    const client = await server.account();
    const { body: key } = await client.rest('POST', '/api-keys', { body: { name: 'short-lived' } });
    const socket = await new RawSocket(server.url).init(key.secret);
    server.clock.advance(minuteMs); // what is reserved of the budget was for that minute: a write has to reserve more
    const remaining = () => remainingOf(client);
    const before = await remaining();
    const release = await server.holdWrites();
    const revoked = revoking(client, key.id);
    socket.subscribe('1', text);
    await clientOf(server.url).rest('GET', '/account'); // by now the server has read what came before
    await release();
    await revoked;
    expect(await socket.closed).toMatchObject({ code: 4403 });
    await eventually(remaining, (left) => left === before);
    expect((await client.rest('GET', '/conversations')).body.data).toEqual([]);
  },
);

/** Works for others of an account, by turns with its fields and operations. @returns ends that */
function takeSteps({ account }: TestAccount, stepMs: number): () => Promise<void> {
  let isOver = false;
  const working = async (): Promise<void> => {
    while (!isOver) {
      await scheduler.step(account.id); // as each of them does
      workFor(stepMs);
    }
  };
  const busy = working();
  return () => {
    isOver = true;
    return busy;
  };
}

const twenty = Array.from({ length: 20 }, (_, index) => `a${index}`);
const twentyFields = twenty.map((name) => `${name}: createConversation(input: {}) { conversation { id } }`).join(' ');

test('of a mutation, nothing more is done once its key was revoked', async () => {
  const client = await server.account();
  const { body: key } = await client.rest('POST', '/api-keys', { body: { name: 'short-lived' } });
  const end = takeSteps(client, 30);
  const before = await remainingOf(client);
  const { data, errors } = await clientOf(server.url, key.secret).graphql(
    `mutation { revokeApiKey(input: {id: "${key.id}"}) { revokedApiKeyId } ${twentyFields} }`,
  );
  await end();
  expect(data).toMatchObject({ revokeApiKey: { revokedApiKeyId: key.id }, a19: null });
  expect(await remainingOf(client), 'it had begun').toBe(before - 21);
  expect(errors?.at(-1)).toMatchObject({ path: ['a19'], extensions: { code: 'UNAUTHENTICATED' } });
  const made = twenty.filter((name) => data[name] !== null);
  expect(made, 'only the first of them').toEqual(twenty.slice(0, made.length));
  expect((await client.rest('GET', '/conversations?limit=100')).body.data).toHaveLength(made.length);
});

test('a batch costs what it was charged once one of its operations has run, also if its key is revoked by that one', async () => {
  const client = await server.account();
  const { body: key } = await client.rest('POST', '/api-keys', { body: { name: 'short-lived' } });
  const before = await remainingOf(client);
  const end = takeSteps(client, 60);
  const others = Array(9).fill({ query: `mutation { ${twentyFields} }` });
  const revoking = { query: `mutation { revokeApiKey(input: {id: "${key.id}"}) { revokedApiKeyId } }` };
  const { body } = await clientOf(server.url, key.secret).post([revoking, ...others]);
  await end();
  expect(body[0].data).toEqual({ revokeApiKey: { revokedApiKeyId: key.id } });
  expect(JSON.stringify(body.at(-1))).toContain('UNAUTHENTICATED');
  expect(await remainingOf(client)).toBe(before - 1 - 9 * 20);
});

test('the call of a tool is refused, and costs nothing, if its credential is revoked while it waits for others of its account', async () => {
  const client = await server.account();
  const { body: key } = await client.rest('POST', '/api-keys', { body: { name: 'short-lived' } });
  const call = (secret: string, name: string) => postMcp(server.url, secret, toolCall(name));
  await call(client.secret, 'getAccount'); // the library is loaded
  const remaining = () => remainingOf(client);
  const before = await remaining();
  const admitted = async (count: number): Promise<void> => {
    await eventually(remaining, (left) => left === before - count);
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  const release = await server.holdWrites();
  // Four of an account run at the same time. So the last one waits for a write that begins after the revocation.
  const writing = Array.from({ length: 8 }, () => call(client.secret, 'createConversation'));
  await admitted(8);
  const late = call(key.secret, 'getAccount');
  await admitted(9);
  const sinceMs = performance.now();
  const revoked = revoke(client, key.id);
  await until(() => performance.now() - sinceMs > 150);
  await release();
  await revoked;
  expect(await late).toMatchObject({ status: 401, body: { code: 'UNAUTHENTICATED' } });
  expect(await remaining()).toBe(before - 8);
  for (const written of writing) expect(await written).toMatchObject({ status: 200 });
});

test('the call of a tool waits for room for what it could answer, and is refused, and costs nothing, if its credential is revoked meanwhile', async () => {
  const client = await server.account();
  const { body: key } = await client.rest('POST', '/api-keys', { body: { name: 'short-lived' } });
  const call = (secret: string, args: object) => postMcp(server.url, secret, toolCall('listMessages', args));
  const { body } = await client.rest('POST', '/conversations');
  const page = { conversationId: body.id, limit: 100 };
  await call(client.secret, page); // the library is loaded
  const remaining = () => remainingOf(client);
  const before = await remaining();
  const { opened, open } = gate();
  const waited = waits['room for what it could answer']?.(client, opened);
  const late = call(key.secret, page);
  await eventually(remaining, (left) => left === before - 1);
  const sinceMs = performance.now();
  await revoke(client, key.id);
  await until(() => performance.now() - sinceMs > 150);
  open();
  await waited;
  expect(await late).toMatchObject({ status: 401, body: { code: 'UNAUTHENTICATED' } });
  expect(await remaining()).toBe(before);
  expect(await call(client.secret, page)).toMatchObject({ status: 200 });
});

test('a call of a tool does not wait for pages that wait for room', async () => {
  const client = await server.account();
  const call = (name: string) => postMcp(server.url, client.secret, toolCall(name));
  await call('getAccount'); // the library is loaded
  const remaining = () => remainingOf(client);
  const before = await remaining();
  const { opened, open } = gate();
  const waited = waits['room for what it could answer']?.(client, opened);
  let answered = 0;
  const pages = Array.from({ length: 4 }, () => call('listConversations').finally(() => answered++));
  await eventually(remaining, (left) => left === before - 4);
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  expect(await call('getAccount')).toMatchObject({ status: 200 });
  expect(answered).toBe(0);
  open();
  await waited;
  for (const page of pages) expect(await page).toMatchObject({ status: 200 });
});

const reads: Record<string, (authorization: string) => string> = {
  'over REST': (authorization) => requestText('GET', '/v1/account', { headers: { authorization } }),
  'over GraphQL': (authorization) =>
    requestText('POST', '/graphql', { headers: { authorization }, body: '{"query":"{ account { name } }"}' }),
};

test.each(Object.entries(reads))(
  'a request reads nothing and costs nothing if its credential is revoked while it waits to be charged, %s',
  async (_, textOf) => {
    const client = await server.account();
    const { body: key } = await client.rest('POST', '/api-keys', { body: { name: 'short-lived' } });
    server.clock.advance(minuteMs); // what is reserved of the budget was for that minute: a write has to reserve more
    const { remaining } = await server.app.ports.limiter.peek(client.account);
    const release = await server.holdWrites();
    const revoked = revokeApiKey.execute(server.app.ports, operatorOf(client.account), { id: key.id });
    const wire = openWire(server.url);
    await wire.send(textOf(`Bearer ${key.secret}`));
    await clientOf(server.url).rest('GET', '/account'); // by now the server has read what came before
    const sinceMs = performance.now();
    await until(() => performance.now() - sinceMs > 400); // so it has waited for more than 100 ms
    await release();
    await revoked;
    expect(await wire.response()).toMatchObject({ status: 401, body: unauthenticated });
    expect(await remainingOf(client)).toBe(remaining);
  },
);

test('an operation on a socket does not run if its client goes while it waits for room', async () => {
  const client = await server.account();
  const remaining = () => remainingOf(client);
  const { opened, open } = gate();
  const waited = waits['room for what it could answer']?.(client, opened);
  const socket = await new RawSocket(server.url).init(client.secret);
  const before = await remaining();
  socket.subscribe('1', two.query);
  await eventually(remaining, (left) => left === before - 2);
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  socket.socket.terminate();
  await clientOf(server.url).rest('GET', '/account'); // by now the server knows
  open();
  await waited;
  expect((await client.graphql(two.query)).errors).toBeUndefined(); // it began after the other would have
  expect((await client.rest('GET', '/conversations')).body.data).toHaveLength(2);
});
