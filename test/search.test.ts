import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { type Caller, scopes } from '../src/domain/caller.ts';
import { excerptOf, search } from '../src/domain/search.ts';
import { SearchWords } from '../src/domain/search-words.ts';
import { scheduler } from '../src/runtime/scheduler.ts';
import type { Json } from './support/client.ts';
import { cpuMsOf } from './support/cpu-time.ts';
import { longTest } from './support/effort.ts';
import { sampleMessage, storedConversation } from './support/samples.ts';
import { queriesByScript } from './support/scripts.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';

let server: TestServer;
let client: TestAccount;

beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
});
afterAll(() => server.close());

async function tell(of: TestAccount, contents: readonly string[], body: object = {}): Promise<string> {
  const { id } = (await of.rest('POST', '/conversations', { body })).body;
  for (const content of contents) {
    await of.rest('POST', `/conversations/${id}/messages`, { body: { content, sender: 'visitor' } });
  }
  return id;
}

/** The contents of what is found over REST, which must be what is found over GraphQL. */
async function find(of: TestAccount, q: string): Promise<(string | null)[]> {
  const { status, body } = await of.rest('GET', `/search?limit=100&q=${encodeURIComponent(q)}`);
  expect(status).toBe(200);
  const contents = body.data.map(({ message }: Json) => message?.content ?? null);
  const { data } = await of.graphql(
    'query ($q: String!) { search(q: $q, first: 100) { nodes { message { content } } } }',
    {
      q,
    },
  );
  expect(data.search.nodes.map(({ message }: Json) => message?.content ?? null)).toEqual(contents);
  return contents;
}

describe('in 17 scripts', () => {
  test.each(queriesByScript)('%s: %s is found by %s, as soon as it is sent', async (_, text, query) => {
    const own = await server.account();
    await tell(own, [text, 'Something else']);
    expect(await find(own, query)).toEqual([text]);
  });
});

describe('whatever is asked is plain words', () => {
  let own: TestAccount;
  beforeAll(async () => {
    own = await server.account();
    await tell(own, ['not where it was', 'where and is it']);
  });

  test.each([
    ['"where" AND "is"', ['where and is it']],
    ['where OR nothing', []],
    ['NOT where', ['not where it was']],
    ['NEAR(where is)', []],
    ['wher*', ['not where it was', 'where and is it']],
    ['words:where', []],
    ['^where + is - "it', ['where and is it']],
    ["'; DROP TABLE messages; --", []],
    ['where) UNION SELECT * FROM accounts', []],
    ['%', []],
    ['_', []],
    ['\\', []],
    ['{"$ne": null}', []],
    ['\u{10ffff}', []],
    ['000001', []],
  ])('%s', async (query, expected) => {
    expect((await find(own, query)).toSorted()).toEqual(expected);
  });

  test('another account’s words find nothing', async () => {
    const [one, other] = [await server.account(), await server.account()];
    await tell(one, ['A secret of one account']);
    await tell(other, ['A secret of another']);
    expect(await find(one, 'secret')).toEqual(['A secret of one account']);
    expect(await find(one, 'another')).toEqual([]);
  });
});

describe('pages', () => {
  test('are continued by their cursor, on either face, while others write', async () => {
    const own = await server.account();
    const contents = Array.from({ length: 7 }, (_, index) => `word ${index}`);
    await tell(own, contents);
    const newestFirst = contents.toReversed();
    const rest: string[] = [];
    for (let path: string | undefined = '/search?q=word&limit=3'; path !== undefined; ) {
      const { body, headers }: Json = await own.rest('GET', path);
      rest.push(...body.data.map(({ message }: Json) => message.content));
      expect(body.pagination).toMatchObject({ limit: 3, total: expect.any(Number), totalIsMore: false });
      expect(body.pagination.hasMore).toBe(body.pagination.nextCursor !== null);
      path = /^<\/v1([^>]+)>; rel="next"$/.exec(headers.link ?? '')?.[1];
      await tell(own, ['word, later']);
    }
    expect(rest).toEqual(newestFirst);
    const graphql: string[] = [];
    for (
      let after = (await own.rest('GET', '/search?q=word&limit=3')).body.pagination.nextCursor, isFirst = true;
      after !== null;
      isFirst = false
    ) {
      const { data } = await own.graphql(
        `query ($after: String) { search(q: "word", first: 2, after: $after) {
          totalCount totalIsMore edges { cursor node { message { content } } }
          pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }`,
        { after },
      );
      const { edges, pageInfo, totalCount, totalIsMore } = data.search;
      expect([totalCount, totalIsMore, pageInfo.hasPreviousPage]).toEqual([10, false, true]);
      expect([pageInfo.startCursor, pageInfo.endCursor]).toEqual([edges[0].cursor, edges.at(-1).cursor]);
      graphql.push(...edges.map(({ node }: Json) => node.message.content));
      if (isFirst) await tell(own, []);
      after = pageInfo.hasNextPage ? pageInfo.endCursor : null;
    }
    expect(graphql).toEqual(newestFirst);
  });

  test('of another list’s cursor are refused, and so is an offset', async () => {
    const { pagination } = (await client.rest('GET', '/conversations?limit=1')).body;
    await tell(client, []);
    await tell(client, []);
    const { nextCursor } = (await client.rest('GET', '/conversations?limit=1')).body.pagination;
    expect(pagination).toBeDefined();
    for (const query of [`after=${nextCursor}`, 'offset=1', 'sort=createdAt', 'query=x']) {
      expect((await client.rest('GET', `/search?q=x&${query}`)).body.code, query).toBe('VALIDATION_FAILED');
    }
  });

  test('count up to 1,000 results, and say whether there are more', { timeout: 60_000 }, async () => {
    const own = await server.account();
    const contents = Array.from({ length: 1_000 }, () => 'word');
    const { id } = await storedConversation(server.storage, own.account.id, contents);
    const totals = async () => {
      const { total, totalIsMore } = (await own.rest('GET', '/search?q=word&limit=1')).body.pagination;
      const { data } = await own.graphql('{ search(q: "word", first: 1) { totalCount totalIsMore } }');
      expect(data.search).toEqual({ totalCount: total, totalIsMore });
      return [total, totalIsMore];
    };
    expect(await totals()).toEqual([1_000, false]);
    await own.rest('POST', `/conversations/${id}/messages`, { body: { content: 'word', sender: 'agent' } });
    expect(await totals()).toEqual([1_000, true]);
  });
});

test('a page of GraphQL counts nothing unless its total is selected', async () => {
  const asked: string[] = [];
  const watched = await startTestServer({ onStatement: (sql) => void (/search_\w/.test(sql) && asked.push(sql)) });
  onTestFinished(() => watched.close());
  const own = await watched.account();
  for (const content of ['日本語の注文', '日本語の返品', '日本語の商品']) await tell(own, [content]);
  const statementsOf = async (ask: () => Promise<unknown>): Promise<number> => {
    asked.length = 0;
    await ask();
    return asked.length;
  };
  const next = async (q: string) => (await own.rest('GET', `/search?q=${q}&limit=1`)).body.pagination.nextCursor;
  for (const q of ['日', '日本語']) {
    const after = await next(q);
    const graphql = (selection: string) => () =>
      own.graphql(`{ search(q: "${q}", first: 1, after: "${after}") { ${selection} } }`);
    const page = await statementsOf(() => own.rest('GET', `/search?q=${q}&limit=1&after=${after}&total=none`));
    expect(await statementsOf(graphql('pageInfo { endCursor }')), q).toBe(page);
    const counted = await statementsOf(graphql('totalCount'));
    expect(counted, q).toBeGreaterThan(page);
    expect(await statementsOf(graphql('totalCount totalIsMore')), q).toBe(counted);
  }
});

describe('who may search', () => {
  test('is who may read conversations; a token that is bound to one may not', async () => {
    const id = await tell(client, ['Hello']);
    const token = async (grant: object): Promise<string> =>
      (await client.rest('POST', '/tokens', { body: grant })).body.token;
    const allowed = server.clientFor(await token({ scopes: ['conversations:read'] }));
    expect((await allowed.rest('GET', '/search?q=hello')).status).toBe(200);
    for (const grant of [{ scopes: ['leads:read'] }, { scopes: ['conversations:read'], conversationId: id }]) {
      const refused = server.clientFor(await token(grant));
      expect((await refused.rest('GET', '/search?q=hello')).body.code).toBe('FORBIDDEN');
      const { errors } = await refused.graphql('{ search(q: "hello") { totalCount } }');
      expect(errors?.[0]?.extensions.code).toBe('FORBIDDEN');
    }
  });

  test('may search five times in an operation, whose totals do not count on top', async () => {
    const searches = (count: number) =>
      `{ ${Array.from({ length: count }, (_, index) => `s${index}: search(q: "x") { totalCount totalIsMore }`).join(' ')} }`;
    expect((await client.graphql(searches(5))).errors).toBeUndefined();
    expect((await client.graphql(searches(6))).errors?.[0]?.extensions.code).toBe('QUERY_TOO_COMPLEX');
  });
});

test('a deleted conversation is found by none of its words once that is answered, indexed or not', async () => {
  for (const isIndexed of [false, true]) {
    const own = await server.account();
    const contents = Array.from({ length: 40 }, (_, index) => `gone for good ${index}`);
    const id = await tell(own, contents, { subject: 'gone', visitor: { name: 'Gone', email: 'gone@example.com' } });
    await tell(own, ['still here, for good']);
    if (isIndexed) await server.app.tick();
    expect(await find(own, 'gone')).toHaveLength(41);
    expect((await own.rest('DELETE', `/conversations/${id}`)).status).toBe(204);
    expect(await find(own, 'gone')).toEqual([]);
    expect(await find(own, 'good')).toEqual(['still here, for good']);
    expect(await find(own, 'example')).toEqual([]);
  }
});

test('a changed subject or visitor is found by what it is now', async () => {
  const own = await server.account();
  const id = await tell(own, [], { subject: 'before', visitor: { name: 'Ada' } });
  for (const isIndexed of [false, true]) {
    if (isIndexed) await server.app.tick();
    await own.rest('PATCH', `/conversations/${id}`, { body: { subject: 'after', visitor: { name: 'Grace' } } });
    for (const [query, count] of [
      ['before', 0],
      ['ada', 0],
      ['after grace', 1],
    ] as const) {
      expect(await find(own, query), query).toHaveLength(count);
    }
    await own.rest('PATCH', `/conversations/${id}`, { body: { subject: 'before', visitor: { name: 'Ada' } } });
    expect(await find(own, 'before')).toHaveLength(1);
    expect(await find(own, 'after')).toHaveLength(0);
  }
});

describe('a search', () => {
  /**
   * Looks for what none of these messages has: each has both pairs of characters, but not beside each other.
   * @returns how often the search let others have their turn, if they waited for one
   */
  async function stepsOfSearch(count: number, content: string): Promise<number> {
    const own = await server.account();
    const { id } = (await own.rest('POST', '/conversations', { body: {} })).body;
    await server.storage.write(async (tx) => {
      for (let sequence = 1; sequence <= count; sequence++) {
        await tx.messages.insert(own.account.id, sampleMessage(id, sequence, { content }));
      }
    });
    const step = vi.spyOn(scheduler, 'step');
    onTestFinished(() => step.mockRestore());
    const { body } = await own.rest('GET', `/search?q=${encodeURIComponent('中文字')}`);
    expect(body.data).toEqual([]);
    return step.mock.calls.filter(([accountId]) => accountId === own.account.id).length;
  }

  test('through many texts lets others in between', async () => {
    expect(await stepsOfSearch(1_500, `${'中文 '.repeat(50)}文字`)).toBeGreaterThan(1_500 / 32);
  });

  test('through very long texts does so after each of them', async () => {
    expect(await stepsOfSearch(20, `${'a中文'.repeat(5_460)} 文字`)).toBeGreaterThanOrEqual(20);
  });
});

describe('excerpts of very long texts', () => {
  const long = 'あ'.repeat(16_384);
  const tenWords = Array(10).fill('あ').join(' ');

  test('are made in a few milliseconds each, however often a text has the words', () => {
    const queries = [tenWords, Array.from({ length: 10 }, (_, index) => 'あ'.repeat(index + 1)).join(' '), 'z'];
    for (const text of [long, 'あ '.repeat(8_000), 'aあ'.repeat(8_000), `${'é '.repeat(8_000)}z`]) {
      const tookMs = cpuMsOf(() => {
        for (let count = 0; count < 5; count++) for (const query of queries) excerptOf(text, new SearchWords(query));
      });
      expect(tookMs).toBeLessThan(300);
    }
  });

  longTest('are made one by one, and others have their turn in between', async () => {
    const own = await server.account();
    await storedConversation(
      server.storage,
      own.account.id,
      Array.from({ length: 20 }, () => long),
    );
    let steps = 0;
    const turns = {
      step: async (accountId: string) => {
        steps++;
        await server.app.ports.turns.step(accountId);
      },
    };
    const caller: Caller = { account: own.account, keyId: 'test', credential: 'key', scopes: new Set(scopes) };
    const found = await search.execute({ ...server.app.ports, turns }, caller, { q: tenWords, limit: 20 });
    expect(found.items).toHaveLength(20);
    expect(steps).toBe(19);
    // Of short texts many are made at once.
    steps = 0;
    await tell(own, Array(20).fill('short'));
    expect((await search.execute({ ...server.app.ports, turns }, caller, { q: 'short' })).items).toHaveLength(20);
    expect(steps).toBe(0);
  });
});

describe('an excerpt', () => {
  const excerpt = (text: string, query: string) => excerptOf(text, new SearchWords(query));
  const shown = (text: string, query: string) =>
    excerpt(text, query)
      .map((part) => (part.match ? `[${part.text}]` : part.text))
      .join('');

  test('is the whole of a short text, with all matches marked', () => {
    expect(shown('The café, the cafés', 'CAFE')).toBe('The [café], the [cafés]');
    expect(shown('没有到，没有到', '没有')).toBe('[没有]到，[没有]到');
    expect(shown('x', 'x')).toBe('[x]');
  });

  test('of a long text begins at a word shortly before the first match, and has 200 characters', () => {
    const text = `${'before '.repeat(100)}match ${'after '.repeat(100)}`;
    const found = shown(text, 'match');
    expect(found).toMatch(/^before (before )+\[match\] after/);
    expect(found.replaceAll(/[[\]]/g, '')).toHaveLength(200);
    expect(text).toContain(found.replaceAll(/[[\]]/g, ''));
  });

  test('cuts no character in two, and no accent from its letter', () => {
    for (const character of ['😀', '𐐷', 'e\u0301']) {
      const text = `${character.repeat(150)} match ${character.repeat(300)}`;
      const whole = excerpt(text, 'match')
        .map((part) => part.text)
        .join('');
      expect(whole.isWellFormed()).toBe(true);
      expect(whole.replaceAll(character, '')).toBe(' match ');
    }
  });

  test('has at most 21 parts, however often a text has the words', () => {
    expect(excerpt('a '.repeat(1_000), 'a')).toHaveLength(20);
    expect(excerpt('a b '.repeat(1_000), 'a').length).toBeLessThanOrEqual(21);
  });
});
