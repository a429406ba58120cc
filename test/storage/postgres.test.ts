import postgres from 'postgres';
import { afterAll, onTestFinished } from 'vitest';
import type { EventType } from '../../src/domain/event-types.ts';
import type { Storage } from '../../src/domain/storage-port.ts';
import { timestamp } from '../../src/domain/time.ts';
import { systemClock } from '../../src/server/clock.ts';
import type { ConnectionOptions } from '../../src/storage/postgres/connections.ts';
import { openPostgresStorage } from '../../src/storage/postgres/storage.ts';
import { effort } from '../support/effort.ts';
import { postgresServer } from '../support/postgres.ts';
import type { OpenedStorage } from './contract/opened.ts';
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

/** What earlier tests have left open, by URL: most tests take less than to open one. */
const kept = new Map<string, Storage>();
afterAll(async () => {
  for (const storage of kept.values()) await storage.close();
});

const open = (connection: ConnectionOptions) => async (): Promise<OpenedStorage> => {
  const url = await server().usedDatabase();
  const opened = () => openPostgresStorage(url, { clock: systemClock, ...connection });
  let storage: Storage = kept.get(url) ?? (await opened());
  kept.set(url, storage);
  onTestFinished(async ({ task }) => {
    // Each has connections. And what a test that has failed still does with it must not trouble the next.
    if (kept.size <= 3 && task.result?.state !== 'fail') return;
    kept.delete(url);
    await storage.close();
  });
  return {
    storage,
    manyTexts: effort(1_400, 8_400),
    async reopen() {
      await storage.close();
      storage = await opened();
      kept.set(url, storage);
      return storage;
    },
    async beside() {
      const other = await opened();
      onTestFinished(() => other.close());
      return other;
    },
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
};

storageContract('PostgreSQL', open({}));
if (effort(false, true)) storageContract('PostgreSQL, without prepared statements', open({ prepares: false }));
