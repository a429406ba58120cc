import { randomFillSync } from 'node:crypto';
import { RateLimiter } from '../access/rate-limit.ts';
import { secrets } from '../access/secrets.ts';
import { readConfig } from '../config.ts';
import { createIds } from '../domain/ids.ts';
import type { World } from '../domain/ports.ts';
import { openSqliteStorage } from '../storage/sqlite/storage.ts';
import { systemClock } from './clock.ts';

/** Opens the configured storage for one command, beside a running server or not, and closes it after. */
export async function withWorld<T>(work: (world: World) => Promise<T>): Promise<T> {
  const storage = openSqliteStorage(readConfig().databasePath);
  try {
    const limiter = new RateLimiter({ storage, clock: systemClock });
    return await work({
      storage,
      clock: systemClock,
      secrets,
      limiter,
      ids: createIds((target) => randomFillSync(target)),
    });
  } finally {
    await storage.close();
  }
}
