import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { request } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { errorCodes } from '../../src/domain/errors.ts';
import { operation } from '../../src/domain/operation.ts';
import { operations } from '../../src/domain/operations.ts';
import { timeInput } from '../../src/domain/time.ts';
import type { JsonSchema } from '../../src/http/json-schema.ts';
import { fieldsInHeaders } from '../../src/rest/headers.ts';
import { openApiDocument } from '../../src/rest/openapi/document.ts';
import type { OpenApiOperation } from '../../src/rest/openapi/types.ts';
import { route, routes } from '../../src/rest/routes.ts';
import type { Json } from '../support/client.ts';
import { Conformance, type Seen } from '../support/conformance.ts';
import { longTest } from '../support/effort.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { SseReader } from '../support/sse.ts';

const document = openApiDocument(routes);

const documented = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
);
const byName: Record<string, OpenApiOperation> = Object.fromEntries(
  documented.map(({ operation }) => [operation.operationId, operation]),
);

/** An operation as JSON, to look into it. */
function described(name: string): Json {
  return byName[name];
}

describe('openapi.json', () => {
  test('has every route, under the name of its operation, and no other', () => {
    const rows = routes.map(({ method, path, operation }) => [
      method,
      path.replaceAll(/:(\w+)/g, '{$1}'),
      operation.name,
    ]);
    expect(
      documented.map(({ method, path, operation }) => [method, path.slice('/v1'.length), operation.operationId]).sort(),
    ).toEqual(rows.sort());
    expect(Object.keys(byName).sort()).toEqual(Object.keys(operations).sort());
  });

  test.each(Object.values(operations))('has all that $name takes, described', ({ name, input }) => {
    const { parameters, requestBody } = byName[name] as OpenApiOperation;
    const body = requestBody?.content['application/json']?.schema.$ref?.split('/').at(-1) ?? '';
    const fields: Record<string, string | undefined> = Object.fromEntries([
      ...parameters.flatMap((parameter) => ('name' in parameter ? [[parameter.name, parameter.description]] : [])),
      ...Object.entries(document.components.schemas[body]?.properties ?? {}).map(([key, value]) => [
        key,
        value.description,
      ]),
    ]);
    const taken = Object.keys((input as unknown as { shape: object }).shape).map(
      (field) => fieldsInHeaders.get(field) ?? field,
    );
    const headers = name === 'streamEvents' ? ['Last-Event-ID'] : name === 'getConversation' ? ['If-None-Match'] : [];
    expect(Object.keys(fields).sort()).toEqual([...taken, ...headers].sort());
    expect(Object.entries(fields).filter(([, description]) => !description)).toEqual([]);
  });

  test.each(Object.values(operations))('has every error of $name, under its status', ({ name, errors }) => {
    const codes = Object.entries(byName[name]?.responses ?? {}).flatMap(([status, response]) =>
      '$ref' in response
        ? (response.$ref.split('/').at(-1) ?? '').split('-').map((code) => [status, code] as const)
        : [],
    );
    for (const [status, code] of codes) expect(errorCodes[code as keyof typeof errorCodes].status).toBe(Number(status));
    expect(codes.map(([, code]) => code)).toEqual(
      expect.arrayContaining([
        ...errors,
        'UNAUTHENTICATED',
        'FORBIDDEN',
        'VALIDATION_FAILED',
        'RATE_LIMITED',
        'INTERNAL',
        'UNAVAILABLE',
      ]),
    );
  });

  test.each(Object.values(operations))('names the scope of $name', ({ name, scope, summary }) => {
    const operation = byName[name];
    expect(operation?.security).toEqual([{ bearer: scope === 'any' ? [] : [scope] }]);
    expect(operation?.summary).toBe(summary);
    if (scope !== 'any') expect(operation?.description).toContain(`\`${scope}\``);
  });

  test('describes every property of every shape', () => {
    const undescribed = Object.entries(document.components.schemas).flatMap(([name, schema]) => [
      ...(schema.description || name.endsWith('Input') ? [] : [name]),
      ...propertiesOf(schema, name)
        .filter(([, { description, $ref }]) => !description && !$ref)
        .map(([path]) => path),
    ]);
    expect(undescribed).toEqual([]);
  });

  test('says the bounds and the defaults of parameters', () => {
    const parameters = described('listConversations').parameters as Json[];
    const schemaOf = (name: string) => parameters.find((parameter) => parameter.name === name)?.schema;
    expect(schemaOf('limit')).toEqual({ type: 'integer', minimum: 1, maximum: 100, default: 20 });
    expect(schemaOf('offset')).toEqual({ type: 'integer', minimum: 0, maximum: 2 ** 31 - 1 });
    expect(schemaOf('status').items.enum).toEqual(['active', 'closed', 'pending']);
    expect(schemaOf('externalId').maxLength).toBe(128);
    const types = (described('listEvents').parameters as Json[]).find(({ name }) => name === 'types');
    expect(types.description).toMatch(/\. Several are separated by commas, or the parameter is repeated\.$/);
    expect(types).toMatchObject({ style: 'form', explode: false, schema: { type: 'array', minItems: 1, maxItems: 9 } });
  });

  test('says which parameters of a query are required: only the words of a search are', () => {
    const required = documented.flatMap(({ operation: { operationId, parameters } }) =>
      parameters.flatMap((each) =>
        'in' in each && each.in === 'query' && each.required ? [`${operationId} ${each.name}`] : [],
      ),
    );
    expect(required).toEqual(['search q']);
  });

  test.each(documented)('shows what the parameters of $method $path can look like', ({ operation }) => {
    const bare = (operation.parameters as Json[]).filter(
      ({ in: place, schema, example }) =>
        place === 'query' && example === undefined && schema.default === undefined && schema.enum === undefined,
    );
    expect(bare.map(({ name }) => name)).toEqual([]);
  });

  test.each([
    ['listConversations', ['-createdAt', 'conv_']],
    ['listLeads', ['-createdAt', 'lead_']],
    ['listApiKeys', ['-createdAt', 'key_']],
    ['listWebhooks', ['-createdAt', 'whk_']],
    ['listDeliveries', ['-createdAt', 'dlv_']],
    ['listMessages', ['sequence', '20']],
  ])('has as the example of a cursor of %s one of that list', (name, [sort, start]) => {
    const { example } = (described(name).parameters as Json[]).find((parameter) => parameter.name === 'after');
    const [itsSort, id] = JSON.parse(Buffer.from(example, 'base64url').toString());
    expect([itsSort, String(id).slice(0, start?.length)]).toEqual([sort, start]);
  });

  test('has no null in parameters, which are text', () => {
    const input = z.strictObject({
      id: z.string().nullish().describe('Which.'),
      since: timeInput.nullish().describe('Since when.'),
      size: z.enum(['small', 'large']).nullable().default(null).describe('How large.'),
    });
    const measure = operation({ name: 'measure', summary: '', scope: 'any', input, errors: [], run: async () => ({}) });
    const made = openApiDocument([route('GET', '/things/:id', measure, {})]);
    const parameters = made.paths['/v1/things/{id}']?.get?.parameters as Json[];
    expect(parameters.slice(0, 3).map(({ name, schema }) => [name, schema])).toEqual([
      ['id', { type: 'string' }],
      ['since', { type: 'string', format: 'date-time' }],
      ['size', { type: 'string', enum: ['small', 'large'] }],
    ]);
  });

  test('has no default in what a body takes: generators of types would require such a field', () => {
    const inputs = Object.entries(document.components.schemas).filter(([name]) => name.endsWith('Input'));
    const preset = inputs.flatMap(([name, schema]) =>
      propertiesOf(schema, name).flatMap(([path, property]) => ('default' in property ? [path] : [])),
    );
    expect(preset).toEqual([]);
  });

  test('says that a lead needs an email address or a phone number', () => {
    const ajv = new Ajv2020({ strict: false, validateSchema: false });
    formats(ajv);
    ajv.addSchema(document as object, 'openapi');
    const isLead = (body: object): boolean =>
      ajv.validate({ $ref: 'openapi#/components/schemas/CaptureLeadInput' }, body);
    const some = [
      { email: 'ada@example.com' },
      { phone: '1' },
      { email: null, phone: '1' },
      { email: 'a', phone: null },
    ];
    expect(some.filter((body) => !isLead(body))).toEqual([]);
    const none = [{}, { email: null }, { phone: null }, { email: null, phone: null }, { name: 'Ada' }, { email: 7 }];
    expect(none.filter(isLead)).toEqual([]);
  });

  test('has no bound that is only that of exact numbers', () => {
    const bounds = [...JSON.stringify(document).matchAll(/"(?:minimum|maximum)":(-?[\d.e+]+)/g)].map(([, bound]) =>
      Number(bound),
    );
    expect(bounds.length).toBeGreaterThan(20);
    expect(bounds.filter((bound) => Math.abs(bound) > 2 ** 31)).toEqual([]);
    expect(document.components.schemas['Problem']?.properties?.['status']).toMatchObject({
      minimum: 400,
      maximum: 599,
    });
  });

  longTest('has examples that are valid, for every body', () => {
    const ajv = new Ajv2020({ strict: false, allErrors: true, validateSchema: false });
    formats(ajv);
    ajv.addSchema(document as object, 'openapi');
    const faults: string[] = [];
    let count = 0;
    const visit = (part: Json, pointer: string): void => {
      if (typeof part !== 'object' || part === null) return;
      if (part.schema !== undefined && !pointer.endsWith('/text~1event-stream')) {
        const values = [
          ...('example' in part ? [part.example] : []),
          ...Object.values(part.examples ?? {}).map((one: Json) => one.value),
        ];
        if (/\/application~1[^/]+$/.test(pointer) && values.length === 0) faults.push(`${pointer}: no example`);
        for (const value of values) {
          count++;
          const ref = `openapi#${pointer.split('/').map(encodeURIComponent).join('/')}/schema`;
          if (!ajv.validate({ $ref: ref }, value)) faults.push(`${pointer}: ${ajv.errorsText()}`);
        }
      }
      for (const [key, inner] of Object.entries(part)) {
        if (key !== 'example' && key !== 'examples')
          visit(inner, `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`);
      }
    };
    visit(document, '');
    expect(faults).toEqual([]);
    expect(count).toBeGreaterThan(60);
  });

  test('has as the example of a stream how one begins, and an event', () => {
    const stream = described('streamEvents').responses[200];
    const { example } = stream.content['text/event-stream'];
    expect(example).toMatch(/^retry: 1000\nid: [\w-]+\n\nid: [\w-]+\nevent: [a-z.]+\ndata: .+\n\n$/);
    expect(stream.description).toContain('`retry`');
    const event = JSON.parse(/^data: (.*)$/m.exec(example)?.[1] ?? '');
    expect(() => new Conformance(document).checkEvent(event)).not.toThrow();
  });

  test('has as the example of If-None-Match what an ETag is', () => {
    const [parameter] = described('getConversation').parameters.filter(({ name }: Json) => name === 'If-None-Match');
    expect(parameter.example).toMatch(new RegExp(String(document.components.headers['ETag']?.schema['pattern'])));
  });

  test('says what a new conversation’s status is, whatever was asked for', () => {
    const { status } = document.components.schemas['CreateConversationInput']?.properties ?? {};
    expect(status?.description).toContain('With an agent’s message it is `active` in any case.');
    expect(JSON.stringify(status)).not.toContain('closed');
  });

  test('is the same whenever it is made', () => {
    expect(JSON.stringify(openApiDocument(routes))).toBe(JSON.stringify(document));
  });

  longTest('passes the linter’s recommended rules, without a warning', async () => {
    const config = await createConfig({ extends: ['recommended'] });
    const problems = await lintFromString({ source: JSON.stringify(document), absoluteRef: '/openapi.json', config });
    expect(problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`)).toEqual(
      [],
    );
  });
});

/** The properties of a schema and of what lies in it, with their paths. */
function propertiesOf(schema: JsonSchema, path: string): [string, JsonSchema][] {
  return [
    ...Object.entries(schema.properties ?? {}).flatMap(([name, property]): [string, JsonSchema][] => [
      [`${path}.${name}`, property],
      ...propertiesOf(property, `${path}.${name}`),
    ]),
    ...[...(schema.anyOf ?? []), ...(schema.items ? [schema.items] : [])].flatMap((inner) => propertiesOf(inner, path)),
  ];
}

describe('what anybody may read', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startTestServer();
  });
  afterAll(() => server.close());

  async function get(path: string, headers: Record<string, string> = {}, method = 'GET') {
    const response = await request(`${server.url}${path}`, { method: method as 'GET', headers });
    return { status: response.statusCode, headers: response.headers, body: await response.body.text() };
  }

  test('/openapi.json is the document', async () => {
    const { status, headers, body } = await get('/openapi.json');
    expect([status, headers['content-type']]).toEqual([200, 'application/json; charset=utf-8']);
    expect(JSON.parse(body)).toEqual(JSON.parse(JSON.stringify(document)));
    expect(JSON.parse(body).servers).toEqual([{ url: '/' }]);
  });

  test.each(['/', '/openapi.json', '/docs', '/favicon.svg'])(
    '%s is not sent again to those who have it',
    async (path) => {
      const first = await get(path);
      expect(first.headers['cache-control']).toBe(path === '/docs' ? 'public, no-cache' : 'public, max-age=300');
      const tag = String(first.headers['etag']);
      for (const known of [tag, `W/${tag}`, `"other", ${tag}`, '*']) {
        const again = await get(path, { 'if-none-match': known });
        expect([again.status, again.body, again.headers['etag']]).toEqual([304, '', tag]);
      }
      expect((await get(path, { 'if-none-match': '"other"' })).status).toBe(200);
    },
  );

  test.each(['/', '/openapi.json', '/docs', '/favicon.svg'])('%s knows GET, HEAD and OPTIONS', async (path) => {
    const [whole, head, options] = [await get(path), await get(path, {}, 'HEAD'), await get(path, {}, 'OPTIONS')];
    expect([head.status, head.body]).toEqual([200, '']);
    expect(head.headers['content-length']).toBe(whole.headers['content-length']);
    expect([options.status, options.headers['allow']]).toEqual([204, 'GET, HEAD, OPTIONS']);
    for (const method of ['POST', 'PUT', 'DELETE']) {
      const refused = await get(path, {}, method);
      expect([refused.status, refused.headers['allow']]).toEqual([405, 'GET, HEAD, OPTIONS']);
      expect(JSON.parse(refused.body).code).toBe('METHOD_NOT_ALLOWED');
    }
  });

  test('the page at / leads to both', async () => {
    const { body } = await get('/');
    expect(body).toContain('href="/openapi.json"');
    expect(body).toContain('href="/docs"');
  });

  test('/docs shows every operation and every shape, and each of its links leads somewhere', async () => {
    const { body } = await get('/docs');
    const anchors = new Set([...body.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
    const targets = [...body.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id);
    expect(targets.filter((target) => !anchors.has(target))).toEqual([]);
    expect(targets).toEqual(
      expect.arrayContaining([...Object.keys(operations), 'receiveEvent', ...Object.keys(document.components.schemas)]),
    );
  });

  test('/docs describes each field, and says whether it is optional', async () => {
    const { body } = await get('/docs');
    const text = body
      .replace(/<br>/g, ' ')
      .replace(/<[^>]+>/g, '|')
      .replace(/\|+/g, '|');
    expect(text).toContain('|subject|string or null |0 to 200 characters| |optional|Its topic.|');
    expect(text).toContain(
      '|message.sender|&quot;agent&quot;| |&quot;visitor&quot;| |&quot;bot&quot;| |optional|Role of the sender.',
    );
    expect(text).toContain('|message.author|object or null |optional|The agent or bot that wrote it');
    expect(text).toContain('|pagination.hasMore|boolean|Whether the log continues');
  });

  test('/docs can be read without its script, and names no other host', async () => {
    const { body } = await get('/docs');
    const tags: string[] = body.match(/<(?:script|link|img|iframe)\b[^>]*>/g) ?? [];
    expect(
      tags.filter((tag) => !/ (?:src|href)="(?:favicon\.svg|assets\/reference-\w+\.(?:js|css))"/.test(tag)),
    ).toEqual([]);
    expect(body).not.toMatch(/(href|src)="(https?:)?\/\//);
    for (const { operation } of routes) expect(body).toContain(`<section class="operation" id="${operation.name}">`);
  });

  test('the document names the public address, where there is one', async () => {
    const behind = await startTestServer({ config: { publicUrl: 'https://chat.example.com/' } });
    const response = await request(`${behind.url}/openapi.json`);
    expect(((await response.body.json()) as Json).servers).toEqual([{ url: 'https://chat.example.com' }]);
    await behind.close();
  });
});

describe('the check that all tests make of answers', () => {
  const conformance = new Conformance(document);
  const limits = {
    'ratelimit-policy': '"pro";q=1000;w=3600',
    ratelimit: '"pro";r=998;t=3540',
    'x-ratelimit-limit': '1000',
    'x-ratelimit-remaining': '998',
    'x-ratelimit-reset': '1795245060',
  };
  const right: Seen = {
    method: 'GET',
    path: '/v1/leads/lead_01m7z12aypfmvv4snqnjfg9r62',
    status: 200,
    headers: { 'x-request-id': 'a', 'content-type': 'application/json; charset=utf-8', ...limits },
    body: described('getLead').responses[200].content['application/json'].example,
  };

  const pagination = { limit: 20, offset: 0, hasMore: false, nextCursor: null };
  const problem = (status: number): Pick<Seen, 'headers' | 'body'> => ({
    headers: { ...right.headers, 'content-type': 'application/problem+json' },
    body: {
      ...{
        type: 'urn:conversation-service:problem:NOT_FOUND',
        title: 'Not found',
        detail: 'This path does not exist.',
      },
      ...{ status, instance: '/v1/unknown', code: 'NOT_FOUND', requestId: 'a' },
    },
  });

  test('passes what is documented', () => {
    expect(conformance.faultsOf({ ...right, path: '/v1/unknown', status: 404, ...problem(404) })).toEqual([]);
    expect(conformance.faultsOf(right)).toEqual([]);
  });

  test.each<[string, Partial<Seen>]>([
    ['a property that is not documented', { body: { ...(right.body as object), extra: 1 } }],
    ['a property that is missing', { body: { ...(right.body as object), email: undefined } }],
    ['a property of another type', { body: { ...(right.body as object), name: 7 } }],
    ['an id of another kind', { body: { ...(right.body as object), id: 'conv_01m7z12aypfmvv4snqnjfg9r62' } }],
    ['a status that is not documented', { status: 201 }],
    ['another media type', { headers: { ...right.headers, 'content-type': 'text/plain' } }],
    ['a header that is missing', { headers: { ...right.headers, ratelimit: undefined } }],
    ['a header of another form', { headers: { ...right.headers, 'x-ratelimit-limit': 'many' } }],
    ['a header that is not documented', { headers: { ...right.headers, 'x-powered-by': 'us' } }],
    ['a parameter that was taken and is not documented', { path: `${right.path}?expand=conversation` }],
    ['an answer where no operation is documented', { path: '/v1/unknown' }],
    ['a problem that names another status', { path: '/v1/unknown', status: 404, ...problem(400) }],
    [
      'another error’s code',
      { status: 404, headers: { ...right.headers, 'content-type': 'application/problem+json' } },
    ],
  ])('refuses %s', (_, wrong) => {
    expect(conformance.faultsOf({ ...right, ...wrong })).not.toEqual([]);
  });

  test.each<[string, string, boolean]>([
    ['a list with commas and repeated', 'status=active,closed&status=pending', true],
    ['a list of other values', 'status=active,open', false],
    ['a number', 'limit=100', true],
    ['a number beyond its bounds', 'limit=101', false],
    ['no number', 'limit=many', false],
    ['a truth value', 'unassigned=true', true],
    ['another truth value', 'unassigned=yes', false],
    ['a parameter twice', 'externalId=a&externalId=b', false],
  ])('knows whether a query may be taken: %s', (_, query, isRight) => {
    const list = { ...right, path: `/v1/conversations?${query}`, body: { data: [], pagination } };
    expect(conformance.faultsOf(list)).toEqual(isRight ? [] : [expect.stringContaining('taken: ')]);
  });

  test('refuses that a request was taken without a parameter that is required', () => {
    const found = {
      ...right,
      path: '/v1/search',
      body: { data: [], pagination: { limit: 20, hasMore: false, nextCursor: null } },
    };
    expect(conformance.faultsOf(found)).toEqual(['it was taken without the parameter q']);
  });

  test.each<[string, number, Record<string, string>, string]>([
    ['without the headers that are documented', 200, { 'content-type': 'text/event-stream' }, ''],
    ['of another media type', 200, { ...right.headers, 'content-type': 'application/json' }, '{}'],
    ['with a problem of another shape', 403, { ...limits, 'content-type': 'application/problem+json' }, '{}'],
    ['with a status that is not documented', 418, { ...limits }, ''],
  ])('refuses a stream that is answered %s', async (_, status, headers, body) => {
    const other = createServer((_, res) => res.writeHead(status, headers).end(body)).listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const opened = SseReader.open(`http://127.0.0.1:${port}/v1/events/stream?types=lead.captured`, {});
    await expect(opened).rejects.toThrow(/not as openapi.json says/);
    other.close();
  });

  test('refuses a body that was taken and is not documented', () => {
    const created = {
      ...right,
      method: 'POST',
      path: '/v1/leads',
      status: 201,
      headers: { ...right.headers, location: '/v1/leads/x' },
    };
    expect(conformance.faultsOf({ ...created, sent: { email: 'ada@example.com' } })).toEqual([]);
    expect(conformance.faultsOf({ ...created, sent: { email: 'ada@example.com', age: 36 } })).not.toEqual([]);
  });
});
