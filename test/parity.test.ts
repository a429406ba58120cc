import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operatorOf } from '../src/domain/caller.ts';
import { listConversations } from '../src/domain/conversations.ts';
import { listDeliveries } from '../src/domain/deliveries.ts';
import { listDocuments } from '../src/domain/documents.ts';
import { listLeads } from '../src/domain/leads.ts';
import { listWebhooks } from '../src/domain/webhooks.ts';
import { analyticsCases } from './parity/analytics.ts';
import type { Case } from './parity/case.ts';
import { conversationsCases } from './parity/conversations.ts';
import { credentialsCases } from './parity/credentials.ts';
import { documentsCases } from './parity/documents.ts';
import { eventsCases } from './parity/events.ts';
import { leadsCases } from './parity/leads.ts';
import { readPositionsCases } from './parity/read-positions.ts';
import { searchCases } from './parity/search.ts';
import { webhooksCases } from './parity/webhooks.ts';
import type { Json } from './support/client.ts';
import { inFormOfRest } from './support/event-data.ts';
import { inArguments, inInput, parameterOf } from './support/pointers.ts';
import { isOnPostgres } from './support/postgres.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';

// One table of cases, each sent through both faces, each face to an account of its own, which cases share that only read.
// The two must answer the same resource or the same code, leave the same conversations behind, and log the same events.

const cases = [
  ...conversationsCases,
  ...leadsCases,
  ...readPositionsCases,
  ...searchCases,
  ...eventsCases,
  ...analyticsCases,
  ...webhooksCases,
  ...credentialsCases,
  ...documentsCases,
];

const enumerations = ['status', 'sender', 'plan', 'scopes', 'interval', 'trigger', 'disabledReason'];
/** Those whose values have a dot in REST. */
const typed = ['type', 'events', 'eventType'];

/** Those of the cases. */
const sorts: Record<string, string> = { CREATED_AT_ASC: 'createdAt', LAST_ACTIVITY_AT_DESC: '-lastActivityAt' };

/** Gives a result one form, whichever face it came through: ids by order of appearance, REST's spellings. */
function normalized(value: Json, face: 'rest' | 'graphql'): Json {
  const names = new Map<string, string>();
  const nameOf = (id: string): string => {
    const name = names.get(id) ?? `${id.split('_')[0]}#${names.size}`;
    names.set(id, name);
    return name;
  };
  const spell = (text: string, mark: string) => (text.includes(mark) ? text : text.toLowerCase().replace('_', mark));
  const walk = (part: Json, key: string): Json => {
    if (Array.isArray(part)) return part.map((each) => walk(each, key));
    if (part !== null && typeof part === 'object') {
      return Object.fromEntries(Object.entries(part).map(([name, each]) => [name, walk(each, name)]));
    }
    if (typeof part !== 'string') return part;
    if (/^(acct|key|conv|msg|lead|evt|whk|dlv|att)_[0-9a-z]{26}$/.test(part)) return nameOf(part);
    if (key === 'prefix' || key === 'cursor') return '(differs)';
    // Limits go by the database's clock there, which goes on between the two requests.
    if (isOnPostgres && key === 'resetAt') return Number.isNaN(Date.parse(part)) ? part : '(differs)';
    if (face === 'rest') return part;
    return typed.includes(key) ? spell(part, '.') : enumerations.includes(key) ? spell(part, ':') : part;
  };
  return walk(value, '');
}

/** The parts that differ by the form of a list or of an answer, brought together. */
function resourceOf(body: Json, face: 'rest' | 'graphql'): Json {
  if (body === null || body === undefined) return body;
  if (face === 'rest') {
    const { secret: _secret, token: _token, eventCursor: _cursor, rateLimit, ...resource } = body;
    if (resource.pagination === undefined) return rateLimit === undefined ? resource : { ...resource, rateLimit };
    const { hasMore, total } = resource.pagination;
    return { data: resource.data, hasMore, total };
  }
  const {
    eventCursor: _cursor,
    conversation,
    message,
    apiKey,
    lead,
    webhook,
    delivery,
    token,
    readPosition,
    ...rest
  } = body;
  const resource = readPosition ?? conversation ?? message ?? apiKey ?? lead ?? webhook ?? delivery ?? token ?? rest;
  if (resource.data !== undefined) {
    const data = resource.data.map((each: Json) => ('apiVersion' in each ? inFormOfRest(each) : each));
    return { data, hasMore: resource.pageInfo.hasNextPage, total: resource.totalCount };
  }
  if (resource.messages !== undefined) return { ...resource, messages: resource.messages.nodes };
  return resource.attempts === undefined ? resource : { ...resource, attempts: resource.attempts.nodes };
}

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
  await server.app.webhooks.stop(0); // what the deliveries come to has tests of its own
});
afterAll(() => server.close());

/** As the operations tell it: through a face, each of these lists would be as much work as the request that is tried. */
async function leftBehind({ account }: TestAccount): Promise<Json> {
  const { ports } = server.app;
  const caller = operatorOf(account);
  const all = { limit: 100 };
  const { items: webhooks } = await listWebhooks.execute(ports, caller, all);
  const lists: unknown[] = [
    (await listConversations.execute(ports, caller, all)).items,
    (await listLeads.execute(ports, caller, all)).items,
    webhooks,
    (await listDocuments.execute(ports, caller, all)).items,
  ];
  const [webhook] = webhooks;
  if (webhook !== undefined) lists.push((await listDeliveries.execute(ports, caller, { webhookId: webhook.id })).items);
  return normalized(lists, 'rest');
}

type Prepared = readonly [account: TestAccount, given: Json];

/** The accounts of cases that only read, by what made their contents. */
const shared = new Map<Case['given'], Promise<[Prepared, Prepared]>>();

/** An account for each face, with what a case needs. */
async function accountsFor({ given, isReading }: Pick<Case, 'given' | 'isReading'>): Promise<[Prepared, Prepared]> {
  const prepare = async (): Promise<Prepared> => {
    const account = await server.account();
    return [account, await given?.(account)];
  };
  const known = isReading ? shared.get(given) : undefined;
  if (known !== undefined) return await known;
  const made = Promise.all([prepare(), prepare()]);
  if (isReading) shared.set(given, made);
  return await made;
}

describe('both faces agree on', () => {
  test.each(cases)('$name', async ({ rest, graphql, expected, pointers, events = [], check, ...prepared }) => {
    const [[one, oneGiven], [other, otherGiven]] = await accountsFor(prepared);
    const before = (await server.log(one.account.id)).length;

    const [method, path, body, headers = {}] = rest(oneGiven);
    const restAnswer = await one.rest(method, path, body === undefined ? { headers } : { headers, body });
    const [query, variables] = graphql(otherGiven);
    const graphqlAnswer = await other.graphql(query, variables);

    if (typeof expected === 'number') {
      expect(restAnswer.status).toBe(expected);
      expect(graphqlAnswer.errors).toBeUndefined();
      const { data } = graphqlAnswer;
      const fromGraphql = normalized(
        resourceOf(data.result ?? (data.conversation ?? data.webhook).result, 'graphql'),
        'graphql',
      );
      if (expected !== 204) {
        const fromRest = normalized(resourceOf(restAnswer.body, 'rest'), 'rest');
        expect(fromGraphql).toEqual(fromRest);
        check?.(fromRest);
      }
    } else {
      expect(restAnswer.body.code).toBe(expected);
      expect(restAnswer.headers['content-type']).toBe('application/problem+json');
      const [error] = graphqlAnswer.errors ?? [];
      expect(error?.extensions.code).toBe(expected);
      if (pointers !== undefined) {
        const named = (faults: Json[]) => faults.map((fault) => fault.pointer ?? `/${fault.parameter}`).sort();
        expect(named(restAnswer.body.errors)).toEqual(method === 'GET' ? pointers.map(parameterOf) : pointers);
        const placed = query.startsWith('mutation') ? inInput(pointers) : inArguments(pointers);
        expect(named(error?.extensions.errors)).toEqual(placed.sort());
        // The same sentences, with the values that they quote as the face spells them; what is a field in GraphQL can
        // be a header in REST.
        const spell = ({ detail }: Json): string =>
          detail.replace(/`([A-Z_]+)`/g, (_: string, value: string) => `\`${sorts[value] ?? value.toLowerCase()}\``);
        expect(error?.extensions.errors.map(spell).sort()).toEqual(
          restAnswer.body.errors
            .map(({ detail }: Json) => detail.replace('is not a header of this request', 'is not a known field'))
            .sort(),
        );
      }
    }

    const [byOne, byOther] = await Promise.all([leftBehind(one), leftBehind(other)]);
    expect(byOther).toEqual(byOne);
    const whole = await Promise.all([one, other].map(({ account }) => server.log(account.id)));
    const logs = whole.map((log) => log.slice(before));
    expect(logs[0]?.map(({ type }) => type)).toEqual(events);
    expect(normalized(logs[1], 'rest')).toEqual(normalized(logs[0], 'rest'));
  });
});
