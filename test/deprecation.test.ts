import {
  GraphQLInputObjectType,
  GraphQLObjectType,
  GraphQLSchema,
  GraphQLString,
  graphqlSync,
  printSchema,
} from 'graphql';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type Deprecation, deprecated } from '../src/domain/deprecation.ts';
import { operation } from '../src/domain/operation.ts';
import { calls } from '../src/graphql/builder.ts';
import { withDeprecations } from '../src/graphql/deprecation.ts';
import { route, routes } from '../src/rest/routes.ts';
import type { Json } from './support/client.ts';
import { startTestServer, type TestServer } from './support/server.ts';

// Operations that exist here only: one that is deprecated, and one with two inputs that are.

const since: Deprecation = { since: '2026-11-21', sunset: '2027-11-21', note: 'Use `greetWell`.' };
const earlier: Deprecation = { since: '2026-10-01', sunset: '2027-10-31', note: 'Use `name`.' };

const greet = operation({
  name: 'greet',
  summary: 'Greets.',
  scope: 'any',
  input: z.strictObject({}),
  errors: [],
  deprecated: since,
  run: async () => ({ greeting: 'hello' }),
});

const greetWell = operation({
  name: 'greetWell',
  summary: 'Greets somebody.',
  scope: 'any',
  input: z.strictObject({
    name: z.string().optional().describe('Whom.'),
    who: deprecated(z.string().optional().describe('Whom.'), earlier),
    tone: deprecated(z.string().optional().describe('How.'), { ...since, note: 'It is always kind.' }),
  }),
  errors: [],
  run: async (_, { name, who }) => ({ greeting: `hello ${name ?? who}` }),
});

const greetingShape = z
  .object({
    greeting: z.string().describe('What is said.'),
    language: deprecated(z.string().optional().describe('In which language.'), earlier),
  })
  .meta({ id: 'Greeting', description: 'A greeting.' });

const manyRoutes = [
  ...routes,
  route('GET', '/account/greeting', greet, { answers: greetingShape, answer: (body) => ({ body }) }),
  route('POST', '/account/greetings', greetWell, {
    body: 'required',
    answers: greetingShape,
    answer: (body) => ({ body }),
  }),
];

describe('REST', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startTestServer({ routes: manyRoutes });
  });
  afterAll(() => server.close());

  const shown = ({ headers }: { headers: Record<string, string> }) => [
    headers['deprecation'],
    headers['sunset'],
    headers['link'],
  ];
  const ofOperation = [
    `@${Date.parse('2026-11-21T00:00:00Z') / 1_000}`,
    'Sun, 21 Nov 2027 00:00:00 GMT',
    '</docs#greet>; rel="deprecation"; type="text/html"',
  ];

  test('says of a deprecated operation since when it is, until when it stays and where that is explained', async () => {
    const client = await server.account();
    const answer = await client.rest('GET', '/account/greeting');
    expect([answer.status, ...shown(answer)]).toEqual([200, ...ofOperation]);
  });

  test('says so in its errors too', async () => {
    const client = await server.account();
    const answer = await client.rest('GET', '/account/greeting?loud=yes');
    expect([answer.status, ...shown(answer)]).toEqual([400, ...ofOperation]);
  });

  test('says nothing of what is not deprecated', async () => {
    const client = await server.account();
    expect(shown(await client.rest('GET', '/account'))).toEqual([undefined, undefined, undefined]);
    const answer = await client.rest('POST', '/account/greetings', { body: { name: 'Ada' } });
    expect([answer.status, ...shown(answer)]).toEqual([200, undefined, undefined, undefined]);
  });

  test('says of a request with deprecated fields what goes first', async () => {
    const client = await server.account();
    const answer = await client.rest('POST', '/account/greetings', { body: { tone: 'kind', who: 'Ada' } });
    expect(shown(answer)).toEqual([
      `@${Date.parse('2026-10-01T00:00:00Z') / 1_000}`,
      'Sun, 31 Oct 2027 00:00:00 GMT',
      '</docs#greetWell>; rel="deprecation"; type="text/html"',
    ]);
  });

  test('shows it in openapi.json and in /docs', async () => {
    const read = async (path: string) => (await request(`${server.url}${path}`)).body.text();
    const document = JSON.parse(await read('/openapi.json')) as Json;
    const { get } = document.paths['/v1/account/greeting'];
    expect(get.deprecated).toBe(true);
    expect(get.description).toContain('Deprecated since 2026-11-21; it may be gone from 2027-11-21 on.');
    expect(Object.keys(get.responses[200].headers)).toEqual(expect.arrayContaining(['Deprecation', 'Sunset']));
    const { name, who } = document.components.schemas.GreetWellInput.properties;
    expect([name.deprecated, who.deprecated]).toEqual([undefined, true]);
    expect(who.description).toBe('Whom. Use `name`. Deprecated since 2026-10-01; it may be gone from 2027-10-31 on.');
    const { greeting, language } = document.components.schemas.Greeting.properties;
    expect([greeting.deprecated, language.deprecated]).toEqual([undefined, true]);
    expect(await read('/docs')).toContain('it may be gone from 2027-11-21 on');
  });
});

describe('GraphQL', () => {
  const InputType = new GraphQLInputObjectType({
    name: 'GreetWellInput',
    fields: { name: { type: GraphQLString }, who: { type: GraphQLString } },
  });
  const GreetingType = new GraphQLObjectType({
    name: 'Greeting',
    fields: { greeting: { type: GraphQLString }, language: { type: GraphQLString } },
  });
  const schema = withDeprecations(
    new GraphQLSchema({
      query: new GraphQLObjectType({
        name: 'Query',
        fields: {
          greet: { type: GreetingType, extensions: calls(greet) },
          greetWell: {
            type: GraphQLString,
            extensions: calls(greetWell),
            args: { name: { type: GraphQLString }, tone: { type: GraphQLString } },
          },
        },
      }),
      mutation: new GraphQLObjectType({
        name: 'Mutation',
        fields: {
          greetWell: { type: GraphQLString, extensions: calls(greetWell), args: { input: { type: InputType } } },
        },
      }),
    }),
    [greet, greetWell],
    { Greeting: greetingShape },
  );

  test('marks the fields of a deprecated operation, its arguments and input fields, and a resource’s fields, with the date', () => {
    const printed = printSchema(schema);
    const at = (reason: string): string => `@deprecated(reason: ${JSON.stringify(reason)})`;
    expect(printed).toContain(
      `greet: Greeting ${at('Use `greetWell`. Deprecated since 2026-11-21; it may be gone from 2027-11-21 on.')}`,
    );
    expect(printed).toContain(
      `tone: String ${at('It is always kind. Deprecated since 2026-11-21; it may be gone from 2027-11-21 on.')}`,
    );
    expect(printed).toContain(
      `who: String ${at('Use `name`. Deprecated since 2026-10-01; it may be gone from 2027-10-31 on.')}`,
    );
    expect(printed).toContain(
      `language: String ${at('Use `name`. Deprecated since 2026-10-01; it may be gone from 2027-10-31 on.')}`,
    );
    expect(printed.match(/@deprecated/g)).toHaveLength(4);
  });

  test('tells those who ask the schema', () => {
    const source = '{ __type(name: "Query") { fields(includeDeprecated: true) { name isDeprecated } } }';
    const { data } = graphqlSync({ schema, source }) as { data: Json };
    expect(data.__type.fields).toMatchObject([
      { name: 'greet', isDeprecated: true },
      { name: 'greetWell', isDeprecated: false },
    ]);
  });
});

describe('a deprecation', () => {
  const define = (deprecation: Deprecation) => () =>
    operation({
      name: 'x',
      summary: '',
      scope: 'any',
      input: z.strictObject({}),
      errors: [],
      deprecated: deprecation,
      run: async () => {},
    });

  test.each([
    ['2026-11-21', '2027-11-20'],
    ['2026-11-21', '2026-11-21'],
    ['2026-11-21', '2025-11-21'],
    ['2028-02-29', '2029-02-28'],
  ])('since %s with the sunset %s cannot be defined: it leaves less than twelve months', (from, sunset) => {
    expect(define({ since: from, sunset, note: '' })).toThrow('12 months');
    expect(() => deprecated(z.string(), { since: from, sunset, note: '' })).toThrow('12 months');
  });

  test.each([
    ['2026-11-21', '2027-11-21'],
    ['2028-02-29', '2029-03-01'],
    ['2026-11-21', '2030-01-01'],
  ])('since %s with the sunset %s can', (from, sunset) => {
    expect(define({ since: from, sunset, note: '' })).not.toThrow();
  });

  test.each(['soon', '2026-02-30', '2026-11-21T00:00:00Z', ''])('needs dates, and %j is none', (date) => {
    expect(define({ since: date, sunset: '2030-01-01', note: '' })).toThrow('dates');
    expect(define({ since: '2026-11-21', sunset: date, note: '' })).toThrow('dates');
  });
});
