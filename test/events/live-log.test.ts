import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { afterEach, describe, expect, onTestFinished, test } from 'vitest';
import { eventCursor } from '../../src/domain/event-cursor.ts';
import { eventTypes } from '../../src/domain/event-types.ts';
import type { EventFilter, LogEvent, NewEvent, StoredEvent } from '../../src/domain/events.ts';
import type { EventFollower } from '../../src/domain/ports.ts';
import type { Storage } from '../../src/domain/storage-port.ts';
import { LiveLog } from '../../src/events/live-log.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { effort } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { putMigrated } from '../support/migrated-file.ts';
import { sampleConversation, sampleEvent, sampleMessage, startMs, storedAccount } from '../support/samples.ts';
import { watchTimers } from '../support/timers.ts';
import { gate, until } from '../support/wait.ts';

// The live log below the sockets, on a real file. Whoever follows it is given exactly the events that
// fit, in order, once each, whatever its own pace and whatever else goes on; and nothing of it stays.

const conversations = Array.from({ length: 3 }, () => sampleConversation());
const [conversation] = conversations as [(typeof conversations)[0]];

function events(count: number): NewEvent[] {
  return Array.from({ length: count }, () => sampleEvent(conversation));
}

function append(storage: Storage, accountId: string, added: readonly NewEvent[]): Promise<number> {
  return storage.write(async (tx) => tx.events.append(accountId, added));
}

/** Removes the account's events up to a sequence. */
async function pruneUpTo(storage: Storage, accountId: string, sequence: number): Promise<void> {
  const all = startMs + 1_000_000;
  const { first } = await storage.read.events.bounds(accountId);
  await storage.write(async (tx) => tx.events.prune(all, sequence - first + 1));
}

async function wholeLog(storage: Storage, accountId: string): Promise<readonly StoredEvent[]> {
  return (await storage.read.events.after(accountId, 0, { filter: {}, limit: 100_000, span: 100_000 })).events;
}

/** Written anew, so that the code under test is not its own judge. */
function fits(event: Pick<LogEvent, 'type' | 'conversationId'>, { types, conversationId }: EventFilter): boolean {
  if (types !== undefined && !types.some((type) => type === event.type)) return false;
  return conversationId === undefined || conversationId === event.conversationId;
}

const epochs = new WeakMap<LiveLog, string>();

function liveLogOn(storage: Storage, onError?: (error: unknown) => void): LiveLog {
  const liveLog = new LiveLog(storage, onError);
  epochs.set(liveLog, storage.read.events.epoch() as string);
  return liveLog;
}

/** Someone who follows a log, pulls when told to, and gives back what is more than it takes at once. */
class Reader {
  readonly accountId: string;
  readonly after: number;
  readonly filter: EventFilter;
  readonly takes: number;
  readonly follower: EventFollower;
  readonly got: LogEvent[] = [];
  readonly batches: number[] = [];
  done = false;
  failure: unknown;
  /** What it does with a batch. */
  onBatch = (): void => {};
  readonly #iterator: AsyncIterator<readonly LogEvent[]>;
  #pulling = false;

  constructor(liveLog: LiveLog, accountId: string, after: number, filter: EventFilter = {}, takes = 1_000) {
    this.accountId = accountId;
    this.after = after;
    this.filter = filter;
    this.takes = takes;
    this.follower = liveLog.follow(accountId, { epoch: epochs.get(liveLog) ?? '', sequence: after }, filter);
    this.#iterator = this.follower[Symbol.asyncIterator]();
  }

  get sequences(): number[] {
    return this.got.map(({ position }) => position);
  }

  /** Asks for the next batch, unless it waits for one already. */
  pull(): void {
    if (this.#pulling || this.done) return;
    this.#pulling = true;
    this.#iterator.next().then(
      ({ done, value }) => {
        this.#pulling = false;
        if (done === true) {
          this.done = true;
        } else {
          const taken = value.slice(0, this.takes);
          const rest = value[taken.length];
          if (rest !== undefined) this.follower.giveBack(rest);
          this.got.push(...taken);
          this.batches.push(taken.length);
          this.onBatch();
        }
      },
      (error: unknown) => {
        this.#pulling = false;
        this.done = true;
        this.failure = error;
      },
    );
  }

  /** Pulls again and again until something holds. */
  async pullUntil(holds: () => boolean): Promise<void> {
    await nextTurn(); // Within a turn a batch may be on its way, and a part of it then be given back.
    await until(() => {
      const held = holds();
      this.pull();
      return held;
    });
  }

  /** Pulls until it waits at this place. */
  pullTo(sequence: number): Promise<void> {
    return this.pullUntil(() => this.done || this.follower.position >= sequence);
  }

  end(): void {
    this.follower.end();
  }

  async return(): Promise<void> {
    await this.#iterator.return?.();
  }
}

interface OpenedLog {
  readonly path: string;
  readonly storage: Storage;
  readonly liveLog: LiveLog;
  readonly accountId: string;
  /** Every statement from here on. */
  readonly statements: string[];
  /** Called before each statement runs. */
  readonly hooks: { onStatement: (sql: string) => void };
  read(after: number, filter?: EventFilter): Reader;
}

const readers: Reader[] = [];
afterEach(() => {
  for (const reader of readers.splice(0)) reader.end();
});

async function openLog(): Promise<OpenedLog> {
  const path = await putMigrated(join(temporaryFolder(), 'test.db'));
  const statements: string[] = [];
  const hooks: OpenedLog['hooks'] = { onStatement: () => {} };
  const storage = openSqliteStorage(path, {
    maxGroupMs: Number.POSITIVE_INFINITY, // what is written at once is one commit, on a busy machine too
    onStatement(sql) {
      statements.push(sql);
      hooks.onStatement(sql);
    },
  });
  onTestFinished(() => storage.close());
  const liveLog = liveLogOn(storage);
  const { id: accountId } = await storedAccount(storage);
  return {
    path,
    storage,
    liveLog,
    accountId,
    statements,
    hooks,
    read(after, filter) {
      const reader = new Reader(liveLog, accountId, after, filter);
      readers.push(reader);
      return reader;
    },
  };
}

/** How often the rows of the log were looked for. */
function looks(statements: readonly string[]): number {
  return statements.filter((sql) => /^select .*\bdata\b.* from events\b/is.test(sql)).length;
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

describe('a follower of the log', () => {
  const newEvent = fc.record({
    type: fc.constantFrom(...eventTypes),
    conversation: fc.option(fc.nat(conversations.length - 1)),
  });
  const account = fc.nat(1);
  const step = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant('append' as const),
        account,
        // More than a batch holds, at times.
        events: fc.oneof(
          { weight: 6, arbitrary: fc.array(newEvent, { minLength: 1, maxLength: 4 }) },
          { weight: 1, arbitrary: fc.array(newEvent, { minLength: 90, maxLength: 230, size: 'max' }) },
        ),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constant('follow' as const),
        account,
        place: fc.constantFrom(0, 0.5, 1),
        filter: fc.record(
          {
            types: fc.uniqueArray(fc.constantFrom(...eventTypes), { minLength: 1 }),
            conversation: fc.nat(conversations.length), // one past the last has no events
          },
          { requiredKeys: [] },
        ),
        takes: fc.option(fc.constantFrom(10, 99), { nil: undefined }),
      }),
    },
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('pull' as const), reader: fc.nat() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('end' as const), reader: fc.nat() }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('turns' as const), count: fc.integer({ min: 1, max: 6 }) }) },
  );
  type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

  /** Does all the steps, lets everybody come to the end, and compares each with the log. */
  async function run(storage: Storage, liveLog: LiveLog, steps: readonly Step[], hint = () => {}): Promise<void> {
    const accounts = [(await storedAccount(storage)).id, (await storedAccount(storage)).id];
    const followers: Reader[] = [];
    const ended = new Set<Reader>();
    const writes: Promise<unknown>[] = [];
    const places: { reader: Reader; count: number; position: number }[] = [];
    for (const one of steps) {
      if (one.kind === 'append') {
        const added = one.events.map(({ type, conversation: index }) =>
          sampleEvent(conversation, {
            type,
            conversationId: index === null ? null : (conversations[index]?.id ?? null),
          }),
        );
        writes.push(append(storage, accounts[one.account] ?? '', added));
      } else if (one.kind === 'follow') {
        const accountId = accounts[one.account] ?? '';
        const { last } = await storage.read.events.bounds(accountId);
        const { types, conversation: index } = one.filter;
        const filter = {
          types,
          conversationId: index === undefined ? undefined : (conversations[index]?.id ?? 'conv_unknown'),
        };
        followers.push(new Reader(liveLog, accountId, Math.floor(last * one.place), filter, one.takes));
      } else if (one.kind === 'turns') {
        for (let turn = 0; turn < one.count; turn++) await nextTurn();
        // Within a turn a batch may be on its way from the follower to its reader.
        for (const reader of followers) {
          places.push({ reader, count: reader.got.length, position: reader.follower.position });
        }
      } else {
        const reader = followers[one.reader % Math.max(1, followers.length)];
        if (one.kind === 'pull') reader?.pull();
        else if (reader !== undefined) {
          reader.end();
          ended.add(reader);
        }
      }
    }
    await Promise.all(writes);
    hint();
    const logs = new Map<string, readonly StoredEvent[]>();
    for (const accountId of accounts) logs.set(accountId, await wholeLog(storage, accountId));
    for (const reader of followers) await reader.pullTo(logs.get(reader.accountId)?.length ?? 0);
    for (let turn = 0; turn < 5; turn++) await nextTurn(); // whatever comes too often comes now
    for (const reader of followers) reader.end();
    for (const reader of followers) await reader.pullUntil(() => reader.done);

    const expected = ({ accountId, after, filter }: Reader, upTo: number) =>
      (logs.get(accountId) ?? [])
        .filter((event) => event.sequence > after && event.sequence <= upTo && fits(event, filter))
        .map(({ sequence, id }) => ({ sequence, id }));
    for (const reader of followers) {
      expect(reader.failure).toBeUndefined();
      const { position } = reader.follower;
      const got = reader.got.map(({ sequence, id }) => ({ sequence, id }));
      expect(got).toEqual(expected(reader, position));
      if (!ended.has(reader)) expect(position).toBe(logs.get(reader.accountId)?.length);
    }
    // At no time was a place given that hides an event, or one that repeats it.
    for (const { reader, count, position } of places) expect(count).toBe(expected(reader, position).length);
    expect(liveLog.followers).toBe(0);
  }

  test('gets all matching events after its start, in order, once each, at any pace, and its position is always right', async () => {
    const { storage, liveLog } = await openLog();
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60, size: 'max' }), (steps) =>
        run(storage, liveLog, steps),
      ),
      { numRuns: effort(12, 1_000) },
    );
  });

  test('misses nothing and gets nothing twice when wake-ups are lost, repeated or unspecific', async () => {
    const { storage } = await openLog();
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 10, maxLength: 60, size: 'max' }),
        fc.array(fc.constantFrom('lost', 'told', 'told twice', 'blurred'), { minLength: 1, maxLength: 9 }),
        async (steps, fates) => {
          // The storage is the real one: only the way that its hints take is a bad one.
          let hint = (): void => {};
          let count = 0;
          const watch: Storage['watch'] = (listener) => {
            hint = () => listener();
            return storage.watch((touched) => {
              const fate = fates[count++ % fates.length];
              if (fate === 'blurred') listener();
              else if (fate !== 'lost') listener(touched);
              if (fate === 'told twice') listener(touched);
            });
          };
          const badlyTold: Storage = { ...storage, watch };
          await run(storage, liveLogOn(badlyTold), steps, () => hint());
        },
      ),
      { numRuns: effort(12, 1_000) },
    );
  });

  test('gets each event in the same form as on every face', async () => {
    const { storage, accountId, read } = await openLog();
    const message = sampleMessage(conversation.id, 1, { content: 'line\u2028line “quoted”' });
    const added = sampleEvent(conversation, { type: 'message.received', data: { message, conversation } });
    await append(storage, accountId, [added]);
    const reader = read(0);
    await reader.pullTo(1);
    const epoch = await storage.read.events.epoch();
    const form = {
      id: added.id,
      type: 'message.received',
      timestamp: added.timestamp,
      sequence: 1,
      cursor: eventCursor(epoch, 1),
      apiVersion: 'v1',
      accountId,
      data: { message, conversation },
    };
    expect(JSON.parse(reader.got[0]?.json ?? '')).toEqual(form);
    expect(Object.keys(JSON.parse(reader.got[0]?.json ?? ''))).toEqual(Object.keys(form));
    expect(reader.got[0]?.data).toEqual(form.data);
  });
});

/** As many events as are asked for, each with a message so long that a batch holds few of them. */
function largeEvents(count: number): NewEvent[] {
  const message = sampleMessage(conversation.id, 1, { content: 'x'.repeat(60_000) });
  return Array.from({ length: count }, () =>
    sampleEvent(conversation, { type: 'message.received', data: { conversation, message } }),
  );
}

/** The storage as it is, and what is read of its log. */
function watchingReads(storage: Storage, onRead: (events: readonly StoredEvent[]) => void): Storage {
  const log: Storage['read']['events'] = Object.create(storage.read.events);
  log.after = async (...asked) => {
    const page = await storage.read.events.after(...asked);
    onRead(page.events);
    return page;
  };
  const read: Storage['read'] = Object.create(storage.read, { events: { value: log } });
  return new Proxy(storage, { get: (target, name) => (name === 'read' ? read : Reflect.get(target, name, target)) });
}

describe('a lagging follower', () => {
  test('reads large events about once, however few of them fit into a batch', async () => {
    const { storage, accountId } = await openLog();
    for (let round = 0; round < 4; round++) await append(storage, accountId, largeEvents(30));
    let reads = 0;
    const liveLog = liveLogOn(
      watchingReads(storage, (events) => {
        reads += events.length;
      }),
    );
    const reader = new Reader(liveLog, accountId, 0);
    readers.push(reader);
    await reader.pullTo(120);
    expect(reader.sequences).toEqual(range(1, 120));
    expect(reads).toBeLessThan(240);
  });

  test('lets the event loop yield between its reads and those of others, however many there are', async () => {
    const { storage, accountId } = await openLog();
    await append(storage, accountId, largeEvents(10));
    let turn = 0;
    const readsInTurn = new Map<number, number>();
    const liveLog = liveLogOn(
      watchingReads(storage, () => {
        readsInTurn.set(turn, (readsInTurn.get(turn) ?? 0) + 1);
        const endMs = performance.now() + 1;
        while (performance.now() < endMs); // as a slow disk holds the loop
      }),
    );
    const following = Array.from({ length: 40 }, () => new Reader(liveLog, accountId, 0));
    readers.push(...following);
    for (const reader of following) reader.pull();
    await until(() => {
      turn++;
      for (const reader of following) reader.pull();
      return following.every(({ got }) => got.length === 10);
    });
    expect(Math.max(...readsInTurn.values())).toBeLessThanOrEqual(4);
  });

  test('behind the cached tail catches up from the storage, next to one that does not lag', async () => {
    const { storage, accountId, read, statements } = await openLog();
    await append(storage, accountId, events(150));
    const lagging = read(0);
    const choosy = read(0, { types: ['lead.captured'] });
    const prompt = read(150);
    for (const reader of [lagging, choosy, prompt]) reader.pull();
    await until(() => lagging.got.length > 0);
    const reached = lagging.got.length;
    for (let round = 0; round < 8; round++) {
      await append(storage, accountId, [...events(450), sampleEvent(conversation, { type: 'lead.captured' })]);
      await prompt.pullTo(150 + (round + 1) * 451);
    }
    const last = 150 + 8 * 451;
    expect(lagging.got.length, 'nothing but what it has pulled').toBe(reached);
    expect(prompt.sequences).toEqual(range(151, last));
    statements.length = 0;
    await lagging.pullTo(last);
    expect(looks(statements), 'it has read for itself').toBeGreaterThan(10);
    expect(lagging.sequences).toEqual(range(1, last));
    await choosy.pullTo(last);
    expect(choosy.sequences).toEqual(range(1, 8).map((round) => 150 + round * 451));
  });

  test('within the cached tail shares what was read already', async () => {
    const { storage, accountId, read, statements } = await openLog();
    const [prompt, lagging] = [read(0), read(0)];
    for (const reader of [prompt, lagging]) reader.pull();
    await append(storage, accountId, events(1));
    await until(() => lagging.got.length === 1);
    for (let round = 0; round < 9; round++) await append(storage, accountId, events(100));
    await prompt.pullTo(901);
    statements.length = 0;
    await lagging.pullTo(901);
    expect(lagging.sequences).toEqual(range(1, 901));
    expect(looks(statements)).toBe(0);
  });

  test('keeps a bounded amount of large events in memory, in itself and in the cache', async () => {
    const { storage, accountId, read, statements } = await openLog();
    const [prompt, lagging] = [read(0), read(0)];
    for (const reader of [prompt, lagging]) reader.pull();
    for (let round = 0; round < 8; round++) {
      await append(storage, accountId, largeEvents(30));
      await prompt.pullTo((round + 1) * 30);
    }
    statements.length = 0;
    await lagging.pullTo(240);
    // 240 events are few enough to be kept, but not if they weigh 14 MB.
    expect(looks(statements)).toBeGreaterThan(0);
    for (const reader of [prompt, lagging]) {
      expect(reader.sequences).toEqual(range(1, 240));
      expect(Math.max(...reader.batches)).toBeLessThan(8);
    }
  });

  test('keeps the caches of all accounts together within a bound: those of quiet accounts are cleared first', async () => {
    const { storage, liveLog, statements } = await openLog();
    const content = 'x'.repeat(60_000);
    const data = { conversation, message: sampleMessage(conversation.id, 1, { content }) };
    /** Lets an account have 900 KB of events while somebody follows it. */
    const fill = async (accountId: string): Promise<Reader> => {
      const reader = new Reader(liveLog, accountId, 0);
      readers.push(reader);
      reader.pull();
      for (let turn = 0; turn < 5; turn++) await nextTurn();
      const large = Array.from({ length: 15 }, () => sampleEvent(conversation, { type: 'message.received', data }));
      await append(storage, accountId, large);
      await reader.pullTo(15);
      return reader;
    };
    /** How often the log is looked into for one who resumes at its beginning. */
    const looksToResume = async (accountId: string): Promise<number> => {
      statements.length = 0;
      const resuming = new Reader(liveLog, accountId, 0);
      readers.push(resuming);
      await resuming.pullTo(15);
      expect(resuming.sequences).toEqual(range(1, 15));
      return looks(statements);
    };
    // Whoever is the first to resume clears them all: nobody has looked yet whether something was erased.
    const { id: other } = await storedAccount(storage);
    await fill(other);
    await looksToResume(other);
    const accounts = await Promise.all(Array.from({ length: 6 }, () => storedAccount(storage)));
    const following: Reader[] = [];
    for (const { id } of accounts) following.push(await fill(id));
    // What is not followed any more is not held, and takes nothing from the others.
    for (let count = 0; count < 6; count++) (await fill((await storedAccount(storage)).id)).end();
    const kept: boolean[] = [];
    for (const { id } of accounts.toReversed()) kept.push((await looksToResume(id)) === 0);
    expect(kept).toEqual([true, true, true, false, false, false]);
    // A quiet one that is no longer quiet is shared again.
    await append(storage, accounts[0]?.id ?? '', events(2));
    await following[0]?.pullTo(17);
    expect(following[0]?.sequences).toEqual(range(1, 17));
  });

  test('behind the pruned part of the log gets CURSOR_EXPIRED with the oldest cursor, from which it can continue', async () => {
    const { storage, accountId, read } = await openLog();
    await append(storage, accountId, events(3_500));
    const lagging = read(0);
    lagging.pull();
    await until(() => lagging.got.length > 0);
    const reached = lagging.got.length;
    await pruneUpTo(storage, accountId, 3_000);
    await lagging.pullUntil(() => lagging.done);
    expect(lagging.sequences, 'nothing after the gap').toEqual(range(1, reached));
    expect(lagging.failure).toMatchObject({
      code: 'CURSOR_EXPIRED',
      facts: { oldestCursor: eventCursor(await storage.read.events.epoch(), 3_000) },
    });
    const next = read(3_000);
    await next.pullTo(3_500);
    expect(next.sequences).toEqual(range(3_001, 3_500));
  });

  test('exactly at the beginning of the remaining log misses nothing and goes on', async () => {
    const { storage, accountId, read } = await openLog();
    await append(storage, accountId, events(300));
    const lagging = read(0);
    lagging.pull();
    await until(() => lagging.got.length > 0);
    await pruneUpTo(storage, accountId, lagging.got.length);
    await lagging.pullTo(300);
    expect(lagging.sequences).toEqual(range(1, 300));
    await pruneUpTo(storage, accountId, 300);
    await append(storage, accountId, events(1));
    await lagging.pullTo(301);
    expect(lagging.sequences.at(-1)).toBe(301);
    expect(lagging.failure).toBeUndefined();
  });

  // What a process sees that slept longer than events are kept: it was at the end when it fell asleep.
  test.each([
    { name: 'all of it', kept: 0 },
    { name: 'the first of it', kept: 150 },
    { name: 'all but the last', kept: 1 },
  ])('gets CURSOR_EXPIRED when the next events were pruned before anybody read them ($name)', async ({ kept }) => {
    const { storage, accountId, read } = await openLog();
    await append(storage, accountId, events(5));
    const [lagging, ending] = [read(5), read(5)];
    for (const reader of [lagging, ending]) reader.pull();
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    await storage.write(async (tx) => {
      await tx.events.append(accountId, events(300));
      await tx.events.prune(startMs + 1_000_000, 305 - kept);
    });
    ending.end();
    await until(() => lagging.done);
    expect(lagging.got).toEqual([]);
    expect(lagging.failure).toMatchObject({
      code: 'CURSOR_EXPIRED',
      facts: { oldestCursor: eventCursor(await storage.read.events.epoch(), 305 - kept) },
    });
    // The next one is not made to pay for it.
    const next = read(305 - kept);
    next.pull();
    await append(storage, accountId, events(1));
    await next.pullTo(306);
    expect(next.sequences).toEqual(range(306 - kept, 306));
  });
});

describe('a follower ends', () => {
  test.each([
    {
      name: 'before the first pull',
      at: async (reader: Reader) => {
        reader.end();
        reader.pull();
      },
    },
    {
      name: 'in the turn of the first pull',
      at: async (reader: Reader) => {
        reader.pull();
        reader.end();
      },
    },
    {
      name: 'during a read',
      at: async (reader: Reader) => {
        reader.pull();
        await until(() => reader.got.length > 0);
        reader.pull();
        reader.end();
        reader.pull();
      },
    },
    {
      name: 'while waiting',
      at: async (reader: Reader) => {
        await reader.pullTo(300);
        await nextTurn();
        reader.pull();
        reader.end();
      },
    },
  ])('by `end` $name, and leaves nothing behind', async ({ at }) => {
    const { storage, accountId, liveLog, read } = await openLog();
    await append(storage, accountId, events(300));
    const timers = watchTimers();
    const reader = read(0);
    await at(reader);
    await reader.pullUntil(() => reader.done);
    expect(reader.failure).toBeUndefined();
    expect(reader.sequences).toEqual(range(1, reader.got.length));
    expect(reader.follower.position).toBe(reader.got.length);
    expect(liveLog.followers).toBe(0);
    expect(await timers.left()).toEqual([]);
  });

  test('by `end` even if its consumer never asks for more: what it held is released at once', async () => {
    const { storage, accountId, liveLog, read, statements } = await openLog();
    await append(storage, accountId, events(300));
    const timers = watchTimers();
    const [parked, other] = [read(0), read(300)];
    for (const reader of [parked, other]) reader.pull();
    await until(() => parked.got.length > 0);
    parked.end();
    expect(liveLog.followers, 'the other one is still there').toBe(1);
    other.end();
    expect(liveLog.followers).toBe(0);
    expect(await timers.left()).toEqual([]);
    statements.length = 0;
    await append(storage, accountId, events(10));
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    expect(looks(statements), 'nobody reads for nobody').toBe(0);
    // Nor to the end of what came, when the last one goes in the middle of it.
    const leaving = read(310);
    leaving.pull();
    await append(storage, accountId, events(2_000));
    await until(() => leaving.got.length > 0);
    leaving.end();
    statements.length = 0;
    for (let turn = 0; turn < 50; turn++) await nextTurn();
    expect(looks(statements)).toBeLessThan(3);
    // What is cleaned up twice is cleaned up once: a new follower of the account is not sent away by it.
    const next = read(2_310);
    next.pull();
    await parked.return();
    await append(storage, accountId, events(1));
    await next.pullTo(2_311);
    expect(next.sequences).toEqual([2_311]);
  });

  test('when its consumer returns, breaks or throws, and leaves nothing behind', async () => {
    const { storage, accountId, liveLog } = await openLog();
    await append(storage, accountId, events(300));
    const timers = watchTimers();
    const follow = () => new Reader(liveLog, accountId, 0).follower;

    const untouched = follow()[Symbol.asyncIterator]();
    expect(await untouched.return?.()).toEqual({ done: true, value: undefined });
    const returned = follow()[Symbol.asyncIterator]();
    await returned.next();
    expect(liveLog.followers).toBe(1);
    await returned.return?.();
    expect(await returned.next()).toEqual({ done: true, value: undefined });
    expect(liveLog.followers).toBe(0);
    for await (const batch of follow()) if (batch.length > 0) break;
    expect(liveLog.followers).toBe(0);
    const throwing = async () => {
      for await (const batch of follow()) throw new Error(`on purpose, at ${batch[0]?.sequence}`);
    };
    await expect(throwing()).rejects.toThrow('on purpose, at 1');
    expect(liveLog.followers).toBe(0);
    expect(await timers.left()).toEqual([]);
  });

  test('without ever having been pulled from: it held nothing', async () => {
    const { liveLog, read, statements } = await openLog();
    const timers = watchTimers();
    statements.length = 0;
    read(0);
    expect(liveLog.followers).toBe(0);
    expect(statements).toEqual([]);
    expect(await timers.left()).toEqual([]);
  });
});

describe('many followers', () => {
  test('of one account cost one read of the log for each group of commits', async () => {
    const { storage, accountId, read, statements } = await openLog();
    const crowd = Array.from({ length: 500 }, () => read(0));
    for (const reader of crowd) reader.pull();
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    for (let group = 1; group <= 3; group++) {
      statements.length = 0;
      // Written in one turn, so committed together.
      await Promise.all(Array.from({ length: 10 }, () => append(storage, accountId, events(2))));
      for (const reader of crowd) await reader.pullTo(group * 20);
      expect(statements.filter((sql) => sql === 'BEGIN IMMEDIATE')).toHaveLength(1);
      expect(looks(statements)).toBe(1);
    }
    for (const reader of crowd) expect(reader.sequences).toEqual(range(1, 60));
  });

  test('that come with cursors within the newest thousand events read these once for all', async () => {
    const { storage, accountId, read, statements } = await openLog();
    await append(storage, accountId, events(1_500));
    const crowd = Array.from({ length: 200 }, (_, index) => read(600 + index));
    const old = read(100);
    statements.length = 0;
    for (const reader of [...crowd, old]) reader.pull();
    for (const reader of [...crowd, old]) await reader.pullTo(1_500);
    for (const reader of [...crowd, old]) expect(reader.sequences).toEqual(range(reader.after + 1, 1_500));
    expect(looks(statements)).toBeLessThan(50);
  });

  test('that read older events together have each once, and nothing that was erased meanwhile', async () => {
    const { storage, accountId, read } = await openLog();
    await storage.write(async (tx) => tx.conversations.insert(accountId, conversation));
    await append(storage, accountId, events(950));
    const crowd = Array.from({ length: 20 }, (_, index) => read(40 * index));
    const reading = Promise.all(crowd.map((reader) => reader.pullTo(960)));
    await nextTurn();
    await append(storage, accountId, events(10));
    await storage.write(async (tx) => tx.conversations.erase(accountId, conversation));
    const before = crowd.map(({ got }) => got.length);
    await reading;
    for (const [index, reader] of crowd.entries()) {
      expect(reader.sequences).toEqual(range(reader.after + 1, 960));
      expect(reader.got.slice(before[index]).every(({ erased }) => erased)).toBe(true);
    }
    expect(Math.max(...before)).toBeLessThan(960);
  });

  test('are woken in turns of the event loop, between which others are served', async () => {
    const { storage, accountId, read } = await openLog();
    const crowd = Array.from({ length: 2_000 }, () => read(0));
    const sendMs = 0.025;
    const send = (): void => {
      const endMs = performance.now() + sendMs;
      while (performance.now() < endMs);
    };
    for (const reader of crowd) {
      reader.onBatch = send;
      reader.pull();
    }
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    await append(storage, accountId, events(1));
    const woken = [0];
    while (woken.at(-1) !== crowd.length) {
      await nextTurn();
      woken.push(crowd.filter(({ got }) => got.length > 0).length);
    }
    const inATurn = woken.slice(1).map((count, index) => count - (woken[index] ?? 0));
    expect(Math.max(...inATurn)).toBeLessThan(crowd.length);
  });

  test('of many accounts do not wake each other', async () => {
    const { storage, liveLog, statements } = await openLog();
    const accounts = await Promise.all(Array.from({ length: 20 }, () => storedAccount(storage)));
    const following = accounts.map(({ id }) => new Reader(liveLog, id, 0));
    readers.push(...following);
    for (const reader of following) reader.pull();
    expect(liveLog.followers).toBe(20);
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    const woken = new Set<number>();
    for (const index of [7, 3, 12]) {
      statements.length = 0;
      await append(storage, accounts[index]?.id ?? '', events(1));
      await until(() => following[index]?.got.length === 1);
      for (let turn = 0; turn < 5; turn++) await nextTurn();
      expect(looks(statements)).toBe(1);
      woken.add(index);
      expect(following.map(({ got }) => got.length)).toEqual(accounts.map((_, each) => (woken.has(each) ? 1 : 0)));
    }
  });
});

describe('events of another process', () => {
  test('arrive within 100 ms of their commit', async () => {
    const { path, accountId, read } = await openLog();
    const script = fileURLToPath(new URL('other-process.mts', import.meta.url));
    const child = fork(script, [path], {
      execPath: process.execPath,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const exited = once(child, 'exit');
    const answer = async (): Promise<unknown> => ((await once(child, 'message')) as [unknown])[0];
    expect(await answer()).toBe('ready');
    const reader = read(0);
    const took: number[] = [];
    for (let count = 1; count <= 11; count++) {
      reader.pull();
      child.send(accountId);
      const [committedAtMs, arrivedAtMs] = await Promise.all([
        answer(),
        until(() => reader.got.length === count).then(() => Date.now()),
      ]);
      took.push(arrivedAtMs - Number(committedAtMs));
    }
    child.disconnect();
    expect(await exited).toEqual([0, null]);
    expect(reader.sequences).toEqual(range(1, 11));
    // The middle one: the machine that a test runs on has its own pauses.
    expect(took.toSorted((a, b) => a - b)[5]).toBeLessThan(100);
  });

  test('are not missed when they are committed at the moment a follower joins', async () => {
    const { path, accountId, read, hooks } = await openLog();
    const other = new Database(path);
    onTestFinished(() => void other.close());
    // Between the look for the log's end and whatever comes after it in that turn: the transaction of the
    // look has begun, so it does not see this.
    let begun = false;
    hooks.onStatement = (sql) => {
      if (begun || !/^SELECT sequence FROM events/.test(sql)) return;
      begun = true;
      other.exec(`
        UPDATE account_totals SET event_sequence = 1 WHERE account_id = '${accountId}';
        INSERT INTO events (account_id, sequence, id, type, timestamp, data)
          VALUES ('${accountId}', 1, 'evt_1', 'conversation.started', ${startMs}, '{"conversation":null}');
      `);
    };
    const reader = read(0);
    reader.pull();
    await until(() => begun);
    await reader.pullTo(1);
    expect(reader.sequences).toEqual([1]);
  });
});

/** A storage that reads events in another way. */
function withEvents(storage: Storage, changed: Partial<Storage['read']['events']>): Storage {
  return { ...storage, read: { ...storage.read, events: { ...storage.read.events, ...changed } } };
}

/** Lets happen what is about to. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await nextTurn();
}

describe('erased data', () => {
  /** Events that were held back from a follower who takes its time, in the form in which it gets them then. */
  async function heldBack(after: 'storage' | 'memory', takes: number): Promise<LogEvent[]> {
    const { storage, liveLog, accountId } = await openLog();
    const told = sampleConversation();
    const both = (count: number) =>
      Array.from({ length: count }, (_, index) => sampleEvent(index % 2 === 0 ? told : conversation));
    await storage.write(async (tx) => tx.conversations.insert(accountId, told));
    const beside = new Reader(liveLog, accountId, 0);
    readers.push(beside);
    if (after === 'storage') await append(storage, accountId, both(20));
    await beside.pullUntil(() => liveLog.followers === 1);
    if (after === 'memory') {
      await append(storage, accountId, both(20));
      await beside.pullTo(20);
    }
    const slow = new Reader(liveLog, accountId, 0, {}, takes);
    readers.push(slow);
    slow.pull();
    await until(() => slow.got.length > 0);
    expect(slow.sequences).toEqual(range(1, takes));
    await storage.write(async (tx) => tx.conversations.erase(accountId, told));
    await slow.pullTo(20);
    expect(slow.sequences).toEqual(range(1, 20));
    return slow.got;
  }

  test.each(['storage', 'memory'] as const)('is not delivered, even if it was read from %s before', async (after) => {
    for (const takes of [1, 3]) {
      const got = await heldBack(after, takes);
      expect(got.map(({ erased }) => erased)).toEqual(got.map((_, index) => index >= takes && index % 2 === 0));
    }
  });

  test('is not delivered, even if the storage cannot be read at the moment of the erasure', async () => {
    const { storage, accountId, read, hooks } = await openLog();
    await storage.write(async (tx) => tx.conversations.insert(accountId, conversation));
    const beside = read(0);
    beside.pull();
    await append(storage, accountId, events(1));
    await beside.pullTo(1);
    let failed = false;
    hooks.onStatement = (sql) => {
      if (failed || !/^SELECT value FROM meta .*'erasures'/s.test(sql)) return;
      failed = true;
      throw new Error('disk I/O error');
    };
    await storage.write(async (tx) => tx.conversations.erase(accountId, conversation));
    await until(() => failed);
    const next = read(0);
    await next.pullTo(1);
    expect(next.got.map(({ erased }) => erased)).toEqual([true]);
  });

  test('by another process is not delivered to who joins after it, even if this one has not been told of it yet', async () => {
    const { path, storage, accountId } = await openLog();
    await storage.write(async (tx) => tx.conversations.insert(accountId, conversation));
    const watch: Storage['watch'] = (listener) => storage.watch((touched) => touched && listener(touched));
    const liveLog = liveLogOn({ ...storage, watch });
    const [beside, next] = [new Reader(liveLog, accountId, 0), new Reader(liveLog, accountId, 0)];
    readers.push(beside, next);
    beside.pull();
    await turns();
    await append(storage, accountId, events(1));
    await beside.pullTo(1);
    const other = openSqliteStorage(path);
    onTestFinished(() => other.close());
    await other.write(async (tx) => tx.conversations.erase(accountId, conversation));
    await next.pullTo(1);
    expect(next.got.map(({ erased }) => erased)).toEqual([true]);
  });

  test('by another process is not delivered to who joins while it is being read', async () => {
    const { path, storage, accountId } = await openLog();
    await storage.write(async (tx) => tx.conversations.insert(accountId, conversation));
    const { events: log } = storage.read;
    const [asked, answered] = [gate(), gate()];
    let isHeld = false;
    const liveLog = liveLogOn({
      ...withEvents(storage, {
        after: async (...given) => {
          const answer = await log.after(...given);
          if (!isHeld) return answer;
          isHeld = false;
          asked.open();
          await answered.opened;
          return answer;
        },
      }),
      watch: (listener) => storage.watch((touched) => touched && listener(touched)),
    });
    const [beside, next] = [new Reader(liveLog, accountId, 0), new Reader(liveLog, accountId, 0)];
    readers.push(beside, next);
    beside.pull();
    await turns();
    isHeld = true;
    await append(storage, accountId, events(1));
    await asked.opened;
    const other = openSqliteStorage(path);
    onTestFinished(() => other.close());
    await other.write(async (tx) => tx.conversations.erase(accountId, conversation));
    next.pull();
    answered.open();
    await next.pullTo(1);
    expect(next.got.map(({ erased }) => erased)).toEqual([true]);
  });

  // Where another server has what is stored, answers come in any order.
  test('is not delivered, even if the answer to a read comes only after the erasure', async () => {
    const { storage, accountId } = await openLog();
    await storage.write(async (tx) => tx.conversations.insert(accountId, conversation));
    const { events: log } = storage.read;
    const [asked, answered] = [gate(), gate()];
    let isHeld = false;
    const liveLog = liveLogOn(
      withEvents(storage, {
        after: async (...given) => {
          const answer = await log.after(...given);
          if (!isHeld) return answer;
          asked.open();
          await answered.opened;
          return answer;
        },
      }),
    );
    const beside = new Reader(liveLog, accountId, 0);
    readers.push(beside);
    beside.pull();
    await turns();
    isHeld = true;
    await append(storage, accountId, events(1));
    await asked.opened;
    isHeld = false;
    await storage.write(async (tx) => tx.conversations.erase(accountId, conversation));
    await turns();
    answered.open();
    const next = new Reader(liveLog, accountId, 0);
    readers.push(next);
    for (const reader of [beside, next]) {
      await reader.pullTo(1);
      expect(reader.got.map(({ erased }) => erased)).toEqual([true]);
    }
  });

  test('is not delivered to who joins while an earlier commit is looked at, which is found to be no erasure too late', async () => {
    const { storage, accountId } = await openLog();
    const { id: joining } = await storedAccount(storage);
    await storage.write(async (tx) => tx.conversations.insert(joining, conversation));
    const { events: log } = storage.read;
    const [first, second] = [gate(), gate()];
    const waiting: Promise<void>[] = [];
    let notify: Parameters<Storage['watch']>[0] = () => {};
    const liveLog = liveLogOn({
      ...withEvents(storage, {
        erasures: async () => {
          await waiting.shift();
          return log.erasures();
        },
      }),
      watch(listener) {
        notify = listener;
        return storage.watch(listener);
      },
    });
    const [beside, joined, next] = [accountId, joining, joining].map((id) => new Reader(liveLog, id, 0)) as [
      Reader,
      Reader,
      Reader,
    ];
    readers.push(beside, joined, next);
    beside.pull();
    await turns();
    waiting.push(first.opened, second.opened);
    notify(undefined);
    joined.pull();
    await turns();
    await append(storage, joining, events(1));
    await joined.pullTo(1);
    await storage.write(async (tx) => tx.conversations.erase(joining, conversation));
    for (const { open } of [first, second]) {
      await turns();
      open();
    }
    await turns();
    await next.pullTo(1);
    expect(next.got.map(({ erased }) => erased)).toEqual([true]);
  });
});

describe('when a replica that lagged behind has taken the place of the database', () => {
  /** A log whose end comes back, with another epoch: its last events are gone, and others have their numbers. */
  async function replacedAt(sequence: number) {
    const { storage: lost, accountId } = await openLog();
    const { storage: promoted } = await openLog();
    const { id: promotedId } = await storedAccount(promoted);
    await append(lost, accountId, events(42));
    await append(promoted, promotedId, events(sequence));
    let isReplaced = false;
    let notify: Parameters<Storage['watch']>[0] = () => {};
    const { events: before } = lost.read;
    const { events: after } = promoted.read;
    const liveLog = liveLogOn({
      ...withEvents(lost, {
        epoch: () => (isReplaced ? after.epoch() : before.epoch()),
        bounds: (id) => (isReplaced ? after.bounds(promotedId) : before.bounds(id)),
        after: (id, ...rest) => (isReplaced ? after.after(promotedId, ...rest) : before.after(id, ...rest)),
        lastSequences: (ids) =>
          isReplaced ? after.lastSequences(ids.map(() => promotedId)) : before.lastSequences(ids),
      }),
      watch(listener) {
        notify = listener;
        return () => {};
      },
    });
    const read = (from: number) => {
      const reader = new Reader(liveLog, accountId, from);
      readers.push(reader);
      return reader;
    };
    return {
      read,
      liveLog,
      async replace() {
        isReplaced = true;
        epochs.set(liveLog, await after.epoch());
        notify(undefined);
        await turns();
      },
      async append(count: number) {
        await append(promoted, promotedId, events(count));
        notify({ accountIds: new Set([accountId]), webhooks: new Map() });
        await turns();
      },
    };
  }

  test('who follows the log that is gone gets CURSOR_EXPIRED, and none of the events of the other', async () => {
    const { read, replace, append: appendAfter } = await replacedAt(40);
    const [waiting, behind, busy] = [read(42), read(0), read(42)];
    behind.pull();
    waiting.pull();
    await until(() => behind.got.length > 0);
    await replace();
    behind.pull();
    busy.pull();
    await until(() => waiting.done && behind.done && busy.done);
    await appendAfter(3);
    for (const { failure, follower } of [waiting, behind, busy]) {
      expect(failure).toMatchObject({ code: 'CURSOR_EXPIRED' });
      expect(follower.position).toBeLessThanOrEqual(42);
    }
    expect(waiting.got).toEqual([]);
    expect(behind.sequences).toEqual(range(1, behind.got.length));
  });

  test('who follows the new log gets its events, and none of the one that is gone from memory', async () => {
    const { read, liveLog, replace, append: appendAfter } = await replacedAt(40);
    const gone = read(0);
    gone.pull();
    await gone.pullTo(42);
    await replace();
    const next = read(38);
    next.pull();
    await appendAfter(3);
    await next.pullTo(43);
    expect(next.sequences).toEqual(range(39, 43));
    const cursors = next.got.map(({ cursor, position }) => [cursor, eventCursor(epochs.get(liveLog) ?? '', position)]);
    for (const [cursor, expected] of cursors) expect(cursor).toBe(expected);
    gone.pull();
    await until(() => gone.done);
    expect(gone.failure).toMatchObject({ code: 'CURSOR_EXPIRED' });
    expect(liveLog.followers).toBe(1);
  });
});

describe('a storage failure', () => {
  function failAtLook(sql: string): void {
    if (looks([sql]) > 0) throw new Error('disk I/O error');
  }

  test('does not end a waiting follower: afterwards it gets the events from the meantime, even without a wake-up', async () => {
    const { storage, accountId, hooks } = await openLog();
    const timers = watchTimers();
    let told = 0;
    const troubles: unknown[] = [];
    const liveLog = liveLogOn(
      {
        ...storage,
        watch: (listener) =>
          storage.watch((touched) => {
            if (touched !== undefined && told++ === 0) listener(touched);
          }),
      },
      (error) => troubles.push(error),
    );
    const reader = new Reader(liveLog, accountId, 0);
    readers.push(reader);
    reader.pull();
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    hooks.onStatement = failAtLook;
    await append(storage, accountId, events(3));
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    expect({ got: reader.got, done: reader.done }).toEqual({ got: [], done: false });
    expect(troubles, 'the operator is told, once').toEqual([expect.objectContaining({ message: 'disk I/O error' })]);
    hooks.onStatement = () => {};
    await until(() => reader.got.length > 0 || reader.done);
    expect(reader.sequences).toEqual([1, 2, 3]);
    reader.end();
    expect(await timers.left()).toEqual([]);
  });

  test('leaves no timer behind when all followers leave during it', async () => {
    const { storage, accountId, liveLog, hooks, read } = await openLog();
    const timers = watchTimers();
    const reader = read(0);
    reader.pull();
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    hooks.onStatement = failAtLook;
    await append(storage, accountId, events(3));
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    expect(await timers.left(), 'it will try again').toContainEqual(expect.stringContaining('events/tail.ts'));
    reader.end();
    expect(await timers.left()).toEqual([]);
    expect(liveLog.followers).toBe(0);
  });

  test('is an error for a follower that reads the storage, not a silent end', async () => {
    const { path, storage, accountId, liveLog, read } = await openLog();
    const other = new Database(path);
    onTestFinished(() => void other.close());
    await append(storage, accountId, events(300));
    const reader = read(0);
    reader.pull();
    await until(() => reader.got.length > 0);
    other.exec('ALTER TABLE events RENAME TO gone');
    await reader.pullUntil(() => reader.done);
    expect(reader.failure).toBeInstanceOf(Error);
    expect(liveLog.followers).toBe(0);
  });

  test('such as a write lock held by another process does not affect reading', async () => {
    const { path, storage, accountId, read } = await openLog();
    const other = new Database(path);
    onTestFinished(() => void other.close());
    await append(storage, accountId, events(300));
    const reader = read(0);
    other.exec('BEGIN IMMEDIATE');
    const waiting = append(storage, accountId, events(1));
    await reader.pullTo(300);
    expect(reader.sequences).toEqual(range(1, 300));
    other.exec('COMMIT');
    await waiting;
    await reader.pullTo(301);
    expect(reader.sequences.at(-1)).toBe(301);
  });
});
