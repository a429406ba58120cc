import { type Command, InvalidArgumentError, Option } from 'commander';
import { readConfig } from '../config.ts';
import { type Account, createAccount } from '../domain/accounts.ts';
import type { NewApiKey } from '../domain/api-keys.ts';
import { addMonths } from '../domain/calendar.ts';
import { notFound } from '../domain/errors.ts';
import type { World } from '../domain/ports.ts';
import { untilAskedToStop } from '../server/stop.ts';
import type { BulkRows } from '../storage/sqlite/bulk-rows.ts';
import { print } from './output.ts';
import { Historian } from './seed/historian.ts';
import { shopName } from './seed/people.ts';
import { Progress } from './seed/progress.ts';
import { Random } from './seed/random.ts';
import type { Commission } from './seed/worker.ts';
import { nothing, type Written, withMore } from './seed/written.ts';
import { withWorld } from './world.ts';

interface SeedOptions {
  readonly account?: string;
  readonly accounts: number;
  readonly conversations: number;
  readonly months: number;
  readonly randomSeed: number;
  readonly json?: boolean;
}

/** An account that was filled, and its key if it was made for it. */
interface Seeded {
  readonly account: Account;
  readonly apiKey: NewApiKey | null;
}

/** A server that writes all the time leaves few gaps: they are waited for longer than by a request. */
const busyTimeoutMs = 60_000;

export function addSeed(program: Command): void {
  program
    .command('seed')
    .description(
      'Fill an account with the made-up past of a shop: conversations, messages, leads and their events, up to now',
    )
    .addOption(new Option('--account <id>', 'add to this account; by default a new one is made').conflicts('accounts'))
    .addOption(count('--accounts <number>', 'how many new accounts to make', 1, 1_000))
    .addOption(count('--conversations <number>', 'how many conversations in each account', 2_000, 100_000_000))
    .addOption(count('--months <number>', 'over how many months', 3, 120))
    .addOption(
      count('--random-seed <number>', 'the same number makes the same people, words and times', 1, 2 ** 32 - 1, 0),
    )
    .option('--json', 'print JSON, and no progress')
    .addHelpText(
      'after',
      `
A running server can have the database open. Ctrl-C stops it: no conversation begins any more, and those that are there
get their events. The account's log has the events that are younger than EVENT_RETENTION_DAYS, and who follows it is
given them; webhooks are not.`,
    )
    .action(seed);
}

function count(flags: string, description: string, byDefault: number, most: number, least = 1): Option {
  const said = `must be a whole number from ${least} to ${most}`;
  return new Option(flags, description).default(byDefault).argParser((text) => {
    const value = /^\d{1,10}$/.test(text) ? Number(text) : -1;
    if (value < least || value > most) throw new InvalidArgumentError(`It ${said}.`);
    return value;
  });
}

async function seed(options: SeedOptions): Promise<void> {
  const config = readConfig();
  const stop = new AbortController();
  void untilAskedToStop(config).then(() => stop.abort());
  const mayBegin = options.account === undefined;
  const work = async (world: World): Promise<void> => {
    const historian = new Historian();
    await fill(world, options, { ...config, historian, signal: stop.signal }).finally(() => historian.close());
  };
  await withWorld(work, { mayBegin });
}

interface Tools {
  readonly databasePath: string;
  readonly eventRetentionMs: number;
  readonly historian: Historian;
  readonly signal: AbortSignal;
}

async function fill(world: World, options: SeedOptions, tools: Tools): Promise<void> {
  const { conversations, months, randomSeed, json = false } = options;
  const toMs = world.clock.now();
  const fromMs = addMonths(toMs, -months);
  const eventsFromMs = toMs - tools.eventRetentionMs;
  const startedMs = performance.now();
  const accounts: Seeded[] = [];
  const many = options.account === undefined ? options.accounts : 1;
  const progress = json ? undefined : new Progress(process.stderr, conversations * many);
  let written = nothing;
  const told = () => ({ ...written, seconds: Math.round(performance.now() - startedMs) / 1_000 });
  try {
    for (let index = 0; index < many && !tools.signal.aborted; index++) {
      const seed = (randomSeed + index) >>> 0;
      const seeded = await accountFor(world, options.account, seed, fromMs);
      accounts.push(seeded);
      if (!json && seeded.apiKey !== null) introduce(seeded.account, seeded.apiKey);
      const accountId = seeded.account.id;
      for await (const rows of write({ accountId, conversations, fromMs, toMs, seed, eventsFromMs }, tools)) {
        written = withMore(written, rows);
        progress?.update(written);
      }
    }
  } catch (error) {
    progress?.end();
    if (written.conversations > 0) console.error(`It ended early. ${sentence(told())}`);
    throw error;
  }
  progress?.end();
  if (tools.signal.aborted) {
    process.exitCode = 130; // as a program that Ctrl-C has ended
    console.error('It was stopped.');
  }
  print({ accounts, ...told() }, { json }, () => sentence(told()));
}

/** Writes a history, and says part by part what was written. */
async function* write(commission: Commission, { databasePath, historian, signal }: Tools): AsyncGenerator<BulkRows> {
  const { BulkWriter } = await import('../storage/sqlite/bulk.ts'); // `--help` needs none of it
  const writer = new BulkWriter(databasePath, { busyTimeoutMs });
  try {
    for await (const rows of historian.rowsOf(commission, signal)) {
      await writer.write(rows);
      yield rows;
    }
  } finally {
    await writer.close();
  }
}

/**
 * The account to fill. A new one has been there since its past began.
 * @throws NOT_FOUND
 */
async function accountFor(world: World, id: string | undefined, seed: number, fromMs: number): Promise<Seeded> {
  if (id !== undefined) {
    const account = await world.storage.read.accounts.find(id);
    if (account === undefined) throw notFound('account');
    return { account, apiKey: null };
  }
  const then = { ...world, clock: { ...world.clock, now: () => fromMs } };
  return await createAccount(then, { name: shopName(new Random(seed, -3)), plan: 'business' });
}

/** Before it is filled, so that the key is not lost when something goes wrong. */
function introduce({ id, name }: Account, { secret }: NewApiKey): void {
  console.log(`${id}  ${name}\n\nIts API key, shown this once:\n\n  ${secret}\n`);
}

const number = new Intl.NumberFormat('en');

function sentence({ conversations, messages, leads, events, seconds }: Written & { seconds: number }): string {
  const [c, m, l, e] = [conversations, messages, leads, events].map((each) => number.format(each));
  const rate = number.format(Math.round(messages / Math.max(seconds, 0.001)));
  return `Wrote ${c} conversations with ${m} messages, ${l} leads and ${e} events in ${seconds.toFixed(1)} s (${rate} messages a second).`;
}
