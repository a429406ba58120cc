import { setTimeout } from 'node:timers/promises';
import type { Command } from 'commander';
import { type Config, readConfig } from '../config.ts';
import { createAccount } from '../domain/accounts.ts';
import type { World } from '../domain/ports.ts';
import { systemClock } from './clock.ts';
import { createLog } from './log.ts';

export function addServe(program: Command): void {
  program
    .command('serve')
    .description('Serve REST under /v1 and GraphQL at /graphql (the same as `npm start`)')
    .action(async () => {
      const config = readConfig();
      const log = createLog(config.logLevel);
      const { startServer } = await import('./server.ts'); // the other commands need none of it
      const server = await startServer({ config, log, clock: systemClock });
      if (!config.production) await introduceYourself(server.app.world, server.url);
      const stopping = untilAskedToStop(config);
      log.info({ url: server.url, migrations: server.storage.migrations.applied }, 'listening');
      await stopping;
      if (config.shutdownDelayMs > 0) {
        server.app.drain();
        log.info({ seconds: config.shutdownDelayMs / 1_000 }, 'draining');
        await setTimeout(config.shutdownDelayMs);
      }
      const closed = server.close();
      log.info('stopping'); // from here on no connection is taken
      await closed;
      log.info('stopped');
    });
}

/** In an empty database, makes a first account to try things with, and shows its key this once. */
async function introduceYourself(world: World, url: string): Promise<void> {
  if ((await world.storage.read.accounts.list()).length > 0) return;
  const { account, apiKey } = await createAccount(world, { name: 'demo', plan: 'business' });
  console.log(`
  A first account was made: ${account.name} (${account.plan}).
  Its API key, shown this once:

    ${apiKey.secret}

  Try it:

    curl ${url}/v1/conversations -H 'Authorization: Bearer ${apiKey.secret}'
`);
}

const oneRequestMs = 1_000;

/**
 * Resolves at the first SIGTERM or SIGINT. A second one ends the program at once, unless it comes right
 * after: Ctrl-C under npm arrives twice, once from the terminal and once passed on by npm.
 */
function untilAskedToStop({ underNpm }: Config): Promise<void> {
  return new Promise((resolve) => {
    let askedAtMs: number | undefined;
    const onSignal = (): void => {
      if (askedAtMs === undefined) {
        askedAtMs = performance.now();
        resolve();
      } else if (performance.now() - askedAtMs > oneRequestMs) {
        process.exit(1);
      }
    };
    process.on('SIGTERM', onSignal).on('SIGINT', onSignal);
    if (underNpm) whenParentEnds(resolve);
  });
}

/**
 * npm runs the program in a shell, and a SIGTERM to npm ends the shell and not the program, which would
 * go on holding its port. That its parent is another one now tells it.
 */
function whenParentEnds(stop: () => void): void {
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent) stop();
  }, 200).unref();
}
