import { setTimeout } from 'node:timers/promises';
import type { Command } from 'commander';
import { readConfig } from '../config.ts';
import { scheduleMs } from '../delivery/schedule.ts';
import { createAccount } from '../domain/accounts.ts';
import type { World } from '../domain/ports.ts';
import { systemClock } from '../server/clock.ts';
import { createLog } from '../server/log.ts';
import { untilAskedToStop } from '../server/stop.ts';

export function addServe(program: Command): void {
  program
    .command('serve')
    .description('Serve REST under /v1 and GraphQL at /graphql (the same as `npm start`)')
    .action(async () => {
      const config = readConfig();
      const log = createLog(config.logLevel);
      const { startServer } = await import('../server/server.ts'); // the other commands need none of it
      const server = await startServer({ config, log, clock: systemClock });
      const stopping = untilAskedToStop(config);
      try {
        if (!config.production) await introduceYourself(server.app.world, server.url);
      } catch (error) {
        await server.close();
        throw error;
      }
      if (config.eventRetentionMs < scheduleMs) {
        log.warn('events are removed while webhooks may still be tried with them: EVENT_RETENTION_DAYS is less than 4');
      }
      log.info({ url: server.url, migrations: server.storage.migrations.applied }, 'listening');
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
