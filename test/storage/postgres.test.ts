import { onTestFinished } from 'vitest';
import type { Storage } from '../../src/domain/storage-port.ts';
import { systemClock } from '../../src/server/clock.ts';
import { openPostgresStorage } from '../../src/storage/postgres/storage.ts';
import { postgresServer } from '../support/postgres.ts';
import { storageContract } from './contract.ts';

const { database } = postgresServer();

storageContract('PostgreSQL', async () => {
  const url = await database();
  const opened = async (): Promise<Storage> => {
    const storage = await openPostgresStorage(url, { clock: systemClock });
    onTestFinished(() => storage.close());
    return storage;
  };
  const storage = await opened();
  return {
    storage,
    async reopen() {
      await storage.close();
      return await opened();
    },
    beside: opened,
    log: async () => [],
  };
});
