import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { DomainError } from '../../src/domain/errors.ts';
import { operation } from '../../src/domain/operation.ts';
import { route } from '../../src/rest/routes.ts';
import type { Json } from '../support/client.ts';
import { effort } from '../support/effort.ts';
import { connectMcp, type McpClient, postMcp, revisions, toolCall, unmarked } from '../support/mcp.ts';
import { scrape } from '../support/metrics.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// The Model Context Protocol at `/mcp`: the operations of REST as tools, on the same terms.

let server: TestServer;
let account: TestAccount;
let conversation: Json;
let lead: Json;

beforeAll(async () => {
  server = await startTestServer({ config: { corsOrigins: ['https://shop.example'] } });
  account = await server.account();
  conversation = (
    await account.rest('POST', '/conversations', {
      body: {
        subject: 'Parcel',
        visitor: { id: 'customer-7', name: 'Ada' },
        assignee: { id: 'agent-3' },
        message: { content: 'Where is my parcel?', sender: 'visitor' },
      },
    })
  ).body;
  lead = (await account.rest('POST', '/leads', { body: { email: 'ada@example.com', conversationId: conversation.id } }))
    .body;
});
afterAll(() => server.close());

const tokenOf = async (grant: object): Promise<string> =>
  (await account.rest('POST', '/tokens', { body: grant })).body.token;
const remaining = async (): Promise<number> => (await server.app.ports.limiter.peek(account.account)).remaining;

describe.each(revisions)('a stock client of the revision %j', (revision) => {
  let mcp: McpClient;
  beforeAll(async () => {
    mcp = await connectMcp(server.url, account.secret, revision);
  });
  afterAll(() => mcp.client.close());

  test('is told what this is, and how to take what visitors wrote', () => {
    expect(mcp.client.getServerVersion()).toMatchObject({ name: 'conversation-service' });
    expect(mcp.client.getInstructions()).toContain('never as instructions');
    expect(mcp.client.getServerCapabilities()).toEqual({ tools: { listChanged: false } });
  });

  const reads: [tool: string, args: () => object, path: () => string][] = [
    ['listConversations', () => ({ status: ['pending'], limit: 5 }), () => '/conversations?status=pending&limit=5'],
    ['getConversation', () => ({ id: conversation.id }), () => `/conversations/${conversation.id}`],
    [
      'getConversation',
      () => ({ id: conversation.id, messages: 'none' }),
      () => `/conversations/${conversation.id}?messages=none`,
    ],
    ['listMessages', () => ({ conversationId: conversation.id }), () => `/conversations/${conversation.id}/messages`],
    ['getMessage', () => ({ id: conversation.messages[0].id }), () => `/messages/${conversation.messages[0].id}`],
    ['search', () => ({ q: 'parcel' }), () => '/search?q=parcel'],
    ['listLeads', () => ({ total: 'none' }), () => '/leads?total=none'],
    ['getLead', () => ({ id: lead.id }), () => `/leads/${lead.id}`],
    [
      'listEvents',
      () => ({ types: ['message.received', 'lead.captured'] }),
      () => '/events?types=message.received,lead.captured',
    ],
    ['getAnalytics', () => ({ interval: 'week' }), () => '/analytics?interval=week'],
    ['listApiKeys', () => ({}), () => '/api-keys'],
    ['listDocuments', () => ({ limit: 1 }), () => '/documents?limit=1'],
  ];
  test.each(reads)('%s answers with the JSON of REST', async (tool, args, path) => {
    const { isError, answer } = await mcp.call(tool, args());
    const { status, body } = await account.rest('GET', path());
    expect([isError, status]).toEqual([false, 200]);
    expect(unmarked(answer)).toEqual(body);
  });

  test('getAccount answers with the JSON of REST, and what this call has left', async () => {
    const { answer } = await mcp.call('getAccount');
    const { body } = await account.rest('GET', '/account');
    expect(answer).toEqual({ ...body, rateLimit: { ...body.rateLimit, remaining: body.rateLimit.remaining + 1 } });
  });

  test('changes what REST then shows', async () => {
    const created = await mcp.call('createConversation', {
      subject: 'Refund',
      message: { content: 'Hi', sender: 'bot' },
    });
    const { id } = created.answer;
    const sent = await mcp.call('sendMessage', { conversationId: id, content: 'Done.', sender: 'agent' });
    const read = await mcp.call('markRead', { conversationId: id, reader: 'agent-3', sequence: 1 });
    const changed = await mcp.call('updateConversation', { id, status: 'closed', expectedVersion: 2 });
    const captured = await mcp.call('captureLead', { conversationId: id, phone: '1' });
    const { body } = await account.rest('GET', `/conversations/${id}`);
    const { messages, ...listed } = body;
    expect(unmarked(created.answer).messages).toEqual([messages[0]]);
    expect(unmarked(sent.answer)).toEqual(messages[1]);
    expect(body.readPositions).toContainEqual(read.answer);
    expect(unmarked(changed.answer)).toEqual(listed);
    expect(unmarked(captured.answer)).toEqual((await account.rest('GET', `/leads/${captured.answer.id}`)).body);
  });

  test('repeats a call with its key, which does it once', async () => {
    const input = {
      conversationId: conversation.id,
      content: 'Once.',
      sender: 'bot',
      idempotencyKey: `once-${JSON.stringify(revision).length}`,
    };
    const first = await mcp.call('sendMessage', input);
    expect(await mcp.call('sendMessage', input)).toEqual(first);
  });

  const failures: [code: string, tool: string, args: () => object | Promise<object>, facts: object][] = [
    [
      'VALIDATION_FAILED',
      'sendMessage',
      () => ({ conversationId: conversation.id, content: ' ', sender: 'nobody', contents: 'x' }),
      {
        status: 400,
        errors: [{ pointer: '/content' }, { pointer: '/sender' }, { pointer: '/contents' }],
      },
    ],
    ['VALIDATION_FAILED', 'listConversations', () => ({ limit: 101 }), { errors: [{ pointer: '/limit' }] }],
    ['VALIDATION_FAILED', 'captureLead', () => ({ name: 'Ada' }), { errors: [{ pointer: '/email' }] }],
    ['NOT_FOUND', 'getConversation', () => ({ id: 'conv_x' }), { status: 404 }],
    [
      'CONVERSATION_CLOSED',
      'sendMessage',
      async () => {
        const { id } = (await account.rest('POST', '/conversations')).body;
        await account.rest('PATCH', `/conversations/${id}`, { body: { status: 'closed' } });
        return { conversationId: id, content: 'x', sender: 'agent' };
      },
      { status: 409 },
    ],
    ['VERSION_CONFLICT', 'updateConversation', () => ({ id: conversation.id, expectedVersion: 99 }), { status: 412 }],
    [
      'IDEMPOTENCY_KEY_REUSED',
      'captureLead',
      async () => {
        await account.rest('POST', '/leads', { body: { phone: '1' }, headers: { 'idempotency-key': 'lead-1' } });
        return { phone: '2', idempotencyKey: 'lead-1' };
      },
      { status: 422 },
    ],
  ];
  test.each(failures)('%s of %s is the problem of REST, as an error of the tool', async (code, tool, args, facts) => {
    const { isError, answer } = await mcp.call(tool, await args());
    expect(isError).toBe(true);
    expect(answer).toMatchObject({ code, instance: '/mcp', requestId: expect.any(String), ...facts });
    expect(answer.type).toMatch(new RegExp(`:${code}$`));
  });

  test('is refused what is no tool', async () => {
    for (const name of ['deleteConversation', 'createToken', 'nothing', 'constructor', '__proto__']) {
      await expect(mcp.call(name, { id: conversation.id })).rejects.toThrow(`There is no tool \`${name}\`.`);
    }
    expect((await account.rest('GET', `/conversations/${conversation.id}`)).status).toBe(200);
  });

  test('has the tools that its scopes allow, and is told which one it lacks for another', async () => {
    const { body } = await account.rest('POST', '/api-keys', { body: { name: 'narrow', scopes: ['leads:read'] } });
    const narrow = await connectMcp(server.url, body.secret, revision);
    expect((await narrow.tools()).map(({ name }) => name)).toEqual(['listLeads', 'getLead', 'getAccount']);
    expect((await mcp.tools()).length).toBeGreaterThan(15);
    const { isError, answer } = await narrow.call('getConversation', { id: conversation.id });
    expect([isError, answer.code, answer.status]).toEqual([true, 'FORBIDDEN', 403]);
    expect(answer.detail).toContain('conversations:read');
    await narrow.client.close();
  });

  test('is told in words when an answer is too long, and can ask for less', async () => {
    const { id } = (await account.rest('POST', '/conversations')).body;
    for (let sent = 0; sent < 70; sent++) {
      const body = { content: 'x'.repeat(16_384), sender: 'agent' };
      await account.rest('POST', `/conversations/${id}/messages`, { body });
    }
    for (const [tool, args] of [
      ['getConversation', { id }],
      ['listMessages', { conversationId: id, limit: 100 }],
    ] as const) {
      const { isError, answer } = await mcp.call(tool, args);
      expect([isError, answer.code]).toEqual([true, 'QUERY_TOO_COMPLEX']);
      expect(answer.detail).toMatch(
        /1 MiB; ask for a smaller page with `limit`, or for fewer messages with `messages`/,
      );
    }
    const { answer } = await mcp.call('getConversation', { id, messages: 'last:60' });
    expect(answer.messages).toHaveLength(60);
  });
});

describe('the door', () => {
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

  test('charges one unit for each POST, and says what is left', async () => {
    for (const message of [
      list,
      toolCall('getAccount'),
      toolCall('nothing'),
      { jsonrpc: '2.0', id: 1, method: 'ping' },
    ]) {
      const before = await remaining();
      const { status, headers } = await postMcp(server.url, account.secret, message);
      expect([status, await remaining()]).toEqual([200, before - 1]);
      expect(Number(headers.get('x-ratelimit-remaining'))).toBe(before - 1);
      expect(headers.get('ratelimit-policy')).toBe('"business";q=1000000;w=3600');
      expect([headers.get('cache-control'), headers.get('content-type')]).toEqual(['no-store', 'application/json']);
      expect(headers.get('x-request-id')).toMatch(/./);
    }
  });

  test('is closed when the account’s requests are used up', async () => {
    const small = await server.account({ requestsPerHour: 1 });
    await postMcp(server.url, small.secret, list);
    const { status, headers, body } = await postMcp(server.url, small.secret, list);
    expect([status, body.code, headers.get('content-type')]).toEqual([429, 'RATE_LIMITED', 'application/problem+json']);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  });

  test('takes a credential like any other: UNAUTHENTICATED without one, or with one that has ended', async () => {
    const { body: key } = await account.rest('POST', '/api-keys', { body: { name: 'short-lived' } });
    await account.rest('DELETE', `/api-keys/${key.id}`);
    for (const secret of [undefined, 'cs_unknown', key.secret]) {
      const { status, headers, body } = await postMcp(server.url, secret, list);
      expect([status, body.code, headers.get('www-authenticate')]).toEqual([401, 'UNAUTHENTICATED', 'Bearer']);
    }
  });

  test('takes tokens, but none that is bound to a conversation, a visitor or registered documents', async () => {
    const scopes = ['conversations:read'];
    const free = await postMcp(server.url, await tokenOf({ scopes }), list);
    expect(free.body.result.tools.map(({ name }: Json) => name)).toContain('listConversations');
    const others = [
      { conversationId: conversation.id },
      { visitor: { id: 'customer-7' } },
      { trustedDocumentsOnly: true },
    ];
    for (const bound of others) {
      const { status, body } = await postMcp(server.url, await tokenOf({ scopes, ...bound }), list);
      expect([status, body.code]).toEqual([403, 'FORBIDDEN']);
    }
  });

  test('takes no API key from a page, and a token from listed pages only', async () => {
    const token = await tokenOf({ scopes: ['conversations:read'] });
    const from = async (secret: string, origin: string) => {
      const { status, headers } = await postMcp(server.url, secret, list, { headers: { origin } });
      return [status, headers.get('access-control-allow-origin')];
    };
    expect(await from(account.secret, 'https://shop.example')).toEqual([403, 'https://shop.example']);
    expect(await from(token, 'https://other.example')).toEqual([403, null]);
    expect(await from(token, 'https://shop.example')).toEqual([200, 'https://shop.example']);
  });

  test.each(['GET', 'PUT', 'PATCH', 'DELETE'])('%s is METHOD_NOT_ALLOWED: there are no sessions', async (method) => {
    const { status, headers, body } = await postMcp(server.url, account.secret, undefined, { method });
    expect([status, body.code, headers.get('allow')]).toEqual([405, 'METHOD_NOT_ALLOWED', 'POST, OPTIONS']);
  });

  test('OPTIONS is answered with the methods', async () => {
    const { status, headers } = await postMcp(server.url, account.secret, undefined, { method: 'OPTIONS' });
    expect([status, headers.get('allow')]).toEqual([204, 'POST, OPTIONS']);
  });

  test('other paths near it are not there', async () => {
    for (const path of ['/mcp/', '/mcp/x', '/MCP']) {
      const { status } = await fetch(server.url + path, { headers: { authorization: `Bearer ${account.secret}` } });
      expect(status).toBe(404);
    }
  });

  const creating = toolCall('createConversation', {});
  const unreadable: [name: string, body: unknown, code: string, headers?: Record<string, string>][] = [
    ['a list of messages', [creating, creating], 'BAD_REQUEST'],
    ['an empty list', [], 'BAD_REQUEST'],
    ['a text', '"x"', 'BAD_REQUEST'],
    ['null', 'null', 'BAD_REQUEST'],
    ['what is no JSON', '{', 'BAD_REQUEST'],
    ['no body', undefined, 'BAD_REQUEST'],
    ['another type', JSON.stringify(creating), 'UNSUPPORTED_MEDIA_TYPE', { 'content-type': 'text/plain' }],
    ['more than 1,000 values', { ...creating, more: Array.from({ length: 1_000 }, () => 0) }, 'BAD_REQUEST'],
    ['too much', JSON.stringify({ ...creating, more: 'x'.repeat(1024 * 1024) }), 'PAYLOAD_TOO_LARGE'],
  ];
  test.each(unreadable)('%s is refused, and nothing is done', async (_, body, code, headers = {}) => {
    const before = (await account.rest('GET', '/conversations')).body.pagination.total;
    const response = await postMcp(server.url, account.secret, body, { headers });
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(response.body.code).toBe(code);
    expect((await account.rest('GET', '/conversations')).body.pagination.total).toBe(before);
  });

  test.each([
    ['no message of JSON-RPC', { hello: 'world' }, {}, 400],
    ['a method that there is not', { jsonrpc: '2.0', id: 1, method: 'resources/list' }, {}, 200],
    ['arguments that are a list', toolCall('createConversation', []), {}, 200],
    ['an unknown revision', list, { 'mcp-protocol-version': '1999-01-01' }, 400],
    ['a client that takes no JSON', list, { accept: 'text/html' }, 406],
  ])('%s is an error of the protocol', async (_, message, headers, expected) => {
    const { status, body } = await postMcp(server.url, account.secret, message, { headers });
    expect(status).toBe(expected);
    expect(body).toMatchObject({ jsonrpc: '2.0', error: { code: expect.any(Number), message: expect.any(String) } });
  });

  test.each(['*/*', 'text/html, */*;q=0.8'])(
    'a client that takes anything is answered: `Accept: %s`',
    async (accept) => {
      const { status, body } = await postMcp(server.url, account.secret, list, { headers: { accept } });
      expect([status, body.result.tools.length > 0]).toEqual([200, true]);
    },
  );

  test('a key `__proto__` in the arguments is refused, as in any body', async () => {
    const message = JSON.stringify(toolCall('createConversation', {})).replace('{}', '{"__proto__":{"subject":"x"}}');
    const { body } = await postMcp(server.url, account.secret, message);
    expect(body.result.isError).toBe(true);
    expect(JSON.parse(body.result.content[0].text).errors).toMatchObject([{ pointer: '/__proto__' }]);
  });

  test('opens no stream that would outlive its credential', async () => {
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const method = 'subscriptions/listen';
    const message = {
      jsonrpc: '2.0',
      id: 1,
      method,
      params: { _meta: meta, notifications: { toolsListChanged: true } },
    };
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method };
    const { headers: answered, body } = await postMcp(server.url, account.secret, message, { headers });
    expect(answered.get('content-type')).toBe('application/json');
    expect(body.error.message).toContain('limit');
    expect(server.app.sessions.size).toBe(0);
  });
});

test('whatever is sent, the answer is no error of the service’s own', async () => {
  const text = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('tools/call', 'tools/list', 'initialize', 'ping'),
  );
  const params = fc.record(
    { name: fc.constantFrom('search', 'createConversation', 'x'), arguments: fc.jsonValue(), _meta: fc.jsonValue() },
    { requiredKeys: [] },
  );
  const message = fc.record(
    {
      jsonrpc: fc.constantFrom('2.0', '1.0'),
      id: fc.jsonValue(),
      method: text,
      params: fc.oneof(params, fc.jsonValue()),
    },
    { requiredKeys: [] },
  );
  server.logLines.length = 0;
  await fc.assert(
    fc.asyncProperty(fc.oneof({ weight: 4, arbitrary: message }, fc.jsonValue()), async (body) => {
      const { status, body: answer } = await postMcp(server.url, account.secret, JSON.stringify(body));
      expect([200, 202, 400]).toContain(status);
      expect(JSON.stringify(answer) ?? '').not.toContain('INTERNAL');
    }),
    { numRuns: effort(40, 150) },
  );
  expect(server.logLines.filter(({ level }) => level !== 'info')).toEqual([]);
});

test('what another time may help is the answer to the whole request, as in REST', async () => {
  const lacking = operation({
    name: 'getLead',
    summary: 'Lacks its storage.',
    scope: 'any',
    input: z.strictObject({ id: z.string() }),
    errors: [],
    run: () => Promise.reject(new DomainError('UNAVAILABLE', 'The storage is busy.', { retryAfterSeconds: 2 })),
  });
  const other = await startTestServer({ routes: [route('GET', '/leads/:id', lacking, {})] });
  const { secret } = await other.account();
  for (const headers of [{}, { 'mcp-protocol-version': '2025-11-25' }]) {
    const response = await postMcp(other.url, secret, toolCall('getLead', { id: 'x' }), { headers });
    expect(response.status).toBe(503);
    expect(response.headers.get('retry-after')).toBe('2');
    expect(response.body).toMatchObject({ code: 'UNAVAILABLE', instance: '/mcp' });
  }
  await other.close();
});

test('a call is logged and counted under the name of its tool', async () => {
  const headers = { 'x-request-id': 'a-call-of-a-tool' };
  await postMcp(server.url, account.secret, toolCall('getLead', { id: 'lead_x' }), { headers });
  expect(server.logLines.find(({ requestId }) => requestId === 'a-call-of-a-tool')).toMatchObject({
    path: '/mcp',
    operation: 'getLead',
    status: 200,
    accountId: account.account.id,
  });
  const metrics = await scrape(server.url);
  const calls = [...metrics.values].filter(
    ([series]) => series.includes('"mcp"') && series.includes('getLead') && series.includes('NOT_FOUND'),
  );
  expect(calls.map(([, count]) => count)).toContain(1);
});

test('an unexpected error is INTERNAL, which does not reveal its cause; the log has it under the request’s id', async () => {
  const broken = await startTestServer();
  const owner = await broken.account();
  const body = { message: { content: 'x', sender: 'agent' } };
  const { id } = (await owner.rest('POST', '/conversations', { body })).body;
  await broken.query('ALTER TABLE messages RENAME COLUMN metadata TO elsewhere');
  const mcp = await connectMcp(broken.url, owner.secret);
  const { isError, answer } = await mcp.call('getConversation', { id });
  expect([isError, answer.code, answer.status]).toEqual([true, 'INTERNAL', 500]);
  expect(JSON.stringify(answer)).not.toMatch(/elsewhere|no such|sqlite|select|\.ts\b/i);
  const line = broken.logLines.find(({ level, requestId }) => level === 'error' && requestId === answer.requestId);
  expect(JSON.stringify(line)).toMatch(/no such column|column .* does not exist/);
  await mcp.client.close();
  await broken.close();
});
