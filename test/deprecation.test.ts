import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type Deprecation, deprecated, deprecatedFields } from '../src/domain/deprecation.ts';
import { operation } from '../src/domain/operation.ts';
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
    speaker: z
      .object({ title: deprecated(z.string().describe('Of what rank.'), earlier) })
      .nullish()
      .describe('Who says it.'),
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
    const { greeting, language, speaker } = document.components.schemas.Greeting.properties;
    expect([greeting.deprecated, language.deprecated]).toEqual([undefined, true]);
    expect(speaker.anyOf[0].properties.title.deprecated).toBe(true);
    expect(await read('/docs')).toContain('it may be gone from 2027-11-21 on');
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

  const take = (input: z.ZodType) => () =>
    operation({ name: 'x', summary: '', scope: 'any', input, errors: [], run: async () => {} });
  const gone = deprecated(z.string().optional(), since);

  test.each<[string, z.ZodObject]>([
    ['an object', z.strictObject({ tone: z.strictObject({ loud: gone }).optional() })],
    ['a list', z.strictObject({ tones: z.array(z.strictObject({ loud: gone })).optional() })],
    ['one of two', z.strictObject({ tone: z.union([z.string(), z.strictObject({ loud: gone })]) })],
    [
      'a field that is deprecated itself',
      z.strictObject({ tone: deprecated(z.object({ loud: gone }).optional(), since) }),
    ],
  ])('cannot be of an input’s field within %s: REST would not say it', (_, input) => {
    expect(take(input)).toThrow('whole fields');
  });

  test('cannot be of a field that is required: nobody could do without it', () => {
    expect(take(z.strictObject({ who: deprecated(z.string(), since) }))).toThrow('required');
    expect(take(z.strictObject({ who: deprecated(z.string().default('Ada'), since) }))).not.toThrow();
  });

  test.each<[string, z.ZodType]>([
    ['optional', gone.optional()],
    ['nullable', gone.nullable().describe('How.')],
    ['another by words', gone.describe('How.')],
    ['a list', z.array(gone)],
  ])('is the last thing said of a field, which is not made %s after it', (_, tone) => {
    expect(take(z.strictObject({ tone }))).toThrow('last');
    expect(() => deprecatedFields(z.object({ tone }))).toThrow('last');
  });

  test.each(['soon', '2026-02-30', '2026-11-21T00:00:00Z', ''])('needs dates, and %j is none', (date) => {
    expect(define({ since: date, sunset: '2030-01-01', note: '' })).toThrow('dates');
    expect(define({ since: '2026-11-21', sunset: date, note: '' })).toThrow('dates');
  });
});
