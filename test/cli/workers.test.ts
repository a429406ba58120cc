import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { openWire, requestText, type Wire } from '../http/wire.ts';
import { clientOf } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { type Scrape, scrape } from '../support/metrics.ts';
import { spend, spendAll } from '../support/spending.ts';
import { eventually } from '../support/wait.ts';
import { commandLine, run, type Serving, secretPattern, serve, start } from './program.ts';

// WORKERS: several processes behind one port, as their operator and their clients see them.

interface Started {
  readonly worker: number;
  readonly pid: number;
}

async function workersOf({ printed }: Serving, starts: number): Promise<Started[]> {
  return await eventually(
    async () => {
      const lines = (await printed('')).split('\n').filter((line) => line.includes('"msg":"listening"'));
      return lines.map((line) => JSON.parse(line) as Started);
    },
    (all) => all.length >= starts,
  );
}

/** Starts two workers on a new database. */
async function startTwo(environment: Record<string, string> = {}) {
  const databasePath = join(temporaryFolder(), 'test.db');
  const serving = await serve(databasePath, { WORKERS: '2', ...environment });
  const workers = await workersOf(serving, 2);
  const secret = serving.greeting.match(secretPattern)?.[0] ?? '';
  return { databasePath, serving, workers, secret, client: clientOf(serving.url, secret) };
}

const isAlive = (pid: number): boolean => existsSync(`/proc/${pid}`);

test('each worker answers on the one port, and says in its log which it is; one that is killed is replaced, and the others go on; all end with 0 when they are to stop', async () => {
  const { serving, workers, client } = await startTwo();
  // The kernel shares out connections by their ports: of so many, each gets some.
  await Promise.all(Array.from({ length: 40 }, () => client.rest('GET', '/account')));
  const lines = await eventually(
    async () => (await serving.printed('')).split('\n').filter((line) => line.includes('"msg":"request"')),
    (all) => all.length >= 40,
  );
  expect(new Set(lines.map((line) => JSON.parse(line).worker))).toEqual(new Set([1, 2]));

  const [{ pid } = { pid: 0 }] = workers;
  process.kill(pid, 'SIGKILL');
  await serving.printed('"a worker has ended and is replaced"');
  for (let count = 0; count < 5; count++) expect((await client.rest('POST', '/conversations')).status).toBe(201);
  const all = await workersOf(serving, 3);
  const [, , replacement] = all;
  expect(replacement).toMatchObject({ worker: 1 });
  const line = (await serving.printed('')).split('\n').find((each) => each.includes('is replaced')) ?? '{}';
  const { time: _, ...said } = JSON.parse(line);
  expect(said).toEqual({
    level: 'error',
    worker: 1,
    signal: 'SIGKILL',
    msg: 'a worker has ended and is replaced',
  });

  serving.signal('SIGTERM');
  const { code, stdout, stderr } = await serving.ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout.split('"msg":"stopped"')).toHaveLength(3);
  expect(stdout.split('"level":"error"'), 'but that it was replaced').toHaveLength(2);
  expect(all.some((each) => isAlive(each.pid))).toBe(false);
});

longTest('a worker that stands still while it is its turn to write costs the other one a moment, once', async () => {
  const { serving, workers, secret, client } = await startTwo();
  let conversations = 0;
  const write = async (wire: Wire | undefined): Promise<string> => {
    const authorization = `Bearer ${secret}`;
    await wire?.send(requestText('POST', '/v1/conversations', { headers: { authorization }, body: '{}' }));
    const response = await wire?.response();
    expect(response?.status).toBe(201);
    conversations++;
    return response?.headers['x-request-id'] ?? '';
  };
  const wires = new Map<number, Wire>();
  while (wires.size < 2) {
    const wire = openWire(serving.url);
    const requestId = await write(wire);
    const lines = (await serving.printed(`"requestId":"${requestId}"`)).split('\n');
    wires.set(JSON.parse(lines.find((line) => line.includes(requestId)) ?? '{}').worker, wire);
  }
  const pid = workers.find(({ worker }) => worker === 2)?.pid ?? 0;
  await write(wires.get(2)); // it keeps the turn
  process.kill(pid, 'SIGSTOP');
  onTestFinished(() => void (isAlive(pid) && process.kill(pid, 'SIGKILL')));
  const sinceMs = performance.now();
  for (let count = 0; count < 12; count++) await write(wires.get(1));
  expect(performance.now() - sinceMs, 'less than if each had waited for 250 ms').toBeLessThan(12 * 250);
  process.kill(pid, 'SIGCONT');
  for (let count = 0; count < 4; count++) await Promise.all([...wires.values()].map(write));
  expect((await client.rest('GET', '/conversations')).body.pagination.total).toBe(conversations);
});

longTest('a trial gets exactly its hundred requests of all workers together', async () => {
  const { databasePath, serving } = await startTwo();
  const { apiKey } = await commandLine(databasePath).json<{ apiKey: { secret: string } }>(
    ...['account', 'create', '--name', 'Trial', '--plan', 'trial'],
  );
  const client = clientOf(serving.url, apiKey.secret);
  const admitted = await spend(client, 150);
  expect(admitted + (await spendAll(client))).toBe(100);
});

longTest('webhooks are sent by another worker when the one that sends them is killed', async () => {
  const received: string[] = [];
  const receiver = createServer((req, res) => {
    received.push(String(req.headers['webhook-id']));
    res.end();
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void receiver.close());
  const { serving, workers, client } = await startTwo({
    WEBHOOK_ALLOW_HTTP: 'true',
    WEBHOOK_ALLOW_PRIVATE_NETWORKS: 'true',
  });
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  await client.rest('POST', '/webhooks', { body: { url } });
  const sendOne = async (count: number): Promise<void> => {
    expect((await client.rest('POST', '/conversations')).status).toBe(201);
    await eventually(
      async () => received.length,
      (length) => length === count,
    );
  };
  await sendOne(1);
  process.kill(workers.find(({ worker }) => worker === 1)?.pid ?? 0, 'SIGKILL');
  await serving.printed('"a worker has ended and is replaced"');
  await sendOne(2);
  await workersOf(serving, 3);
  await sendOne(3);
  expect(new Set(received).size).toBe(3);
});

longTest(
  'a worker is replaced by one of the same version when the link to the program leads to another by then',
  async () => {
    const [folder, dist] = [temporaryFolder(), fileURLToPath(new URL('../../dist', import.meta.url))];
    const link = join(folder, 'current');
    symlinkSync(dist, link);
    const main = join(link, 'main'); // Node.js finds what is named without its ending
    const serving = await serve(join(folder, 'test.db'), { WORKERS: '2' }, { main });
    const [first] = await workersOf(serving, 2);
    rmSync(link);
    mkdirSync(link);
    writeFileSync(`${main}.js`, 'process.exit(7)');
    process.kill(first?.pid ?? 0, 'SIGKILL');
    expect((await workersOf(serving, 3))[2]).toMatchObject({ worker: first?.worker });
  },
);

/** The processes that the supervisor of a worker has now. */
function childrenOf(supervisor: string): number[] {
  const children = readFileSync(`/proc/${supervisor}/task/${supervisor}/children`, 'utf8');
  return children.split(' ').filter(Boolean).map(Number);
}

function supervisorOf({ pid }: Started): string {
  return /^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '';
}

const isReplaced = '"a worker has ended and is replaced"';

longTest('asked to stop while no process is in the place of one that ended, it ends with 0', async () => {
  const { serving, workers } = await startTwo();
  const [first, second] = workers as [Started, Started];
  const supervisor = supervisorOf(first);
  process.kill(first.pid, 'SIGKILL');
  const [next = 0] = await eventually(
    async () => childrenOf(supervisor).filter((pid) => pid !== first.pid && pid !== second.pid),
    (others) => others.length > 0,
  );
  process.kill(next, 'SIGKILL'); // it has only just begun, so it is replaced after a pause
  await eventually(
    async () => (await serving.printed('')).split(isReplaced).length - 1,
    (count) => count === 2,
  );
  serving.signal('SIGTERM');
  expect((await serving.ended).code).toBe(0);
});

longTest(
  'while the system refuses to start a worker, the others serve, and it is tried again until it is there',
  async () => {
    // Longer than a process may be given once its stack is limited.
    const long = Object.fromEntries(Array.from({ length: 6 }, (_, index) => [`LONG_${index}`, 'x'.repeat(100_000)]));
    const { serving, workers, client } = await startTwo(long);
    const [first] = workers as [Started];
    const supervisor = supervisorOf(first);
    const limitStack = (kibibytes: number): Buffer =>
      execFileSync('prlimit', ['--pid', supervisor, `--stack=${kibibytes * 1_024}:`]);
    limitStack(1_024);
    process.kill(first.pid, 'SIGKILL');
    const line = await serving.printed('"a worker cannot be started"');
    expect(line).toContain('E2BIG');
    expect((await client.rest('POST', '/conversations')).status).toBe(201);
    limitStack(8_192);
    expect((await workersOf(serving, 3))[2]).toMatchObject({ worker: first.worker });
    serving.signal('SIGTERM');
    expect((await serving.ended).code).toBe(0);
  },
);

longTest('/metrics is of all workers, whichever is asked, and counts nothing less when one has ended', async () => {
  const { serving, workers, client } = await startTwo();
  const series = 'conversation_service_operations_total{face="rest",operation="getAccount",code="OK"}';
  await Promise.all(Array.from({ length: 40 }, () => client.rest('GET', '/account')));
  const both = await scrape(serving.url);
  expect(both.get(series)).toBe(40);
  expect(both.get('conversation_service_processes')).toBe(2);
  expect(both.get('conversation_service_deliveries_pending')).toBe(0);
  process.kill(workers[0]?.pid ?? 0, 'SIGKILL');
  await workersOf(serving, 3);
  const started = 'process_start_time_seconds'; // by which an alert notices that workers are replaced again and again
  expect((await scrape(serving.url)).get(started)).toBeGreaterThan(both.get(started) ?? Number.POSITIVE_INFINITY);
  await Promise.all(Array.from({ length: 10 }, () => client.rest('GET', '/account')));
  const all: Scrape[] = await Promise.all(Array.from({ length: 10 }, () => scrape(serving.url)));
  expect(all.map((each) => each.get(series))).toEqual(Array(10).fill(50));
  expect(all[0]?.get('conversation_service_processes')).toBe(2);
});

longTest.each([200, 300, 400, 500, 700])(
  'asked to stop %s ms after its start, it ends, and so do all workers',
  async (ms) => {
    const databasePath = join(temporaryFolder(), 'test.db');
    const running = start(['serve'], {
      environment: { DATABASE_URL: `file:${databasePath}`, PORT: '0', WORKERS: '3' },
    });
    await setTimeout(ms); // it says nothing at the moments that matter
    running.signal('SIGTERM');
    const { stdout } = await running.ended;
    const pids = [...stdout.matchAll(/"pid":(\d+)/g)].map(([, pid]) => Number(pid));
    expect(pids.some(isAlive)).toBe(false);
  },
);

longTest('none outlives a supervisor that was killed', async () => {
  const { serving, workers } = await startTwo();
  serving.signal('SIGKILL');
  await eventually(
    async () => workers.some(({ pid }) => isAlive(pid)),
    (alive) => !alive,
  );
});

longTest('until they end, workers whose supervisor was killed answer /metrics each for itself', async () => {
  const { serving, workers } = await startTwo({ SHUTDOWN_DELAY_SECONDS: '5' });
  serving.signal('SIGKILL');
  await eventually(
    async () => (await serving.printed('')).split('"msg":"draining"').length - 1,
    (draining) => draining === workers.length,
  );
  expect((await scrape(serving.url)).get('conversation_service_processes')).toBe(1);
  await serving.ended;
});

longTest('what keeps the first worker from starting is said once, and ends the program with 1', async () => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void other.close());
  const { port } = other.address() as AddressInfo;
  const databaseUrl = `file:${join(temporaryFolder(), 'test.db')}`;
  const environment = { DATABASE_URL: databaseUrl, PORT: String(port), WORKERS: '2' };
  expect(await run(['serve'], { environment })).toEqual({
    code: 1,
    stdout: '',
    stderr: `Port ${port} is already in use; set PORT to another one.\n`,
  });
  const nowhere = { DATABASE_URL: 'file:/dev/null/nowhere.db', PORT: '0', WORKERS: '2' };
  const { code, stdout, stderr } = await run(['serve'], { environment: nowhere });
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr.trim().split('\n')).toEqual([expect.stringContaining('/dev/null/nowhere.db')]);
});

test('a worker cannot be started by hand', async () => {
  const { code, stderr } = await run(['worker']);
  expect({ code, stderr }).toEqual({ code: 1, stderr: 'Workers are started by `serve`, as many as WORKERS says.\n' });
});
