import * as z from 'zod';
import { type NewApiKey, prepareApiKey, storeApiKey } from './api-keys.ts';
import { scopes } from './caller.ts';
import { notFound } from './errors.ts';
import { eventCursor, exampleEventCursor } from './event-cursor.ts';
import { idShape } from './ids.ts';
import { type Context, operation, parseInput } from './operation.ts';
import { originsInput } from './origins.ts';
import type { Ports } from './ports.ts';
import { countShape, textShape } from './shapes.ts';
import type { Transaction } from './storage-port.ts';
import { line } from './text.ts';
import { type Timestamp, timeShape, timestamp } from './time.ts';

export const plans = ['trial', 'pro', 'business'] as const;
export type Plan = (typeof plans)[number];

/** The requests that each plan allows in any 60 minutes. */
export const requestsPerHour: Readonly<Record<Plan, number>> = { trial: 100, pro: 1_000, business: 10_000 };

export interface Account {
  readonly id: string;
  readonly name: string;
  readonly plan: Plan;
  /** Overrides the limit of the plan; null for none. */
  readonly requestsPerHour: number | null;
  readonly createdAt: Timestamp;
}

/** Counters updated with every write, so that totals need no counting. */
export interface AccountTotals {
  readonly active: number;
  readonly pending: number;
  readonly closed: number;
  readonly leads: number;
  /** The sequence of the account's last event; 0 before the first. */
  readonly eventSequence: number;
}

export function limitOf(account: Account): number {
  return account.requestsPerHour ?? requestsPerHour[account.plan];
}

export const accountShape = z
  .object({
    id: idShape('account').describe('Its id.'),
    name: textShape('Its name.', 'Acme Support'),
    plan: z.enum(plans).describe('Its plan.'),
    rateLimit: z
      .object({
        limit: countShape('Maximum number of requests in any 60 minutes.', 1000, 1),
        remaining: countShape('Requests left at this moment.', 998),
        resetAt: timeShape.describe('When `remaining` next grows.'),
      })
      .describe('Its request budget, shared by all its credentials and by REST and GraphQL.'),
    eventCursor: textShape('A cursor at the end of its event log.', exampleEventCursor),
    createdAt: timeShape.describe('When it was created.'),
  })
  .meta({ id: 'Account', description: 'The account that the credential belongs to.' });

type AccountView = Readonly<z.output<typeof accountShape>>;
type AccountContext = Pick<Context, 'caller' | 'storage' | 'limiter'>;

async function accountView({ caller: { account }, storage, limiter }: AccountContext): Promise<AccountView> {
  const [totals, epoch, rateLimit] = await Promise.all([
    storage.read.accounts.totals(account.id),
    storage.read.events.epoch(),
    limiter.peek(account),
  ]);
  return {
    id: account.id,
    name: account.name,
    plan: account.plan,
    rateLimit: { limit: rateLimit.limit, remaining: rateLimit.remaining, resetAt: timestamp(rateLimit.resetAtMs) },
    eventCursor: eventCursor(epoch, totals.eventSequence),
    createdAt: account.createdAt,
  };
}

export const getAccount = operation({
  name: 'getAccount',
  summary: 'Returns the account that the credential belongs to, with its remaining rate limit.',
  scope: 'any',
  input: z.strictObject({}),
  errors: [],
  run: (context) => accountView(context),
});

/**
 * Like getAccount for many ids at once; undefined for each that is not the caller's account.
 * @throws FORBIDDEN
 */
export async function accountsById(
  context: AccountContext,
  ids: readonly string[],
): Promise<readonly (AccountView | undefined)[]> {
  const { caller } = context;
  getAccount.authorise(caller);
  const own = ids.includes(caller.account.id) ? await accountView(context) : undefined;
  return ids.map((id) => (id === caller.account.id ? own : undefined));
}

const accountInput = z.strictObject({
  name: line(200, 1),
  plan: z.enum(plans),
  requestsPerHour: z
    .int({ error: 'must be a whole number' })
    .min(1, { error: 'must be at least 1' })
    .max(1_000_000_000, { error: 'must be at most 1000000000' })
    .nullable()
    .optional(),
});

interface NewAccount {
  readonly account: Account;
  readonly apiKey: NewApiKey;
}

/** Creates an account and its first key, with every scope. For the operator only: it checks no credential. */
export async function createAccount(ports: Ports, input: unknown): Promise<NewAccount> {
  const store = newAccount(ports, input);
  return await ports.storage.write(store);
}

/** The same if there is no account yet, whoever else does so at the same time. @returns undefined if there is one */
export async function createFirstAccount(ports: Ports, input: unknown): Promise<NewAccount | undefined> {
  const store = newAccount(ports, input);
  return await ports.storage.write(async (tx) => ((await tx.accounts.areNone()) ? await store(tx) : undefined));
}

/** @returns what stores it */
function newAccount(ports: Ports, input: unknown): (tx: Transaction) => Promise<NewAccount> {
  const { name, plan, requestsPerHour: own } = parseInput(accountInput, input);
  const now = ports.clock.now();
  const account: Account = {
    id: ports.ids.next('account', now),
    name,
    plan,
    requestsPerHour: own ?? null,
    createdAt: timestamp(now),
  };
  const prepared = prepareApiKey({ ...ports, now }, { name: 'first key', scopes });
  return async (tx) => {
    await tx.accounts.insert(account);
    return { account, apiKey: await storeApiKey(tx, account.id, prepared) };
  };
}

/** An account with the origins whose pages may call with its tokens, as the operator sees it. */
interface AccountWithOrigins extends Account {
  readonly origins: readonly string[];
}

/** All accounts, oldest first. For the operator only. */
export async function listAccounts({ storage: { read } }: Ports): Promise<readonly AccountWithOrigins[]> {
  const accounts: AccountWithOrigins[] = [];
  for (const account of await read.accounts.list()) {
    accounts.push({ ...account, origins: await read.accounts.origins(account.id) });
  }
  return accounts;
}

/**
 * Changes an account's name, plan, limit or origins. For the operator only: it checks no credential.
 * @throws NOT_FOUND
 */
export async function updateAccount(ports: Ports, id: string, input: unknown): Promise<AccountWithOrigins> {
  const changes = parseInput(accountInput.extend({ origins: originsInput }).partial(), input);
  return await ports.storage.write(async (tx) => {
    const account = await tx.accounts.find(id);
    if (account === undefined) throw notFound('account');
    const changed: Account = {
      ...account,
      name: changes.name ?? account.name,
      plan: changes.plan ?? account.plan,
      requestsPerHour: changes.requestsPerHour === undefined ? account.requestsPerHour : changes.requestsPerHour,
    };
    await tx.accounts.update(changed);
    if (changes.origins !== undefined) await tx.accounts.setOrigins(id, changes.origins);
    return { ...changed, origins: await tx.accounts.origins(id) };
  });
}
