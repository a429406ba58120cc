import { statSync } from 'node:fs';
import { readConfig } from '../config.ts';
import type { Account } from '../domain/accounts.ts';
import { type Caller, operatorOf } from '../domain/caller.ts';
import { codeOf } from '../domain/errors.ts';
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

/** Whether there is no file of this name. Where this user may not look for it, opening it says so. */
export function isAbsent(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false }) === undefined;
  } catch {
    return false;
  }
}

/** @throws OperatorError */
export function requireDatabase(path: string): void {
  if (!isAbsent(path)) return;
  throw new OperatorError(`There is no database ${path}: DATABASE_URL says where it is, and \`serve\` makes it.`);
}

export function noSuchAccount(): OperatorError {
  return new OperatorError('There is no such account: `account list` shows those that there are.');
}

/**
 * Says what to do when something is not found.
 * @param missing the error in the place of NOT_FOUND
 */
export async function orElse<T>(work: Promise<T>, missing: OperatorError): Promise<T> {
  return await work.catch((error: unknown) => {
    throw codeOf(error) === 'NOT_FOUND' ? missing : error;
  });
}

/**
 * Opens the configured storage for one command, whether or not a server is running, and closes it afterwards.
 * @throws OperatorError
 */
export async function withPorts<T>(
  work: (ports: Ports) => Promise<T>,
  { mayCreate = false, ...options }: PortsOptions = {},
): Promise<T> {
  const config = readConfig();
  const { databasePath, postgres, webhookPolicy } = config;
  if (!mayCreate && postgres === undefined) requireDatabase(databasePath);
  const storage = await openStorage(config, { ...options, clock: systemClock });
  try {
    const liveLog = new LiveLog(storage, () => console.error('The event log cannot be read; trying again.'));
    return await work(createPorts({ storage, clock: systemClock, webhookPolicy, liveLog }));
  } finally {
    await storage.close();
  }
}

/**
 * Runs work as the operator of an account: with every scope, and without a key.
 * @param accountId may be omitted if there is only one account
 * @throws OperatorError
 */
export async function asAccount<T>(
  accountId: string | undefined,
  work: (ports: Ports, caller: Caller) => Promise<T>,
): Promise<T> {
  return await withPorts(async (ports) => {
    const account = await (accountId === undefined ? onlyAccount(ports) : ports.storage.read.accounts.find(accountId));
    if (account === undefined) throw noSuchAccount();
    return await work(ports, operatorOf(account));
  });
}

/** @throws OperatorError */
async function onlyAccount({ storage }: Ports): Promise<Account | undefined> {
  const accounts = await storage.read.accounts.list();
  if (accounts.length === 1) return accounts[0];
  throw new OperatorError(
    accounts.length === 0
      ? 'There is no account yet: `account create` makes one.'
      : 'There are several accounts: choose one with --account. `account list` shows them.',
  );
}
