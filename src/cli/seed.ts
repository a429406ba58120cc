import { type Command, InvalidArgumentError, Option } from 'commander';
import { readConfig } from '../config.ts';
import { type Account, createAccount } from '../domain/accounts.ts';
import type { NewApiKey } from '../domain/api-keys.ts';
import { addMonths } from '../domain/calendar.ts';
import { notFound } from '../domain/errors.ts';
import type { World } from '../domain/ports.ts';
import { untilAskedToStop } from '../server/stop.ts';
import type { BulkRows } from '../storage/sqlite/bulk-rows.ts';
import { keyNotice, print } from './output.ts';
import { Historian } from './seed/historian.ts';
import { shopName } from './seed/people.ts';
import { Progress } from './seed/progress.ts';
import { Random } from './seed/random.ts';
import type { Commission } from './seed/worker.ts';
import { nothing, type Written, withMore } from './seed/written.ts';
import { withWorld } from './with-world.ts';

interface SeedOptions {
  readonly account?: string;
  readonly accounts: number;
  readonly conversations: number;
  readonly months: number;
  readonly randomSeed: number;
  readonly json?: boolean;
}

/** A filled account, and its key if the account is new. */
interface Seeded {
  readonly account: Account;
  readonly apiKey: NewApiKey | null;
}

/** Longer than a request waits: a busy server leaves few gaps between its transactions. */
const busyTimeoutMs = 60_000;

export function addSeed(program: Command): void {
  program
    .command('seed')
    .description(
      'Fill an account with the invented history of a shop: conversations, messages, leads and their events, up to now',
    )
    .addOption(new Option('--account <id>', 'add to this account (default: a new one)').conflicts('accounts'))
    .addOption(count('--accounts <number>', 'how many accounts to create', 1, 1_000))
    .addOption(count('--conversations <number>', 'how many conversations per account', 2_000, 100_000_000))
    .addOption(count('--months <number>', 'the length of the history in months', 3, 120))
    .addOption(
      count('--random-seed <number>', 'the same number gives the same people, words and times', 1, 2 ** 32 - 1, 0),
    )
    .option('--json', 'print JSON, without progress')
    .addHelpText(
      'after',
      `
It can run while a server has the database open. Ctrl-C stops it early: it starts no further conversations, and writes
the outstanding events of those already written. Events younger than EVENT_RETENTION_DAYS are in the account's log, and
are sent to its subscribers but not to webhooks.`,
    )
    .action(seed);
}

function count(flags: string, description: string, fallback: number, most: number, least = 1): Option {
  return new Option(flags, description).default(fallback).argParser((text) => {
    const value = /^\d{1,10}$/.test(text) ? Number(text) : -1;
    if (value < least || value > most)
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`);
    return value;
  });
}

async function seed(options: SeedOptions): Promise<void> {
  const config = readConfig();
  const stop = new AbortController();
  void untilAskedToStop(config).then(() => stop.abort());
  const mayCreate = options.account === undefined;
  const work = async (world: World): Promise<void> => {
    const historian = new Historian();
    await fill(world, options, { ...config, historian, signal: stop.signal }).finally(() => historian.close());
  };
  await withWorld(work, { mayCreate });
}

interface Resources {
  readonly databasePath: string;
  readonly eventRetentionMs: number;
  readonly historian: Historian;
  readonly signal: AbortSignal;
}

async function fill(world: World, options: SeedOptions, resources: Resources): Promise<void> {
  const { conversations, months, randomSeed, json = false } = options;
  const toMs = world.clock.now();
  const fromMs = addMonths(toMs, -months);
  const eventsFromMs = toMs - resources.eventRetentionMs;
  const startedMs = performance.now();
  const accounts: Seeded[] = [];
  const accountCount = options.account === undefined ? options.accounts : 1;
  const progress = json ? undefined : new Progress(process.stderr, conversations * accountCount);
  let written = nothing;
  const result = () => ({ ...written, seconds: Math.round(performance.now() - startedMs) / 1_000 });
  try {
    for (let index = 0; index < accountCount && !resources.signal.aborted; index++) {
      const seed = (randomSeed + index) >>> 0;
      const seeded = await accountFor(world, options.account, seed, fromMs);
      accounts.push(seeded);
      if (!json && seeded.apiKey !== null) showKey(seeded.account, seeded.apiKey);
      const accountId = seeded.account.id;
      for await (const rows of write({ accountId, conversations, fromMs, toMs, seed, eventsFromMs }, resources)) {
        written = withMore(written, rows);
        progress?.update(written);
      }
    }
  } catch (error) {
    progress?.end();
    if (written.conversations > 0) console.error(`Failed before the end. ${summary(result())}`);
    throw error;
  }
  progress?.end();
  if (resources.signal.aborted) {
    process.exitCode = 130; // as of a program that Ctrl-C ended
    console.error('Stopped early.');
  }
  print({ accounts, ...result() }, { json }, () => summary(result()));
}

/** Writes a history, and yields each batch of rows once it is written. */
async function* write(
  commission: Commission,
  { databasePath, historian, signal }: Resources,
): AsyncGenerator<BulkRows> {
  const { BulkWriter } = await import('../storage/sqlite/bulk.ts'); // loaded only here: `--help` does not need it
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
 * The account to fill. A new one is dated to the start of its history.
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

/** Printed before the account is filled, so that the key is not lost if that fails. */
function showKey({ id, name }: Account, { secret }: NewApiKey): void {
  console.log(`${id}  ${name}\n\n${keyNotice(secret)}`);
}

const number = new Intl.NumberFormat('en');

function summary({ conversations, messages, leads, events, seconds }: Written & { seconds: number }): string {
  const [c, m, l, e] = [conversations, messages, leads, events].map((each) => number.format(each));
  const rate = number.format(Math.round(messages / Math.max(seconds, 0.001)));
  return `Wrote ${c} conversations with ${m} messages, ${l} leads and ${e} events in ${seconds.toFixed(1)} s (${rate} messages a second).`;
}
