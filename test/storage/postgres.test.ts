import postgres from 'postgres';
import { onTestFinished } from 'vitest';
import type { EventType } from '../../src/domain/event-types.ts';
import type { Storage } from '../../src/domain/storage-port.ts';
import { timestamp } from '../../src/domain/time.ts';
import { systemClock } from '../../src/server/clock.ts';
import { openPostgresStorage } from '../../src/storage/postgres/storage.ts';
import { postgresServer } from '../support/postgres.ts';
import { storageContract } from './contract.ts';

const { server } = postgresServer();

interface EventRow {
  readonly sequence: string;
  readonly id: string;
  readonly type: EventType;
  readonly conversation_id: string;
  readonly visitor_hash: string | null;
  readonly timestamp: string;
  readonly data: object;
}

storageContract('PostgreSQL', async () => {
  const url = await server().usedDatabase();
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
    async log(accountId) {
      const client = postgres(url, { max: 1 });
      const rows = await client<EventRow[]>`SELECT * FROM events WHERE account_id = ${accountId} ORDER BY sequence`;
      await client.end();
      return rows.map((row) => ({
        sequence: Number(row.sequence),
        id: row.id,
        type: row.type,
        timestamp: timestamp(Number(row.timestamp)),
        conversationId: row.conversation_id,
        hasVisitor: row.visitor_hash !== null,
        data: row.data,
      }));
    },
  };
});
