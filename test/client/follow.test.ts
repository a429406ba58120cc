import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import * as own from '../../src/client/index.ts';
import { startTestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';
import { followThroughKills } from './kills.ts';
import { follow } from './tour.ts';

const { Client } = own;

// Whoever follows the events with the client gets each of them once, in order, whatever happens to the connection.

test.each([['stream'], ['socket']] as const)(
  'over a %s, a follower misses nothing and gets nothing twice when the server is killed and its token revoked',
  { timeout: 60_000 }, // it starts four servers
  (over) =>
    followThroughKills({
      over,
      begin: async (following, _, heard) => onTestFinished(follow(own, following, heard)),
    }),
);

test('a follower of some types gets those, and one that is too late is told from where it can follow', async () => {
  const server = await startTestServer({ config: { eventRetentionMs: 3_600_000 } });
  onTestFinished(() => server.close());
  const account = await server.account();
  const client = new Client({ url: server.url, credential: account.secret });
  const start = (await client.call('getAccount')).eventCursor;
  const { id } = await client.call('createConversation', { message: { sender: 'visitor', content: 'Hello' } });
  await client.call('updateConversation', { id, status: 'closed' });
  const types = ['message.received', 'conversation.closed'] as const;
  for (const over of [undefined, 'socket'] as const) {
    const found: string[] = [];
    const events =
      over === undefined
        ? client.follow({ after: start, types })
        : client.follow({ after: start, types, over, select: '... on MessageReceivedEvent { message { content } }' });
    for await (const event of events) {
      found.push(event.type);
      if (found.length === 2) break;
    }
    expect(found).toEqual(over === undefined ? types : ['MESSAGE_RECEIVED', 'CONVERSATION_CLOSED']);
  }
  server.clock.advance(2 * 3_600_000);
  await server.app.tick();
  for (const over of [undefined, 'socket'] as const) {
    const events = over === undefined ? client.follow({ after: start }) : client.follow({ after: start, over });
    await expect(events.next()).rejects.toMatchObject({ code: 'CURSOR_EXPIRED', oldestCursor: expect.any(String) });
  }
});

describe.each([['stream'], ['socket']] as const)('a follower over a %s that is stopped', (over) => {
  const begin = async (answer: (socket: Socket) => void) => {
    let connections = 0;
    const server = createServer((socket) => {
      connections++;
      socket.on('error', () => {});
      answer(socket);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const client = new Client({
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      credential: 'a token',
    });
    const stop = new AbortController();
    const options = { after: 'a cursor', signal: stop.signal };
    const events = over === 'stream' ? client.follow(options) : client.follow({ ...options, over });
    const next = expect(events.next()).rejects.toThrow('It is enough.');
    await until(() => connections > 0);
    stop.abort(new Error('It is enough.'));
    await next;
  };

  test('while it waits to connect again ends at once', () => begin((socket) => socket.destroy()));

  test('while nobody answers it ends at once', () => begin(() => {}));
});
