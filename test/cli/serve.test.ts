import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type Account, createFirstAccount } from '../../src/domain/accounts.ts';
import type { NewApiKey } from '../../src/domain/api-keys.ts';
import { clientOf } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { putMigrated } from '../support/migrated-file.ts';
import { startTestServer } from '../support/server.ts';
import { commandLine, run, secretPattern, serve, start } from './program.ts';

describe('the first account', () => {
  test('is made in an empty database, and its key shown once', async () => {
    const path = join(temporaryFolder(), 'a.db');
    const first = await serve(path);
    const [secret] = first.greeting.match(secretPattern) ?? [];
    expect(new Set(first.greeting.match(secretPattern)), 'one key, once to copy and once in the example').toHaveLength(
      1,
    );
    expect(first.greeting).toContain(`${first.url}/console`);
    const [, account = ''] = /npm run cli -- seed --account (\w+)/.exec(first.greeting) ?? [];
    const client = clientOf(first.url, secret);
    await commandLine(path).jsonHere('seed', '--account', account, '--conversations', '1');
    expect((await client.rest('GET', '/conversations')).body.pagination.total).toBe(1);
    expect((await client.rest('GET', '/account')).body).toMatchObject({ name: 'demo', plan: 'business' });
    await client.rest('POST', '/conversations', { body: { message: { sender: 'visitor', content: 'psst' } } });
    first.signal('SIGTERM');
    const { code, stdout, stderr } = await first.ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const log = stdout.split('\n').filter((line) => line.startsWith('{'));
    expect(log.length).toBeGreaterThan(3);
    expect(log.join('\n')).not.toMatch(/cs_|psst/);

    const second = await serve(path);
    expect(second.greeting, 'there is one already').not.toMatch(secretPattern);
    expect((await clientOf(second.url, secret).rest('GET', '/conversations')).body.pagination.total).toBe(2);
  });

  test('is one, however many servers make it at once', async () => {
    const one = await startTestServer();
    onTestFinished(() => one.close());
    const other = await startTestServer({ databasePath: one.databasePath });
    onTestFinished(() => other.close());
    const make = ({ app }: typeof one) => createFirstAccount(app.ports, { name: 'demo', plan: 'business' });
    const made = await Promise.all([one, other, one, other].map(make));
    expect(made.filter((created) => created !== undefined)).toHaveLength(1);
    expect(await one.storage.read.accounts.list()).toHaveLength(1);
  });

  longTest('is not made in production; there too what is not finished within the grace time is cut off', async () => {
    const path = join(temporaryFolder(), 'a.db');
    const environment = { NODE_ENV: 'production', SHUTDOWN_GRACE_SECONDS: '0' };
    const { url, greeting, signal, ended } = await serve(path, environment);
    expect(greeting).not.toMatch(secretPattern);
    expect(await commandLine(path).jsonHere<Account[]>('account', 'list')).toEqual([]);
    const { answered } = await sendHead(url, await madeKey(path), 100);
    signal('SIGINT');
    expect(await ended).toMatchObject({ code: 0, stdout: expect.stringContaining('"msg":"stopped"') });
    expect(await answered).not.toMatch(/^HTTP\/1\.1 2/m);
  });
});

longTest('a server that cannot make the first account ends and says why', async () => {
  const path = await putMigrated(join(temporaryFolder(), 'a.db'));
  const database = new Database(path);
  database.exec(`CREATE TRIGGER full BEFORE INSERT ON accounts BEGIN SELECT RAISE(ABORT, 'there is no room'); END`);
  database.close();
  const { code, stderr } = await run(['serve'], { environment: { DATABASE_URL: `file:${path}`, PORT: '0' } });
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('there is no room') });
});

describe('SIGTERM', () => {
  test('lets the request in flight finish, then closes the database and ends with 0', async () => {
    const path = join(temporaryFolder(), 'a.db');
    const { url, greeting, signal, printed, ended } = await serve(path);
    const secret = greeting.match(secretPattern)?.[0] ?? '';
    const body = JSON.stringify({ subject: 'sent while it was stopping' });
    const { socket, answered } = await sendHead(url, secret, body.length);

    signal('SIGTERM');
    signal('SIGTERM'); // npm passes on the signal that its whole group was sent
    await printed('"msg":"stopping"');
    await expect(connectTo(url)).rejects.toThrow('ECONNREFUSED');
    socket.write(body);

    const answer = await answered;
    expect(answer).toMatch(/^HTTP\/1\.1 201 /m);
    expect(answer).toMatch(/^connection: close\r$/im);
    expect(await ended).toMatchObject({ code: 0, stdout: expect.stringContaining('"msg":"stopped"'), stderr: '' });
    expect(existsSync(`${path}-wal`) && statSync(`${path}-wal`).size > 0, 'all is in the one file').toBe(false);

    const again = await startTestServer({ databasePath: path });
    onTestFinished(() => again.close());
    const { body: list } = await clientOf(again.url, secret).rest('GET', '/conversations');
    expect(list.data).toMatchObject([{ subject: 'sent while it was stopping' }]);
  });

  test.each(['1', '2'])('ends it at once, with 0, while it waits for its database: WORKERS=%s', async (workers) => {
    const silent = createTcpServer().listen(0, '127.0.0.1');
    onTestFinished(() => void silent.close());
    const asked = once(silent, 'connection');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const environment = { DATABASE_URL: `postgres://a:b@127.0.0.1:${port}/c`, WORKERS: workers, PORT: '0' };
    const { signal, ended } = start(['serve'], { environment });
    const [socket] = await asked;
    onTestFinished(() => socket.destroy());
    signal('SIGTERM');
    expect(await ended).toEqual({ code: 0, stdout: '', stderr: '' });
  });

  longTest('makes it say that it is not ready, before it stops answering, if it is given time for that', async () => {
    const path = join(temporaryFolder(), 'a.db');
    const secret = await madeKey(path);
    const { url, greeting, signal, printed, ended } = await serve(path, { SHUTDOWN_DELAY_SECONDS: '3' });
    expect(greeting, 'it has an account already').not.toMatch(secretPattern);
    const client = clientOf(url, secret);
    const statusOf = async (path: string) => (await fetch(url + path, { headers: { connection: 'close' } })).status;
    expect(await statusOf('/readyz')).toBe(200);
    signal('SIGTERM');
    await printed('"msg":"draining"');
    const ready = await fetch(`${url}/readyz`);
    expect({ status: ready.status, body: await ready.json() }).toEqual({ status: 503, body: { status: 'draining' } });
    expect(await statusOf('/healthz')).toBe(200);
    expect((await client.rest('POST', '/conversations', { body: {} })).status, 'who comes still is served').toBe(201);
    expect(await ended).toMatchObject({ code: 0, stderr: '' });
  });
});

/** Makes an account. @returns its key */
async function madeKey(path: string): Promise<string> {
  const args = ['account', 'create', '--name', 'a', '--plan', 'pro'];
  return (await commandLine(path).jsonHere<{ apiKey: NewApiKey }>(...args)).apiKey.secret;
}

async function connectTo(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  return await new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port) }, () => resolve(socket));
    socket.once('error', reject);
  });
}

/** Sends a request up to its body, and resolves once the server has begun to serve it: it says so. */
async function sendHead(
  url: string,
  secret: string,
  length: number,
): Promise<{ socket: Socket; answered: Promise<string> }> {
  const socket = await connectTo(url);
  socket.setEncoding('utf8');
  socket.write(
    `POST /v1/conversations HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer ${secret}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${length}\r\nExpect: 100-continue\r\n\r\n`,
  );
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject);
    socket.once('data', (text) => {
      if (String(text).startsWith('HTTP/1.1 100 ')) resolve();
      else reject(new Error(String(text)));
    });
  });
  let answer = '';
  socket.on('data', (text) => (answer += text));
  return { socket, answered: new Promise((resolve) => socket.once('close', () => resolve(answer))) };
}

describe('what keeps it from starting is told in a sentence', () => {
  longTest('a port that is in use; a log of 4 days is no matter', async () => {
    const other = createServer();
    const port = await new Promise<number>((resolve) =>
      other.listen(0, '127.0.0.1', () => resolve((other.address() as AddressInfo).port)),
    );
    onTestFinished(() => void other.close());
    const databaseUrl = `file:${join(temporaryFolder(), 'a.db')}`;
    const environment = { PORT: String(port), DATABASE_URL: databaseUrl, EVENT_RETENTION_DAYS: '4' };
    expect(await run(['serve'], { environment })).toEqual({
      code: 1,
      stdout: '',
      stderr: `Port ${port} is already in use; set PORT to another one.\n`,
    });
  });

  test.each(['fe80::1', 'a'.repeat(300)])('an address that the system does not take at all: %s', async (HOST) => {
    const environment = { HOST, PORT: '0', DATABASE_URL: `file:${join(temporaryFolder(), 'a.db')}` };
    const stderr = `HOST is ${HOST}, which is not an address of this machine.\n`;
    expect(await run(['serve'], { environment })).toEqual({ code: 1, stdout: '', stderr });
  });

  longTest(
    'an address that is not this machine’s, after a warning of a log of 3 days: webhooks are tried for nearly four',
    async () => {
      const environment = {
        HOST: '192.0.2.1',
        PORT: '0',
        DATABASE_URL: `file:${join(temporaryFolder(), 'a.db')}`,
        EVENT_RETENTION_DAYS: '3',
      };
      expect(await run(['serve'], { environment })).toEqual({
        code: 1,
        stdout: expect.stringMatching(/^[^\n]*EVENT_RETENTION_DAYS[^\n]*\n$/),
        stderr: 'HOST is 192.0.2.1, which is not an address of this machine.\n',
      });
    },
  );

  test('every fault of the configuration at once', async () => {
    const environment = { PORT: 'abc', LOG_LEVEL: 'loud', DATABASE_URL: 'postgres://x' };
    expect(await run(['serve'], { environment })).toEqual({
      code: 1,
      stdout: '',
      stderr: [
        'The configuration is not valid:',
        '  PORT must be a whole number from 0 to 65535',
        '  DATABASE_URL must be the URL of a PostgreSQL database, such as postgres://USER:PASSWORD@HOST/NAME',
        '  LOG_LEVEL must be one of fatal, error, warn, info, debug, trace, silent',
        '',
      ].join('\n'),
    });
  });
});
