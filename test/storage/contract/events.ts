import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { eventTypes } from '../../../src/domain/event-types.ts';
import type { EventFilter, NewEvent, StoredEvent } from '../../../src/domain/events.ts';
import type { Storage, Touched } from '../../../src/domain/storage-port.ts';
import { timestamp } from '../../../src/domain/time.ts';
import { effort } from '../../support/effort.ts';
import {
  awkwardMetadata,
  awkwardText,
  fullConversation,
  ids,
  sampleConversation,
  sampleEvent,
  sampleHash,
  sampleKey,
  sampleLead,
  sampleMessage,
  start,
  startMs,
  storedAccount,
} from '../../support/samples.ts';
import { watchTimers } from '../../support/timers.ts';
import { until } from '../../support/wait.ts';
import type { LoggedEvent, OpenedStorage } from './opened.ts';

/** What every storage promises of the event log: a part of `storageContract`. */
export function eventsContract(open: () => Promise<OpenedStorage>): void {
  describe('events', () => {
    test('are stored as they were appended', async () => {
      const { storage, log } = await open();
      const { id: accountId } = await storedAccount(storage);
      const conversation = fullConversation();
      const message = sampleMessage(conversation.id, 1, { content: awkwardText, metadata: awkwardMetadata });
      const events = [
        sampleEvent(conversation),
        sampleEvent(conversation, {
          type: 'message.received',
          timestamp: timestamp(startMs + 1),
          data: { message, conversation },
        }),
      ];
      expect(await storage.write(async (tx) => tx.events.append(accountId, events))).toBe(2);
      expect(await log(accountId)).toEqual(events.map(asLogged));
    });

    test('append nothing when the list is empty, but still return where the log ends', async () => {
      const { storage, log } = await open();
      const { id: accountId } = await storedAccount(storage);
      expect(await storage.write(async (tx) => tx.events.append(accountId, []))).toBe(0);
      await storage.write(async (tx) => tx.events.append(accountId, [sampleEvent(sampleConversation())]));
      expect(await storage.write(async (tx) => tx.events.append(accountId, []))).toBe(1);
      expect(await log(accountId)).toHaveLength(1);
    });

    test('get the sequences 1, 2, 3 … in each account, without gaps, whatever runs concurrently and whatever fails', async () => {
      const { storage, log } = await open();
      const work = fc.record({
        account: fc.nat(2),
        counts: fc.array(fc.nat(3), { maxLength: 3 }),
        fails: fc.boolean(),
        waits: fc.boolean(),
      });
      await fc.assert(
        fc.asyncProperty(fc.array(work, { maxLength: 40 }), async (works) => {
          const accounts = [await storedAccount(storage), await storedAccount(storage), await storedAccount(storage)];
          const running: Promise<PromiseSettledResult<{ events: NewEvent[]; last: number }>>[] = [];
          for (const { account, counts, fails, waits } of works) {
            const accountId = accounts[account]?.id ?? '';
            const write = storage.write(async (tx) => {
              const events: NewEvent[] = [];
              let last = -1;
              for (const count of counts) {
                const added = Array.from({ length: count }, () => sampleEvent(sampleConversation()));
                last = await tx.events.append(accountId, added);
                events.push(...added);
              }
              if (fails) throw new Error('on purpose');
              return { events, last };
            });
            running.push(settled(write));
            if (waits) await nextTurn();
          }
          const results = await Promise.all(running);
          for (const [index, { id: accountId }] of accounts.entries()) {
            const logged = await log(accountId);
            const kept = works.flatMap((one, place) => {
              const result = results[place];
              return one.account === index && result?.status === 'fulfilled' ? [result.value] : [];
            });
            expect(logged.map((event) => event.sequence)).toEqual(logged.map((_, place) => place + 1));
            expect(new Set(logged.map((event) => event.id))).toEqual(
              new Set(kept.flatMap(({ events }) => events.map((event) => event.id))),
            );
            for (const { events, last } of kept) {
              if (events.length === 0) continue;
              const mine = logged.slice(last - events.length, last);
              expect(mine.map((event) => event.id)).toEqual(events.map((event) => event.id));
            }
            expect((await storage.read.accounts.totals(accountId)).eventSequence).toBe(logged.length);
          }
        }),
        { numRuns: effort(6, 60) },
      );
    });

    test('cannot be appended to an account that does not exist', async () => {
      const { storage } = await open();
      const append = storage.write(async (tx) =>
        tx.events.append(ids.next('account', startMs), [sampleEvent(sampleConversation())]),
      );
      await expect(append).rejects.toThrow();
    });

    test('belong to a log with a unique epoch, which survives reopening', async () => {
      const { storage, reopen } = await open();
      const epoch = await storage.read.events.epoch();
      expect(epoch).toMatch(/^[0-9a-z]{8,}$/i);
      expect(await storage.write(async (tx) => tx.events.epoch())).toBe(epoch);
      expect(await (await reopen()).read.events.epoch()).toBe(epoch);
      expect(await (await open()).storage.read.events.epoch()).not.toBe(epoch);
    });
  });

  describe('reading the event log', () => {
    test('finds its bounds when it is empty, after appends, after removing a part, and after removing all', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const bounds = () => storage.read.events.bounds(accountId);
      expect(await bounds()).toEqual({ first: 1, last: 0 });
      await appendAt(storage, accountId, [1, 2, 3, 4, 5]);
      expect(await bounds()).toEqual({ first: 1, last: 5 });
      await storage.write(async (tx) => tx.events.prune(startMs + 3, 100));
      expect(await bounds()).toEqual({ first: 3, last: 5 });
      expect(await storage.write(async (tx) => tx.events.bounds(accountId))).toEqual({ first: 3, last: 5 });
      await storage.write(async (tx) => tx.events.prune(startMs + 6, 100));
      expect(await bounds()).toEqual({ first: 6, last: 5 });
      await appendAt(storage, accountId, [7]);
      expect(await bounds()).toEqual({ first: 6, last: 6 });
      const unknown = ids.next('account', startMs);
      expect(await storage.read.events.bounds(unknown)).toEqual({ first: 1, last: 0 });
      const nothing = { events: [], scannedTo: 0, isCut: false, first: 1, last: 0 };
      expect(await storage.read.events.after(unknown, 0, { filter: {}, limit: 9, span: 9 })).toEqual(nothing);
    });

    test('returns events as they were appended', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const conversation = fullConversation();
      const lead = sampleLead({ name: awkwardText, metadata: awkwardMetadata });
      const events = [
        sampleEvent(conversation),
        sampleEvent(conversation, {
          type: 'lead.captured',
          timestamp: timestamp(startMs + 1),
          conversationId: null,
          data: { lead, conversation: null },
        }),
      ];
      await storage.write(async (tx) => tx.events.append(accountId, events));
      const { events: found } = await storage.read.events.after(accountId, 0, { filter: {}, limit: 9, span: 9 });
      expect(found.map((event) => ({ ...event, dataJson: JSON.parse(event.dataJson) }))).toEqual(
        events.map(({ data, visitorId, ...event }, index) => ({
          ...event,
          sequence: index + 1,
          visitorHash: visitorId && expect.any(String),
          dataJson: data,
        })),
      );
    });

    test('returns of a visitor what is the same for it alone, in one account, and tells nobody who it is', async () => {
      const { storage, beside } = await open();
      const accounts = [await storedAccount(storage), await storedAccount(storage)];
      const visitor = { id: 'ada@example.com', name: null, email: null };
      const hashes: (string | null)[] = [];
      for (const { id: accountId } of accounts) {
        for (const id of [visitor.id, 'somebody else']) {
          const event = sampleEvent(sampleConversation({ visitor: { ...visitor, id } }));
          await storage.write(async (tx) => tx.events.append(accountId, [event]));
          const hash = await (await beside()).read.events.visitorHash(accountId, id);
          const filter = { visitorHash: hash };
          const { events } = await storage.read.events.after(accountId, 0, { filter, limit: 9, span: 9 });
          expect(events.map((found) => [found.id, found.visitorHash])).toEqual([[event.id, hash]]);
          hashes.push(hash);
        }
      }
      expect(new Set(hashes).size).toBe(4);
      for (const hash of hashes) expect(hash).toMatch(/^[\w-]{22}$/);
      const elsewhere = (await open()).storage.read.events;
      expect(hashes).not.toContain(await elsewhere.visitorHash(accounts[0]?.id ?? '', visitor.id));
    });

    test('misses no event in the range that it reports as scanned, from any place, with any filter, limit and span', async () => {
      const { storage } = await open();
      const question = fc.record({
        from: fc.nat(45),
        filter: eventFilterOf(),
        limit: fc.integer({ min: 1, max: 12 }),
        span: fc.integer({ min: 1, max: 30 }),
        among: fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined }),
      });
      await fc.assert(
        fc.asyncProperty(eventLog(), fc.array(question, { minLength: 10, maxLength: 30 }), async (seeds, questions) => {
          const { accountId, log, last } = await populateLog(storage, seeds);
          for (const { from, filter, limit, span, among } of questions) {
            const asked = await named(filter, storage, accountId);
            const options = { filter: asked, limit, span, ...(among !== undefined && { among }) };
            const page = await storage.read.events.after(accountId, from, options);
            const first = last - log.length + 1;
            expect(page).toMatchObject({ first, last });
            const reach = Math.max(from, Math.min(Math.max(from, first - 1) + span, last));
            const lookedAt = log.filter(
              (event) => event.sequence > from && event.sequence <= reach && isLookedAt(event, filter),
            );
            const isCut = among !== undefined && lookedAt.length > among && filter.types?.length !== 0;
            const end = isCut ? (lookedAt[among - 1]?.sequence ?? reach) : reach;
            if (page.events.length < limit) expect(page.isCut).toBe(isCut);
            const fits = log.filter(
              (event) => event.sequence > from && event.sequence <= end && fitsFilter(event, filter),
            );
            expect(page.events.map(({ id }) => id)).toEqual(fits.slice(0, limit).map(({ id }) => id));
            // It has looked at all of the span, unless the page was full before.
            if (page.events.length < limit) expect(page.scannedTo).toBe(end);
            else expect(page.scannedTo).toBeGreaterThanOrEqual(page.events.at(-1)?.sequence ?? Infinity);
            const passed = log.filter((event) => event.sequence > from && event.sequence <= page.scannedTo);
            expect(page.events.map(({ sequence }) => sequence)).toEqual(
              passed.filter((event) => fitsFilter(event, filter)).map(({ sequence }) => sequence),
            );
          }
        }),
        { numRuns: effort(12, 40) },
      );
    });

    test('page by page returns every matching event exactly once, whatever the filter, limit and span', async () => {
      const { storage } = await open();
      await fc.assert(
        fc.asyncProperty(
          eventLog(),
          eventFilterOf(),
          fc.integer({ min: 1, max: 7 }),
          fc.integer({ min: 1, max: 20 }),
          async (seeds, filter, limit, span) => {
            const { accountId, log, last } = await populateLog(storage, seeds);
            const met: StoredEvent[] = [];
            const { first } = await storage.read.events.bounds(accountId);
            for (let place = first - 1; place < last; ) {
              const asked = await named(filter, storage, accountId);
              const page = await storage.read.events.after(accountId, place, { filter: asked, limit, span });
              // One that does not move on would go round for ever, and no timer would end it.
              expect(page.scannedTo).toBeGreaterThan(place);
              met.push(...page.events);
              place = page.scannedTo;
            }
            expect(met.map(({ sequence, id }) => ({ sequence, id }))).toEqual(
              log.filter((event) => fitsFilter(event, filter)).map(({ sequence, id }) => ({ sequence, id })),
            );
          },
        ),
        { numRuns: effort(12, 40) },
      );
    });

    test('finds the last event of a conversation', async () => {
      const { storage } = await open();
      await fc.assert(
        fc.asyncProperty(eventLog(), async (seeds) => {
          const { accountId, log } = await populateLog(storage, seeds);
          for (const { id } of logConversations) {
            const last = log.findLast(({ conversationId }) => conversationId === id);
            expect((await storage.read.events.lastOf(accountId, id))?.id).toBe(last?.id);
          }
        }),
        { numRuns: effort(8, 20) },
      );
    });

    test('finds where the logs of many accounts end at once, in the requested order', async () => {
      const { storage } = await open();
      const accounts = [await storedAccount(storage), await storedAccount(storage), await storedAccount(storage)];
      const [one, two, none] = accounts.map(({ id }) => id) as [string, string, string];
      await appendAt(storage, one, [1, 2, 3]);
      await appendAt(storage, two, [1]);
      await storage.write(async (tx) => tx.events.prune(startMs + 10, 100));
      const asked = [two, none, one, 'no id at all', two, "'"];
      expect(await storage.read.events.lastSequences(asked)).toEqual([1, 0, 3, 0, 1, 0]);
      expect(await storage.read.events.lastSequences([])).toEqual([]);
    });
  });

  describe('removing old events', () => {
    test('removes from the front of each log only, all old events there, and never more than the limit', async () => {
      const { storage } = await open();
      const time = fc.nat(9);
      const step = fc.record({ before: fc.nat(10), limit: fc.integer({ min: 1, max: 12 }) });
      await fc.assert(
        fc.asyncProperty(
          // Clocks go back, so times are in no order.
          fc.array(fc.array(time, { maxLength: 12 }), { minLength: 1, maxLength: 4 }),
          fc.array(step, { maxLength: 6 }),
          async (logs, steps) => {
            await storage.write(async (tx) => tx.events.prune(Number.MAX_SAFE_INTEGER, 1_000));
            const kept: { accountId: string; times: number[]; length: number }[] = [];
            for (const times of logs) {
              const { id: accountId } = await storedAccount(storage);
              await appendAt(storage, accountId, times);
              kept.push({ accountId, times: [...times], length: times.length });
            }
            for (const { before, limit } of steps) {
              const removed = await storage.write(async (tx) => tx.events.prune(startMs + before, limit));
              const old = kept.map(({ times }) => {
                const young = times.findIndex((each) => each >= before);
                return young === -1 ? times.length : young;
              });
              const sum = old.reduce((all, each) => all + each, 0);
              expect(removed).toBe(Math.min(limit, sum));
              let gone = 0;
              for (const [index, { accountId, times, length }] of kept.entries()) {
                const all = { filter: {}, limit: 100, span: 100 };
                const { events } = await storage.read.events.after(accountId, 0, all);
                const sequences = events.map(({ sequence }) => sequence);
                const first = length - sequences.length + 1;
                expect(sequences, 'no hole').toEqual(sequences.map((_, place) => first + place));
                expect(await storage.read.events.bounds(accountId)).toEqual({ first, last: length });
                const taken = times.length - sequences.length;
                expect(taken, 'nothing young').toBeLessThanOrEqual(old[index] ?? 0);
                times.splice(0, taken);
                gone += taken;
              }
              expect(gone).toBe(removed);
            }
            for (const { accountId, length } of kept) {
              const event = sampleEvent(sampleConversation());
              const last = await storage.write(async (tx) => tx.events.append(accountId, [event]));
              expect(last, 'the numbers go on').toBe(length + 1);
            }
          },
        ),
        { numRuns: effort(12, 40) },
      );
    });

    test('is not blocked by an account whose old events lie behind a newer one', async () => {
      const { storage } = await open();
      const [stuck, other] = [await storedAccount(storage), await storedAccount(storage)];
      await appendAt(storage, stuck.id, [50, ...Array.from({ length: 20 }, () => 1)]);
      await appendAt(storage, other.id, [2, 3, 4]);
      expect(await storage.write(async (tx) => tx.events.prune(startMs + 10, 5))).toBe(3);
      expect(await storage.read.events.bounds(stuck.id)).toEqual({ first: 1, last: 21 });
      expect(await storage.read.events.bounds(other.id)).toEqual({ first: 4, last: 3 });
    });

    test('leaves the log as it was if the transaction is rolled back', async () => {
      const { storage, log } = await open();
      const { id: accountId } = await storedAccount(storage);
      await appendAt(storage, accountId, [1, 2, 3]);
      const undone = storage.write(async (tx) => {
        expect(await tx.events.prune(startMs + 10, 2)).toBe(2);
        throw new Error('on purpose');
      });
      await expect(undone).rejects.toThrow('on purpose');
      expect(await log(accountId)).toHaveLength(3);
    });
  });

  describe('a watcher', () => {
    test('is notified of every account whose log has grown, whatever else is written at the same time', async () => {
      const { storage } = await open();
      const work = fc.record({ account: fc.nat(3), count: fc.nat(2), fails: fc.boolean(), waits: fc.boolean() });
      await fc.assert(
        fc.asyncProperty(fc.array(work, { maxLength: 30 }), async (works) => {
          const accounts = await Promise.all(Array.from({ length: 4 }, () => storedAccount(storage)));
          const told = new Set<string>();
          const stop = storage.watch((touched) => {
            for (const accountId of touched?.accountIds ?? accounts.map(({ id }) => id)) told.add(accountId);
          });
          const grown = new Set<string>();
          const running: Promise<unknown>[] = [];
          for (const { account, count, fails, waits } of works) {
            const accountId = accounts[account]?.id ?? '';
            const events = Array.from({ length: count }, () => sampleEvent(sampleConversation()));
            const write = storage.write(async (tx) => {
              await tx.events.append(accountId, events);
              if (fails) throw new Error('on purpose');
            });
            // At once when the promise resolves, not some time later.
            running.push(
              settled(write).then(({ status }) => {
                if (status === 'fulfilled' && count > 0) expect(told).toContain(accountId);
              }),
            );
            if (count > 0 && !fails) grown.add(accountId);
            if (waits) await nextTurn();
          }
          await Promise.all(running);
          stop();
          expect([...grown].filter((accountId) => !told.has(accountId))).toEqual([]);
        }),
        { numRuns: effort(12, 40) },
      );
    });

    test('finds new events as soon as it is notified of them', async () => {
      const { storage } = await open();
      const accounts = await Promise.all(Array.from({ length: 3 }, () => storedAccount(storage)));
      const found: Promise<[string, number]>[] = [];
      const stop = storage.watch((touched) => {
        for (const accountId of touched?.accountIds ?? []) {
          found.push((async () => [accountId, (await storage.read.events.bounds(accountId)).last])());
        }
      });
      await Promise.all(accounts.map(({ id }, index) => appendAt(storage, id, Array(index + 1).fill(1))));
      stop();
      expect(new Map(await Promise.all(found))).toEqual(new Map(accounts.map(({ id }, index) => [id, index + 1])));
    });

    test('is notified of a revocation as of a change that can concern anything', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const key = sampleKey();
      await storage.write(async (tx) => tx.apiKeys.insert(accountId, key, sampleHash()));
      const told: (Touched | undefined)[] = [];
      const stop = storage.watch((touched) => void told.push(touched));
      // In one group, so that neither may stand in the way of the other.
      await Promise.all([
        appendAt(storage, accountId, [1]),
        storage.write(async (tx) => tx.apiKeys.update({ ...key, revokedAt: start })),
      ]);
      stop();
      expect(told).toContain(undefined);
    });

    test('is notified independently of other watchers, until it stops', async () => {
      const { storage, beside } = await open();
      const other = await beside();
      const { id: accountId } = await storedAccount(storage);
      const told = [0, 0];
      const stops = told.map((_, index) =>
        storage.watch(() => {
          told[index] = (told[index] ?? 0) + 1;
        }),
      );
      // Each may hear more than what happened: that there may be something is only a hint.
      const append = async (by: Storage): Promise<readonly boolean[]> => {
        const before = [...told];
        await appendAt(by, accountId, [1]);
        return told.map((count, index) => count > (before[index] ?? 0));
      };
      expect(await append(storage)).toEqual([true, true]);
      stops[0]?.();
      expect(await append(storage)).toEqual([false, true]);
      stops[0]?.(); // again: the other one goes on
      expect(await append(storage)).toEqual([false, true]);
      const heard = told[1] ?? 0;
      await append(other);
      await until(() => (told[1] ?? 0) > heard);
      stops[1]?.();
      expect(await append(storage)).toEqual([false, false]);
    });

    test.each(['events', 'revocations'] as const)(
      'is notified within 100 ms of %s that another process commits',
      async (kind) => {
        const { storage, beside } = await open();
        const other = await beside();
        const { id: accountId } = await storedAccount(storage);
        const keys = Array.from({ length: 9 }, () => sampleKey());
        await storage.write(async (tx) => {
          for (const key of keys) await tx.apiKeys.insert(accountId, key, sampleHash());
        });
        let told = 0;
        const stop = storage.watch(() => {
          told++;
        });
        const look = () =>
          kind === 'events' ? storage.read.events.lastSequences([accountId]) : storage.read.apiKeys.revocations();
        const took: number[] = [];
        let seen = await look();
        for (const key of keys) {
          const before = told;
          const startedMs = performance.now();
          await (kind === 'events'
            ? appendAt(other, accountId, [1])
            : other.write(async (tx) => tx.apiKeys.update({ ...key, revokedAt: start })));
          await until(() => told > before);
          took.push(performance.now() - startedMs);
          const now = await look();
          expect(now).not.toEqual(seen);
          seen = now;
        }
        stop();
        // The middle one: the machine that a test runs on has its own pauses.
        expect(took.toSorted((a, b) => a - b)[4]).toBeLessThan(100);
      },
    );

    test('leaves no timer behind once the last one has stopped', async () => {
      const { beside } = await open();
      const storage = await beside(); // which it closes
      const timers = watchTimers();
      const stops = [storage.watch(() => {}), storage.watch(() => {})];
      stops[0]?.();
      stops[1]?.();
      expect(await timers.left()).toEqual([]);
      const stop = storage.watch(() => {});
      await storage.close();
      expect(await timers.left()).toEqual([]);
      stop();
    });
  });
}

/** What becomes of a promise, for one that is looked at only later. */
async function settled<T>(promise: Promise<T>): Promise<PromiseSettledResult<T>> {
  const [result] = await Promise.allSettled([promise]);
  return result;
}

/** Appends events that happened so many milliseconds after the start, in this order. */
function appendAt(storage: Storage, accountId: string, offsetsMs: readonly number[]): Promise<number> {
  const events = offsetsMs.map((offsetMs) =>
    sampleEvent(sampleConversation(), { timestamp: timestamp(startMs + offsetMs) }),
  );
  return storage.write(async (tx) => tx.events.append(accountId, events));
}

function asLogged({ visitorId, ...event }: NewEvent, index: number): LoggedEvent {
  return { ...event, sequence: index + 1, hasVisitor: visitorId !== null };
}

/** Whose the events of every log are, if anybody's. */
const logVisitors = ['Ada', 'Grace'];

/** Conversations that the events of every log are of: a log of its own account each time. */
const logConversations = Array.from({ length: 3 }, () => sampleConversation());

interface LogSeed {
  readonly events: readonly {
    readonly type: NewEvent['type'];
    readonly conversation: number | null;
    readonly visitor: number | null;
  }[];
  /** How many of them are gone already. */
  readonly removed: number;
}

function eventLog(): fc.Arbitrary<LogSeed> {
  const event = fc.record({
    type: fc.constantFrom(...eventTypes),
    conversation: fc.option(fc.nat(logConversations.length - 1)),
    visitor: fc.option(fc.nat(logVisitors.length - 1)),
  });
  return fc.record({ events: fc.array(event, { maxLength: 40 }), removed: fc.oneof(fc.constant(0), fc.nat(40)) });
}

interface FilterSeed {
  readonly types?: EventFilter['types'];
  /** One past the last is a conversation without events. */
  readonly conversation?: number;
  /** One past the last is a visitor without events. */
  readonly visitor?: number;
}

const conversationIdOf = (index: number): string => logConversations[index]?.id ?? 'conv_unknown';
const visitorIdOf = (index: number): string => logVisitors[index] ?? 'nobody';

async function named(
  { types, conversation, visitor }: FilterSeed,
  { read }: Storage,
  accountId: string,
): Promise<EventFilter> {
  return {
    types,
    ...(conversation !== undefined && { conversationId: conversationIdOf(conversation) }),
    ...(visitor !== undefined && { visitorHash: await read.events.visitorHash(accountId, visitorIdOf(visitor)) }),
  };
}

function eventFilterOf(): fc.Arbitrary<FilterSeed> {
  return fc.record(
    {
      types: fc.uniqueArray(fc.constantFrom(...eventTypes)),
      conversation: fc.nat(logConversations.length),
      visitor: fc.nat(logVisitors.length),
    },
    { requiredKeys: [] },
  );
}

function fitsFilter(event: SeededEvent, { types, conversation, visitor }: FilterSeed): boolean {
  return (
    (types === undefined || types.includes(event.type)) &&
    (conversation === undefined || event.conversationId === conversationIdOf(conversation)) &&
    (visitor === undefined || event.visitorId === visitorIdOf(visitor))
  );
}

/** Whether an event is among those that are looked at for a filter, where no more than so many are to be. */
function isLookedAt(event: SeededEvent, { conversation, visitor }: FilterSeed): boolean {
  return fitsFilter(event, conversation !== undefined ? { conversation } : visitor !== undefined ? { visitor } : {});
}

interface SeededEvent extends NewEvent {
  readonly sequence: number;
}

/** Stores a log in an account of its own. */
async function populateLog(
  storage: Storage,
  { events: seeds, removed }: LogSeed,
): Promise<{ accountId: string; log: SeededEvent[]; last: number }> {
  const { id: accountId } = await storedAccount(storage);
  const conversation = sampleConversation();
  const events = seeds.map((seed, index) =>
    sampleEvent(conversation, {
      type: seed.type,
      conversationId: seed.conversation === null ? null : (logConversations[seed.conversation]?.id ?? null),
      visitorId: seed.visitor === null ? null : visitorIdOf(seed.visitor),
      timestamp: timestamp(index < removed ? startMs : startMs + 1),
    }),
  );
  await storage.write(async (tx) => {
    await tx.events.append(accountId, events);
    await tx.events.prune(startMs + 1, 1_000);
  });
  const log = events.map((event, index) => ({ ...event, sequence: index + 1 }));
  return { accountId, log: log.slice(removed), last: log.length };
}
