import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Plan } from '../../src/domain/accounts.ts';
import type { NewApiKey } from '../../src/domain/api-keys.ts';
import { commandLine, type Serving, serve } from '../cli/program.ts';
import { type Client, clientOf } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { spend, spendAll } from '../support/spending.ts';

// The program as it runs, killed as it is killed, on the clock of the wall.

/** The most that a process of a `pro` account has reserved and not spent: ⌊1,000 / 64⌋. */
const largestBlock = 15;

/** A database of its own. */
function database(): { account(plan: Plan): Promise<string>; serve(): Promise<Serving> } {
  const path = join(temporaryFolder(), 'test.db');
  return {
    /** Makes an account. @returns its key */
    async account(plan) {
      const created = await commandLine(path).jsonHere<{ apiKey: NewApiKey }>(
        ...['account', 'create', '--name', 'x', '--plan', plan],
      );
      return created.apiKey.secret;
    },
    serve: () => serve(path),
  };
}

const at = ({ url }: Serving, secret: string): Client => clientOf(url, secret);

longTest(
  'a killed server lets in no more after its restart, and loses no more than a block',
  {
    timeout: 60_000,
  },
  async () => {
    const { account, serve } = database();
    const [quiet, busy] = [await account('pro'), await account('pro')];
    const first = await serve();
    const quietBefore = await spend(at(first, quiet), 137);
    const busyBefore = await spend(at(first, busy), 100);
    const inFlight = spend(at(first, busy), 100);
    first.signal('SIGKILL');
    await first.ended;
    const busyAtTheEnd = await inFlight;
    expect([quietBefore, busyBefore]).toEqual([137, 100]);

    const second = await serve();
    const quietAfter = await spendAll(at(second, quiet));
    expect(quietBefore + quietAfter).toBeLessThanOrEqual(1_000);
    expect(quietBefore + quietAfter).toBeGreaterThanOrEqual(1_000 - largestBlock);
    const busyAfter = await spendAll(at(second, busy));
    expect(busyBefore + busyAtTheEnd + busyAfter).toBeLessThanOrEqual(1_000);
    // Those that were cut off may have been let in, all of them.
    expect(busyAfter).toBeGreaterThanOrEqual(1_000 - 200 - largestBlock);
  },
);

longTest.each([
  ['is asked to stop', 'SIGTERM'],
  ['has lost its terminal', 'SIGHUP'],
] as const)(
  'a server that %s loses nothing: over both runs exactly the limit is let in',
  { timeout: 60_000 },
  async (_, signal) => {
    const { account, serve } = database();
    const secret = await account('pro');
    const first = await serve();
    expect(await spend(at(first, secret), 137)).toBe(137);
    first.signal(signal);
    expect((await first.ended).code).toBe(0);
    expect(await spendAll(at(await serve(), secret))).toBe(1_000 - 137);
  },
);

test('two servers on one file let in exactly the 100 of a trial between them', { timeout: 60_000 }, async () => {
  const { account, serve } = database();
  const secret = await account('trial');
  const servers = await Promise.all([serve(), serve()]);
  const admitted = await Promise.all(servers.map((server) => spend(at(server, secret), 75)));
  expect(admitted.reduce((sum, each) => sum + each, 0)).toBe(100);
  expect(await Promise.all(servers.map((server) => spend(at(server, secret), 5)))).toEqual([0, 0]);
});
