import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { Shares } from '../../src/access/shares.ts';
import { type Caller, scopes } from '../../src/domain/caller.ts';
import { createConversation } from '../../src/domain/conversations.ts';
import { createToken } from '../../src/domain/tokens.ts';
import { type Client, clientOf, type Json } from '../support/client.ts';
import { hourMs, minuteMs } from '../support/clock.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';

// What visitors' pages may spend of an account's budget: each conversation its share, and all together never so much
// that the account's own programs are left with less than a fifth.

let server: TestServer;
let account: TestAccount;

beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());
beforeEach(async () => {
  account = await server.account({ plan: 'trial' });
});

interface Page extends Client {
  readonly id: string;
  readonly token: string;
  /** What createToken said. */
  readonly minted: Json;
  /** A request that costs 1. */
  look(): Promise<Json>;
}

/** A page of a visitor in a conversation; without an id in a new one. Making it costs nothing of the budget. */
async function page(input: object = {}, id?: string, of: TestAccount = account, url = server.url): Promise<Page> {
  const { ports } = server.app;
  const keys = (await ports.storage.read.apiKeys.page(of.account.id, { limit: 1, offset: 0 })).items;
  const operator: Caller = {
    account: of.account,
    keyId: keys[0]?.id ?? '',
    credential: 'operator',
    scopes: new Set(scopes),
  };
  const conversationId = id ?? (await createConversation.execute(ports, operator, {})).conversation.id;
  const { token: minted } = await createToken.execute(ports, operator, { scopes, conversationId, ...input });
  const client = clientOf(url, minted.token);
  return {
    ...client,
    id: conversationId,
    token: minted.token,
    minted,
    look: () => client.rest('GET', `/conversations/${conversationId}`),
  };
}

async function spend(client: Client, count: number): Promise<void> {
  for (let sent = 0; sent < count; sent++) expect((await client.rest('GET', '/nothing')).status).toBe(404);
}

async function lookUntilRefused({ look }: Page): Promise<{ count: number; refused: Json }> {
  for (let count = 0; ; count++) {
    const answer = await look();
    if (answer.status !== 200) return { count, refused: answer };
  }
}

const tOf = ({ headers }: Json): number => Number(/t=(\d+)/.exec(headers.ratelimit)?.[1]);

test.each([
  ['a trial has half of its limit, which is less than 60', { plan: 'trial' }, {}, 50],
  ['pro has 60', { plan: 'pro' }, {}, 60],
  ['10,000 have a fiftieth', { requestsPerHour: 10_000 }, {}, 200],
  ['a limit of 3 has 1', { requestsPerHour: 3 }, {}, 1],
  ['a limit of 1 has 1', { requestsPerHour: 1 }, {}, 1],
  ['less that is asked for is given', { plan: 'pro' }, { requestsPerHour: 7 }, 7],
  ['more that is asked for is given', { plan: 'pro' }, { requestsPerHour: 300 }, 300],
  ['never more than half', { plan: 'pro' }, { requestsPerHour: 501 }, 500],
] as const)('the share of a conversation: %s', async (_, plan, input, share) => {
  const owner = await server.account(plan);
  const visitor = await page(input, undefined, owner);
  expect(visitor.minted.requestsPerHour).toBe(share);
  const { headers } = await visitor.look();
  expect(headers).toMatchObject({
    'ratelimit-policy': `"share";q=${share};w=3600`,
    'x-ratelimit-limit': String(share),
    'x-ratelimit-remaining': String(share - 1),
  });
});

test.each([
  ['no number', { requestsPerHour: 'many' }, 'must be an integer'],
  ['nothing', { requestsPerHour: 0 }, 'must be at least 1'],
])('a share of %s is refused', async (_, input, detail) => {
  const { id } = (await account.rest('POST', '/conversations')).body;
  const refused = await account.rest('POST', '/tokens', {
    body: { scopes: ['events:read'], conversationId: id, ...input },
  });
  expect(refused).toMatchObject({ status: 400, body: { errors: [{ pointer: '/requestsPerHour', detail }] } });
});

test('a share for a token that is bound to nothing is refused on both faces, and such a token has none', async () => {
  const refused = await account.rest('POST', '/tokens', { body: { scopes: ['events:read'], requestsPerHour: 5 } });
  const detail = 'is only for a token that is bound to a conversation or a visitor';
  expect(refused).toMatchObject({ status: 400, body: { errors: [{ pointer: '/requestsPerHour', detail }] } });
  const graphql = await account.graphql(
    'mutation { createToken(input: { scopes: [EVENTS_READ], requestsPerHour: 5 }) { token { token } } }',
  );
  expect(graphql.errors).toMatchObject([{ extensions: { errors: [{ detail }] } }]);
  const { data } = await account.graphql(
    'mutation { createToken(input: { scopes: [EVENTS_READ] }) { token { requestsPerHour } } }',
  );
  expect(data.createToken.token.requestsPerHour).toBeNull();
});

describe('a page that spends its share', () => {
  test('is refused on both faces and on a socket, and told that it is its share and how long to wait', async () => {
    const visitor = await page({ requestsPerHour: 3 });
    const socket = await new RawSocket(server.url).init(visitor.token);
    onTestFinished(() => socket.socket.terminate());
    server.clock.advance(1_234);
    const { count, refused } = await lookUntilRefused(visitor);
    expect(count).toBe(3);
    expect(refused).toMatchObject({ status: 429, body: { code: 'RATE_LIMITED', limit: 'share' } });
    const retryAfter = Number(refused.headers['retry-after']);
    expect(tOf(refused)).toBe(retryAfter);
    expect(refused.headers).toMatchObject({ 'x-ratelimit-limit': '3', 'x-ratelimit-remaining': '0' });
    const graphql = await visitor.graphql('{ eventCursor }');
    expect(graphql).toMatchObject({
      status: 429,
      errors: [{ extensions: { code: 'RATE_LIMITED', limit: 'share', retryAfterSeconds: retryAfter } }],
    });
    socket.subscribe('late', '{ eventCursor }');
    const late = await socket.first('late');
    expect((late.payload.errors ?? late.payload)[0].extensions).toMatchObject({
      code: 'RATE_LIMITED',
      limit: 'share',
      retryAfterSeconds: retryAfter,
    });
    server.clock.advance((retryAfter - 1) * 1_000);
    const again = await page({ requestsPerHour: 3 }, visitor.id);
    expect((await again.look()).status).toBe(429);
    server.clock.advance(1_000);
    expect((await again.look()).status).toBe(200);
  });

  test('shares it with all tokens of its conversation, and with no other page and no program', async () => {
    const visitor = await page();
    const renewed = await page({}, visitor.id);
    const other = await page();
    await visitor.look();
    await renewed.look();
    expect((await visitor.look()).headers).toMatchObject({ 'x-ratelimit-remaining': '47' });
    expect((await other.look()).headers).toMatchObject({ 'x-ratelimit-remaining': '49' });
    expect((await account.rest('GET', '/account')).headers).toMatchObject({
      'ratelimit-policy': '"trial";q=100;w=3600',
      'x-ratelimit-remaining': '95',
    });
    // What the account spends is no business of the page.
    await spend(account, 10);
    expect((await other.look()).headers).toMatchObject({ 'x-ratelimit-remaining': '48' });
  });

  test('has a batch as a whole or not at all, and a refused one costs nothing', async () => {
    const visitor = await page({ requestsPerHour: 5 });
    const batchOf = (size: number) => Array.from({ length: size }, () => ({ query: '{ eventCursor }' }));
    const first = await visitor.post(batchOf(3));
    expect(first).toMatchObject({ status: 200, headers: { 'x-ratelimit-remaining': '2' } });
    const refused = await visitor.post(batchOf(3));
    expect(refused).toMatchObject({ status: 429, headers: { 'x-ratelimit-remaining': '2' } });
    expect(tOf(refused)).toBe(Number(refused.headers['retry-after']));
    const never = await visitor.post(batchOf(6));
    expect(never.status).toBe(429);
    expect(never.headers['retry-after']).toBeUndefined();
    expect((await visitor.post(batchOf(2))).status).toBe(200);
    expect((await account.rest('GET', '/account')).headers['x-ratelimit-remaining']).toBe('94');
  });
});

describe.each([
  [
    'a conversation',
    {},
    ({ id }: Page) => `sendMessage(input: { conversationId: "${id}", content: "Hello" }) { eventCursor }`,
  ],
  [
    'a visitor',
    { conversationId: null, visitor: { id: 'ada' } },
    () => 'createConversation(input: {}) { eventCursor }',
  ],
])('a mutation of several fields on a socket, by a token bound to %s,', (_, binding, field) => {
  /** Sends mutations of so many fields. Each is answered with its error, if it has one. */
  async function mutating(visitor: Page): Promise<(fields: number) => Promise<Json>> {
    const socket = await new RawSocket(server.url).init(visitor.token);
    onTestFinished(() => socket.socket.terminate());
    let sent = 0;
    return async (fields) => {
      const id = String(++sent);
      socket.subscribe(id, `mutation { ${Array.from({ length: fields }, (_, at) => `m${at}: ${field(visitor)}`)} }`);
      const { type, payload } = await socket.first(id);
      return (type === 'error' ? payload : payload.errors)?.[0].extensions;
    };
  }

  /** What the account has left, and how many events have come of what was done. */
  const state = async () => [
    (await server.app.ports.limiter.peek(account.account)).remaining,
    (await server.storage.read.accounts.totals(account.account.id)).eventSequence,
  ];

  test('is spent of the share for each field, as a whole or not at all, and a refused one costs nothing', async () => {
    const visitor = await page({ requestsPerHour: 7, ...binding });
    const mutate = await mutating(visitor);
    const [, events = 0] = await state();
    expect(await mutate(3)).toBeUndefined();
    expect(await state()).toEqual([97, events + 3]);
    const { code, limit, retryAfterSeconds } = await mutate(5);
    expect([code, limit, retryAfterSeconds > 0]).toEqual(['RATE_LIMITED', 'share', true]);
    const never = await mutate(8); // of 7
    expect([never.code, never.limit, never.retryAfterSeconds]).toEqual(['RATE_LIMITED', 'share', undefined]);
    expect(await state()).toEqual([97, events + 3]);
    expect((await visitor.rest('GET', '/nothing')).headers['x-ratelimit-remaining']).toBe('3');
    expect(await mutate(3)).toBeUndefined();
    expect(await state()).toEqual([93, events + 6]);
    expect(await mutate(1)).toMatchObject({ code: 'RATE_LIMITED', limit: 'share' });
    expect(await state()).toEqual([93, events + 6]);
  });

  test('leaves a fifth to the account, and one that would not costs nothing of the share', async () => {
    const visitor = await page(binding);
    const mutate = await mutating(visitor);
    await spend(account, 77);
    const [, events = 0] = await state();
    expect(await mutate(5)).toMatchObject({ code: 'RATE_LIMITED', limit: 'account' }); // its last would find 19
    expect(await state()).toEqual([23, events]);
    expect(await mutate(2)).toBeUndefined();
    expect(await state()).toEqual([21, events + 2]);
    const { headers } = await visitor.rest('GET', '/nothing');
    expect(headers['x-ratelimit-remaining']).toBe('47');
  });
});

describe('the last fifth of a budget', () => {
  test('is kept from pages, which are told so, and open to programs', async () => {
    const visitor = await page();
    await spend(account, 79);
    const { count, refused } = await lookUntilRefused(visitor);
    expect(count).toBe(2); // with 21 left and with 20 left
    expect(refused).toMatchObject({ status: 429, body: { code: 'RATE_LIMITED', limit: 'account' } });
    expect(refused.body.detail).not.toMatch(/\d/);
    expect(refused.headers).toMatchObject({ 'x-ratelimit-limit': '50', 'x-ratelimit-remaining': '48' });
    const retryAfter = Number(refused.headers['retry-after']);
    expect(tOf(refused)).toBe(retryAfter);
    const graphql = await visitor.graphql('{ eventCursor }');
    expect(graphql.errors).toMatchObject([{ extensions: { limit: 'account', retryAfterSeconds: retryAfter } }]);
    await spend(account, 19);
    expect((await account.rest('GET', '/account')).body).toMatchObject({ code: 'RATE_LIMITED', limit: 'account' });
    server.clock.advance((retryAfter - 1) * 1_000);
    const again = await page({}, visitor.id);
    expect((await again.look()).status).toBe(429);
    server.clock.advance(1_000);
    expect((await again.look()).status).toBe(200);
  });

  test('is kept from any number of pages that come at once', async () => {
    const visitors = await Promise.all([page(), page(), page()]);
    const looks = await Promise.all(Array.from({ length: 40 }, () => visitors.map(({ look }) => look())).flat());
    const admitted = looks.filter(({ status }) => status === 200).length;
    expect(admitted).toBe(81);
    await spend(account, 19);
    expect((await account.rest('GET', '/account')).status).toBe(429);
  });

  test('is kept exactly, whatever another process has spent since this one reserved its own', async () => {
    const beside = await startTestServer({ databasePath: server.databasePath, clock: server.clock });
    onTestFinished(() => beside.close());
    const visitor = await page();
    await visitor.look(); // reserves a block, of which something is left
    await visitor.look();
    await spend(clientOf(beside.url, account.secret), 79);
    const refused = await visitor.look();
    expect(refused).toMatchObject({ status: 429, body: { limit: 'account' } });
  });

  test('is told to a page whose share is spent as well: it waits for both', async () => {
    const visitor = await page({ requestsPerHour: 1 });
    await visitor.look();
    server.clock.advance(10 * minuteMs);
    await spend(account, 90);
    const refused = await visitor.look();
    expect(refused).toMatchObject({ status: 429, body: { limit: 'share' } });
    const retryAfter = Number(refused.headers['retry-after']);
    server.clock.advance((retryAfter - 1) * 1_000);
    const again = await page({ requestsPerHour: 1 }, visitor.id);
    expect((await again.look()).status).toBe(429);
    server.clock.advance(1_000);
    expect((await again.look()).status).toBe(200);
  });
});

test('the shares of a bounded number of conversations are counted, the latest, and forgotten with their hour', async () => {
  const { limiter, clock } = server.app.ports;
  const shares = new Shares(limiter as ConstructorParameters<typeof Shares>[0], clock, 2);
  const callerIn = (conversationId: string): Caller => ({
    account: account.account,
    keyId: 'key',
    credential: 'token',
    scopes: new Set(scopes),
    conversationId,
    requestsPerHour: 10,
  });
  const [a, b, c] = ['a', 'b', 'c'].map(callerIn) as [Caller, Caller, Caller];
  for (const caller of [a, b, a, c]) await shares.admit(caller);
  expect([a, b, c].map((caller) => shares.peek(caller).remaining)).toEqual([8, 10, 9]);
  server.clock.advance(hourMs + minuteMs);
  expect([a, b, c].map((caller) => shares.peek(caller).remaining)).toEqual([10, 10, 10]);
});

test('an account with very many visitors has its own shares forgotten, not those of others, and not the one that is refused', async () => {
  const { limiter, clock } = server.app.ports;
  const shares = new Shares(limiter as ConstructorParameters<typeof Shares>[0], clock, 3);
  const other = await server.account({ plan: 'trial' });
  const visitorOf = ({ account }: TestAccount, id: string): Caller => ({
    account,
    keyId: 'key',
    credential: 'token',
    scopes: new Set(scopes),
    visitor: { id, name: null, email: null },
    requestsPerHour: 1,
  });
  const [ours, spent] = [visitorOf(other, 'ours'), visitorOf(account, 'spent')];
  await shares.admit(ours);
  await shares.admit(spent);
  for (let index = 0; index < 10; index++) {
    await shares.admit(visitorOf(account, `visitor-${index}`));
    await expect(shares.admit(spent)).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  }
  expect(shares.peek(ours).remaining).toBe(0);
});
