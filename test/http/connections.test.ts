import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Connections } from '../../src/server/connections.ts';
import { serve } from '../cli/program.ts';
import { temporaryFolder } from '../support/files.ts';
import { startTestServer, type TestServer, type TestServerOptions } from '../support/server.ts';
import { until } from '../support/wait.ts';
import { openWire, requestText, type Wire } from './wire.ts';

// More connections, and more requests on them, than a server has room for.

/** Another address of this machine, on which the crowd is. */
const elsewhere = '127.0.0.2';
const asked = requestText('GET', '/healthz');

async function start(connectionLimits: TestServerOptions['connectionLimits']): Promise<TestServer> {
  const server = await startTestServer({ connectionLimits });
  onTestFinished(() => server.close());
  return server;
}

/** A connection on which a request has been answered. */
async function openUsed(server: TestServer, localAddress?: string): Promise<Wire> {
  const wire = openWire(server.url, localAddress);
  await wire.send(asked);
  expect((await wire.response()).status).toBe(200);
  return wire;
}

async function isServed(wire: Wire): Promise<boolean> {
  await wire.send(asked);
  return await wire.response().then(
    ({ status }) => status === 200,
    () => false,
  );
}

test('for a connection too many, the one is closed that was idle for longest', async () => {
  const server = await start({ connections: 5 });
  const wires: Wire[] = [];
  for (let count = 0; count < 5; count++) wires.push(await openUsed(server));
  expect(await isServed(wires[0] as Wire)).toBe(true); // and so it is no more the first
  await openUsed(server);
  await wires[1]?.ended;
  for (const index of [2, 3, 4, 0]) expect(await isServed(wires[index] as Wire)).toBe(true);
  expect(server.logLines).toMatchObject([{ level: 'warn', count: 1 }]);
});

test('those who are in use are not closed for others, and when all are, a new one is', async () => {
  const server = await start({ connections: 3 });
  const { secret } = await server.account();
  const headers = { Authorization: `Bearer ${secret}` };
  const openStream = async (): Promise<void> => {
    const wire = openWire(server.url);
    await wire.send(requestText('GET', '/v1/events/stream', { headers }));
    await wire.received(12);
    streams.push(wire);
  };
  const streams: Wire[] = [];
  await openStream();
  await openStream();
  for (let count = 0; count < 10; count++) await openUsed(server);
  await openStream();
  const late = openWire(server.url);
  await late.ended;
  expect(await Promise.race([...streams.map(({ ended }) => ended), 'open'])).toBe('open');
});

async function openUnfinished(server: TestServer, secret: string): Promise<Wire> {
  const wire = openWire(server.url);
  const headers = {
    Authorization: `Bearer ${secret}`,
    'Content-Type': 'application/json',
    'Content-Length': '1000',
    Expect: '100-continue',
  };
  await wire.send(requestText('POST', '/v1/conversations', { headers }));
  expect((await wire.response()).status).toBe(100);
  return wire;
}

/** Sends the body that is awaited. */
async function finish(wire: Wire): Promise<void> {
  await wire.send(`{"subject":"late"${' '.repeat(982)}}`);
  expect((await wire.response()).status).toBe(201);
}

async function expectUnavailable(wire: Wire): Promise<void> {
  const { status, headers, body } = await wire.response();
  expect({ status, retry: headers['retry-after'] }).toEqual({ status: 503, retry: '1' });
  expect(JSON.parse(body)).toMatchObject({ code: 'UNAVAILABLE', requestId: headers['x-request-id'] });
  await wire.ended;
}

test('a request whose body has not arrived makes room like a connection that is idle, and is told why', async () => {
  const server = await start({ connections: 3 });
  const { secret } = await server.account();
  const first = await openUnfinished(server, secret);
  const idle = await openUsed(server);
  const last = await openUnfinished(server, secret);
  await openUsed(server);
  await expectUnavailable(first);
  await openUsed(server);
  await idle.ended;
  await finish(last);
});

test('of too many requests whose bodies have not arrived, the first are refused', async () => {
  const server = await start({ unfinished: 2 });
  const { secret } = await server.account();
  const wires: Wire[] = [];
  for (let count = 0; count < 5; count++) wires.push(await openUnfinished(server, secret));
  for (const wire of wires.slice(0, 3)) await expectUnavailable(wire);
  for (const wire of wires.slice(3)) await finish(wire);
});

test('when too many requests wait for others on their connection, it is closed after those that were taken', async () => {
  const server = await start({ waiting: 500 });
  const [few, many, more] = [openWire(server.url), openWire(server.url), openWire(server.url)];
  await many.send(asked.repeat(400));
  await more.send(asked.repeat(400));
  await few.send(asked.repeat(3));
  for (let count = 0; count < 3; count++) expect((await few.response()).status).toBe(200);
  for (let count = 0; count < 400; count++) expect((await many.response()).status).toBe(200);
  let answered = 0;
  for (let isLast = false; !isLast; answered++) {
    const { status, headers } = await more.response();
    expect(status).toBe(200);
    isLast = headers['connection'] === 'close';
  }
  expect(answered).toBeGreaterThan(2);
  expect(answered).toBeLessThan(400);
  await more.ended;
  const after = openWire(server.url);
  await after.send(asked.repeat(400));
  for (let count = 0; count < 400; count++) expect((await after.response()).status).toBe(200);
});

test('what comes after those that are taken is not even parsed', async () => {
  const server = createServer();
  const connections = new Connections(server, {
    handle: (_, res) => void res.end(),
    limits: { connections: 10, unfinished: 10, waiting: 5 },
    onCrowded: () => {},
  });
  let parsed = 0;
  server.on('request', () => parsed++);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => connections.drain(0));
  const wire = openWire(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  await wire.send(asked.repeat(1_000));
  await wire.ended;
  expect(parsed).toBeGreaterThan(2);
  expect(parsed).toBeLessThan(10);
});

test('a server that stops takes those who had connected before, but not for as long as others go on connecting', async () => {
  const server = createServer();
  const limits = { connections: 10_000, unfinished: 10_000, waiting: 10 };
  const connections = new Connections(server, { handle: (_, res) => void res.end(), limits, onCrowded: () => {} });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  let accepted = 0;
  server.on('connection', () => {
    accepted++;
    for (const endMs = performance.now() + 20; performance.now() < endMs; ); // it is busy
  });
  const sockets: Socket[] = [];
  let isOver = false;
  const connectNext = (): void => {
    if (isOver) return;
    sockets.push(connect(port, '127.0.0.1').on('error', () => {}));
    setImmediate(connectNext);
  };
  onTestFinished(async () => {
    isOver = true;
    for (const socket of sockets) socket.destroy();
    await connections.drain(0);
  });
  connectNext();
  await until(() => accepted > 3);
  const before = accepted;
  await connections.refuse();
  expect(accepted).toBeGreaterThan(before);
  expect(accepted).toBeLessThan(before + 200); // it is a second, and each takes 20 ms
});

test.runIf(process.platform === 'linux')('of the address that has the most, whoever opens a crowd', async () => {
  const server = await start({ connections: 8 });
  const alone = await openUsed(server);
  const crowd: Wire[] = [];
  for (let count = 0; count < 20; count++) crowd.push(await openUsed(server, elsewhere));
  expect(await isServed(alone)).toBe(true);
  await Promise.all(crowd.slice(0, 13).map(({ ended }) => ended));
});

test.runIf(process.platform === 'linux')(
  'of too many unfinished heads, those of the address that has the most are refused, the first first',
  async () => {
    const server = await start({ unfinished: 5 });
    const slow = openWire(server.url);
    await slow.send('GET /healthz HTTP/1.1\r\nHost: a\r\n');
    const crowd: Wire[] = [];
    for (let count = 0; count < 12; count++) {
      crowd.push(await openUsed(server, elsewhere));
      await crowd.at(-1)?.send(`GET /healthz HTTP/1.1\r\nX: ${'x'.repeat(5_000)}`);
    }
    for (const wire of crowd.slice(0, 8)) await expectUnavailable(wire);
    await slow.send('\r\n');
    expect((await slow.response()).status).toBe(200);
    for (const wire of crowd.slice(8)) {
      await wire.send('\r\nHost: a\r\n\r\n');
      expect((await wire.response()).status).toBe(200);
    }
  },
);

test('a head that begins right behind a whole request counts as unfinished, too', async () => {
  const server = await start({ unfinished: 5 });
  const crowd: Wire[] = [];
  for (let count = 0; count < 12; count++) {
    const wire = openWire(server.url);
    await wire.send(`${asked}GET /healthz HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(5_000)}`);
    expect((await wire.response()).status).toBe(200);
    crowd.push(wire);
  }
  for (const wire of crowd.slice(0, 7)) await expectUnavailable(wire);
  for (const wire of crowd.slice(7)) {
    await wire.send('\r\n\r\n');
    expect((await wire.response()).status).toBe(200);
  }
});

test('what one account sends on many connections is not all read before what another has sent', async () => {
  const server = await start({});
  const [crowd, neighbour] = [await server.account(), await server.account()];
  const openAs = async ({ secret }: { secret: string }): Promise<Wire> => {
    const wire = openWire(server.url);
    await wire.send(requestText('GET', '/v1/account', { headers: { Authorization: `Bearer ${secret}` } }));
    expect((await wire.response()).status).toBe(200);
    return wire;
  };
  const wires: Wire[] = [];
  for (let count = 0; count < 60; count++) wires.push(await openAs(crowd));
  const others: Wire[] = [];
  for (let count = 0; count < 40; count++) others.push(await openAs(neighbour));
  let answered = 0;
  // Reading and parsing that many heads takes some milliseconds for each connection, a second for all.
  const burst = asked.repeat(700);
  for (const wire of wires) {
    void wire.send(burst);
    void wire.response().then(
      () => answered++,
      () => {}, // the test is over
    );
  }
  // The connections of the other one are as many turns as those of the crowd, but it sends little on them.
  await Promise.all(
    others.map(async (other) => {
      await other.send(asked);
      expect((await other.response()).status).toBe(200);
    }),
  );
  expect(answered).toBeLessThan(30);
});

test('a request that is being done gets its own answer, also where one behind it has not arrived and takes up room', async () => {
  const server = await start({ connections: 3 });
  const { secret } = await server.account();
  const headers = { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' };
  const wire = openWire(server.url);
  const release = await server.holdWrites();
  await wire.send(requestText('POST', '/v1/conversations', { headers, body: '{"subject":"whole"}' }));
  await wire.send(requestText('POST', '/v1/conversations', { headers: { ...headers, 'Content-Length': '1000' } }));
  for (let count = 0; count < 10; count++) await openUsed(server);
  await release();
  const { status, body } = await wire.response();
  expect({ status, body: JSON.parse(body) }).toMatchObject({ status: 201, body: { subject: 'whole' } });
});

test('unfinished requests are bounded also behind others that are being done: their connections are cut without a word', async () => {
  const server = await start({ unfinished: 2 });
  const { secret } = await server.account();
  const headers = { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' };
  const release = await server.holdWrites();
  const wires: Wire[] = [];
  for (let count = 0; count < 5; count++) {
    const wire = openWire(server.url);
    await wire.send(requestText('POST', '/v1/conversations', { headers, body: '{"subject":"whole"}' }));
    await wire.send(requestText('POST', '/v1/conversations', { headers: { ...headers, 'Content-Length': '1000' } }));
    wires.push(wire);
  }
  await Promise.all(wires.slice(0, 3).map(({ ended }) => ended)); // those that began first
  await release();
  for (const wire of wires.slice(0, 3)) await expect(wire.response()).rejects.toThrow('The connection ended after ""');
  for (const wire of wires.slice(3)) expect((await wire.response()).status).toBe(201);
});

test('who is refused to make room is told so under the id of the request', async () => {
  const server = await start({ connections: 1 });
  const { secret } = await server.account();
  const wire = openWire(server.url);
  const headers = {
    Authorization: `Bearer ${secret}`,
    'X-Request-Id': 'mine',
    'Content-Type': 'application/json',
    'Content-Length': '1000',
    Expect: '100-continue',
  };
  await wire.send(requestText('POST', '/v1/conversations', { headers }));
  expect((await wire.response()).status).toBe(100);
  openWire(server.url);
  const { status, headers: answer } = await wire.response();
  expect({ status, id: answer['x-request-id'] }).toEqual({ status: 503, id: 'mine' });
});

const mostWaiting =
  process.platform === 'linux' ? Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8')) : Number.NaN;

test.runIf(mostWaiting > 511)(
  'a crowd that connects at once waits for the server, and is not dropped by the system',
  async () => {
    const server = await serve(join(temporaryFolder(), 'test.db'));
    server.signal('SIGSTOP'); // as one that is busy, and accepts nobody for a while
    const { hostname, port } = new URL(server.url);
    const sockets = Array.from({ length: Math.min(1_500, mostWaiting) }, () => connect(Number(port), hostname));
    onTestFinished(() => {
      server.signal('SIGCONT');
      for (const socket of sockets) socket.destroy();
    });
    await until(() => sockets.every(({ connecting }) => !connecting));
  },
);
