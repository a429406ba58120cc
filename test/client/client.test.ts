import { gzipSync } from 'node:zlib';
import { gql, type TypedDocumentNode } from '@apollo/client';
import { build } from 'esbuild';
import { parse } from 'graphql';
import { afterAll, beforeAll, describe, expect, expectTypeOf, onTestFinished, test, vi } from 'vitest';
import * as own from '../../src/client/index.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { startSite } from '../support/site.ts';
import { tokenFrom } from './kills.ts';
import { seen, tour } from './tour.ts';

// The client for front-ends and programs, against a real server.

const { Client, newestOnly } = own;

let server: TestServer;
let account: TestAccount;
let client: own.Client;

beforeAll(async () => {
  server = await startTestServer();
  account = await server.account();
  client = new Client({ url: server.url, credential: account.secret });
});
afterAll(() => server.close());

/** A stand-in for the network: passes requests on unless it is told what happens to them. */
function network(happens: (count: number, url: string) => Promise<Response | undefined> | Response | undefined) {
  const sent: { url: string; headers: Record<string, string>; body: unknown }[] = [];
  const through: typeof fetch = async (url, init) => {
    sent.push({ url: String(url), headers: init?.headers as Record<string, string>, body: init?.body });
    return (await happens(sent.length, String(url))) ?? (await fetch(url, init));
  };
  return { through, sent };
}

/** A network in which the first request is done, and its answer lost. */
function losingFirstAnswer() {
  const { through, sent } = network(async (count, url) => {
    if (count > 1) return undefined;
    await fetch(url, { method: 'POST', headers: sent[0]?.headers ?? {}, body: String(sent[0]?.body) });
    throw new TypeError('the connection was lost');
  });
  return { through, sent };
}

/** The beginning of a body, after which the connection is lost. */
function cutOff(body: ReadableStream<Uint8Array> | null): ReadableStream<Uint8Array> {
  const reader = body?.getReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { value } = (await reader?.read()) ?? {};
      controller.enqueue(value?.subarray(0, 10) ?? new Uint8Array());
      controller.error(new TypeError('the connection was lost'));
    },
  });
}

const never = () => new Promise<never>(() => {});

/** Time passes for the client only when the test says so. */
function holdTime(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
}

const refusal = (status: number, code: string, headers: Record<string, string> = {}, facts: object = {}): Response =>
  new Response(JSON.stringify({ code, detail: 'Not now.', status, ...facts }), {
    status,
    headers: { 'X-Request-Id': 'r-1', 'Content-Type': 'application/problem+json', ...headers },
  });

test('a program calls operations by name, meets errors with their codes, and reads lists to their end', async () => {
  const owner = await server.account();
  const { origin } = await startSite({ '/agent-token': () => tokenFrom(server.url, owner.secret) });
  expect(await tour(own, { url: server.url, tokenUrl: `${origin}/agent-token` })).toEqual(seen);
});

test('a list of which no value is chosen is refused, and not answered as if all were', async () => {
  await client.call('createConversation', {});
  for (const none of [{ status: [] }, { tags: [] }]) {
    const parameter = Object.keys(none)[0];
    await expect(client.list('listConversations', none).next()).rejects.toMatchObject({
      ...{ code: 'VALIDATION_FAILED', errors: [{ parameter }] },
    });
  }
});

test.each(['localhost:4000', '127.0.0.1:4000', 'chat.example', 'ws://chat.example'])(
  'an address that is none of a service is refused at once, and not waited for: %s',
  (url) => {
    expect(() => new Client({ url, credential: account.secret })).toThrow(`http://: ${url}`);
  },
);

test('a page may name the service by a path of its own origin', () => {
  for (const url of ['', '/chat', '//chat.example', 'HTTPS://chat.example']) new Client({ url, credential: 'a token' });
});

test('a program whose environment has no key is told so at once', async () => {
  const keyless = new Client({ url: server.url, credential: process.env['NO_SUCH_KEY'] as string });
  const told = { code: 'UNAUTHENTICATED' };
  await expect(keyless.call('getAccount')).rejects.toMatchObject(told);
  await expect(keyless.follow().next()).rejects.toMatchObject(told);
  await expect(keyless.follow({ over: 'socket' }).next()).rejects.toMatchObject(told);
});

describe('a call', () => {
  test('whose answer was lost is sent again under its key, and done once', async () => {
    const { id } = await client.call('createConversation', {});
    const { through, sent } = losingFirstAnswer();
    const unlucky = new Client({ url: server.url, credential: account.secret, fetch: through });
    const message = await unlucky.call('sendMessage', { conversationId: id, sender: 'agent', content: 'Once.' });
    expect(message.sequence).toBe(1);
    expect(sent).toHaveLength(2);
    expect((await client.call('getConversation', { id, messages: 'none' })).messageCount).toBe(1);
  });

  test('with an empty key is refused, and not sent again and again without one', async () => {
    const { id } = await client.call('createConversation', {});
    const { through } = losingFirstAnswer();
    const unlucky = new Client({ url: server.url, credential: account.secret, fetch: through });
    const message = { conversationId: id, sender: 'agent', content: 'Once.' } as const;
    const called = unlucky.call('sendMessage', message, { idempotencyKey: '' });
    await expect(called).rejects.toMatchObject({ code: 'VALIDATION_FAILED' });
    expect((await client.call('getConversation', { id, messages: 'none' })).messageCount).toBe(0);
  });

  test('whose answer was cut off is sent again under its key, and done once', async () => {
    const { id } = await client.call('createConversation', {});
    const { through, sent } = network(async (count, url) => {
      if (count > 1) return undefined;
      const { status, headers, body } = await fetch(url, {
        ...{ method: 'POST', headers: sent[0]?.headers ?? {}, body: String(sent[0]?.body) },
      });
      return new Response(cutOff(body), { status, headers });
    });
    const unlucky = new Client({ url: server.url, credential: account.secret, fetch: through });
    const message = await unlucky.call('sendMessage', { conversationId: id, sender: 'agent', content: 'Once.' });
    expect(message.sequence).toBe(1);
    expect(sent).toHaveLength(2);
    expect((await client.call('getConversation', { id, messages: 'none' })).messageCount).toBe(1);
  });

  const pageOf = (html: string) => new Response(html, { headers: { 'Content-Type': 'text/html; charset=utf-8' } });
  test('that something else answers with a page of its own is sent again if that can do no harm', async () => {
    const { through, sent } = network((count) =>
      count === 1 ? pageOf('<h1>Sign in to this network</h1>') : undefined,
    );
    const guest = new Client({ url: server.url, credential: account.secret, fetch: through });
    expect(await guest.call('createConversation', { subject: 'Parcel' })).toMatchObject({ subject: 'Parcel' });
    expect(sent).toHaveLength(2);
  });

  test.each([
    ['once if it could be done twice', 'createToken', { scopes: ['events:read'] }],
    ['until it gives up otherwise', 'getAccount', {}],
    ['once if it deletes, and an empty answer does not pass for a deletion', 'deleteConversation', { id: 'conv_1' }],
  ] as const)('that only something else answers fails with UNAVAILABLE: it is sent %s', async (_, name, input) => {
    const { through, sent } = network(() => pageOf(''));
    const guest = new Client({ url: server.url, credential: account.secret, fetch: through, maxWaitSeconds: 3 });
    const failure: unknown = await guest
      .call(name, input as object as own.Input<typeof name>)
      .catch((thrown) => thrown);
    expect(failure).toBeInstanceOf(own.ServiceError);
    expect(failure).toMatchObject({ code: 'UNAVAILABLE', status: 200 });
    expect(sent.length === 1).toBe(name !== 'getAccount');
  });

  test.each([200, 502, 504])(
    'that could be done twice is not sent again after a page of another program with a request id of its own: %i',
    async (status) => {
      const headers = { 'Content-Type': 'text/html', 'X-Request-Id': 'its-own' };
      const { through, sent } = network(() => new Response('<h1>Not the service</h1>', { status, headers }));
      const unlucky = new Client({ url: server.url, credential: account.secret, fetch: through, maxWaitSeconds: 1 });
      const called = unlucky.call('createToken', { scopes: ['events:read'] });
      await expect(called).rejects.toMatchObject({ code: 'UNAVAILABLE', status });
      expect(sent).toHaveLength(1);
    },
  );

  test('that could be done twice is not sent again', async () => {
    const { through, sent } = network(() => Promise.reject(new TypeError('the connection was lost')));
    const unlucky = new Client({ url: server.url, credential: account.secret, fetch: through });
    await expect(unlucky.call('createToken', { scopes: ['events:read'] })).rejects.toThrow('the connection was lost');
    await expect(unlucky.graphql('mutation { a }')).rejects.toThrow('the connection was lost');
    expect(sent).toHaveLength(2);
  });

  test('that the service may have done is sent again only if that can do no harm', async () => {
    const { id } = await client.call('createConversation', {});
    const { through, sent } = network((count) =>
      count === 1 ? refusal(503, 'UNAVAILABLE', { 'Retry-After': '0' }, { outcomeUnknown: true }) : undefined,
    );
    const unlucky = () => new Client({ url: server.url, credential: account.secret, fetch: through });
    const told = { code: 'UNAVAILABLE', outcomeUnknown: true };
    await expect(unlucky().call('createToken', { scopes: ['events:read'] })).rejects.toMatchObject(told);
    expect(sent.splice(0)).toHaveLength(1);
    await expect(unlucky().call('deleteConversation', { id })).rejects.toMatchObject(told);
    expect(sent.splice(0)).toHaveLength(1);
    await unlucky().call('sendMessage', { conversationId: id, sender: 'agent', content: 'Once.' });
    expect(sent.splice(0)).toHaveLength(2);
  });

  test('waits for as long as the service says, and no longer than it may', async () => {
    const { through, sent } = network((count) =>
      count === 1 ? refusal(503, 'UNAVAILABLE', { 'Retry-After': '1' }) : undefined,
    );
    const patient = new Client({ url: server.url, credential: account.secret, fetch: through });
    const startedMs = performance.now();
    await patient.call('getAccount');
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(990);
    expect(sent).toHaveLength(2);

    const spent = network(() => refusal(429, 'RATE_LIMITED', { 'Retry-After': '1800' }));
    const impatient = new Client({ url: server.url, credential: account.secret, fetch: spent.through });
    await expect(impatient.call('getAccount')).rejects.toMatchObject({
      code: 'RATE_LIMITED',
      retryAfterSeconds: 1_800,
    });
    expect(spent.sent).toHaveLength(1);
  });

  test.each([1, -1])('waits neither longer nor shorter when the clock is changed meanwhile, by %i h', async (hours) => {
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const { through } = network((count) => {
      if (count === 1) vi.setSystemTime(Date.now() + hours * 3_600_000);
      return count <= 2 ? refusal(503, 'UNAVAILABLE') : undefined;
    });
    await new Client({ url: server.url, credential: account.secret, fetch: through }).call('getAccount');
    const away = network((count) => {
      if (count === 1) vi.setSystemTime(Date.now() + hours * 3_600_000);
      return refusal(503, 'UNAVAILABLE');
    });
    const impatient = { url: server.url, credential: account.secret, fetch: away.through, maxWaitSeconds: 3 };
    await expect(new Client(impatient).call('getAccount')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(away.sent.length).toBeGreaterThan(1);
  });

  test.each(['Sun, 29 Nov 2026 08:30:00 GMT', 'Sunday, 29-Nov-26 08:30:00 GMT', 'Sun Nov 29 08:30:00 2026'])(
    'reads the time until which it is to wait in each form that HTTP has: %s',
    async (text) => {
      vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2026, 10, 29, 8) });
      onTestFinished(() => void vi.useRealTimers());
      const { through } = network(() => refusal(429, 'RATE_LIMITED', { 'Retry-After': text }));
      const impatient = new Client({ url: server.url, credential: account.secret, fetch: through });
      await expect(impatient.call('getAccount')).rejects.toMatchObject({ retryAfterSeconds: 1_800 });
    },
  );

  test('is not told to wait by what says no time', async () => {
    for (const text of ['soon', '-5', '1e9', 'Sunday', '2026-11-29T08:30:00Z']) {
      const { through } = network(() => refusal(429, 'RATE_LIMITED', { 'Retry-After': text }));
      const hasty = new Client({ url: server.url, credential: account.secret, fetch: through, maxWaitSeconds: 0 });
      await expect(hasty.call('getAccount'), text).rejects.toMatchObject({ retryAfterSeconds: undefined });
    }
  });

  test('gets a new token when the one that it has is refused, and only then', async () => {
    const given: string[] = [];
    const page = new Client({
      url: server.url,
      credential: async () => {
        const { body } = await account.rest('POST', '/tokens', { body: { scopes: ['conversations:read'] } });
        given.push(body.token);
        return given.length === 1 ? `${body.token}x` : body;
      },
    });
    await page.call('listConversations');
    await page.call('listConversations');
    expect(given).toHaveLength(2);
    const hopeless = new Client({ url: server.url, credential: async () => 'no token' });
    await expect(hopeless.call('getAccount')).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
  });

  test('shares a new token with others that were refused at the same time, also if it hears so later', async () => {
    const tokens: string[] = [];
    let late = (): void => {};
    const { through } = network((count) => {
      if (count > 3) return undefined;
      const refused = refusal(401, 'UNAUTHENTICATED');
      return count < 3 ? refused : new Promise((answer) => (late = () => answer(refused)));
    });
    const page = new Client({
      url: server.url,
      fetch: through,
      credential: async () => {
        const { body } = await account.rest('POST', '/tokens', { body: { scopes: ['conversations:read'] } });
        tokens.push(body.token);
        return tokens.length === 1 ? 'an old token' : body; // the clock stands still, so others are the same
      },
    });
    const calls = [1, 2, 3].map(() => page.call('listConversations'));
    await Promise.all(calls.slice(0, 2));
    late();
    await Promise.all(calls);
    expect(tokens).toHaveLength(2);
  });

  test('ends when it is told to', async () => {
    const { through } = network(() => refusal(503, 'UNAVAILABLE', { 'Retry-After': '30' }));
    const patient = new Client({ url: server.url, credential: account.secret, fetch: through });
    const stop = new AbortController();
    const called = patient.call('getAccount', {}, { signal: stop.signal });
    setImmediate(() => stop.abort());
    await expect(called).rejects.toThrow('abort');
  });

  const silent: [string, Partial<own.ClientOptions>][] = [
    ['the service does not answer', { fetch: never }],
    [
      'the rest of the answer does not come',
      { fetch: async () => new Response(new ReadableStream(), { headers: { 'Content-Type': 'application/json' } }) },
    ],
    ['there is no word of its token', { credential: never }],
  ];
  test.each(silent)('fails when it has waited for as long as it may and %s', async (_, given) => {
    holdTime();
    const waiting = new Client({ url: server.url, credential: 'a token', maxWaitSeconds: 20, ...given });
    let failure: unknown;
    const called = waiting.call('getAccount').catch((error: unknown) => {
      failure = error;
    });
    await vi.advanceTimersByTimeAsync(19_000);
    expect(failure).toBeUndefined();
    await vi.advanceTimersByTimeAsync(2_000);
    expect(failure).toBeInstanceOf(own.ServiceError);
    expect(failure).toMatchObject({ code: 'UNAVAILABLE' });
    await called;
  });

  test.each(silent)('ends at once when it is told to, also while %s', async (_, given) => {
    const waiting = new Client({ url: server.url, credential: 'a token', ...given });
    const stop = new AbortController();
    const called = waiting.call('getAccount', {}, { signal: stop.signal });
    setImmediate(() => stop.abort(new Error('It is enough.')));
    await expect(called).rejects.toThrow('It is enough.');
  });

  test.each([0, Number.POSITIVE_INFINITY])('that may wait for %s s gets an answer that takes a while', async (most) => {
    holdTime();
    const slow: typeof fetch = async () => {
      await new Promise((resolve) => setTimeout(resolve, 5_000));
      return Response.json({ id: 'a' });
    };
    const called = new Client({ url: server.url, credential: 'a token', maxWaitSeconds: most, fetch: slow }).call(
      'getAccount',
    );
    await vi.advanceTimersByTimeAsync(6_000);
    expect(await called).toEqual({ id: 'a' });
  });

  test('gets its token from a source that did not answer, and one that threw at once, when it is asked again', async () => {
    holdTime();
    const answers = [
      never,
      () => {
        throw new Error('not yet');
      },
      async () => 'a token',
    ];
    const credential = () => (answers.shift() as () => Promise<string>)();
    const waiting = new Client({ url: server.url, credential, fetch: async () => Response.json({ id: 'a' }) });
    const called = waiting.call('getAccount');
    await vi.advanceTimersByTimeAsync(40_000);
    expect(await called).toEqual({ id: 'a' });
    expect(answers).toHaveLength(0);
  });
});

describe('a document of GraphQL', () => {
  interface Data {
    readonly conversation: { readonly subject: string | null };
  }
  const text = 'query Subject($id: ID!) { conversation(id: $id) { subject } }';
  const typed: TypedDocumentNode<Data, { id: string }> = gql(text);

  test('that has types gives them to its variables and its result', async () => {
    const { id } = await client.call('createConversation', { subject: 'Parcel' });
    const { conversation } = await client.graphql(typed, { id });
    expectTypeOf(conversation.subject).toEqualTypeOf<string | null>();
    expect(conversation.subject).toBe('Parcel');
    const wrong = [
      // @ts-expect-error: the variable has another name
      () => client.graphql(typed, { ids: id }),
      // @ts-expect-error: the variable is required
      () => client.graphql(typed),
    ];
    for (const call of wrong) await expect(call()).rejects.toMatchObject({ code: 'VALIDATION_FAILED' });
  });

  test('that takes no variables is called without', async () => {
    type Nothing = { [key: string]: never };
    const cursor: TypedDocumentNode<{ eventCursor: string }, Nothing> = gql('{ eventCursor }');
    expect((await client.graphql(cursor)).eventCursor).toEqual(expect.any(String));
  });

  test('that is registered is called by its id alone, the only thing that a page may do whose token says so', async () => {
    const { id } = await client.call('createConversation', { subject: 'Parcel' });
    await client.call('registerDocuments', { documents: [{ id: 'subject', text }] });
    const { token } = await client.call('createToken', { scopes: ['conversations:read'], trustedDocumentsOnly: true });
    const { through, sent } = network(() => undefined);
    const page = new Client({ url: server.url, credential: token, fetch: through });
    await expect(page.graphql(typed, { id })).rejects.toMatchObject({ code: 'FORBIDDEN' });
    const ofTada = { ...typed, documentId: 'subject' };
    const ofCodegen = { ...typed, __meta__: { hash: 'subject' } };
    for (const each of [ofTada, ofCodegen, { documentId: 'subject' }]) {
      expect(await page.graphql<Data, { id: string }>(each, { id })).toEqual({ conversation: { subject: 'Parcel' } });
      expect(JSON.parse(String(sent.at(-1)?.body))).toEqual({ documentId: 'subject', variables: { id } });
    }
  });

  test('is sent again when its answer was lost only if it is a query', async () => {
    const lose = () => Promise.reject(new TypeError('the connection was lost'));
    const { through, sent } = network((count) => (count % 2 === 1 ? lose() : undefined));
    const unlucky = new Client({ url: server.url, credential: account.secret, fetch: through });
    const lost = { documentId: 'unknown' };
    await unlucky.graphql('{ eventCursor }');
    expect(sent.splice(0)).toHaveLength(2);
    await expect(unlucky.graphql({ ...gql('{ eventCursor }'), ...lost })).rejects.toBeInstanceOf(own.ServiceError);
    expect(sent.splice(0)).toHaveLength(2);
    for (const document of [lost, { ...gql('mutation { a }'), ...lost }]) {
      await expect(unlucky.graphql(document)).rejects.toThrow('the connection was lost');
      expect(sent.splice(0)).toHaveLength(1);
    }
  });

  test('that was parsed is sent as a text that says the same', async () => {
    const everything = String.raw`
      query Q($a: [ID!]! = ["x"], $b: Int = -3) @d(a: 1.5e3) {
        a: b(c: "q \" \\ \u0001 é", d: """a "block" """, e: [], f: {}, g: { h: [null, true, $b], i: ENUM }) @skip(if: false) { c }
        ...F @include(if: $b)
        ... @include(if: true) { d }
        ... on T { __typename }
      }
      fragment F on T @d { e { f } }
      mutation { g }
      subscription S { h(i: 0) }
    `;
    const { through, sent } = network(() => Response.json({ data: null }));
    await new Client({ url: server.url, credential: 'a token', fetch: through }).graphql(parse(everything));
    const withoutLocations = (text: string) =>
      JSON.parse(JSON.stringify(parse(text, { noLocation: true })), (key, value) =>
        key === 'block' ? undefined : value,
      );
    expect(withoutLocations(JSON.parse(String(sent[0]?.body)).query)).toEqual(withoutLocations(everything));
  });
});

describe('the guard before a cache', () => {
  const of = (version: number, fields: object = {}) => ({ __typename: 'Conversation', id: 'c1', version, ...fields });

  test('lets no older version of a conversation through, wherever it stands', () => {
    const newest = newestOnly();
    expect(newest({ conversation: of(2, { status: 'CLOSED' }) })).toEqual({
      conversation: of(2, { status: 'CLOSED' }),
    });
    const late = { conversations: { nodes: [of(1, { status: 'ACTIVE' }), { ...of(1), id: 'c2' }] } };
    expect(newest(late)).toEqual({
      conversations: { nodes: [of(2, { status: 'CLOSED' }), { ...of(1), id: 'c2' }] },
    });
    expect(newest({ conversation: of(3, { status: 'ACTIVE' }) })).toEqual({
      conversation: of(3, { status: 'ACTIVE' }),
    });
  });

  test('adds no field that was not asked for, keeps those that it knows no newer of, and lets messages be', () => {
    const newest = newestOnly();
    newest(of(2, { status: 'CLOSED' }));
    newest(of(2, { subject: 'Parcel', messages: { nodes: [1, 2] } }));
    const late = of(1, { subject: null, tags: ['a'], messages: { nodes: [1] } });
    expect(newest(late)).toEqual(of(2, { subject: 'Parcel', tags: ['a'], messages: { nodes: [1] } }));
  });

  test('compares each field with the newest version that had it', () => {
    const newest = newestOnly();
    newest(of(3, { status: 'CLOSED' }));
    newest(of(2, { status: 'ACTIVE', tags: ['b'] }));
    expect(newest(of(1, { status: 'PENDING', tags: ['a'] }))).toEqual(of(3, { status: 'CLOSED', tags: ['b'] }));
  });

  test('keeps what only the older one says of a visitor, unless the visitor has changed', () => {
    const visitor = (fields: object) => ({ visitor: { __typename: 'Visitor', ...fields } });
    const newest = newestOnly();
    newest(of(2, visitor({ name: 'Ada' })));
    expect(newest(of(1, visitor({ name: 'Ada', email: 'ada@example.com' })))).toEqual(
      of(2, visitor({ name: 'Ada', email: 'ada@example.com' })),
    );
    newest(of(4, visitor({ name: 'Bob' })));
    expect(newest(of(3, visitor({ name: 'Ada', email: 'ada@example.com' })))).toEqual(of(4, visitor({ name: 'Bob' })));
    expect(newest(of(5, { ...visitor({ name: 'Eve' }), metadata: { a: 1 } }))).toMatchObject({ metadata: { a: 1 } });
    expect(newest(of(4, { visitor: null, metadata: { b: 2 } }))).toEqual(
      of(5, { ...visitor({ name: 'Eve' }), metadata: { a: 1 } }),
    );
  });

  test('looks up in the document what an alias stands for, in fragments, too', () => {
    const newest = newestOnly();
    newest(of(2, { status: 'CLOSED', subject: 'New', visitor: { __typename: 'Visitor', name: 'Ada' } }));
    const document = gql`
      query { all: conversations { nodes { ...Row } } }
      fragment Row on Conversation {
        key: id v: version
        ... on Node { status: subject }
        ... on Conversation { state: status visitor { as: name } ofVisitor: unreadCount(reader: "visitor") }
      }
    `;
    const row = (v: number, state: string, status: string, as: string, ofVisitor: number) => ({
      ...{ __typename: 'Conversation', key: 'c1', v, state, status },
      ...{ visitor: { __typename: 'Visitor', as }, ofVisitor },
    });
    const late = { all: { nodes: [row(1, 'ACTIVE', 'Old', 'Eve', 7)] } };
    expect(newest(late, document)).toEqual({ all: { nodes: [row(2, 'CLOSED', 'New', 'Ada', 7)] } });
    expect(newest({ all: { nodes: [row(3, 'ACTIVE', 'Newer', 'Bob', 0)] } }, document)).toEqual({
      all: { nodes: [row(3, 'ACTIVE', 'Newer', 'Bob', 0)] },
    });
  });

  test('takes an alias for what it stands for on the type of the object, whatever it is on other types', () => {
    const newest = newestOnly();
    newest(of(2, { subject: 'New' }));
    const document = gql`
      query {
        node(id: "c1") {
          id
          ... on Lead { title: name }
          ... on Conversation { version title: subject }
          ... on Webhook { title: url }
        }
      }
    `;
    expect(newest({ node: of(1, { title: 'Old' }) }, document)).toEqual({ node: of(2, { title: 'New' }) });
  });
});

test('the client is small: a page can afford it, and what it loads for sockets', async () => {
  const { outputFiles } = await build({
    entryPoints: ['src/client/index.ts'],
    bundle: true,
    splitting: true,
    minify: true,
    format: 'esm',
    outdir: 'dist',
    write: false,
  });
  const sizeOf = (isEntry: boolean): number => {
    const files = outputFiles.filter(({ path }) => path.endsWith('/index.js') === isEntry);
    return files.reduce((sum, { contents }) => sum + gzipSync(contents).length, 0);
  };
  onTestFinished(() =>
    console.log(`The client: ${sizeOf(true)} bytes, compressed; for sockets: ${sizeOf(false)} more.`),
  );
  expect(sizeOf(true)).toBeLessThanOrEqual(5_749);
  expect(sizeOf(false)).toBeGreaterThan(1_000);
  expect(sizeOf(false)).toBeLessThanOrEqual(5_000);
});
