import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { selfSigned } from '../support/certificate.ts';
import type { Json } from '../support/client.ts';
import { NameServer } from '../support/name-server.ts';
import { Receiver, type Reply } from '../support/receiver.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';
import { sceneOf, startConversation } from '../support/webhooks.ts';

// What a receiver may answer, and what is kept of it. Retries are in `schedule.test.ts`.

/** Long enough for a busy machine to answer in. */
const timeoutMs = 3_000;

let server: TestServer;
let names: NameServer;
beforeAll(async () => {
  names = await NameServer.listen({ 'hooks.example.com': ['127.0.0.1'], 'slow.example.com': 'failure' });
  server = await startTestServer({
    config: { webhookPolicy: anywhere },
    timings: { webhookConnectMs: timeoutMs, webhookTotalMs: timeoutMs },
    nameServers: [names.address],
  });
});
afterAll(async () => {
  await server.close();
  names.close();
});

/** The delivery of one event after its first attempt. */
async function answered(reply: Reply): Promise<{ delivery: Json; attempt: Json; receiver: Receiver }> {
  const { client, receiver, webhook, attempted } = await sceneOf(server, await server.account(), () => reply);
  const { id } = await webhook();
  await startConversation(client);
  const delivery = await attempted(id, 1);
  return { delivery, attempt: delivery.attempts[0], receiver };
}

/** The first attempt at an event's delivery to a URL. */
async function attemptAt(url: string): Promise<Json> {
  const { client, attempted } = await sceneOf(server, await server.account());
  const { body } = await client.rest('POST', '/webhooks', { body: { url } });
  await startConversation(client);
  return (await attempted(body.id, 1)).attempts[0];
}

describe('a response', () => {
  test.each([200, 201, 202, 204, 299])('%d is a success', async (status) => {
    const { delivery, attempt } = await answered({ status, ...(status === 204 ? {} : { body: 'thank you' }) });
    expect(delivery).toMatchObject({ status: 'succeeded', attemptCount: 1, nextAttemptAt: null });
    expect(delivery.completedAt).toBe(delivery.createdAt);
    expect(attempt).toMatchObject({
      trigger: 'schedule',
      responseStatus: status,
      responseBody: status === 204 ? '' : 'thank you',
      error: null,
    });
    expect(attempt.durationMs).toBeGreaterThanOrEqual(0);
  });

  test.each([300, 304, 400, 401, 404, 409, 422, 429, 500, 502, 503])('%d is a failure', async (status) => {
    const { delivery, attempt } = await answered({ status, ...(status === 304 ? {} : { body: 'no' }) });
    expect(delivery).toMatchObject({ status: 'pending', attemptCount: 1, completedAt: null });
    expect(Date.parse(delivery.nextAttemptAt)).toBeGreaterThan(server.clock.nowMs);
    expect(attempt).toMatchObject({ responseStatus: status, responseBody: status === 304 ? '' : 'no', error: null });
  });

  test.each([301, 302, 303, 307, 308])('%d is not followed, which is reported', async (status) => {
    const elsewhere = await Receiver.open(server.clock);
    const { delivery, attempt } = await answered({ status, headers: { location: elsewhere.url } });
    expect(delivery.status).toBe('pending');
    expect(attempt).toMatchObject({ responseStatus: status, error: 'Redirects are not followed.' });
    expect(elsewhere.connections).toBe(0);
  });

  test('that is long is stored up to 16 KiB', async () => {
    const { delivery, attempt } = await answered({ status: 500, body: 'é'.repeat(20_000) });
    expect(delivery.status).toBe('pending');
    expect(attempt.responseBody).toBe('é'.repeat(8_192));
  });

  test('that is cut within a character is stored without it', async () => {
    const { attempt } = await answered({ status: 500, body: `x${'é'.repeat(20_000)}` });
    expect(attempt.responseBody).toBe(`x${'é'.repeat(8_191)}`);
  });

  test('without an end is read no further than that, and its status counts', async () => {
    const { delivery, attempt, receiver } = await answered({ status: 200, instead: 'endless' });
    expect(delivery.status).toBe('succeeded');
    expect(attempt.responseBody).toBe('x'.repeat(16 * 1024));
    await until(() => receiver.open === 0);
    // What the sockets between the two hold is all that was written beyond.
    expect(receiver.written).toBeLessThan(16 * 1024 * 1024);
  });

  test('that is not text is stored as far as it can be shown', async () => {
    const bytes = Buffer.from([0x7b, 0x00, 0xff, 0xc3, 0x28, 0xed, 0xa0, 0x80, 0x41, 0x00]);
    const { attempt } = await answered({ status: 500, body: bytes });
    expect(attempt.responseBody).toMatch(/^\{\ufffd+\(\ufffd+A\ufffd$/);
    expect(attempt.responseBody.isWellFormed()).toBe(true);
  });

  test('with huge headers is a failure that says so', async () => {
    const { delivery, attempt } = await answered({ status: 200, headers: { 'x-huge': 'x'.repeat(64 * 1024) } });
    expect(delivery.status).toBe('pending');
    expect(attempt).toMatchObject({ responseStatus: null, responseBody: null });
    expect(attempt.error).toBe('The response headers are too large.');
  });

  test('that never comes is given up after the timeout, which is reported', async () => {
    const { delivery, attempt } = await answered({ instead: 'hang' });
    expect(delivery.status).toBe('pending');
    expect(attempt).toMatchObject({ responseStatus: null, responseBody: null, error: 'No response within 3 s.' });
    expect(attempt.durationMs).toBeGreaterThanOrEqual(timeoutMs - 10);
    expect(attempt.durationMs).toBeLessThan(3 * timeoutMs);
  });

  test('whose body never ends is given up after the timeout, too', async () => {
    const { delivery, attempt } = await answered({ status: 503, instead: 'stall', body: 'wait' });
    expect(delivery.status).toBe('pending');
    expect(attempt).toMatchObject({ responseStatus: 503, responseBody: 'wait', error: 'The response was cut off.' });
    expect(attempt.durationMs).toBeLessThan(3 * timeoutMs);
  });

  test.each([
    [200, 'succeeded'],
    [500, 'pending'],
  ])('%d that is cut off in its body counts by its status', async (status, expected) => {
    const { delivery, attempt } = await answered({ status, instead: 'cut', body: 'half' });
    expect(delivery.status).toBe(expected);
    expect(attempt).toMatchObject({ responseStatus: status, responseBody: 'half', error: 'The response was cut off.' });
  });

  test('that is missing because the connection ended is a failure that says so', async () => {
    const { delivery, attempt } = await answered({ instead: 'close' });
    expect(delivery.status).toBe('pending');
    expect(attempt).toMatchObject({ responseStatus: null, responseBody: null });
    expect(attempt.error).toMatch(/^The connection was (closed|reset) before a response\.$/);
  });

  const earlyHints = 'HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n';

  test('may come after interim ones', async () => {
    const attempt = await attemptAnswered((socket) => {
      socket.end(`${earlyHints.repeat(2)}HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok`);
    });
    expect(attempt).toMatchObject({ responseStatus: 202, responseBody: 'ok', error: null });
  });

  test('with interim ones without end is read no further', async () => {
    const attempt = await attemptAnswered((socket) => {
      const more = (): void => {
        while (socket.write(earlyHints.repeat(1_000)));
        socket.once('drain', more);
      };
      more();
    });
    expect(attempt).toMatchObject({ responseStatus: null, error: 'There were too many interim responses.' });
  });

  test.each([
    '100 Continue',
    '101 Switching Protocols',
    '101 Switching Protocols\r\nUpgrade: other\r\nConnection: upgrade',
  ])('with %j, which nobody asked for, is a failure that says so', async (head) => {
    const attempt = await attemptAnswered((socket) => {
      socket.end(`HTTP/1.1 ${head}\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n`);
    });
    expect(attempt).toMatchObject({
      responseStatus: null,
      error: 'The response was 100 or 101, which was not asked for.',
    });
  });

  test('that is not HTTP is a failure with a readable error', async () => {
    const attempt = await attemptAnswered((socket) => void socket.end('220 mail.example.com ESMTP\r\n'));
    expect(attempt).toMatchObject({ responseStatus: null, error: 'The response is not valid HTTP.' });
  });

  /** The first attempt at a receiver that answers each request by these bytes. */
  async function attemptAnswered(answer: (socket: Socket) => void): Promise<Json> {
    const host = createServer((socket) => {
      socket.on('error', () => {}).once('data', () => answer(socket));
    });
    await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve));
    const { port } = host.address() as AddressInfo;
    const attempt = await attemptAt(`http://127.0.0.1:${port}`);
    host.close();
    return attempt;
  }
});

describe('a receiver', () => {
  test('that is not listening is reported as such', async () => {
    const gone = await Receiver.open(server.clock);
    gone.close();
    expect(await attemptAt(gone.url)).toMatchObject({
      responseStatus: null,
      responseBody: null,
      error: 'The connection was refused.',
    });
  });

  test('whose name does not exist or cannot be looked up is reported as such', async () => {
    expect((await attemptAt('https://nowhere.example.com')).error).toBe('The host name does not exist.');
    expect((await attemptAt('https://slow.example.com')).error).toBe('The host name could not be looked up.');
  });

  test('whose certificate is not trusted is sent nothing', async () => {
    const requests: string[] = [];
    const host = createTlsServer(selfSigned, (req, res) => {
      requests.push(req.url ?? '');
      res.end();
    });
    await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve));
    const { port } = host.address() as AddressInfo;
    const attempt = await attemptAt(`https://hooks.example.com:${port}`);
    host.close();
    expect(attempt).toMatchObject({ responseStatus: null, error: 'The certificate is self-signed.' });
    expect(requests).toEqual([]);
  });

  test('that does not speak TLS is reported as such', async () => {
    const plain = await Receiver.open(server.clock);
    expect((await attemptAt(plain.url.replace('http:', 'https:'))).error).toBe('The host does not speak TLS.');
    expect(plain.deliveries).toEqual([]);
  });
});
