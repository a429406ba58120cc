import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import { expect, onTestFinished } from 'vitest';
import { secretPattern, serve } from '../cli/program.ts';
import { clientOf, type Json, type RestResponse } from '../support/client.ts';
import { effort, longTest as test } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { scrape } from '../support/metrics.ts';
import { until } from '../support/wait.ts';

// A process that may have few files open, and more clients than that.

const descriptors = 64;

test('with no descriptors left those who are connected are served, and when others leave all is as before', {
  timeout: 60_000,
}, async () => {
  const receiver = await countingReceiver();
  const server = await serve(
    join(temporaryFolder(), 'test.db'),
    { WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOW_PRIVATE_NETWORKS: 'true' },
    { before: `ulimit -n ${descriptors}` },
  );
  const client = clientOf(server.url, server.greeting.match(secretPattern)?.[0]);
  const write = async (): Promise<void> => {
    const content = 'Is anybody there?';
    const { status } = await client.rest('POST', '/conversations', {
      body: { message: { sender: 'visitor', content } },
    });
    expect(status).toBe(201);
    expect((await client.graphql('mutation { createConversation(input: {}) { conversation { id } } }')).errors).toBe(
      undefined,
    );
  };
  const { body: webhook } = await client.rest('POST', '/webhooks', { body: { url: receiver.url } });

  for (let round = 0; round < effort(1, 5); round++) {
    const sent = receiver.count;
    await write(); // keeps the connection
    await until(() => receiver.count === sent + 3);
    const crowd = await connectMany(server.url, 2 * descriptors);
    expect(crowd.filter(({ destroyed }) => !destroyed).length, 'as many as can be').toBeGreaterThan(5);
    const before = await cpuSeconds(server.url);
    await sleep(500);
    expect((await cpuSeconds(server.url)) - before, 'it does not spin').toBeLessThan(0.4);
    await write();
    expect((await client.rest('GET', '/conversations')).status).toBe(200);
    const page = await pageOfGraphQL(server.url); // for which a file is read once, if there is a descriptor just then
    if (page.status !== 200) {
      expect(page.status).toBe(500);
      expect(page.body.errors).toMatchObject([
        { extensions: { code: 'INTERNAL', requestId: page.headers['x-request-id'] } },
      ]);
    }

    for (const socket of crowd) socket.destroy();
    await until(() => receiver.count === sent + 6);
    expect((await fetch(`${server.url}/readyz`, { headers: { connection: 'close' } })).status).toBe(200);
  }
  expect((await pageOfGraphQL(server.url)).status).toBe(200);
  expect(receiver.count).toBe(6 * effort(1, 5));
  // The receiver knows of an attempt before its end is noted. That there were no descriptors says nothing of the receiver.
  const ends = new Set<string>();
  do {
    ends.clear();
    const { data } = (await client.rest('GET', `/webhooks/${webhook.id}/deliveries?limit=100`)).body;
    for (const { status, attemptCount } of data as Json[]) ends.add(`${status} ${attemptCount}`);
  } while (ends.has('pending 0'));
  expect(ends).toEqual(new Set(['succeeded 1']));
  server.signal('SIGTERM');
  expect(await server.ended).toMatchObject({ code: 0, stderr: '' });
});

async function pageOfGraphQL(url: string): Promise<RestResponse> {
  const { statusCode: status, headers, body } = await request(`${url}/graphql`, { headers: { accept: 'text/html' } });
  const text = await body.text();
  return { status, headers: headers as Record<string, string>, body: status === 200 ? text : JSON.parse(text) };
}

async function connectMany(url: string, count: number): Promise<Socket[]> {
  const { hostname: host, port } = new URL(url);
  const settled = Array.from({ length: count }, async () => {
    const socket = connect({ host, port: Number(port) });
    socket.on('error', () => {});
    onTestFinished(() => void socket.destroy());
    await Promise.race([once(socket, 'close'), once(socket, 'connect').then(() => sleep(300))]);
    return socket;
  });
  return await Promise.all(settled);
}

/** Answers every delivery, and keeps no connection. */
async function countingReceiver(): Promise<{ url: string; readonly count: number }> {
  let count = 0;
  const server = createServer((request, response) => {
    count++;
    request.resume();
    response.writeHead(204, { connection: 'close' }).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    get count() {
      return count;
    },
  };
}

async function cpuSeconds(url: string): Promise<number> {
  return (await scrape(url)).get('process_cpu_seconds_total') ?? Number.NaN;
}
