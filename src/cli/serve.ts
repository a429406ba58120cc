import { setTimeout } from 'node:timers/promises';
import type { Command } from 'commander';
import type { Logger } from 'pino';
import { type Config, readConfig } from '../config.ts';
import { createFirstAccount } from '../domain/accounts.ts';
import type { Ports } from '../domain/ports.ts';
import { systemClock } from '../server/clock.ts';
import { OperatorError } from '../server/operator-error.ts';
import { untilAskedToStop } from '../server/stop.ts';
import { Worker } from '../server/worker.ts';
import { scheduleMs } from '../webhooks/attempt-outcome.ts';
import { keyNotice, printText } from './output.ts';

export function addServe(program: Command): void {
  program
    .command('serve')
    .description('Serve REST under /v1 and GraphQL at /graphql (the same as `npm start`)')
    .action(async () => {
      const config = readConfig();
      const log = await createLog(config);
      warnOf(config, log);
      if (config.workers === 1) await serve(config, log);
      else process.exitCode = await (await import('../server/workers.ts')).superviseWorkers(config, log);
    });
  program.command('worker', { hidden: true }).action(async () => {
    if (process.send === undefined) throw new OperatorError('Workers are started by `serve`, as many as WORKERS says.');
    const worker = new Worker();
    try {
      const config = readConfig();
      const { number } = await worker.order;
      await serve(config, (await createLog(config)).child({ worker: number }), worker);
    } finally {
      worker.leave();
    }
  });
}

// What only a server needs is loaded when there is to be one: the other commands start sooner without it.

async function createLog({ logLevel: level }: Config): Promise<Logger> {
  return (await import('../server/log.ts')).createLog({ level, clock: systemClock });
}

function warnOf({ eventRetentionMs }: Config, log: Logger): void {
  if (eventRetentionMs >= scheduleMs) return;
  log.warn('EVENT_RETENTION_DAYS is less than 4: events may be removed while their webhooks are still being retried');
}

/** Serves until the process is asked to stop. */
async function serve(config: Config, log: Logger, worker?: Worker): Promise<void> {
  const stopping = untilAskedToStop({ ...config, isWorker: worker !== undefined });
  const { startServer } = await import('../server/server.ts');
  let isOpen = false;
  // Before that there is nothing to bring to an end, and no migration should begin that waits for another node's.
  void stopping.then(() => isOpen || process.exit());
  const onOpened = (): void => {
    isOpen = true;
  };
  const server = await startServer({ config, log, clock: systemClock, worker, onOpened });
  try {
    const { leads } = (await worker?.order) ?? { leads: true };
    if (!config.production && leads) await createDemoAccount(server.app.ports, server.url);
  } catch (error) {
    await server.close();
    throw error;
  }
  const { url, storage } = server;
  log.info({ url, migrations: storage.migrations.applied, ...(worker && { pid: process.pid }) }, 'listening');
  await stopping;
  if (config.shutdownDelayMs > 0) {
    server.app.drain();
    log.info({ seconds: config.shutdownDelayMs / 1_000 }, 'draining');
    await setTimeout(config.shutdownDelayMs);
  }
  await server.refuse();
  log.info('stopping');
  await server.close();
  log.info('stopped');
}

/** In an empty database, creates a first account to try things with, and prints its key. */
async function createDemoAccount(ports: Ports, url: string): Promise<void> {
  if ((await ports.storage.read.accounts.list()).length > 0) return;
  const created = await createFirstAccount(ports, { name: 'demo', plan: 'business' });
  if (created === undefined) return; // another server was faster
  const { account, apiKey } = created;
  printText(`
Created a first account: ${account.name} (${account.plan}).

${keyNotice(apiKey.secret)}
Sign in with it at ${url}/console, and fill the account with a shop's three months:

  npm run cli -- seed --account ${account.id}

Or begin with the first calls at ${url}/:

  curl ${url}/v1/conversations -H 'Authorization: Bearer ${apiKey.secret}'
`);
}
