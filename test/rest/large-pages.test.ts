import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Caller, scopes } from '../../src/domain/caller.ts';
import { sendMessage } from '../../src/domain/messages.ts';
import { pageJson } from '../../src/rest/page-json.ts';
import { scheduler } from '../../src/runtime/scheduler.ts';
import { openWire, requestText } from '../http/wire.ts';
import { longTest } from '../support/effort.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// A page can have a hundred messages of 16,384 characters, which JSON writes with six each. Neither making one nor
// making many at once is more than others can wait for, or than the process has room for.

let server: TestServer;
let client: TestAccount;
let caller: Caller;
let onStatement = (_sql: string): void => {};
beforeAll(async () => {
  server = await startTestServer({ onStatement: (sql) => onStatement(sql) });
  client = await server.account();
  caller = { account: client.account, keyId: 'test', credential: 'key', scopes: new Set(scopes) };
});
afterAll(() => server.close());

async function conversationWith(content: string, count: number): Promise<string> {
  const { body } = await client.rest('POST', '/conversations');
  const message = { conversationId: body.id, content, sender: 'agent' } as const;
  await Promise.all(Array.from({ length: count }, () => sendMessage.execute(server.app.ports, caller, message)));
  return body.id;
}

test.each([
  ['few short items', 3, 'x', 0],
  ['a hundred long ones', 100, '\v'.repeat(16_384), 8],
])('the JSON of a page is the same however it is made, and made in steps: %s', async (_, count, content, atLeast) => {
  const page = {
    data: Array.from({ length: count }, (_, sequence) => ({ sequence, content })),
    pagination: { limit: 100 },
  };
  let steps = 0;
  let isDone = false;
  const made = pageJson(page, caller).finally(() => {
    isDone = true;
  });
  for (; !isDone; steps++) await scheduler.step('another account');
  expect(await made).toBe(JSON.stringify(page));
  expect(steps).toBeGreaterThanOrEqual(atLeast);
});

longTest('of the large pages that an account asks for at once, few are begun before others are answered', async () => {
  const id = await conversationWith('€'.repeat(16_384), 100);
  const path = `/v1/conversations/${id}/messages?limit=100`;
  let [begun, underWay] = [0, 0];
  const answered = (): number => server.logLines.filter((line) => line['path'] === path.split('?')[0]).length;
  onStatement = (sql) => {
    if (!sql.includes(id)) return; // it looks up the conversation
    begun++;
    underWay = Math.max(underWay, begun - answered());
  };
  const wires = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const wire = openWire(server.url);
      await wire.send(requestText('GET', path, { headers: { Authorization: `Bearer ${client.secret}` } }));
      return wire;
    }),
  );
  for (const wire of wires) expect((await wire.response()).status).toBe(200);
  onStatement = () => {};
  expect(begun).toBe(8);
  expect(underWay).toBeLessThan(5);
});
