import { existsSync } from 'node:fs';
import { readConfig } from '../config.ts';
import type { Account } from '../domain/accounts.ts';
import { type Caller, scopes } from '../domain/caller.ts';
import { notFound } from '../domain/errors.ts';
import type { Ports } from '../domain/ports.ts';
import { LiveLog } from '../events/live-log.ts';
import { createPorts } from '../ports.ts';
import { systemClock } from '../server/clock.ts';
import { OperatorError } from '../server/operator-error.ts';
import { openStorage } from '../server/storage.ts';
import type { SqliteOptions } from '../storage/sqlite/storage.ts';

interface PortsOptions extends Pick<SqliteOptions, 'busyTimeoutMs' | 'maxGroupMs'> {
  /** Whether the command creates the database if there is none yet. */
  readonly mayCreate?: boolean;
}

/**
 * Opens the configured storage for one command, whether or not a server is running, and closes it afterwards.
 * @throws OperatorError
 */
export async function withPorts<T>(
  work: (ports: Ports) => Promise<T>,
  { mayCreate = false, ...options }: PortsOptions = {},
): Promise<T> {
  const { databasePath, webhookPolicy } = readConfig();
  if (!mayCreate && !existsSync(databasePath)) throw new OperatorError(`There is no database ${databasePath}.`);
  const storage = await openStorage(databasePath, options);
  try {
    const liveLog = new LiveLog(storage);
    return await work(createPorts({ storage, clock: systemClock, webhookPolicy, liveLog }));
  } finally {
    await storage.close();
  }
}

/**
 * Runs work as the operator of an account: with every scope, and without a key.
 * @param accountId may be omitted if there is only one account
 * @throws NOT_FOUND, OperatorError
 */
export async function asAccount<T>(
  accountId: string | undefined,
  work: (ports: Ports, caller: Caller) => Promise<T>,
): Promise<T> {
  return await withPorts(async (ports) => {
    const account = await (accountId === undefined ? onlyAccount(ports) : ports.storage.read.accounts.find(accountId));
    if (account === undefined) throw notFound('account');
    return await work(ports, operatorOf(account));
  });
}

export function operatorOf(account: Account): Caller {
  return { account, keyId: 'operator', credential: 'operator', scopes: new Set(scopes) };
}

/** @throws OperatorError */
async function onlyAccount({ storage }: Ports): Promise<Account | undefined> {
  const accounts = await storage.read.accounts.list();
  if (accounts.length === 1) return accounts[0];
  throw new OperatorError(
    accounts.length === 0 ? 'There is no account yet.' : 'There are several accounts: choose one with --account.',
  );
}
