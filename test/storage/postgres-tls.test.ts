import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createSecureContext, TLSSocket, type TLSSocketOptions } from 'node:tls';
import { expect, onTestFinished } from 'vitest';
import { connect } from '../../src/storage/postgres/connections.ts';
import { asDomainError } from '../../src/storage/postgres/errors.ts';
import { run } from '../cli/program.ts';
import { ofAddress, ofLocalhost, selfSigned } from '../support/certificate.ts';
import { longTest as test } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { postgresServer } from '../support/postgres.ts';
import { TcpRelay } from '../support/tcp-relay.ts';
import { until } from '../support/wait.ts';

// How the connections to PostgreSQL are encrypted, and to whom: as `sslmode` in the URL says.

const { database, server } = postgresServer();

/** The database as a program sees it that trusts these certificates. @returns its output, or how it ended */
async function migrate(host: string, sslMode: string, trusted: readonly string[]): Promise<string> {
  const url = new URL(await database());
  url.hostname = host;
  url.searchParams.set('sslmode', sslMode);
  const authorities = join(temporaryFolder(), 'trusted.pem');
  writeFileSync(authorities, trusted.join('\n'));
  const environment = { DATABASE_URL: url.href, NODE_EXTRA_CA_CERTS: authorities };
  const { code, stdout, stderr } = await run(['migrate'], { environment });
  return `${code} ${stdout}${stderr}`;
}

test('with verify-full, only a database is talked to that has a certificate for its name or address from somebody trusted', async () => {
  const all = [ofLocalhost, ofAddress, selfSigned].map(({ cert }) => cert);
  expect(await migrate('localhost', 'require', [])).toMatch(/^1 .*does not encrypt/s);
  expect(await migrate('localhost', 'prefer', [])).toMatch(/^0 /);
  await server().encrypt(ofLocalhost);
  expect(await migrate('localhost', 'verify-full', all)).toMatch(/^0 /);
  expect(await migrate('127.0.0.1', 'verify-full', all)).toMatch(/^1 .*127\.0\.0\.1/s);
  expect(await migrate('localhost', 'verify-full', [ofAddress.cert])).toMatch(/^1 .*self-signed/s);
  await server().encrypt(ofAddress);
  expect(await migrate('127.0.0.1', 'verify-full', all)).toMatch(/^0 /);
  expect(await migrate('localhost', 'verify-full', all)).toMatch(/^1 .*localhost/s);
  await server().encrypt(selfSigned);
  expect(await migrate('localhost', 'verify-full', all)).toMatch(/^1 .*localhost/s);
  expect(await migrate('localhost', 'require', [])).toMatch(/^0 /);
});

test('each connection is encrypted where the URL asks for it, and says for which name it looks', async () => {
  await server().encrypt(ofLocalhost);
  const url = await database();
  for (const [mode, isEncrypted] of [
    ['require', true],
    ['prefer', true],
    ['disable', false],
  ] as const) {
    const client = connect(`${url}?sslmode=${mode}`);
    onTestFinished(() => client.finish(0));
    expect(await client`SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`).toEqual([{ ssl: isEncrypted }]);
  }

  const names: string[] = [];
  const asked = createServer((socket) => {
    socket.once('data', () => {
      socket.write('S');
      const SNICallback: TLSSocketOptions['SNICallback'] = (name, answer) => {
        names.push(name);
        answer(null, createSecureContext(ofLocalhost));
      };
      new TLSSocket(socket, { isServer: true, SNICallback }).on('secure', () => socket.destroy()).on('error', () => {});
    });
  }).listen(0, '127.0.0.1');
  await once(asked, 'listening');
  onTestFinished(() => void asked.close());
  const { port } = asked.address() as { port: number };
  // A server that ends them at once. An error that nobody takes would end the process.
  for (let round = 0; round < 20; round++) {
    const client = connect(`postgres://a:b@localhost:${port}/c?sslmode=require`);
    for (let count = 0; count < 3; count++) {
      await expect((async () => await client`SELECT 1`)()).rejects.toMatchObject({ code: 'ECONNRESET' });
    }
    await client.finish(0);
  }
  expect(new Set(names)).toEqual(new Set(['localhost']));
});

test('a database is reached at an IPv6 address', async () => {
  const url = new URL(await database());
  url.hostname = '[::ffff:127.0.0.1]';
  for (const mode of ['disable', 'prefer']) {
    const client = connect(`${url}?sslmode=${mode}`);
    onTestFinished(() => client.finish(0));
    expect(await client`SELECT 1 AS one`).toEqual([{ one: 1 }]);
  }
});

test('a database that does not answer is unavailable, whether or not the connection is to be encrypted', async () => {
  const silent = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  onTestFinished(() => void silent.close());
  const { port } = silent.address() as { port: number };
  const faults = ['disable', 'require'].map(async (mode) => {
    const client = connect(`postgres://a:b@127.0.0.1:${port}/c?sslmode=${mode}`);
    onTestFinished(() => client.finish(0));
    return await client`SELECT 1`.catch((error: Error) => error);
  });
  const [plain, secured] = await Promise.all(faults);
  expect(plain).toMatchObject({ message: `write CONNECT_TIMEOUT 127.0.0.1:${port}` });
  expect(secured).toMatchObject({ message: 'The server of PostgreSQL does not answer' });
  for (const fault of [plain, secured]) expect(asDomainError(fault)).toMatchObject({ code: 'UNAVAILABLE' });
});

test('a database whose encryption is not to be trusted is unavailable until it is', async () => {
  await server().encrypt(selfSigned);
  for (const host of ['localhost', '127.0.0.1']) {
    const url = new URL(`${await database()}?sslmode=verify-full`);
    url.hostname = host;
    const client = connect(url.href);
    onTestFinished(() => client.finish(0));
    const fault = await client`SELECT 1`.catch((error: Error) => error);
    expect(fault).toMatchObject({ code: 'CONNECT_TLS', message: expect.stringMatching(/certificate|altname/) });
    expect(asDomainError(fault)).toMatchObject({ code: 'UNAVAILABLE' });
  }
});

test('an encrypted connection on which nothing gets through can be given up like any other', async () => {
  await server().encrypt(ofLocalhost);
  const url = await database();
  const relay = await TcpRelay.open(url);
  for (let round = 0; round < 5; round++) {
    const client = connect(`${relay.through(url)}?sslmode=require`);
    await client`SELECT 1`;
    relay.stall();
    const lost = Array.from({ length: 3 }, () => client.unsafe('SELECT $1', ['x'.repeat(8 * 1024 * 1024)]));
    const outcomes = Promise.allSettled(lost);
    await new Promise((resolve) => setImmediate(resolve));
    await client.finish(0);
    expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    relay.cut();
    // What fails later fails by then: an error that nobody takes would end the process.
    await until(() => relay.openEnds === 0);
  }
});
