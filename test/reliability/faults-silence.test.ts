import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { operatorOf } from '../../src/domain/caller.ts';
import { createConversation } from '../../src/domain/conversations.ts';
import { sendMessage } from '../../src/domain/messages.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

// Clients that fall silent in the middle. What becomes of those who follow events is in events/slow-reader.test.ts and
// events/socket.test.ts, of receivers in webhooks/responses.test.ts.

/** Those who read slowly have theirs on a busy machine, too. */
const timings = { headMs: 300, requestMs: 900, slowReaderMs: 1_500 };

/** Where it happens, and what was sent until then. */
const silences = {
  'before its request': () => '',
  'in the head of it': () => 'POST /v1/conversations HTTP/1.1\r\nHost: test\r\nAuthor',
  'in its body': (secret: string) =>
    `POST /v1/conversations HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer ${secret}\r\n` +
    'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"subje',
};

test(`a client that falls silent is cut off: ${Object.keys(silences).join(', ')}`, async () => {
  const server = await started();
  const { secret } = await server.account();
  const silent = Object.entries(silences).map(async ([where, text]) => {
    const socket = await connected(server);
    const startMs = performance.now();
    socket.write(text(secret));
    let answer = '';
    socket.on('data', (chunk) => (answer += chunk));
    await new Promise((resolve) => socket.once('close', resolve)); // by a reset as well
    const tookMs = performance.now() - startMs;
    expect(answer === '' || answer.startsWith('HTTP/1.1 408 '), where).toBe(true);
    const limitMs = where === 'in its body' ? timings.requestMs : timings.headMs;
    expect(tookMs, where).toBeGreaterThan(limitMs - 50);
    expect(tookMs, where).toBeLessThan(limitMs + 3_000); // it is looked at every second
  });
  await Promise.all(silent);
});

/** What an answer of one conversation holds, and how often it is asked for: more than the system takes on its way. */
const content = 'x'.repeat(16_000);
const messages = 60;
const times = 14;

test('a client that stops reading in the middle of an answer is cut off, and one that reads slowly gets all of it', async () => {
  const server = await started();
  const account = await server.account();
  const caller = operatorOf(account.account);
  const { id } = (await createConversation.execute(server.app.ports, caller, {})).conversation;
  const message = { conversationId: id, sender: 'visitor', content };
  for (let index = 0; index < messages; index++) await sendMessage.execute(server.app.ports, caller, message);
  const request = `GET /v1/conversations/${id} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer ${account.secret}\r\n\r\n`;
  const [slow, silent] = [await connected(server), await connected(server)];
  silent.pause().write(request.repeat(times));
  slow.write(request.repeat(times));
  let received = 0;
  for await (const chunk of slow) {
    received += chunk.length;
    if (received > times * messages * content.length) break;
    await sleep(5);
  }
  await until(() => server.hasEnded(silent));
  let late = 0;
  silent.on('data', (chunk) => (late += chunk.length)).resume();
  await new Promise((resolve) => silent.once('close', resolve));
  expect(late).toBeLessThan(times * messages * content.length);
});

/** A server that can tell whether its end of a connection is gone, which a client that does not read cannot. */
async function started(): Promise<TestServer & { hasEnded(client: Socket): boolean }> {
  const accepted = new Map<number | undefined, Socket>();
  const note = (message: unknown): void => {
    const { socket } = message as { socket: Socket };
    accepted.set(socket.remotePort, socket);
  };
  subscribe('net.server.socket', note);
  onTestFinished(() => void unsubscribe('net.server.socket', note));
  const server = await startTestServer({ timings });
  onTestFinished(() => server.close());
  return { ...server, hasEnded: ({ localPort }) => accepted.get(localPort)?.destroyed === true };
}

async function connected({ url }: TestServer): Promise<Socket> {
  const { hostname: host, port } = new URL(url);
  const socket = connect({ host, port: Number(port) });
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}
