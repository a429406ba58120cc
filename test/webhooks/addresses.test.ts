import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { timestamp } from '../../src/domain/time.ts';
import { isPublic, webhookTargets } from '../../src/webhooks/address-guard.ts';
import { dnsLookup, guardedConnector } from '../../src/webhooks/connector.ts';
import type { Json } from '../support/client.ts';
import { NameServer } from '../support/name-server.ts';
import { startTestServer, type TestServerOptions } from '../support/server.ts';
import { sceneOf, startConversation } from '../support/webhooks.ts';

// Webhooks go to the public internet and nowhere else, however an address is written or found.

/** An address that is public by its form, and that nobody has: what is sent there goes nowhere. */
const nobodys = '3ffe:ffff:ffff::1';

test.each([
  '1.1.1.1',
  '8.8.8.8',
  '9.255.255.255',
  '11.0.0.0',
  '93.184.216.34',
  '100.63.255.255',
  '100.128.0.0',
  '126.255.255.255',
  '128.0.0.0',
  '169.253.255.255',
  '169.255.0.0',
  '172.15.255.255',
  '172.32.0.0',
  '192.167.255.255',
  '192.169.0.0',
  '198.17.255.255',
  '198.20.0.0',
  '223.255.255.255',
  '2001:4860:4860::8888',
  '2606:4700:4700::1111',
  '2a00:1450:4001:81b::200e',
  '::ffff:8.8.8.8',
  nobodys,
])('%s is public', (address) => {
  expect(isPublic(address)).toBe(true);
});

test.each([
  // This network, and none.
  '0.0.0.0',
  '0.255.255.255',
  '::',
  // Private, and shared by carriers.
  '10.0.0.0',
  '10.255.255.255',
  '172.16.0.0',
  '172.31.255.255',
  '192.168.0.0',
  '192.168.255.255',
  '100.64.0.0',
  '100.127.255.255',
  'fc00::',
  'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff',
  'fec0::1',
  // Loopback.
  '127.0.0.1',
  '127.255.255.255',
  '::1',
  // Link-local.
  '169.254.0.0',
  '169.254.255.255',
  'fe80::1',
  'fe80::1%eth0',
  'febf::1',
  // Metadata services of clouds.
  '169.254.169.254',
  '169.254.170.2',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
  'fd00:ec2::254',
  'fd20:ce::254',
  // Documentation, benchmarks, protocols.
  '192.0.0.0',
  '192.0.2.1',
  '192.88.99.1',
  '198.18.0.0',
  '198.19.255.255',
  '198.51.100.1',
  '203.0.113.1',
  '2001:db8::1',
  '2001:2::1',
  '2001:10::1',
  '2001:20::1',
  '3fff::1',
  '5f00::1',
  '100::1',
  // Multicast, broadcast, what is kept for the future.
  '224.0.0.1',
  '239.255.255.255',
  '240.0.0.1',
  '255.255.255.255',
  'ff02::1',
  '4000::1',
  '8000::1',
  // An IPv4 address inside an IPv6 one: mapped, compatible, translated, NAT64, 6to4, Teredo.
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '::ffff:10.0.0.1',
  '::ffff:169.254.169.254',
  '::127.0.0.1',
  '::7f00:1',
  '::ffff:0:127.0.0.1',
  '64:ff9b::127.0.0.1',
  '64:ff9b::8.8.8.8',
  '64:ff9b:1::127.0.0.1',
  '2002:7f00:1::',
  '2002:808:808::1',
  '2001:0:4136:e378:8000:63bf:3fff:fdd2',
  // Nothing at all.
  '',
  'localhost',
  'example.com',
  '1.2.3.4.5',
])('%s is not public', (address) => {
  expect(isPublic(address)).toBe(false);
});

const spellingsOfLoopback = [
  '127.0.0.1',
  '127.0.0.1.',
  '127.1',
  '2130706433',
  '0x7f000001',
  '0x7f.1',
  '0177.0.0.1',
  '017700000001',
  '127.000.000.001',
  '0',
  '0.0.0.0',
  '１２７．０．０．１',
  '127。0。0。1',
  '%31%32%37.0.0.1',
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[::]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::127.0.0.1]',
  '[64:ff9b::7f00:1]',
  'localhost',
  'LOCALHOST.',
  'hooks.localhost',
];

describe('a URL, by its form', () => {
  const faultOf = (url: string, policy = { allowHttp: false, allowPrivate: false }) =>
    webhookTargets(policy).faultOf(new URL(url));

  test.each([
    ...spellingsOfLoopback,
    '10.0.0.1',
    '169.254.169.254',
    '[fd00:ec2::254]',
    'printer.local',
    'metadata.google.internal',
    'router.home.arpa',
  ])('https://%s is rejected', (host) => {
    expect(faultOf(`https://${host}/hooks`)).toMatch(/not on the public internet/);
    expect(faultOf(`https://${host}:8443/hooks`)).toMatch(/not on the public internet/);
    expect(faultOf(`https://${host}/hooks`, { allowHttp: false, allowPrivate: true })).toBeUndefined();
  });

  test.each(['example.com', 'local.example.com', 'localhost.example.com', 'mylocalhost', '1.1.1.1', '[2606:4700::1]'])(
    'https://%s is taken',
    (host) => {
      expect(faultOf(`https://${host}/`)).toBeUndefined();
    },
  );

  test('http is rejected unless it is allowed', () => {
    expect(faultOf('http://example.com')).toMatch(/https/);
    expect(faultOf('http://example.com', { allowHttp: true, allowPrivate: false })).toBeUndefined();
    expect(faultOf('http://10.0.0.1', { allowHttp: true, allowPrivate: false })).toMatch(/public internet/);
  });
});

/** A server to which webhooks lead that are in its storage already, as they would after its policy was changed. */
async function guarded(options: TestServerOptions = {}) {
  const server = await startTestServer({
    config: { webhookPolicy: { allowHttp: true, allowPrivate: false } },
    timings: { webhookConnectMs: 2_000, webhookTotalMs: 5_000 },
    ...options,
  });
  const scene = await sceneOf(server, await server.account());
  // What listens on IPv6, too; it takes deliveries to 127.0.0.1 as well, on its own port.
  let connections = 0;
  const both = createServer((socket) => {
    connections++;
    socket.destroy();
  });
  await new Promise<void>((resolve) => {
    both.once('error', () => both.listen(0, '127.0.0.1', resolve)).listen(0, '::', resolve);
  });
  const { port } = both.address() as { port: number };
  const secrets = new Map<string, string>();
  return {
    ...scene,
    port,
    secrets,
    connections: () => connections + scene.receiver.connections,
    async close() {
      both.close();
      await server.close();
    },
    async insert(url: string): Promise<string> {
      const at = timestamp(server.clock.nowMs);
      const id = server.app.ports.ids.next('webhook', server.clock.nowMs);
      const secret = server.app.ports.secrets.generateSigningSecret();
      secrets.set(id, secret);
      await server.storage.write(async (tx) =>
        tx.webhooks.insert(scene.client.account.id, {
          id,
          url,
          events: ['conversation.started'],
          description: null,
          enabled: true,
          disabledReason: null,
          createdAt: at,
          updatedAt: at,
          secrets: [{ secret, until: null }],
          failingSince: null,
        }),
      );
      return id;
    },
  };
}

describe('a connection', () => {
  test('to a literal address that is not public is refused, in every spelling', async () => {
    const names = await NameServer.open({ localhost: ['127.0.0.1', '::1'], 'hooks.localhost': ['::ffff:127.0.0.1'] });
    const { client, insert, attempted, connections, port, close } = await guarded({ nameServers: [names.address] });
    const ids: string[] = [];
    for (const host of spellingsOfLoopback) ids.push(await insert(`http://${host}:${port}/hooks`));
    for (const host of ['127.1', '[::1]', 'localhost']) ids.push(await insert(`https://${host}:${port}/hooks`));
    await startConversation(client);
    for (const id of ids) {
      const { attempts } = await attempted(id, 1);
      expect(attempts[0]).toMatchObject({ responseStatus: null, responseBody: null });
      expect(attempts[0].error).toBe('The URL leads to an address that is not on the public internet.');
    }
    expect(connections()).toBe(0);
    await close();
  });

  test('over http is refused once that is no longer allowed', async () => {
    const { client, insert, attempted, receiver, connections, close } = await guarded({
      config: { webhookPolicy: { allowHttp: false, allowPrivate: true } },
    });
    const id = await insert(receiver.url);
    await startConversation(client);
    expect((await attempted(id, 1)).attempts[0].error).toBe('The URL must be an `https` address.');
    expect(connections()).toBe(0);
    await close();
  });

  test('to a name with an address that is not public is refused, wherever it leads', async () => {
    const table = {
      'v4.example.com': ['127.0.0.1'],
      'v6.example.com': ['::1'],
      'mapped.example.com': ['::ffff:127.0.0.1'],
      'several.example.com': ['10.0.0.1', '192.168.0.1', 'fd00::1'],
      'metadata.example.com': ['169.254.169.254'],
      'none.example.com': ['0.0.0.0', '::'],
    };
    const names = await NameServer.open(table);
    const { client, insert, attempted, connections, port, close } = await guarded({ nameServers: [names.address] });
    const ids: [name: string, id: string][] = [];
    for (const name of Object.keys(table)) ids.push([name, await insert(`http://${name}:${port}`)]);
    await startConversation(client);
    for (const [name, id] of ids) {
      const { attempts } = await attempted(id, 1);
      expect(attempts[0].error, name).toBe('The URL leads to an address that is not on the public internet.');
    }
    expect(connections()).toBe(0);
    await close();
  });

  test('never reaches a private address by DNS rebinding', async () => {
    const names = await NameServer.open();
    const { client, insert, attempted, advance, connections, port, close } = await guarded({
      nameServers: [names.address],
    });
    let answers = { A: [] as string[], AAAA: [nobodys] };
    names.answer = (_, kind) => answers[kind];
    const id = await insert(`http://rebind.example.com:${port}/hooks`);
    await startConversation(client);
    const errors: Json[] = [];
    for (const next of [
      { A: ['127.0.0.1'], AAAA: [] },
      { A: ['127.0.0.1'], AAAA: ['::1'] },
      { A: ['127.0.0.1', '10.0.0.1'], AAAA: [nobodys, '::1'] },
      { A: [], AAAA: [nobodys, '::ffff:127.0.0.1'] },
      { A: [], AAAA: [nobodys] },
    ]) {
      const { attempts } = await attempted(id, errors.length + 1);
      errors.push(attempts.at(-1).error);
      answers = next;
      await advance(13 * 3_600_000);
    }
    expect(errors[1]).toBe('The URL leads to an address that is not on the public internet.');
    expect(errors[2]).toBe('The URL leads to an address that is not on the public internet.');
    expect(errors).toEqual(errors.map(() => expect.any(String)));
    expect(names.asked.length).toBeGreaterThanOrEqual(10);
    expect(connections()).toBe(0);
    await close();
  });

  test('reaches a private address by the same name where that is allowed', async () => {
    const names = await NameServer.open();
    names.answer = (_, kind) => (kind === 'A' ? ['127.0.0.1'] : []);
    const { client, receiver, insert, secrets, attempted, close } = await guarded({
      config: { webhookPolicy: { allowHttp: true, allowPrivate: true } },
      nameServers: [names.address],
    });
    receiver.replies = () => ({ status: 299 });
    const id = await insert(`http://rebind.example.com:${receiver.port}/hooks`);
    receiver.trust('/hooks', secrets.get(id) ?? '');
    await startConversation(client);
    expect((await attempted(id, 1)).attempts[0].responseStatus).toBe(299);
    expect(receiver.deliveries[0]?.headers['host']).toBe(`rebind.example.com:${receiver.port}`);
    await close();
  });
});

describe('a name lookup', () => {
  const find = (names: NameServer, name: string) =>
    new Promise<Json>((resolve) => {
      dnsLookup([names.address])(name, { all: true }, (error, found) => resolve(error?.code ?? found));
    });

  test('gives addresses of both families, IPv4 first', async () => {
    const names = await NameServer.open();
    names.answer = (_, kind) => (kind === 'A' ? ['1.2.3.4', '5.6.7.8'] : ['2606:4700::1']);
    expect(await find(names, 'example.com')).toEqual([
      { address: '1.2.3.4', family: 4 },
      { address: '5.6.7.8', family: 4 },
      { address: '2606:4700::1', family: 6 },
    ]);
  });

  test('succeeds if only one family can be resolved', async () => {
    const names = await NameServer.open();
    names.answer = (_, kind) => (kind === 'A' ? 'failure' : ['2606:4700::1']);
    expect(await find(names, 'example.com')).toEqual([{ address: '2606:4700::1', family: 6 }]);
  });

  test('tells a name that does not exist from a failed lookup', async () => {
    const names = await NameServer.open();
    names.answer = () => 'unknown';
    expect(await find(names, 'example.com')).toBe('ENOTFOUND');
    names.answer = () => [];
    expect(await find(names, 'example.com')).toBe('ENOTFOUND');
    names.answer = () => 'failure';
    expect(await find(names, 'example.com')).toBe('EAI_AGAIN');
  });

  test('on a silent name server does not block others', async () => {
    const names = await NameServer.open();
    names.answer = (name) => (name.startsWith('dead') ? 'silence' : ['1.2.3.4']);
    const dead = Array.from({ length: 20 }, (_, index) => find(names, `dead${index}.example.com`));
    expect(await find(names, 'example.com')).toHaveLength(1);
    void dead;
  });
});

test('of several addresses, each has more time to answer than a lost packet takes to be sent again', async () => {
  // Takes no connection before it is told to: what exceeds its queue of two is dropped, and sent again after a second.
  const listener = spawn(process.execPath, [
    '-e',
    `const server = require('net').createServer();
    server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      require('fs').writeSync(1, String(server.address().port));
      require('fs').readSync(0, Buffer.alloc(1));
    });`,
  ]);
  onTestFinished(() => void listener.kill());
  const [port] = (await once(listener.stdout, 'data')).map(String);
  for (let count = 0; count < 2; count++) {
    const queued = connect(Number(port), '127.0.0.1').on('error', () => {});
    onTestFinished(() => void queued.destroy());
    await once(queued, 'connect');
  }
  const connector = guardedConnector({ allowHttp: true, allowPrivate: true }, 5_000, (_name, _options, callback) => {
    // Nobody listens at the second.
    callback(
      null,
      ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 })),
    );
    setImmediate(() => listener.stdin.end());
  });
  const socket = await new Promise<Socket>((resolve, reject) => {
    connector({ protocol: 'http:', hostname: 'two.example', port: String(port) }, (error, made) =>
      error === null ? resolve(made) : reject(error),
    );
  });
  onTestFinished(() => void socket.destroy());
  expect(socket.remoteAddress).toBe('127.0.0.1');
});
