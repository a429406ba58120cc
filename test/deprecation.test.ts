import { expect, test } from 'vitest';
import { z } from 'zod';
import { operation } from '../src/domain/operation.ts';
import { operations } from '../src/domain/operations.ts';
import { schemaOf } from '../src/graphql/schema.ts';
import { route, routes } from '../src/rest/routes.ts';
import { startTestServer } from './support/server.ts';

// Nothing is deprecated yet, so an operation that exists only here is.

const deprecated = { since: '2026-11-21', sunset: '2027-11-21', note: 'Use `getAccount`.' };
const reason = 'Use `getAccount`. Deprecated since 2026-11-21; it may be gone from 2027-11-21 on.';

const greet = operation({
  name: 'greet',
  summary: 'Greets.',
  scope: 'any',
  input: z.strictObject({}),
  errors: [],
  deprecated,
  run: async () => ({ greeting: 'hello' }),
});

test('both APIs say of a deprecated operation since when it is, until when it stays and what to use instead', async () => {
  const answers = z.object({ greeting: z.string() }).meta({ id: 'Greeting', description: 'A greeting.' });
  const greeting = route('GET', '/account/greeting', greet, { answers, answer: (body) => ({ body }) });
  const server = await startTestServer({ routes: [...routes, greeting] });
  try {
    const client = await server.account();
    const { status, headers } = await client.rest('GET', '/account/greeting');
    expect([status, headers['deprecation'], headers['sunset']]).toEqual([
      200,
      `@${Date.parse('2026-11-21T00:00:00Z') / 1_000}`,
      'Sun, 21 Nov 2027 00:00:00 GMT',
    ]);
    const other = await client.rest('GET', '/account');
    expect([other.headers['deprecation'], other.headers['sunset']]).toEqual([undefined, undefined]);

    const document = await (await fetch(`${server.url}/openapi.json`)).json();
    const { get } = document.paths['/v1/account/greeting'];
    expect([get.deprecated, get.description]).toEqual([true, expect.stringContaining(reason)]);
    expect(Object.keys(get.responses[200].headers)).toEqual(expect.arrayContaining(['Deprecation', 'Sunset']));
    expect(await (await fetch(`${server.url}/docs`)).text()).toContain('it may be gone from 2027-11-21 on');
  } finally {
    await server.close();
  }

  const schema = schemaOf([{ ...operations.listLeads, deprecated }]);
  const { leads, lead } = schema.getQueryType()?.getFields() ?? {};
  expect([leads?.deprecationReason, lead?.deprecationReason]).toEqual([reason, undefined]);
});
