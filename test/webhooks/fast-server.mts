import { flushCompileCache } from 'node:module';
import { readConfig } from '../../src/config.ts';
import { systemClock } from '../../src/server/clock.ts';
import { createLog } from '../../src/server/log.ts';
import { startServer } from '../../src/server/server.ts';
import '../../src/storage/sqlite/storage.ts'; // the server itself would load it only when it serves
import { anywhere } from '../support/webhook-policy.ts';
import type { Advance, FastTime, Serve } from './fast-server.ts';

// A whole server in a process of its own, for which time passes faster: its clock runs ahead, and whatever it
// would wait for by the wall's clock is as much shorter. It waits until it is told to serve, so that a test
// can have the next one ready when it kills one.

/** What was added to the time by hand. */
let addedMs = 0;
process.once('message', (serve: Serve) => {
  void run(serve).then((server) => {
    process.send?.({ url: server.url });
    process.on('message', ({ advanceMs }: Advance) => {
      addedMs += advanceMs;
      void server.app.webhooks.look().then(() => process.send?.('advanced'));
    });
  });
});
process.once('disconnect', () => process.exit());
flushCompileCache(); // at its end there will be no time for it
process.send?.('ready');

async function run({ databasePath, time }: Serve) {
  const config = {
    ...readConfig({}),
    port: 0,
    databasePath,
    webhookPolicy: anywhere,
  };
  const server = await startServer({
    config,
    log: createLog({ level: 'debug', clock: systemClock }),
    clock: { ...systemClock, now: () => nowMs(time) },
    timings: { webhookConnectMs: 5_000 / time.speed, webhookTotalMs: 15_000 / time.speed },
  });
  // Its timers are the wall's: it looks by itself every 5 s of these.
  if (time.speed > 1) setInterval(() => void server.app.webhooks.look(), 500 / time.speed);
  return server;
}

function nowMs({ startMs, wallMs, speed }: FastTime): number {
  return Math.floor(addedMs + startMs + (Date.now() - wallMs) * speed);
}
