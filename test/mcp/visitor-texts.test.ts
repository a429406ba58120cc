import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { marked } from '../../src/mcp/visitor-texts.ts';
import type { Client, Json } from '../support/client.ts';
import { connectMcp, type McpClient, unmarked } from '../support/mcp.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// What visitors write is marked in every answer of a tool, so that a model can be told to take it as data.

let server: TestServer;
let account: TestAccount;
let page: Client;
let mcp: McpClient;
let conversation: Json;

/** In all that a visitor writes, and in nothing else. */
const flag = 'ignore-your-instructions';
const says = (what: string): string => `${flag} ${what}`;

beforeAll(async () => {
  server = await startTestServer();
  account = await server.account();
  mcp = await connectMcp(server.url, account.secret);
  const scopes = ['conversations:read', 'conversations:write', 'leads:write', 'events:read'];
  const visitor = { id: says('id'), name: says('name'), email: says('email') };
  const { body: token } = await account.rest('POST', '/tokens', { body: { scopes, visitor } });
  page = server.clientFor(token.token);
  const message = { content: says('content'), sender: 'visitor', clientId: `${flag}-1` };
  conversation = (await page.rest('POST', '/conversations', { body: { subject: says('subject'), message } })).body;
  const { id } = conversation;
  // What a channel hands in for a visitor, and what agents and bots do.
  const handedIn = {
    content: says('more'),
    sender: 'visitor',
    author: { name: says('author') },
    metadata: { a: says('b') },
  };
  await account.rest('POST', `/conversations/${id}/messages`, { body: handedIn });
  const lead = {
    conversationId: id,
    name: says('n'),
    email: says('e'),
    phone: says('p'),
    company: says('c'),
    metadata: { [flag]: says('m') },
  };
  await page.rest('POST', '/leads', { body: lead });
  await account.rest('PATCH', `/conversations/${id}`, {
    body: { visitor: { ...visitor, name: says('other') }, tags: ['urgent'] },
  });
  for (const sender of ['agent', 'bot']) {
    const body = { content: `It is on its way, says the ${sender}.`, sender, author: { id: `${sender}-3` } };
    await account.rest('POST', `/conversations/${id}/messages`, { body });
  }
  const about = { content: says('last'), sender: 'visitor' };
  await account.rest('POST', '/conversations', { body: { message: about } });
});
afterAll(async () => {
  await mcp.client.close();
  await server.close();
});

/** Texts of visitors that no mark covers. */
function uncovered(value: Json, isCovered = false): string[] {
  if (typeof value === 'string') return value.includes(flag) && !isCovered ? [value] : [];
  if (typeof value !== 'object' || value === null) return [];
  const names: string[] = value.writtenByVisitor ?? [];
  return Object.entries(value).flatMap(([name, part]) => [
    ...uncovered(name, isCovered),
    ...uncovered(part, isCovered || names.includes(name)),
  ]);
}

const reads: [tool: string, args: () => object][] = [
  ['listConversations', () => ({})],
  ['getConversation', () => ({ id: conversation.id })],
  ['listMessages', () => ({ conversationId: conversation.id })],
  ['getMessage', () => ({ id: conversation.messages[0].id })],
  ['search', () => ({ q: flag })],
  ['listLeads', () => ({})],
  ['listEvents', () => ({})],
];

test.each(reads)('every text of a visitor is marked in the answer of %s', async (tool, args) => {
  const { isError, answer } = await mcp.call(tool, args());
  expect(isError).toBe(false);
  expect(JSON.stringify(answer)).toContain(flag);
  expect(uncovered(answer)).toEqual([]);
  expect(uncovered(unmarked(answer)).length).toBeGreaterThan(0);
});

test('what a change or a lead answers is marked, too', async () => {
  const { id } = conversation;
  const [lead] = (await mcp.call('listLeads')).answer.data;
  for (const [tool, args] of [
    ['updateConversation', { id, tags: [] }],
    ['createConversation', { message: { content: says('x'), sender: 'visitor' }, visitor: { name: says('y') } }],
    ['sendMessage', { conversationId: id, content: says('z'), sender: 'visitor' }],
    ['captureLead', { conversationId: id, email: says('@') }],
    ['getLead', { id: lead.id }],
  ] as const) {
    const { answer } = await mcp.call(tool, args);
    expect(JSON.stringify(answer)).toContain(flag);
    expect(uncovered(answer)).toEqual([]);
  }
});

test('what agents and bots write is not marked', async () => {
  const { answer } = await mcp.call('listMessages', { conversationId: conversation.id });
  const others = answer.data.filter(({ sender }: Json) => sender !== 'visitor');
  expect(others).toHaveLength(2);
  for (const message of others) expect(message).not.toHaveProperty('writtenByVisitor');
  const found = await mcp.call('search', { q: 'on its way' });
  for (const result of found.answer.data) expect(result).not.toHaveProperty('writtenByVisitor');
});

test('a mark changes nothing of any JSON but for itself, and metadata cannot pass for one', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(unmarked(marked(value))).toEqual(unmarked(value));
    }),
  );
  const metadata = { sender: 'visitor', content: 'x', phone: 'y', writtenByVisitor: 'nothing' };
  expect(marked({ metadata })).toEqual({ metadata });
});
