import fc from 'fast-check';
import { request } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { exampleEventCursor } from '../../src/domain/event-cursor.ts';
import { openApiDocument } from '../../src/rest/openapi/document.ts';
import { routes } from '../../src/rest/routes.ts';
import type { Json } from '../support/client.ts';
import { type Seen, serviceConformance } from '../support/conformance.ts';
import { type Documented, type Draft, Drafts, Drawn, documentedOperations } from '../support/documented-requests.ts';
import { effort } from '../support/effort.ts';
import { KnownThings } from '../support/known-things.ts';
import { Random } from '../support/random.ts';
import { seed, withHint } from '../support/seed.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { type Around, spoilersOf, type Wire } from '../support/spoilt-requests.ts';

// Requests that are made of openapi.json, and the same ones spoilt: what the document allows is taken, and whatever is
// sent, the answer is one that the document has for this operation.

const document = openApiDocument(routes);
const operations = documentedOperations(document);

/** Of each pair, one is valid and one is spoilt. */
const pairs = Math.ceil(effort(66, 1_000) / operations.length);

/** What a valid request may meet: what it is about has changed, is gone, or there is enough of it. */
const statesOfThings = [304, 404, 409, 412, 422];

let server: TestServer;
let account: TestAccount;
let known: KnownThings;
let around: Omit<Around, 'random' | 'documented'>;
let sent = 0;

beforeAll(async () => {
  server = await startTestServer();
  account = await server.account();
  known = new KnownThings(account);
  around = await surroundings();
});

afterAll(() => server.close());

test.each(operations)(
  'what openapi.json lets one send to $name is taken, and each answer is as it says',
  async (documented) => {
    const statuses: number[] = [];
    const exchange = async (wire: Wire): Promise<Seen> => {
      const seen = await send(wire);
      statuses.push(seen.status);
      expect(serviceConformance().faultsOf(seen), shown(wire, seen)).toEqual([]);
      learn(documented, wire, seen);
      return seen;
    };
    const drafts = new Drafts(document, documented);
    const spoilers = spoilersOf(documented);
    const ways = fc.constantFrom(...Object.keys(spoilers));
    const pair = fc.asyncProperty(drafts.any(), ways, fc.nat(), async (draft, way, nth) => {
      const wire = await wireOf(documented, draft);
      const seen = await exchange(wire);
      if (seen.status >= 300) expect(statesOfThings, shown(wire, seen)).toContain(seen.status);
      const spoilt = spoilers[way]?.(wire, { ...around, documented, random: new Random(nth, 0) });
      await exchange(spoilt ?? wire);
    });
    // So that there is one answer of each kind at least, however few are asked for.
    const bare = fc.sample(drafts.bare(), { seed, numRuns: 50 });
    const examples = bare.slice(0, 1).map((draft): [Draft, string, number] => [draft, 'an unknown parameter', 0]);
    try {
      await fc.assert(pair, { seed, numRuns: pairs, examples });
    } catch (error) {
      throw withHint(error, `TEST_SEED=${seed}`);
    }
    const isTaken = (): boolean => statuses.some((status) => status < 300);
    for (const draft of bare) if (!isTaken()) await exchange(await wireOf(documented, draft)); // what it met was closed, say
    expect(isTaken()).toBe(true);
    expect(statuses.filter((status) => status >= 400)).not.toEqual([]);
  },
);

test('as many requests were sent as should be tried', () => {
  expect(sent).toBeGreaterThanOrEqual(effort(132, 2_000));
});

/** An exchange, to look into it. */
function shown({ method, path, query, headers, body }: Wire, { status, body: answer }: Seen): string {
  const sent = JSON.stringify({ query, headers, body: body && String(body).slice(0, 500) });
  return `${method} ${path} ${sent} → ${status} ${JSON.stringify(answer).slice(0, 1_000)}`;
}

/** The request of a draft, with what there is now in place of what is to be drawn. */
async function wireOf({ method, path, name }: Documented, draft: Draft): Promise<Wire> {
  const ids: Record<string, unknown> = { ...draft.path };
  if (ids['webhookId'] !== undefined && ids['id'] instanceof Drawn) {
    const { id, of } = await known.thing(ids['id']);
    Object.assign(ids, { id, webhookId: of });
  }
  const inPath = await known.filled(ids);
  const inQuery = await known.filled(draft.query, listOf(name, draft.query['sort']));
  const body = await known.filled(draft.body);
  return {
    method,
    path: path.replaceAll(/\{(\w+)\}/g, (_, key: string) => encodeURIComponent(String(inPath[key]))),
    query: Object.entries(inQuery).flatMap(([key, value]): [string, string][] => {
      if (!Array.isArray(value)) return [[key, String(value)]];
      return draft.lists === 'repeated' ? value.map((each) => [key, String(each)]) : [[key, value.join()]];
    }),
    headers: {
      authorization: `Bearer ${account.secret}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...((await known.filled(draft.headers)) as Record<string, string>),
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  };
}

/** A cursor holds the sort of its list. */
function listOf(name: string, sort: unknown): string {
  return `${name} ${sort ?? ''}`;
}

function learn({ name }: Documented, { method, path, query }: Wire, { status, body }: Seen): void {
  if (status >= 300) return;
  if (method === 'POST') known.learn(body);
  if (method === 'DELETE') known.forget(decodeURIComponent(path.split('/').at(-1) ?? ''));
  const cursor = (body as Json).pagination?.nextCursor;
  if (method === 'GET' && cursor != null) known.learnCursor(listOf(name, Object.fromEntries(query)['sort']), cursor);
}

async function send({ method, path, query, headers, body }: Wire): Promise<Seen> {
  const search = query.map((pair) => pair.map(encodeURIComponent).join('=')).join('&');
  const target = path + (search === '' ? '' : `?${search}`);
  sent++;
  const response = await request(server.url + target, {
    method: method as 'GET',
    headers: { ...headers },
    body: body ?? null,
  });
  const { statusCode: status, headers: answered } = response;
  const seen = { method, path: target, sent: parsed(body), status, headers: answered };
  if (String(answered['content-type']).startsWith('text/event-stream')) {
    response.body.on('error', () => {}).destroy(); // it would not end
    return { ...seen, body: '' };
  }
  const text = await response.body.text();
  const isJson = String(answered['content-type']).includes('json') && text !== '';
  return { ...seen, body: isJson ? JSON.parse(text) : text };
}

/** The body as it is read, if it can be. */
function parsed(body: Wire['body']): unknown {
  try {
    return body === undefined ? undefined : JSON.parse(Buffer.from(body).toString());
  } catch {
    return undefined;
  }
}

/** What another account has, credentials that are not enough, and cursors of other lists. */
async function surroundings(): Promise<typeof around> {
  const stranger = await server.account();
  const foreign = new KnownThings(stranger);
  const kinds = ['conv', 'msg', 'lead', 'whk', 'dlv', 'key', 'document'];
  const wrongIds: string[] = [];
  for (const kind of kinds) {
    for (const things of [foreign, known]) wrongIds.push((await things.thing(new Drawn(kind, 0))).id);
  }
  const { token } = (await account.rest('POST', '/tokens', { body: { scopes: ['conversations:read'] } })).body;
  const bound = { scopes: ['conversations:read', 'conversations:write'], conversationId: wrongIds[1] };
  const { token: boundToken } = (await account.rest('POST', '/tokens', { body: bound })).body;
  const page = (await account.rest('GET', '/conversations?limit=1&sort=lastActivityAt')).body;
  const { eventCursor } = (await stranger.rest('GET', '/account')).body;
  return {
    wrongIds,
    wrongCursors: [page.pagination.nextCursor, eventCursor, exampleEventCursor],
    callers: [token, boundToken, 'cs_unknown', ''].map((secret) => ({ authorization: `Bearer ${secret}` })),
  };
}
