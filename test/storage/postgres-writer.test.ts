import postgres from 'postgres';
import { describe, expect, onTestFinished } from 'vitest';
import type { StoredConversation } from '../../src/domain/conversation-record.ts';
import { DomainError } from '../../src/domain/errors.ts';
import { removeOld } from '../../src/domain/retention.ts';
import type { Storage, Transaction } from '../../src/domain/storage-port.ts';
import { systemClock } from '../../src/server/clock.ts';
import { connect, Pool } from '../../src/storage/postgres/connections.ts';
import { isUseless } from '../../src/storage/postgres/errors.ts';
import { migrate, migrations, newestMigration } from '../../src/storage/postgres/migrate.ts';
import { Session } from '../../src/storage/postgres/session.ts';
import { openPostgresStorage, type PostgresOptions, type PostgresStorage } from '../../src/storage/postgres/storage.ts';
import { longTest as test } from '../support/effort.ts';
import { postgresServer } from '../support/postgres.ts';
import {
  sampleAccount,
  sampleAttempt,
  sampleConversation,
  sampleDelivery,
  sampleEvent,
  sampleHash,
  sampleKey,
  sampleWebhook,
  start,
  startMs,
  storedAccount,
  storedConversation,
} from '../support/samples.ts';
import { TcpRelay } from '../support/tcp-relay.ts';
import { eventually, gate, until } from '../support/wait.ts';

const { server } = postgresServer();
/** For a test that leaves the tables as they are. */
const database = () => server().usedDatabase();
const unavailable = { code: 'UNAVAILABLE' };

async function opened(url: string, options: Partial<PostgresOptions> = {}): Promise<PostgresStorage> {
  const storage = await openPostgresStorage(url, { clock: systemClock, ...options });
  onTestFinished(() => storage.close());
  return storage;
}

/** Another client of the database, for what the service itself never does. */
function clientOf(url: string): postgres.Sql {
  const client = postgres(url, { max: 1, onnotice: () => {} });
  onTestFinished(() => client.end({ timeout: 0 }));
  return client;
}

/** Ends all connections that are in a transaction, and waits until they have gone. */
async function endTransactions(url: string): Promise<void> {
  await clientOf(url)`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE xact_start IS NOT NULL AND backend_type = 'client backend'
      AND pid <> pg_backend_pid() AND datname = current_database()`;
}

/** Migrates a database to a version after this one. */
function migrateFurther(url: string, sql: string) {
  const next = { sql: [sql], hash: 'the next', folderMillis: newestMigration + 1, bps: true };
  return migrate(url, { migrations: [...migrations, next] });
}

/** Resolves when something waits for a lock of another, or when this is over. */
async function untilWaiting(url: string, work: Promise<unknown>): Promise<void> {
  let isOver = false;
  const end = (): void => {
    isOver = true;
  };
  work.then(end, end);
  const client = clientOf(url);
  await eventually(
    () => client`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    ({ length }) => isOver || length > 0,
  );
}

/** Reads a conversation, and writes what follows from it. */
function change(storage: Storage, accountId: string, id: string, isAboutOne = false): Promise<number> {
  const work = async (tx: Transaction): Promise<number> => {
    const previous = (await tx.conversations.find(accountId, id)) as StoredConversation;
    const next = { ...previous, version: previous.version + 1 };
    await tx.conversations.update(accountId, previous, next);
    await tx.events.append(accountId, [sampleEvent(next)]);
    return next.version;
  };
  return storage.write(work, accountId, isAboutOne ? [id] : undefined);
}

describe('works of one account', () => {
  test('on two nodes lose no change of each other, and their log has no gap', async () => {
    const url = await database();
    const nodes = [await opened(url), await opened(url)];
    const [storage = expect.fail()] = nodes;
    const { id: accountId } = await storedAccount(storage);
    const conversation = sampleConversation();
    await storage.write(async (tx) => tx.conversations.insert(accountId, conversation), accountId);
    const works = Array.from({ length: 60 }, (_, index) =>
      change(nodes[index % 2] as Storage, accountId, conversation.id),
    );
    const versions = (await Promise.all(works)).toSorted((a, b) => a - b);
    expect(versions).toEqual(Array.from({ length: 60 }, (_, index) => index + 2));
    const { events } = await storage.read.events.after(accountId, 0, { filter: {}, limit: 100, span: 100 });
    expect(events.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 60 }, (_, index) => index + 1));
  });

  test('that wait together are asked for what they read at the same time, but in their order if they have anything in common', async () => {
    const storage = await opened(await database(), { maxGroupMs: 10_000 });
    const { id: accountId } = await storedAccount(storage);
    const conversations = Array.from({ length: 3 }, () => sampleConversation());
    await storage.write(async (tx) => {
      for (const each of conversations) await tx.conversations.insert(accountId, each);
    }, accountId);
    const order: string[] = [];
    const read = (name: string, about?: readonly string[]) =>
      storage.write(
        async (tx) => {
          order.push(`${name} begins`);
          await tx.conversations.find(accountId, conversations[0]?.id ?? '');
          order.push(`${name} ends`);
        },
        accountId,
        about,
      );
    const [a = '', b = '', c = ''] = conversations.map(({ id }) => id);
    await Promise.all([
      ...[read('a', [a]), read('another of a', [a, 'key']), read('b', [b]), read('with the key', ['key'])],
      ...[read('a third of a', [a]), read('c', [c]), read('of all'), read('a last of c', [c])],
    ]);
    expect(order).toEqual([
      ...['a begins', 'b begins', 'c begins', 'a ends', 'b ends', 'c ends'],
      ...['another of a begins', 'another of a ends'],
      ...['with the key begins', 'a third of a begins', 'with the key ends', 'a third of a ends'],
      ...['of all begins', 'of all ends', 'a last of c begins', 'a last of c ends'],
    ]);
  });

  test('do not run at the same time if they have anything in common', async () => {
    const storage = await opened(await database());
    const { id: accountId } = await storedAccount(storage);
    let running = 0;
    let most = 0;
    const count = (about: readonly string[]) =>
      storage.write(
        async (tx) => {
          most = Math.max(most, ++running);
          await tx.conversations.count(accountId, {});
          running--;
        },
        accountId,
        about,
      );
    await Promise.all([count(['a', 'same key']), count(['b', 'same key']), count(['c', 'same key'])]);
    expect(most).toBe(1);
    await Promise.all([count(['a', 'key 1']), count(['b', 'key 2']), count(['c', 'key 3'])]);
    expect(most).toBe(3);
  });

  test('that wait together share a transaction, also if one of them throws before it has written anything', async () => {
    const statements: string[] = [];
    const onStatement = (text: string) => void statements.push(text);
    const storage = await opened(await database(), { onStatement, maxGroupMs: 10_000 });
    const { id: accountId } = await storedAccount(storage);
    const fault = new DomainError('CONVERSATION_CLOSED', 'on purpose');
    statements.length = 0;
    const results = await Promise.allSettled(
      Array.from({ length: 9 }, (_, index) =>
        storage.write(async (tx) => {
          await tx.conversations.count(accountId, {});
          if (index === 4) throw fault;
          await tx.conversations.insert(accountId, sampleConversation());
        }, accountId),
      ),
    );
    expect(results.filter(({ status }) => status === 'rejected')).toEqual([{ status: 'rejected', reason: fault }]);
    expect(await storage.read.conversations.count(accountId, {})).toBe(8);
    expect(statements.filter((text) => text === 'COMMIT')).toHaveLength(1);
  });

  test('are stored, each for itself, when a statement of one of them fails', async () => {
    const storage = await opened(await database());
    const { id: accountId } = await storedAccount(storage);
    const conversations = Array.from({ length: 5 }, () => sampleConversation());
    const [first = expect.fail()] = conversations;
    const results = await Promise.allSettled(
      [...conversations, first].map((conversation) =>
        storage.write(async (tx) => tx.conversations.insert(accountId, conversation), accountId),
      ),
    );
    expect(results.map(({ status }) => status)).toEqual([...conversations.map(() => 'fulfilled'), 'rejected']);
    expect(await storage.read.conversations.count(accountId, {})).toBe(5);
  });

  test('that run at the same time look up and write rows by one statement of each kind', async () => {
    const statements: string[] = [];
    const storage = await opened(await database(), { onStatement: (text) => void statements.push(text) });
    const { id: accountId } = await storedAccount(storage);
    const conversations = Array.from({ length: 9 }, () => sampleConversation());
    await storage.write(async (tx) => {
      for (const one of conversations) await tx.conversations.insert(accountId, one);
    }, accountId);
    statements.length = 0;
    const versions = await Promise.all(conversations.map(({ id }) => change(storage, accountId, id, true)));
    expect(versions).toEqual(conversations.map(() => 2));
    const [, , ...others] = statements; // BEGIN and the lock
    expect(others.map((text) => /COMMIT|SELECT at|UPDATE \w+|INSERT INTO \w+/.exec(text)?.[0])).toEqual([
      'SELECT at',
      'UPDATE conversations',
      'INSERT INTO events',
      'COMMIT',
    ]);
    const { events } = await storage.read.events.after(accountId, 0, { filter: {}, limit: 100, span: 100 });
    expect(events.map(({ sequence, conversationId }) => [sequence, conversationId])).toEqual(
      conversations.map(({ id }, index) => [index + 1, id]),
    );
  });

  test('are stored but for one whose conversation has another version than it has read', async () => {
    const storage = await opened(await database());
    const { id: accountId } = await storedAccount(storage);
    const conversations = Array.from({ length: 5 }, () => sampleConversation());
    await storage.write(async (tx) => {
      for (const one of conversations) await tx.conversations.insert(accountId, one);
    }, accountId);
    const results = await Promise.allSettled(
      conversations.map((previous, index) =>
        storage.write(
          async (tx) => {
            const read = index === 3 ? { ...previous, version: 7 } : previous;
            await tx.conversations.update(accountId, read, { ...read, version: read.version + 1 });
          },
          accountId,
          [previous.id],
        ),
      ),
    );
    expect(results.map(({ status }) => status === 'fulfilled')).toEqual([true, true, true, false, true]);
    const found = await storage.read.conversations.findMany(
      accountId,
      conversations.map(({ id }) => id),
    );
    expect(found.map((one) => one?.version)).toEqual([2, 2, 2, 1, 2]);
  });

  test('wait for each other as long as it takes, however short the time is for which they wait for others', async () => {
    const storage = await opened(await database(), { busyTimeoutMs: 1, maxGroupMs: 1 });
    const { id: accountId } = await storedAccount(storage);
    const insert = () =>
      storage.write(async (tx) => tx.conversations.insert(accountId, sampleConversation()), accountId);
    await Promise.all(Array.from({ length: 200 }, insert));
    expect(await storage.read.conversations.count(accountId, {})).toBe(200);
  });

  test('fail when another holds its lock for too long, and those of other accounts do not wait', async () => {
    const url = await database();
    const storage = await opened(url, { lockTimeoutMs: 200 });
    const [locked, free] = [await storedAccount(storage), await storedAccount(storage)];
    const holder = clientOf(url);
    await holder.begin(async (tx) => {
      await tx`SELECT 1 FROM account_totals WHERE account_id = ${locked.id} FOR UPDATE`;
      const insert = (accountId: string) =>
        storage.write(async (tx) => tx.conversations.insert(accountId, sampleConversation()), accountId);
      const waiting = expect(insert(locked.id)).rejects.toMatchObject(unavailable);
      await insert(free.id);
      await waiting;
    });
    expect(await storage.read.conversations.count(locked.id, {})).toBe(0);
  });
});

describe('works of many accounts whose locks a node has that has come to a halt', () => {
  /** Lets another client lock the rows of accounts until the promise that it returns is called for. */
  async function haltedNode(url: string, accountIds: readonly string[]): Promise<() => Promise<void>> {
    const { promise: end, resolve: release } = Promise.withResolvers<void>();
    const { promise: held, resolve: hold } = Promise.withResolvers<void>();
    const transaction = clientOf(url).begin(async (tx) => {
      await tx`SELECT 1 FROM account_totals WHERE account_id = ANY(${accountIds as string[]}) FOR UPDATE`;
      hold();
      await end;
    });
    await held;
    return async () => {
      release();
      await transaction;
    };
  }

  const insert = (storage: Storage, accountId: string) =>
    storage.write(async (tx) => tx.conversations.insert(accountId, sampleConversation()), accountId);

  const patience = { lockTimeoutMs: 60_000, statementTimeoutMs: 60_000, busyTimeoutMs: 60_000 };

  async function accountsOf(storage: Storage, count: number): Promise<string[]> {
    const accountIds: string[] = [];
    for (let made = 0; made < count; made++) accountIds.push((await storedAccount(storage)).id);
    return accountIds;
  }

  test('wait for them, and nobody else does', async () => {
    const url = await database();
    const storage = await opened(url, { maxSessions: 4, ...patience });
    const [free = '', ...locked] = await accountsOf(storage, 21);
    const release = await haltedNode(url, locked);
    let stored = 0;
    const works = locked.map((accountId) => insert(storage, accountId).then(() => stored++));
    for (let sent = 0; sent < 10; sent++) await insert(storage, free);
    expect(stored).toBe(0);
    await release();
    await Promise.all(works);
    for (const accountId of locked) expect(await storage.read.conversations.count(accountId, {})).toBe(1);
  });

  test('fail when they have waited for too long', async () => {
    const url = await database();
    const storage = await opened(url, { maxSessions: 4, lockTimeoutMs: 300, busyTimeoutMs: 300 });
    const locked = await accountsOf(storage, 20);
    const release = await haltedNode(url, locked);
    const works = locked.map((accountId) => insert(storage, accountId));
    for (const work of await Promise.allSettled(works)) {
      expect(work).toMatchObject({ status: 'rejected', reason: unavailable });
    }
    await release();
    await insert(storage, locked[19] ?? '');
  });

  test('are done before a storage is closed', async () => {
    const url = await database();
    const storage = await opened(url, { maxSessions: 4, ...patience });
    const locked = await accountsOf(storage, 20);
    const release = await haltedNode(url, locked);
    const works = locked.map((accountId) => insert(storage, accountId));
    await insert(storage, (await storedAccount(storage)).id);
    const closed = storage.close();
    await release();
    await Promise.all([...works, closed]);
  });
});

describe('small works of several accounts', () => {
  interface Scene {
    readonly storage: PostgresStorage;
    readonly url: string;
    readonly accountIds: readonly string[];
    /** How many transactions have begun. */
    begun(): number;
  }

  /** One transaction at a time, if nothing else is said. */
  async function openScene(accounts: number, options: Partial<PostgresOptions> = {}): Promise<Scene> {
    const url = await database();
    let count = 0;
    const onStatement = (text: string): void => {
      if (text.startsWith('BEGIN')) count++;
    };
    const storage = await opened(url, { maxSessions: 1, onStatement, ...options });
    const accountIds: string[] = [];
    for (let index = 0; index < accounts; index++) accountIds.push((await storedAccount(storage)).id);
    count = 0;
    return { storage, url, accountIds, begun: () => count };
  }

  /** Starts a conversation, as a small work about one. */
  function start(
    storage: Storage,
    accountId: string,
    { conversation = sampleConversation(), after }: { conversation?: StoredConversation; after?: Promise<void> } = {},
  ): Promise<number> {
    const work = async (tx: Transaction): Promise<number> => {
      await tx.conversations.find(accountId, conversation.id);
      await after;
      await tx.conversations.insert(accountId, conversation);
      return await tx.events.append(accountId, [sampleEvent(conversation)]);
    };
    return storage.write(work, accountId, [conversation.id]);
  }

  test('share one if they say what they are about, and each log has its own numbers', async () => {
    const { storage, accountIds, begun } = await openScene(6);
    const works = [...accountIds, ...accountIds].map((accountId) => start(storage, accountId));
    expect(await Promise.all(works)).toEqual([...accountIds.map(() => 1), ...accountIds.map(() => 2)]);
    expect(begun()).toBe(1);
    for (const accountId of accountIds) {
      const { events } = await storage.read.events.after(accountId, 0, { filter: {}, limit: 9, span: 9 });
      expect(events.map(({ sequence }) => sequence)).toEqual([1, 2]);
    }
  });

  test('share the next one if they come while one runs, and what is larger does not wait', async () => {
    const { storage, accountIds, begun } = await openScene(4, { maxSessions: 4, maxHoldMs: 60_000 });
    const [first = '', second = '', third = '', large = ''] = accountIds;
    const held = gate();
    const works = [start(storage, first, { after: held.opened })];
    for (const accountId of [second, third]) {
      await storage.read.conversations.count(accountId, {}); // not in the same turn
      works.push(start(storage, accountId));
    }
    await storage.write(async (tx) => tx.conversations.insert(large, sampleConversation()), large);
    expect(begun()).toBe(2);
    held.open();
    await Promise.all(works);
    expect(begun()).toBe(3);
  });

  test('wait for one that runs no longer than a moment, and not at all if they fill the next one', async () => {
    const patient = await openScene(17, { maxSessions: 4, maxHoldMs: 60_000 });
    const usual = await openScene(2, { maxSessions: 4 });
    for (const { storage, accountIds, begun } of [patient, usual]) {
      const [first = '', ...others] = accountIds;
      const held = gate();
      const work = start(storage, first, { after: held.opened });
      await storage.read.conversations.count(first, {});
      await Promise.all(others.map((accountId) => start(storage, accountId)));
      expect(begun()).toBe(2);
      held.open();
      await work;
    }
  });

  test('do not wait again and again for one that waits for the lock of its account', async () => {
    const { storage, url, accountIds } = await openScene(2, { maxSessions: 4, maxHoldMs: 1_000 });
    const [locked = '', free = ''] = accountIds;
    const works = await clientOf(url).begin(async (tx) => {
      await tx`SELECT 1 FROM account_totals WHERE account_id = ${locked} FOR UPDATE`;
      const work = start(storage, locked);
      await storage.read.conversations.count(locked, {}); // not in the same turn
      const startedMs = performance.now();
      for (let sent = 0; sent < 5; sent++) await start(storage, free);
      expect(performance.now() - startedMs, 'the first waits, and no other').toBeLessThan(3_000);
      return [[work]]; // in a list, since a transaction waits for the promises that it returns
    });
    await Promise.all(works.flat());
  });

  test('do not share one if they do not say so, and may be large', async () => {
    const { storage, accountIds, begun } = await openScene(4);
    const count = (accountId: string) => storage.write(async (tx) => tx.conversations.count(accountId, {}), accountId);
    await Promise.all(accountIds.map(count));
    expect(begun()).toBe(4);
  });

  test('are stored when one of them fails, which leaves nothing behind', async () => {
    const { storage, accountIds } = await openScene(6);
    const [, throwing = '', doubling = ''] = accountIds;
    const thrown = new Error('after it has written');
    const conversation = sampleConversation();
    const works = accountIds.map((accountId) => {
      if (accountId !== throwing && accountId !== doubling) return start(storage, accountId);
      const work = async (tx: Transaction): Promise<number> => {
        await tx.conversations.insert(accountId, conversation);
        if (accountId === throwing) throw thrown;
        await tx.conversations.insert(accountId, conversation); // which the database refuses
        return 0;
      };
      return storage.write(work, accountId, [conversation.id]);
    });
    const [first, ofThrowing, ofDoubling, ...others] = await Promise.allSettled(works);
    expect(ofThrowing).toEqual({ status: 'rejected', reason: thrown });
    expect(ofDoubling?.status).toBe('rejected');
    for (const each of [first, ...others]) expect(each).toEqual({ status: 'fulfilled', value: 1 });
    const counts = await Promise.all(accountIds.map((accountId) => storage.read.conversations.count(accountId, {})));
    expect(counts).toEqual([1, 0, 0, 1, 1, 1]);
  });

  test('do not wait for the lock of one of them that another node has', async () => {
    const { storage, url, accountIds } = await openScene(4);
    const [, locked = ''] = accountIds;
    const order: string[] = [];
    const works = await clientOf(url).begin(async (tx) => {
      await tx`SELECT 1 FROM account_totals WHERE account_id = ${locked} FOR UPDATE`;
      const started = accountIds.map(async (accountId) => {
        await start(storage, accountId);
        order.push(accountId);
      });
      await Promise.all(started.filter((_, index) => accountIds[index] !== locked));
      return started.map((work) => [work]); // in lists, since a transaction waits for the promises that it returns
    });
    await Promise.all(works.flat());
    expect(order.at(-1)).toBe(locked);
    expect(order.toSorted()).toEqual(accountIds.toSorted());
  });

  test('are done all the same when one of them loses the connection, before anything was committed', async () => {
    const { storage, url, accountIds } = await openScene(4);
    const [, cutting] = accountIds;
    const cut = async (tx: Transaction): Promise<number> => {
      await tx.conversations.count(cutting ?? '', {});
      await endTransactions(url);
      return await tx.conversations.count(cutting ?? '', {});
    };
    const works = accountIds.map((accountId) =>
      accountId === cutting ? storage.write(cut, accountId, ['any']) : start(storage, accountId),
    );
    const [first, ofCutting, ...others] = await Promise.allSettled(works);
    expect(ofCutting).toMatchObject({ status: 'rejected', reason: unavailable });
    for (const each of [first, ...others]) expect(each).toEqual({ status: 'fulfilled', value: 1 });
  });

  test('fail at once when the database is away, and go on when it is back', async () => {
    const { storage, accountIds } = await openScene(4);
    const startAll = () => accountIds.map((accountId) => start(storage, accountId));
    await Promise.all(startAll());
    await server().stop();
    for (const each of await Promise.allSettled(startAll()))
      expect(each).toMatchObject({ status: 'rejected', reason: unavailable });
    await server().startAgain();
    expect(await Promise.all(startAll())).toEqual([2, 2, 2, 2]);
  });

  test('do not share one with an account of which many wait, and which has its own turn', async () => {
    const { storage, accountIds, begun } = await openScene(3, { maxGroupMs: 10_000 });
    const [, busy = ''] = accountIds;
    const order: string[] = [];
    const works = accountIds.flatMap((accountId) =>
      Array.from({ length: accountId === busy ? 20 : 1 }, async () => {
        await start(storage, accountId);
        order.push(accountId);
      }),
    );
    await Promise.all(works);
    expect(begun()).toBe(2);
    expect(order.slice(2)).toEqual(Array.from({ length: 20 }, () => busy));
  });

  test('are expected to wait for those of the others that have their turns before', async () => {
    const { storage, accountIds } = await openScene(6);
    await start(storage, accountIds[0] ?? ''); // from now on it is known how long one takes
    const works = [...accountIds, ...accountIds].map((accountId) => start(storage, accountId));
    const allMs = storage.writeWaitMs();
    expect(allMs).toBeGreaterThan(0);
    for (const accountId of accountIds) expect(storage.writeWaitMs(accountId)).toBe(allMs);
    const [quiet] = await Promise.all([storedAccount(storage), ...works]);
    const many = Array.from({ length: 100 }, () => start(storage, accountIds[0] ?? ''));
    const others = start(storage, accountIds[1] ?? '');
    expect(storage.writeWaitMs(accountIds[0])).toBe(storage.writeWaitMs());
    expect(storage.writeWaitMs(accountIds[1])).toBeLessThan(storage.writeWaitMs() / 20);
    expect(storage.writeWaitMs(quiet.id)).toBeLessThan(storage.writeWaitMs() / 20);
    await Promise.all([...many, others]);
  });

  test('on two nodes lose no change of each other, and no log has a gap', async () => {
    const { storage, url, accountIds } = await openScene(12, { maxSessions: 2 });
    const other = await opened(url, { maxSessions: 2 });
    const conversations = accountIds.map(() => sampleConversation());
    await Promise.all(
      accountIds.map((accountId, index) =>
        start(storage, accountId, { conversation: conversations[index] as StoredConversation }),
      ),
    );
    const rounds = 20;
    const works = Array.from({ length: rounds * accountIds.length }, (_, index) => {
      const at = Math.floor(index / 2) % accountIds.length;
      return change(index % 2 === 0 ? storage : other, accountIds[at] ?? '', conversations[at]?.id ?? '', true);
    });
    await Promise.all(works);
    for (const [index, accountId] of accountIds.entries()) {
      const stored = await storage.read.conversations.find(accountId, conversations[index]?.id ?? '');
      expect(stored?.version).toBe(1 + rounds);
      const { events } = await storage.read.events.after(accountId, 0, { filter: {}, limit: 100, span: 100 });
      expect(events.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 1 + rounds }, (_, at) => at + 1));
    }
  });
});

describe('a work', () => {
  test('whose connection is lost fails and leaves nothing behind, and the next one succeeds', async () => {
    const url = await database();
    const storage = await opened(url);
    const { id: accountId } = await storedAccount(storage);
    const lost = storage.write(async (tx) => {
      await tx.conversations.insert(accountId, sampleConversation());
      await tx.conversations.count(accountId, {});
      await endTransactions(url);
      await tx.conversations.insert(accountId, sampleConversation());
      await tx.conversations.count(accountId, {});
    }, accountId);
    await expect(lost).rejects.toMatchObject(unavailable);
    await expect(lost).rejects.not.toHaveProperty('facts.outcomeUnknown');
    expect(await storage.read.conversations.count(accountId, {})).toBe(0);
    await storage.write(async (tx) => tx.conversations.insert(accountId, sampleConversation()), accountId);
    expect(await storage.read.conversations.count(accountId, {})).toBe(1);
  });

  test('whose commit is not answered says that it may have been done, as does each that shares its transaction', async () => {
    const url = await database();
    const relay = await TcpRelay.open(url);
    const storage = await opened(relay.through(url), { maxSessions: 1 });
    const [one, two] = [await storedAccount(storage), await storedAccount(storage)];
    const client = clientOf(url);
    const insert = (accountId: string, conversation = sampleConversation()) =>
      storage.write(async (tx) => tx.conversations.insert(accountId, conversation), accountId, [conversation.id]);
    const inDoubt = { status: 'rejected', reason: { code: 'UNAVAILABLE', facts: { outcomeUnknown: true } } };
    for (const accounts of [[one], [one, one, one], [one, two, one]]) {
      await client`DELETE FROM conversations`;
      const cut = relay.cutAtAnswer('COMMIT');
      const lost = await Promise.allSettled(accounts.map(({ id }) => insert(id)));
      await cut;
      expect(lost).toMatchObject(accounts.map(() => inDoubt));
      expect((await client`SELECT FROM conversations`).length).toBe(accounts.length);
      await insert(one.id);
    }
  });

  test('for which something was prepared that has become useless is repeated, and so are those beside it', async () => {
    const url = await server().database();
    const storage = await opened(url, { maxSessions: 1 });
    const { id: accountId } = await storedAccount(storage);
    const insert = () =>
      storage.write(async (tx) => {
        await tx.conversations.insert(accountId, sampleConversation());
        return await tx.events.erasures();
      }, accountId);
    await insert();
    await clientOf(url)`ALTER TABLE meta ALTER COLUMN value TYPE varchar`;
    expect(await Promise.all(Array.from({ length: 5 }, insert))).toEqual([0, 0, 0, 0, 0]);
    expect(await insert()).toBe(0);
    expect(await storage.read.conversations.count(accountId, {})).toBe(7);
  });

  test('writes nothing outside its transaction where nothing is left of what the connection has prepared', async () => {
    const url = await database();
    const session = new Session(url, {});
    void session.begin('');
    await session.query('DEALLOCATE ALL', [], false); // what a proxy does that gives it another connection
    await session.commit();
    const begun = session.begin('');
    void session.send("INSERT INTO meta (name, value) VALUES ('left behind', '1')", []);
    await begun;
    expect(isUseless(session.failure)).toBe(true);
    await session.rollback();
    await session.close();
    const other = clientOf(url);
    await eventually(
      () => other`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
        AND pid <> pg_backend_pid()`,
      ({ length }) => length === 0,
    );
    expect([...(await other`DELETE FROM meta WHERE name = 'left behind' RETURNING name`)]).toEqual([]);
  });

  test.for([false, true])(
    'waits for no statement for ever where what was prepared has become useless, whether it is cut off then or not: %s',
    async (isCut) => {
      const url = await database();
      const relay = await TcpRelay.open(url);
      const session = new Session(relay.through(url), {});
      onTestFinished(() => session.close());
      void session.begin('');
      await session.query('DEALLOCATE ALL', [], false);
      await session.commit();
      void session.begin('');
      // What has not been prepared yet is described first; what comes behind it waits for that.
      const works = ['described', 'behind it', 'at the end'].map((value) =>
        session.change(`INSERT INTO meta (name, value) VALUES ('left behind: ${value}', $1)`, ['1']),
      );
      const ends = Promise.allSettled([...works, session.commit()]);
      await session.lost.catch(() => isCut && relay.cut());
      expect((await ends).map(({ status }) => status)).toEqual(Array.from({ length: 4 }, () => 'rejected'));
      expect(isUseless(session.failure)).toBe(true);
      expect([...(await clientOf(url)`DELETE FROM meta WHERE name LIKE 'left behind%' RETURNING name`)]).toEqual([]);
    },
  );

  test('is not lost for what the one before it had asked on a connection that was lost', async () => {
    const url = await database();
    const relay = await TcpRelay.open(url);
    const session = new Session(relay.through(url), {});
    onTestFinished(() => session.close());
    await session.begin('');
    // What has not been prepared yet is described first; what comes behind it fails when the client has ended.
    for (const value of ['one', 'two', 'three'])
      void session.send(`INSERT INTO meta (name, value) VALUES ('lost: ${value}', $1)`, ['1']);
    relay.cut();
    await session.lost.catch(() => {});
    await session.rollback();
    void session.begin('');
    await session.change("INSERT INTO meta (name, value) VALUES ('kept', $1)", ['1']);
    await session.commit();
    const names = await clientOf(url)`SELECT name FROM meta WHERE name = 'kept' OR name LIKE 'lost%'`;
    expect([...names]).toEqual([{ name: 'kept' }]);
  });

  test('that is repeated alone, and cannot have the lock of its account any more, is unavailable', async () => {
    const url = await database();
    const storage = await opened(url, { maxSessions: 1, lockTimeoutMs: 100 });
    const { id: accountId } = await storedAccount(storage);
    const { opened: released, open: release } = gate();
    let holding: Promise<unknown> | undefined;
    const undo = async (tx: Transaction): Promise<void> => {
      await tx.conversations.insert(accountId, sampleConversation());
      await tx.conversations.count(accountId, {});
      holding ??= clientOf(url).begin(async (sql) => {
        await sql`LOCK TABLE account_totals IN EXCLUSIVE MODE`; // which is given in the order in which it was asked for
        await released;
      });
      await untilWaiting(url, holding);
      throw new Error('after it has written');
    };
    const count = async (tx: Transaction): Promise<number> => await tx.conversations.count(accountId, {});
    const works = [storage.write(undo, accountId, ['one']), storage.write(count, accountId, ['another'])];
    for (const work of await Promise.allSettled(works))
      expect(work).toMatchObject({ status: 'rejected', reason: unavailable });
    release();
    await holding;
  });

  test('that awaits something else than its transaction is given up, and holds its locks no longer', async () => {
    // A busy machine does not take as long between two statements.
    const storage = await opened(await database(), { idleTimeoutMs: 1_000 });
    const { id: accountId } = await storedAccount(storage);
    const stuck = storage.write(async (tx) => {
      await tx.conversations.insert(accountId, sampleConversation());
      await new Promise(() => {});
    }, accountId);
    await expect(stuck).rejects.toMatchObject(unavailable);
    await storage.write(async (tx) => tx.conversations.insert(accountId, sampleConversation()), accountId);
    expect(await storage.read.conversations.count(accountId, {})).toBe(1);
  });

  test('cannot use its transaction afterwards, and what it did not wait for is part of it or nothing', async () => {
    const storage = await opened(await database());
    const { id: accountId } = await storedAccount(storage);
    let later: (() => unknown) | undefined;
    await storage.write(async (tx) => {
      void tx.conversations.insert(accountId, sampleConversation({ tags: ['one'] }));
      later = () => tx.conversations.insert(accountId, sampleConversation());
    }, accountId);
    expect(() => later?.()).toThrow('after it had ended');
    expect(await storage.read.conversations.count(accountId, {})).toBe(1);
    const undone = storage.write(async (tx) => {
      void tx.accounts.insert(sampleAccount());
      throw new Error('on purpose');
    }, accountId);
    await expect(undone).rejects.toThrow('on purpose');
    expect(await storage.read.accounts.list()).toHaveLength(1);
  });
});

describe('a response of a receiver that repeats what is being erased', () => {
  const lease = { id: 'lease', nowMs: startMs, endsMs: startMs + 60_000 };

  /** A conversation of which a webhook is told on one node, while it is erased on the other one. */
  async function openScene() {
    const url = await database();
    const [recording, erasing] = [await opened(url), await opened(url)];
    const { id: accountId } = await storedAccount(recording);
    const [conversation, webhook] = [sampleConversation(), sampleWebhook()];
    const event = sampleEvent(conversation);
    const delivery = sampleDelivery(webhook.id, { eventId: event.id });
    await recording.write(async (tx) => {
      await tx.conversations.insert(accountId, conversation);
      await tx.webhooks.insert(accountId, webhook);
      const eventSequence = await tx.events.append(accountId, [event]);
      await tx.deliveries.insert(accountId, { ...delivery, eventSequence });
    }, accountId);
    await recording.write(async (tx) => await tx.deliveries.claim([{ webhookId: webhook.id, limit: 1 }], lease));
    const erasures = await recording.read.events.erasures();
    const record = (meanwhile = async () => {}) =>
      recording.write(async (tx) => {
        await tx.deliveries.release(lease.id, [delivery.id]);
        const isErased = (await tx.events.erasures()) !== erasures;
        await meanwhile();
        const responseBody = isErased ? null : 'what it was told';
        await tx.deliveries.insertAttempt(delivery.id, 1, sampleAttempt({ responseBody }));
      });
    const erase = (meanwhile = async () => {}) =>
      erasing.write(async (tx) => {
        await tx.conversations.erase(accountId, conversation);
        await tx.conversations.count(accountId, {}); // all of it is done by then
        await meanwhile();
      }, accountId);
    const bodies = async () => {
      const [found] = await recording.read.deliveries.attempts(accountId, [
        { deliveryId: delivery.id, from: 1, to: 9 },
      ]);
      return found?.map(({ responseBody }) => responseBody);
    };
    return { url, record, erase, bodies };
  }

  test('is erased, too, if the erasure comes while it is recorded', async () => {
    const { url, record, erase, bodies } = await openScene();
    const [begun, held] = [gate(), gate()];
    const recorded = record(async () => {
      begun.open();
      await held.opened;
    });
    await begun.opened;
    const erased = erase();
    await untilWaiting(url, erased);
    held.open();
    await Promise.all([recorded, erased]);
    expect(await bodies()).toEqual([null]);
  });

  test('is not kept, if it is recorded while the erasure is not committed yet', async () => {
    const { url, record, erase, bodies } = await openScene();
    const [begun, held] = [gate(), gate()];
    const erased = erase(async () => {
      begun.open();
      await held.opened;
    });
    await begun.opened;
    const recorded = record();
    await untilWaiting(url, recorded);
    held.open();
    await Promise.all([recorded, erased]);
    expect(await bodies()).toEqual([null]);
  });
});

describe('a read', () => {
  test('has its own answer, also when what was prepared has become useless and others come at the same time', async () => {
    const url = await server().database();
    const other = clientOf(url);
    await other`CREATE TABLE numbers AS SELECT n AS number FROM generate_series(1, 100) AS n`;
    const pool = new Pool(url, 1, {});
    onTestFinished(() => pool.close());
    const useless = 'SELECT * FROM numbers WHERE number = $1';
    const harmless = 'SELECT number FROM numbers WHERE number = $1';
    const ask = async (text: string, number: number): Promise<unknown> =>
      (await pool.query(text, [number]))[0]?.['number'];
    for (let round = 0; round < 20; round++) {
      for (const text of [useless, harmless]) await ask(text, 1);
      await other.unsafe(`ALTER TABLE numbers ADD COLUMN more_${round} integer`);
      const asked = Array.from({ length: 40 }, (_, index) => index + 1);
      const answers: unknown[] = [];
      for (const number of asked) {
        // Now and then they go out while answers come.
        if (number % 4 === round % 4) await new Promise((resolve) => setImmediate(resolve));
        answers.push(ask(number % 5 === 1 ? useless : harmless, number));
      }
      expect(await Promise.all(answers)).toEqual(asked);
    }
  });

  test('is answered however many wait for a connection on which what was prepared has become useless', async () => {
    const url = await server().database();
    const other = clientOf(url);
    await other`CREATE TABLE numbers AS SELECT 0 AS number`;
    const pool = new Pool(url, 1, {});
    onTestFinished(() => pool.close());
    const useless = 'SELECT * FROM numbers WHERE number = $1';
    await pool.query(useless, [0]);
    await other`ALTER TABLE numbers ADD COLUMN another integer`;
    const [first, ...rest] = await Promise.all([
      pool.query(useless, [0]),
      ...Array.from({ length: 1_000 }, (_, number) => pool.query('SELECT $1::integer AS number', [number])),
    ]);
    expect([...(first ?? [])]).toEqual([{ number: 0, another: null }]);
    expect(rest.map(([row]) => row?.['number'])).toEqual(Array.from({ length: 1_000 }, (_, number) => number));
  });

  test('ends when the storage is closed, however many there are', async () => {
    const pool = new Pool(await database(), 1, {});
    await pool.query('SELECT 1', []);
    const reads = Promise.allSettled(Array.from({ length: 1_000 }, () => pool.query('SELECT 1', [])));
    await new Promise((resolve) => setImmediate(resolve)); // when as many are sent as may be
    await pool.close();
    const outcomes = new Set(
      (await reads).map((read) => (read.status === 'fulfilled' ? 'answered' : read.reason.code)),
    );
    expect(outcomes).toEqual(new Set(['answered', 'CONNECTION_ENDED']));
  });
});

describe('a database', () => {
  test('that is away makes everything unavailable, and is used again when it is back', async () => {
    const url = await database();
    const storage = await opened(url);
    const { id: accountId } = await storedAccount(storage);
    const insert = () =>
      storage.write(async (tx) => tx.conversations.insert(accountId, sampleConversation()), accountId);
    await insert();
    let told = 0;
    const stop = storage.watch(() => {
      told++;
    });
    await server().stop();
    await expect(insert()).rejects.toMatchObject(unavailable);
    await expect((async () => await storage.read.accounts.list())()).rejects.toMatchObject(unavailable);
    await expect((async () => await storage.check())()).rejects.toMatchObject(unavailable);
    await server().startAgain();
    let isBack = false;
    for (let tries = 0; !isBack && tries < 200; tries++) {
      isBack = await insert().then(
        () => true,
        () => false,
      );
    }
    expect(await storage.read.conversations.count(accountId, {})).toBe(2);
    // The connection that listens is made again, too.
    const other = await opened(url);
    const before = told;
    await other.write(async (tx) => tx.events.append(accountId, [sampleEvent(sampleConversation())]), accountId);
    await until(() => told > before);
    stop();
  });

  test.each([
    ['takes no connections', 'DATABASE name ALLOW_CONNECTIONS false', 'DATABASE name ALLOW_CONNECTIONS true'],
    ['has another name', 'DATABASE name RENAME TO name_away', 'DATABASE name_away RENAME TO name'],
    ['takes another password', `ROLE name PASSWORD 'other'`, `ROLE name PASSWORD 'password'`],
    ['lets its user in no more', 'ROLE name NOLOGIN', 'ROLE name LOGIN'],
  ])('that for now %s is unavailable, and used when it is as before', async (_, change, changeBack) => {
    const url = await server().emptyDatabase();
    const storage = await opened(url);
    const { id: accountId } = await storedAccount(storage);
    const name = new URL(url).pathname.slice(1);
    const administrator = clientOf(server().url);
    const alter = async (text: string) => await administrator.unsafe(`ALTER ${text.replaceAll('name', name)}`);
    await administrator`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${name}`;
    await alter(change);
    const write = async () =>
      await storage.write(async (tx) => tx.conversations.insert(accountId, sampleConversation()), accountId);
    await expect(write()).rejects.toMatchObject(unavailable);
    await expect((async () => await storage.read.accounts.list())()).rejects.toMatchObject(unavailable);
    await alter(changeBack);
    await write();
    expect(await storage.read.conversations.count(accountId, {})).toBe(1);
  });

  test('is refused at the start where its proxy lets nobody in, or leads to another one', async () => {
    const [url, other] = await Promise.all([database(), database()]);
    const wrong = url.replace(':password@', ':wrong@');
    const start = (proxied: string) => openPostgresStorage(proxied, { clock: systemClock, directUrl: url });
    await expect(start(wrong)).rejects.toThrow('password authentication failed');
    await expect(start(other)).rejects.toThrow('DATABASE_DIRECT_URL leads to another one');
  });

  test('whose proxy accepts connections only to close them is unavailable at once, and used when it is back', async () => {
    const direct = await database();
    const relay = await TcpRelay.open(direct);
    const storage = await opened(relay.through(direct));
    const { id: accountId } = await storedAccount(storage);
    relay.remove(direct);
    relay.cut();
    const startedMs = performance.now();
    const insert = () =>
      storage.write(async (tx) => tx.conversations.insert(accountId, sampleConversation()), accountId);
    for (let count = 0; count < 3; count++) {
      await expect(insert()).rejects.toMatchObject(unavailable);
      await expect((async () => await storage.read.accounts.list())()).rejects.toMatchObject(unavailable);
    }
    expect(performance.now() - startedMs).toBeLessThan(5_000);
    relay.add(direct);
    await insert();
    expect(await storage.read.conversations.count(accountId, {})).toBe(1);
  });

  test('is left without a connection when a client or a storage is closed, also when one was just being made', async () => {
    const direct = await database();
    const relays: TcpRelay[] = [];
    for (let count = 0; count < 60; count++) {
      const relay = await TcpRelay.open(direct);
      relays.push(relay);
      const client = connect(relay.through(direct));
      const asked = [client`SELECT 1`];
      if (count % 2 === 0) {
        await asked[0];
        asked.push(client`SELECT 2`);
        relay.cut();
        asked.push(client`SELECT 3`);
      }
      const settled = Promise.allSettled(asked);
      for (let turn = 0; turn < count / 2; turn++) await new Promise((resolve) => setImmediate(resolve));
      await client.finish(0);
      await settled;
    }
    const relay = await TcpRelay.open(direct);
    relays.push(relay);
    const storage = await openPostgresStorage(relay.through(direct), { clock: systemClock });
    storage.watch(() => {});
    const { id } = await storedAccount(storage);
    const works = Promise.allSettled([
      storage.write(async (tx) => tx.conversations.insert(id, sampleConversation()), id),
      storage.read.conversations.count(id, {}),
    ]);
    relay.cut();
    await works;
    await storage.close();
    // What the driver itself would leave open, it closes after five seconds, or PostgreSQL after a minute.
    await until(() => relays.every(({ openEnds }) => openEnds === 0), 4_000);
  });

  test('is migrated once by nodes that start together', async () => {
    const url = await server().emptyDatabase();
    const nodes = await Promise.all([opened(url), opened(url), opened(url)]);
    expect(nodes.map(({ migrations }) => migrations.applied).toSorted((a, b) => a - b)).toEqual([0, 0, 1]);
    const epochs = await Promise.all(nodes.map(({ read }) => read.events.epoch()));
    expect(new Set(epochs).size).toBe(1);
  });

  test('is migrated however long that takes, also where its user is allowed no long statements', async () => {
    const url = await server().emptyDatabase();
    const client = clientOf(url);
    await client`ALTER ROLE CURRENT_USER SET statement_timeout = 1`;
    expect((await opened(url)).migrations.applied).toBe(1);
  });

  test('whose tables others have locked for too long says so at the start', async () => {
    const url = await server().database();
    const other = clientOf(url);
    await other.unsafe('BEGIN; LOCK TABLE __drizzle_migrations IN ACCESS EXCLUSIVE MODE').simple();
    await expect(migrate(url, { patienceMs: 10 })).rejects.toThrow('others have locked it for too long');
    await other.unsafe('ROLLBACK').simple();
    expect(await migrate(url, { patienceMs: 10 })).toMatchObject({ applied: 0 });
  });

  test('that is not in UTF-8 is refused at the start, and not only when a text comes that it cannot hold', async () => {
    const url = await server().emptyDatabase(`ENCODING LATIN1 LOCALE 'C' LOCALE_PROVIDER libc TEMPLATE template0`);
    await expect(opened(url)).rejects.toThrow('its encoding is LATIN1 and must be UTF8');
    expect(await clientOf(url)`SELECT 1 FROM pg_tables WHERE schemaname = 'public'`).toHaveLength(0);
  });

  test('that a newer version has migrated is refused at the start, and is not written by who had it open', async () => {
    const url = await server().database();
    const storage = await opened(url);
    const { id: accountId } = await storedAccount(storage);
    await clientOf(
      url,
    )`INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('newer', ${Number.MAX_SAFE_INTEGER})`;
    await expect(opened(url)).rejects.toThrow('by a newer version');
    const late = storage.write(async (tx) => tx.conversations.insert(accountId, sampleConversation()), accountId);
    await expect(late).rejects.toMatchObject(unavailable);
    await expect((async () => await storage.check())()).rejects.toMatchObject(unavailable);
    expect(await storage.read.conversations.count(accountId, {})).toBe(0);
  });
});

describe('a commit that no notification tells of', () => {
  /** A storage, how often its listener was called, and how often it has asked for commits. */
  async function openScene() {
    const url = await server().database();
    const counts = { told: 0, polls: 0 };
    const onStatement = (text: string): void => {
      if (/SELECT pg_current/.test(text)) counts.polls++;
    };
    const storage = await opened(url, { onStatement });
    const other = clientOf(url);
    await other`SELECT 1`;
    onTestFinished(storage.watch(() => void counts.told++));
    /** Until what is committed from now on was asked for twice. */
    const twoPolls = async (): Promise<void> => {
      const { polls } = counts;
      await until(() => counts.polls >= polls + 3);
    };
    return { counts, other, twoPolls };
  }

  test('is noticed soon, also right after a listener has come', async () => {
    const { counts, other } = await openScene();
    await until(() => counts.told > 0); // it is listening now
    await other`UPDATE meta SET value = value`;
    counts.told = 0;
    await until(() => counts.told > 0, 4_000);
  });

  test('is noticed when it is to be seen, also long after it is in the write-ahead log, and nothing else is', async () => {
    const { counts, other, twoPolls } = await openScene();
    const administrator = clientOf(server().url);
    await administrator`ALTER SYSTEM SET synchronous_standby_names = 'nobody'`;
    onTestFinished(async () => {
      await administrator`ALTER SYSTEM RESET synchronous_standby_names`;
      await administrator`SELECT pg_reload_conf()`;
    });
    await administrator`SELECT pg_reload_conf()`;
    // What commits while the server still takes the setting over does not wait.
    let committed: Promise<unknown> = Promise.resolve();
    for (let isOver = true; isOver; ) {
      isOver = false;
      committed = other`UPDATE meta SET value = value`.then(() => {
        isOver = true;
      });
      await eventually(
        () => administrator`SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'`,
        ({ length }) => isOver || length > 0,
      );
    }
    await twoPolls();
    counts.told = 0;
    await twoPolls();
    expect(counts.told).toBe(0);
    await administrator`ALTER SYSTEM RESET synchronous_standby_names`;
    await administrator`SELECT pg_reload_conf()`;
    await committed;
    await until(() => counts.told > 0, 4_000);
  });
});

test('a migration waits for the works that have begun, and later ones of the older version are not done', async () => {
  const url = await server().database();
  const storage = await opened(url);
  const [early, late] = [await storedAccount(storage), await storedAccount(storage)];
  const [begun, end] = [gate(), gate()];
  const insert = (accountId: string, after?: Promise<void>) =>
    storage.write(async (tx) => {
      await tx.conversations.count(accountId, {});
      begun.open();
      await after;
      await tx.conversations.insert(accountId, sampleConversation());
    }, accountId);
  const before = insert(early.id, end.opened);
  await begun.opened;
  const migrated = migrateFurther(url, 'CREATE TABLE found AS SELECT account_id FROM conversations');
  await untilWaiting(url, migrated);
  const after = expect(insert(late.id)).rejects.toMatchObject(unavailable);
  end.open();
  await before;
  expect(await migrated).toMatchObject({ applied: 1 });
  await after;
  const found = await clientOf(url)`SELECT account_id FROM found`;
  expect([...found]).toEqual([{ account_id: early.id }]);
  expect(await storage.read.conversations.count(late.id, {})).toBe(0);
});

test('nodes serve while a migration waits for a program that reads for long, as pg_dump does, and it goes on when that has ended', async () => {
  const url = await server().database();
  const storage = await opened(url);
  const { id: accountId } = await storedAccount(storage);
  const dump = clientOf(url);
  await dump.unsafe('BEGIN; LOCK TABLE __drizzle_migrations, accounts IN ACCESS SHARE MODE').simple();
  const migrated = migrateFurther(url, 'ALTER TABLE accounts ADD COLUMN later integer');
  await untilWaiting(url, migrated);
  await storage.write(async (tx) => tx.conversations.insert(accountId, sampleConversation()), accountId);
  await storage.check();
  await dump.unsafe('ROLLBACK').simple();
  expect(await migrated).toMatchObject({ applied: 1 });
});

test('no erasure or revocation waits for those of other accounts that are not committed yet', async () => {
  const storage = await opened(await database(), { lockTimeoutMs: 500 });
  const scenes = await Promise.all(
    [1, 2].map(async () => {
      const { id: accountId } = await storedAccount(storage);
      const [conversation, key] = [await storedConversation(storage, accountId, ['hello']), sampleKey()];
      await storage.write(async (tx) => await tx.apiKeys.insert(accountId, key, sampleHash()), accountId);
      const endBoth = (meanwhile = async () => {}) =>
        storage.write(async (tx) => {
          await tx.conversations.erase(accountId, conversation);
          await tx.apiKeys.update({ ...key, revokedAt: start });
          await tx.conversations.count(accountId, {}); // all of it is done by then
          await meanwhile();
        }, accountId);
      const isEnded = async () =>
        (await storage.read.conversations.find(accountId, conversation.id)) === undefined &&
        (await storage.read.apiKeys.find(accountId, key.id))?.revokedAt === start;
      return { endBoth, isEnded };
    }),
  );
  const [one = expect.fail(), other = expect.fail()] = scenes;
  const counts = async () => [await storage.read.events.erasures(), await storage.read.apiKeys.revocations()];
  const [erasures = 0, revocations = 0] = await counts();
  await one.endBoth(() => other.endBoth());
  expect([await one.isEnded(), await other.isEnded()]).toEqual([true, true]);
  expect(await counts()).toEqual([erasures + 2, revocations + 2]);
});

test('the limiter’s clock is the database’s, whatever the clocks of nodes show', async () => {
  const url = await database();
  const behind = { ...systemClock, now: () => 1_000, uptimeMs: () => 500, boot: 'another machine' };
  const [right, wrong] = [await opened(url), await opened(url, { clock: behind })];
  const [one, two] = [await right.read.rateWindows.clock(), await wrong.read.rateWindows.clock()];
  expect(Math.abs((one?.atMs ?? 0) - (two?.atMs ?? 0))).toBeLessThan(60_000);
  expect(two).toMatchObject({ wallMs: 1_000, uptimeMs: 500, boot: 'another machine' });
});

test('works that count requests do not wait for one another that advances the limiter’s clock', async () => {
  const url = await database();
  const storage = await opened(url, { lockTimeoutMs: 200 });
  const accounts = [await storedAccount(storage), await storedAccount(storage)];
  const count = ({ id }: { readonly id: string }, minute: number) =>
    storage.write(async (tx) => await tx.rateWindows.add(id, minute, 1), id);
  const minute = 1_000; // of 1970
  const stored = async () => (await clientOf(url)`SELECT at FROM rate_clock`)[0]?.['at'];
  await clientOf(url).begin(async (tx) => {
    await tx`UPDATE rate_clock SET at = at`;
    for (const account of accounts) expect(await count(account, minute)).toEqual({ minute, count: 1 });
  });
  expect(Number(await stored())).toBe(0);
  for (const account of accounts) expect(await count(account, minute)).toEqual({ minute, count: 2 });
  await Promise.all(accounts.map((account) => count(account, minute - 1)));
  expect(Number(await stored()), 'the next that counts advances it, and none sets it back').toBe(minute * 60_000);
});

describe('what is old', () => {
  /** An account with so many old events, each with a delivery. */
  async function openScene(count: number) {
    const url = await server().database();
    const storage = await opened(url);
    const { id: accountId } = await storedAccount(storage);
    const [conversation, webhook] = [sampleConversation(), sampleWebhook()];
    const events = Array.from({ length: count }, () => sampleEvent(conversation));
    await storage.write(async (tx) => {
      await tx.webhooks.insert(accountId, webhook);
      await tx.events.append(accountId, events);
      for (const { id } of events) await tx.deliveries.insert(accountId, sampleDelivery(webhook.id, { eventId: id }));
    }, accountId);
    const left = async () => [
      await storage.read.deliveries.count(accountId, webhook.id),
      (await storage.read.events.bounds(accountId)).first - 1,
    ];
    const laterMs = startMs + 3_600_000;
    const remove = (work: (tx: Transaction) => Promise<void> = async () => {}) =>
      storage.write(async (tx) => {
        await tx.deliveries.prune(laterMs, 10);
        await tx.events.prune(laterMs, 10);
        await work(tx);
      });
    return { url, storage, laterMs, client: clientOf(url), left, remove, close: () => storage.close() };
  }

  test('is removed without a look at all that is there, also where one account has it all', async () => {
    const { client, remove, close } = await openScene(2_000);
    await client`ANALYZE`;
    for (let removal = 0; removal < 10; removal++) await remove();
    await close(); // PostgreSQL’s figures have all of a connection when that ends
    const statistics = await eventually(
      () => client`SELECT relname, n_tup_del::integer AS removed, seq_scan::integer AS scans FROM pg_stat_user_tables
        WHERE relname IN ('deliveries', 'events') ORDER BY relname`,
      (tables) => tables.every(({ removed }) => removed === 100),
    );
    expect(statistics.map(({ relname, scans }) => [relname, scans])).toEqual([
      ['deliveries', 0],
      ['events', 0],
    ]);
  });

  test('is removed by two nodes together, and no event before its delivery', async () => {
    const { url, storage, laterMs, left } = await openScene(30);
    const other = await opened(url);
    let removal = Promise.resolve();
    await storage.write(async (tx) => {
      await tx.deliveries.prune(laterMs, 10);
      removal = removeOld(other, laterMs, 0);
      await untilWaiting(url, removal);
    });
    await removal;
    expect(await left()).toEqual([0, 0]);
    await removeOld(storage, laterMs, 0);
    expect(await left()).toEqual([0, 30]);
  });

  test('is removed many rows at a time, since each time takes a way to the database and back', async () => {
    const { url, laterMs, left } = await openScene(200);
    const kept = { fingerprint: sampleHash(), result: 'old', conversationId: null, createdAtMs: startMs };
    let removals = 0;
    const onStatement = (text: string): void => {
      if (text.startsWith('DELETE')) removals++;
    };
    const storage = await opened(url, { onStatement });
    const { id: accountId } = await storedAccount(storage);
    await storage.write(async (tx) => {
      for (let count = 0; count < 200; count++) await tx.idempotencyRecords.put(accountId, `key ${count}`, kept);
    }, accountId);
    await removeOld(storage, laterMs + 86_400_000, 86_400_000);
    expect(await left()).toEqual([0, 200]);
    expect((await clientOf(url)`SELECT FROM kept_results`).length).toBe(0);
    expect(removals).toBeLessThan(40);
  });

  /** Replaces something old, and has another node remove what is old before that is committed. */
  async function replacedDuringRemoval(
    name: 'apiKeys' | 'idempotencyRecords',
    put: (tx: Transaction, accountId: string, isOld: boolean) => Promise<unknown>,
  ) {
    const url = await database();
    const [storage, other] = [await opened(url), await opened(url)];
    const { id: accountId } = await storedAccount(storage);
    await storage.write(async (tx) => put(tx, accountId, true), accountId);
    let removal: Promise<number> | undefined;
    await storage.write(async (tx) => {
      await put(tx, accountId, false);
      removal = other.write(async (tx) => tx[name].prune(startMs, 10));
      await untilWaiting(url, removal);
    }, accountId);
    expect(await removal).toBe(0);
    return { read: storage.read, accountId };
  }

  test('is not removed if it is a result that a new one under its key replaces meanwhile', async () => {
    const { read, accountId } = await replacedDuringRemoval('idempotencyRecords', async (tx, accountId, isOld) => {
      const facts = { fingerprint: sampleHash(), conversationId: null };
      const kept = { ...facts, result: isOld ? 'old' : 'new', createdAtMs: isOld ? startMs - 1 : startMs };
      await tx.idempotencyRecords.put(accountId, 'key', kept);
      await tx.idempotencyRecords.find(accountId, 'key');
    });
    expect(await read.idempotencyRecords.find(accountId, 'key')).toMatchObject({ result: 'new' });
  });

  test('is not removed if it is a key that is revoked meanwhile', async () => {
    const key = sampleKey({ expiresAt: new Date(startMs - 1).toISOString() });
    const { read, accountId } = await replacedDuringRemoval('apiKeys', async (tx, accountId, isOld) => {
      if (isOld) await tx.apiKeys.insert(accountId, key, sampleHash());
      else await tx.apiKeys.update({ ...key, revokedAt: start });
      await tx.apiKeys.find(accountId, key.id);
    });
    expect(await read.apiKeys.find(accountId, key.id)).toMatchObject({ revokedAt: start });
  });

  test('is removed later if its removal was rolled back', async () => {
    const { left, remove } = await openScene(30);
    await remove();
    const thrown = new Error('rolled back');
    const failing = remove(() => Promise.reject(thrown));
    await expect(failing).rejects.toBe(thrown);
    expect(await left()).toEqual([20, 10]);
    for (let removal = 0; removal < 3; removal++) await remove();
    expect(await left()).toEqual([0, 30]);
  });
});

test('all deliveries of a webhook that was deleted are removed, also where two nodes do it at once', async () => {
  const url = await database();
  const [one, two] = [await opened(url), await opened(url)];
  const { id: accountId } = await storedAccount(one);
  const webhook = sampleWebhook();
  await one.write(async (tx) => {
    await tx.webhooks.insert(accountId, webhook);
    for (let count = 0; count < 5; count++) await tx.deliveries.insert(accountId, sampleDelivery(webhook.id));
    await tx.webhooks.remove(accountId, webhook.id);
  }, accountId);
  const removeSome = (storage: Storage, meanwhile = async () => {}) =>
    storage.write(async (tx) => {
      const removed = await tx.deliveries.prune(0, 1);
      await meanwhile();
      return removed;
    });
  let beside: Promise<number> | undefined;
  await removeSome(one, async () => {
    beside = removeSome(two);
    await untilWaiting(url, beside);
  });
  await beside;
  while ((await removeSome(two)) > 0);
  expect((await clientOf(url)`SELECT id FROM webhooks UNION ALL SELECT id FROM deliveries`).length).toBe(0);
});

test('every primary and unique key begins with the account, but of the service’s own tables', async () => {
  const keys = await clientOf(await database())<{ table: string; column: string }[]>`
    SELECT owner.relname AS table, attribute.attname AS column
    FROM pg_index JOIN pg_class AS owner ON owner.oid = indrelid
    JOIN pg_namespace ON pg_namespace.oid = owner.relnamespace AND nspname = 'public'
    JOIN pg_attribute AS attribute ON attribute.attrelid = indrelid AND attribute.attnum = indkey[0]
    WHERE indisunique`;
  expect(keys.length).toBeGreaterThan(20);
  const global = ['__drizzle_migrations', 'accounts', 'meta', 'rate_clock'];
  const others = keys.filter(({ table, column }) => column !== 'account_id' && !global.includes(table));
  expect(others).toEqual([]);
});

test('no text is compared by another order than that of its bytes', async () => {
  const columns = await clientOf(await database())<{ place: string }[]>`
    SELECT table_name || '.' || column_name AS place FROM information_schema.columns
    WHERE table_schema = 'public' AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'
      AND table_name <> '__drizzle_migrations'`;
  expect([...columns]).toEqual([]);
});
