import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Plan } from '../../src/domain/accounts.ts';
import type { NewApiKey } from '../../src/domain/api-keys.ts';
import { commandLine, type Running, start } from '../cli/program.ts';
import { type Client, clientOf } from '../support/client.ts';
import { temporaryFolder } from '../support/files.ts';

// The program as it runs, killed as it is killed, on the clock of the wall.

/** The most that a process of a `pro` account has reserved and not spent: ⌊1,000 / 64⌋. */
const largestBlock = 15;

interface Server {
  readonly process: Running;
  clientOf(secret: string): Client;
}

/** A database of its own. */
function database(): { account(plan: Plan): Promise<string>; serve(): Promise<Server> } {
  const path = join(temporaryFolder(), 'test.db');
  return {
    /** Makes an account. @returns its key */
    async account(plan) {
      const created = await commandLine(path).json<{ apiKey: NewApiKey }>(
        ...['account', 'create', '--name', 'x', '--plan', plan],
      );
      return created.apiKey.secret;
    },
    async serve() {
      const process = start(['serve'], { environment: { PORT: '0', DATABASE_URL: `file:${path}`, LOG_LEVEL: 'info' } });
      const printed = await process.printed('"listening"');
      const url = /"url":"([^"]+)"/.exec(printed)?.[1] ?? '';
      return { process, clientOf: (secret) => clientOf(url, secret) };
    },
  };
}

/** Sends so many requests at once. @returns how many were let in; those that got no answer were not */
async function send(server: Server, secret: string, count: number): Promise<number> {
  const client = server.clientOf(secret);
  const answers = await Promise.allSettled(Array.from({ length: count }, () => client.rest('GET', '/account')));
  return answers.filter((answer) => answer.status === 'fulfilled' && answer.value.status === 200).length;
}

async function sendUntilRefused(server: Server, secret: string): Promise<number> {
  for (let total = 0; ; ) {
    const admitted = await send(server, secret, 50);
    total += admitted;
    if (admitted < 50) return total;
  }
}

test('a killed server lets in no more after its restart, and loses no more than a block', {
  timeout: 60_000,
}, async () => {
  const { account, serve } = database();
  const [quiet, busy] = await Promise.all([account('pro'), account('pro')]);
  const first = await serve();
  const quietBefore = await send(first, quiet, 137);
  const busyBefore = await send(first, busy, 100);
  const inFlight = send(first, busy, 100);
  first.process.signal('SIGKILL');
  await first.process.ended;
  const busyAtTheEnd = await inFlight;
  expect([quietBefore, busyBefore]).toEqual([137, 100]);

  const second = await serve();
  const quietAfter = await sendUntilRefused(second, quiet);
  expect(quietBefore + quietAfter).toBeLessThanOrEqual(1_000);
  expect(quietBefore + quietAfter).toBeGreaterThanOrEqual(1_000 - largestBlock);
  const busyAfter = await sendUntilRefused(second, busy);
  expect(busyBefore + busyAtTheEnd + busyAfter).toBeLessThanOrEqual(1_000);
  // Those that were cut off may have been let in, all of them.
  expect(busyAfter).toBeGreaterThanOrEqual(1_000 - 200 - largestBlock);
});

test('a server that is asked to stop loses nothing: over both runs exactly the limit is let in', {
  timeout: 60_000,
}, async () => {
  const { account, serve } = database();
  const secret = await account('pro');
  const first = await serve();
  expect(await send(first, secret, 137)).toBe(137);
  first.process.signal('SIGTERM');
  expect((await first.process.ended).code).toBe(0);
  expect(await sendUntilRefused(await serve(), secret)).toBe(1_000 - 137);
});

test('two servers on one file let in exactly the 100 of a trial between them', { timeout: 60_000 }, async () => {
  const { account, serve } = database();
  const secret = await account('trial');
  const servers = await Promise.all([serve(), serve()]);
  const admitted = await Promise.all(servers.map((server) => send(server, secret, 75)));
  expect(admitted.reduce((sum, each) => sum + each, 0)).toBe(100);
  expect(await Promise.all(servers.map((server) => send(server, secret, 5)))).toEqual([0, 0]);
});
