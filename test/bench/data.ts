import { randomFillSync } from 'node:crypto';
import { secrets } from '../../src/access/secrets.ts';
import { createAccount } from '../../src/domain/accounts.ts';
import { newConversation } from '../../src/domain/conversation-changes.ts';
import type { StoredConversation } from '../../src/domain/conversation-record.ts';
import { createIds } from '../../src/domain/ids.ts';
import { addMessage } from '../../src/domain/messages.ts';
import type { Ports } from '../../src/domain/ports.ts';
import { indexTexts } from '../../src/domain/search.ts';
import type { Storage } from '../../src/domain/storage-port.ts';
import { systemClock } from '../../src/server/clock.ts';
import { openPostgresStorage } from '../../src/storage/postgres/storage.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import type { PostgresDatabase } from './postgres.ts';

/** A database to measure with, and what is needed to ask for what is in it. */
export interface BenchData extends Tenant {
  /** The file. */
  readonly path: string;
  /** The database, if it is not in a file. */
  readonly postgres?: PostgresDatabase;
  /** All accounts in it, of which the first is the one that is named here. */
  readonly tenants: readonly Tenant[];
}

export interface Tenant {
  readonly accountId: string;
  readonly secret: string;
  /** Conversations with ten messages each, spread over all. */
  readonly withMessages: readonly string[];
}

const messagesEach = 10;
const batchSize = 200;
const ids = createIds((target) => randomFillSync(target));

/** What operations need to be called on a file, without a server. */
export function portsOn(storage: Storage): Ports {
  const clock = { now: () => Date.now() };
  const webhookTargets = { faultOf: () => undefined };
  return { storage, ids, secrets, clock, webhookTargets } as unknown as Ports;
}

interface Amounts {
  readonly conversations: number;
  /** How many of them have ten messages each: by default all. */
  readonly withMessages?: number;
  /** Over how many accounts they are spread. */
  readonly accounts?: number;
}

/** Makes a file with so many conversations, over ninety days. */
export async function makeData(path: string, amounts: Amounts): Promise<BenchData> {
  return { ...(await fill(openSqliteStorage(path), amounts)), path };
}

/** The same in a database of PostgreSQL. */
export async function makePostgresData(postgres: PostgresDatabase, amounts: Amounts): Promise<BenchData> {
  const storage = await openPostgresStorage(postgres.url, { clock: systemClock });
  const filled = await fill(storage, amounts);
  await postgres.analyze();
  return { ...filled, path: '', postgres };
}

async function fill(storage: Storage, amounts: Amounts): Promise<Omit<BenchData, 'path'>> {
  const { conversations, withMessages = conversations, accounts = 1 } = amounts;
  const tenants: Tenant[] = [];
  for (let index = 0; index < accounts; index++) {
    tenants.push(await fillAccount(storage, conversations / accounts, withMessages / accounts));
  }
  await indexTexts(storage);
  await storage.close();
  return { ...(tenants[0] as Tenant), tenants };
}

async function fillAccount(storage: Storage, conversations: number, withMessagesCount: number): Promise<Tenant> {
  const ports = portsOn(storage);
  const { account, apiKey } = await createAccount(ports, {
    name: 'bench',
    plan: 'business',
    requestsPerHour: 1_000_000_000,
  });
  const withMessages: string[] = [];
  const every = Math.max(1, Math.floor(conversations / withMessagesCount));
  const startMs = Date.now() - 90 * 24 * 3_600_000;
  const stepMs = Math.floor((90 * 24 * 3_600_000) / conversations);
  for (let first = 0; first < conversations; first += batchSize) {
    await storage.write(async (tx) => {
      for (let index = first; index < Math.min(first + batchSize, conversations); index++) {
        const now = startMs + index * stepMs;
        let conversation = emptyConversation(index, now);
        const messages = [];
        if (index % every === 0) {
          withMessages.push(conversation.id);
          for (let count = 0; count < messagesEach; count++) {
            const sender = count % 2 === 0 ? 'visitor' : 'agent';
            const content = `Message ${count} of this conversation, as long as people write them in a chat.`;
            const draft = { content, sender, author: null, clientId: null, metadata: {} } as const;
            const added = addMessage(conversation, draft, { ids, now });
            conversation = added.conversation;
            messages.push(added.message);
          }
        }
        await tx.conversations.insert(account.id, conversation);
        for (const message of messages) await tx.messages.insert(account.id, message);
      }
    });
  }
  return { accountId: account.id, secret: apiKey.secret, withMessages };
}

function emptyConversation(index: number, now: number): StoredConversation {
  const input = {
    status: index % 3 === 0 ? 'pending' : 'active',
    subject: `Order ${index}: where is my parcel?`,
    visitor: { id: `visitor-${index}`, name: 'Ada Lovelace', email: 'ada@example.com' },
    externalId: null,
    assignee: null,
    tags: null,
    metadata: { orderId: index, plan: 'pro' },
  } as const;
  return newConversation(input, { ids, now }).conversation;
}
