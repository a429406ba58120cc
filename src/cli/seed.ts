import { setTimeout as sleep } from 'node:timers/promises';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { readConfig } from '../config.ts';
import { type Account, createAccount } from '../domain/accounts.ts';
import type { NewApiKey } from '../domain/api-keys.ts';
import { addMonths } from '../domain/calendar.ts';
import { operatorOf } from '../domain/caller.ts';
import { createConversation } from '../domain/conversations.ts';
import { codeOf } from '../domain/errors.ts';
import type { Ids } from '../domain/ids.ts';
import { captureLead } from '../domain/leads.ts';
import { sendMessage } from '../domain/messages.ts';
import type { Ports } from '../domain/ports.ts';
import { markRead } from '../domain/read-positions.ts';
import type { Storage } from '../domain/storage-port.ts';
import { untilAskedToStop } from '../server/stop.ts';
import { addExamples, keyNotice, print, printText, TerminalLine } from './output.ts';
import { inOrder, type Shop, type Step, shopName } from './seed-story.ts';
import { noSuchAccount, withPorts } from './with-ports.ts';

interface SeedOptions {
  readonly account?: string;
  readonly accounts: number;
  readonly conversations: number;
  readonly months: number;
  readonly randomSeed: number;
  readonly json?: boolean;
}

/** Larger transactions than a server's, since nobody waits for each; and longer patience, since a server leaves few gaps. */
const writing = { maxGroupMs: 50, busyTimeoutMs: 60_000 };

export function addSeed(program: Command): void {
  addExamples(program.command('seed'), 'seed --account acct_…', 'seed --accounts 100 --conversations 20000 --months 12')
    .description(
      'Fill an account with the invented history of a shop: conversations, messages, reads, leads and events, up to now',
    )
    .addOption(new Option('--account <id>', 'add to this account (default: a new one)').conflicts('accounts'))
    .addOption(count('--accounts <number>', 'how many accounts to create', 1, 1_000))
    .addOption(count('--conversations <number>', 'how many conversations per account', 2_000, 1_000_000))
    .addOption(count('--months <number>', 'the length of the history in months', 3, 120))
    .addOption(
      count('--random-seed <number>', 'the same number gives the same people, words and times', 1, 2 ** 32 - 1, 0),
    )
    .option('--json', 'print JSON, without progress')
    .addHelpText(
      'after',
      `
It can run while a server has the database open. Ctrl-C stops it early: the history then ends sooner. Its events are in
the account's log and are sent to its subscribers, but not to webhooks. Those older than EVENT_RETENTION_DAYS are removed
by the server, like all others.`,
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
  const stop = new AbortController();
  void untilAskedToStop(readConfig()).then(() => stop.abort());
  const mayCreate = options.account === undefined;
  await withPorts((ports) => fill(ports, options, stop.signal), { mayCreate, ...writing });
}

async function fill(ports: Ports, options: SeedOptions, signal: AbortSignal): Promise<void> {
  const { conversations, months, randomSeed, json = false } = options;
  const accountCount = options.account === undefined ? options.accounts : 1;
  const toMs = ports.clock.now();
  const fromMs = addMonths(toMs, -months);
  const startedMs = performance.now();
  const written = { conversations: 0, messages: 0, leads: 0, events: 0 };
  const progress = json ? undefined : new TerminalLine(process.stderr);
  const accounts: { account: Account; apiKey: NewApiKey | null }[] = [];
  const result = () => ({ ...written, seconds: Math.round(performance.now() - startedMs) / 1_000 });
  try {
    for (let index = 0; index < accountCount && !signal.aborted; index++) {
      const shop = { conversations, fromMs, toMs, seed: randomSeed + index };
      const seeded = await accountFor(ports, options.account, shop);
      accounts.push(seeded);
      // Printed first, so that the key is not lost if the rest fails.
      if (!json && seeded.apiKey !== null) {
        printText(`${seeded.account.id}  ${seeded.account.name}\n\n${keyNotice(seeded.apiKey.secret)}`);
      }
      for (const steps of inOrder(shop, ports.ids)) {
        if (signal.aborted) break;
        const batchMs = performance.now();
        const done = await takeAll(steps, ports, seeded.account, (events) => (written.events += events));
        for (const { operation, input } of steps.filter((_, at) => done[at])) {
          if (operation === createConversation) written.conversations++;
          if (operation === captureLead) written.leads++;
          if (operation === sendMessage || 'message' in input) written.messages++;
        }
        const share = written.conversations / (conversations * accountCount);
        progress?.show(`Writing conversations: ${number.format(written.conversations)}`, share);
        // A server with the same database gets its turn.
        await sleep((performance.now() - batchMs) / 4);
      }
    }
  } catch (error) {
    progress?.end();
    if (written.conversations > 0) console.error(`Failed before the end. ${summary(result())}`);
    throw error;
  }
  progress?.end();
  if (signal.aborted) {
    process.exitCode = 130; // as of a program that Ctrl-C ended
    console.error('Stopped early.');
  }
  print({ accounts, ...result() }, { json }, () => summary(result()));
}

const number = new Intl.NumberFormat('en');

function summary(written: { conversations: number; messages: number; leads: number; events: number; seconds: number }) {
  const [c, m, l, e] = [written.conversations, written.messages, written.leads, written.events].map(number.format);
  return `Wrote ${c} conversations with ${m} messages, ${l} leads and ${e} events in ${written.seconds.toFixed(1)} s.`;
}

/**
 * Takes steps. Their transactions are queued in this order, so that the later ones of a conversation come after the
 * earlier ones without waiting for them.
 */
async function takeAll(
  steps: readonly Step[],
  ports: Ports,
  account: Account,
  count: (events: number) => void,
): Promise<boolean[]> {
  const all: Promise<boolean>[] = [];
  for (const step of steps) {
    await new Promise<void>((resolve) => {
      const storage = withoutWebhooks(ports.storage, count, resolve);
      const taken = take(step, { ...ports, storage }, account);
      all.push(taken);
      taken.then(() => resolve()).catch(() => resolve());
    });
  }
  return await Promise.all(all);
}

/** The storage, with events that are logged and counted, but not delivered to webhooks. */
function withoutWebhooks(storage: Storage, count: (events: number) => void, onQueued: () => void): Storage {
  return {
    ...storage,
    // Without what they are about, so that they keep their order.
    write: (work, accountId) => {
      const written = storage.write((tx) => {
        const append: typeof tx.events.append = (accountId, events) => {
          count(events.length);
          return tx.events.append(accountId, events);
        };
        const events = Object.create(tx.events, { append: { value: append } });
        const webhooks = Object.create(tx.webhooks, { enabled: { value: () => [] } });
        return work({ ...tx, events, webhooks });
      }, accountId);
      onQueued();
      return written;
    },
  };
}

/**
 * The account to fill. A new one is dated to the start of its history.
 * @throws OperatorError
 */
async function accountFor(
  ports: Ports,
  id: string | undefined,
  { seed, fromMs }: Shop,
): Promise<{ account: Account; apiKey: NewApiKey | null }> {
  if (id !== undefined) {
    const account = await ports.storage.read.accounts.find(id);
    if (account === undefined) throw noSuchAccount();
    return { account, apiKey: null };
  }
  const then = { ...ports, clock: { ...ports.clock, now: () => fromMs } };
  return await createAccount(then, { name: shopName(seed), plan: 'business' });
}

/**
 * Does a step at its time.
 * @returns false if it has become impossible: somebody else has deleted the conversation, or closed it
 */
async function take(
  { atMs, operation, input, conversationId }: Step,
  ports: Ports,
  account: Account,
): Promise<boolean> {
  const clock = { ...ports.clock, now: () => atMs };
  // Later steps of a conversation need not wait until it is stored, since its id was made before.
  const next: Ids['next'] = (kind, ...time) =>
    kind === 'conversation' ? conversationId : ports.ids.next(kind, ...time);
  try {
    await operation.execute({ ...ports, clock, ids: { next } }, operatorOf(account), input);
    return true;
  } catch (error) {
    const code = codeOf(error);
    if (['NOT_FOUND', 'CONVERSATION_CLOSED', 'INVALID_TRANSITION'].includes(code)) return false;
    if (operation === markRead && code === 'VALIDATION_FAILED') return false; // what it read could not be sent
    throw error;
  }
}
