import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type AnalyticsDelta,
  type AnalyticsSums,
  type CountName,
  countNames,
  type QuarterRange,
} from '../../../src/domain/analytics-delta.ts';
import { bucketOf, type DurationTally } from '../../../src/domain/durations.ts';
import { DomainError } from '../../../src/domain/errors.ts';
import type { Storage } from '../../../src/domain/storage-port.ts';
import { effort } from '../../support/effort.ts';
import { sampleConversation, storedAccount } from '../../support/samples.ts';
import type { OpenedStorage } from './opened.ts';

/** What every storage promises of what happened in each quarter of an hour: a part of `storageContract`. */
export function analyticsContract(open: () => Promise<OpenedStorage>): void {
  describe('analytics', () => {
    const delta = fc.record<AnalyticsDelta>(
      {
        ...(Object.fromEntries(countNames.map((name) => [name, fc.integer({ min: 1, max: 3 })])) as Record<
          CountName,
          fc.Arbitrary<number>
        >),
        firstResponseMs: fc.integer({ min: 0, max: 1e12 }),
        resolutionMs: fc.oneof(fc.integer({ min: 0, max: 5 }), fc.integer({ min: 0, max: 1e12 })),
      },
      { requiredKeys: [] },
    );
    // Around the ends of hours and of days of UTC.
    const quarter = fc.integer({ min: 19_000 * 96 - 100, max: 19_000 * 96 + 250 });

    function tallyOf(durations: readonly number[]): DurationTally {
      const buckets = Map.groupBy(durations.map(bucketOf), (bucket) => bucket);
      const ascending = [...buckets].sort(([one], [other]) => one - other);
      return {
        count: durations.length,
        sumMs: durations.reduce((sum, each) => sum + each, 0),
        buckets: ascending.flatMap(([bucket, { length }]) => [bucket, length]),
      };
    }

    function sumsOf(all: readonly AnalyticsDelta[]): AnalyticsSums {
      const counts = countNames.map((name) => [name, all.reduce((sum, each) => sum + (each[name] ?? 0), 0)]);
      const durations = (name: 'firstResponseMs' | 'resolutionMs') =>
        tallyOf(all.map((each) => each[name]).filter((each) => each !== undefined));
      return {
        ...(Object.fromEntries(counts) as Record<CountName, number>),
        firstResponses: durations('firstResponseMs'),
        resolutions: durations('resolutionMs'),
      };
    }

    test('are summed over any ranges of quarter hours, for each account separately', async () => {
      const { storage, reopen } = await open();
      const [one, other] = [await storedAccount(storage), await storedAccount(storage)];
      const added: { accountId: string; at: number; delta: AnalyticsDelta }[] = [];
      const adding = fc.record({ accountId: fc.constantFrom(one.id, other.id), at: quarter, delta });
      const range = fc.tuple(quarter, quarter).map(([from, to]) => ({ from, to }));
      const check = async (from: Storage, ranges: readonly QuarterRange[]) => {
        for (const { id } of [one, other]) {
          expect(await from.read.analytics.sums(id, ranges)).toEqual(
            ranges.map((within) => {
              const fits = added.filter(({ accountId, at }) => accountId === id && within.from <= at && at < within.to);
              return sumsOf(fits.map(({ delta }) => delta));
            }),
          );
        }
      };
      await fc.assert(
        fc.asyncProperty(
          fc.array(adding, { maxLength: 30 }),
          fc.array(range, { maxLength: 8 }),
          async (additions, ranges) => {
            await storage.write(async (tx) => {
              for (const { accountId, at, delta } of additions) {
                await tx.analytics.add(accountId, at, delta);
              }
            });
            added.push(...additions);
            await check(storage, ranges);
          },
        ),
        { numRuns: effort(5, 30) },
      );
      await check(await reopen(), [{ from: 0, to: 20_000 * 96 }]);
    });

    test('count nothing for a transaction that is rolled back, or for an account that does not exist', async () => {
      const { storage } = await open();
      const { id } = await storedAccount(storage);
      const undone = storage.write(async (tx) => {
        await tx.analytics.add(id, 7, { leads: 1, resolutionMs: 1_000 });
        throw new DomainError('INTERNAL', 'on purpose');
      });
      await expect(undone).rejects.toThrow('on purpose');
      expect(await storage.read.analytics.sums(id, [{ from: 0, to: 10 }])).toEqual([sumsOf([])]);
      await expect(storage.write(async (tx) => tx.analytics.add('acct_none', 7, { leads: 1 }))).rejects.toThrow();
    });

    test('count a conversation as converted only once, whatever else changes in it', async () => {
      const { storage } = await open();
      const [{ id }, { id: otherId }] = [await storedAccount(storage), await storedAccount(storage)];
      const conversation = sampleConversation();
      await storage.write(async (tx) => tx.conversations.insert(id, conversation));
      const mark = (accountId: string) =>
        storage.write(async (tx) => tx.conversations.markConverted(accountId, conversation.id));
      expect(await mark(otherId)).toBe(false);
      expect((await Promise.all([mark(id), mark(id), mark(id)])).sort()).toEqual([false, false, true]);
      expect(await storage.read.conversations.find(id, conversation.id)).toEqual(conversation);
      await storage.write(async (tx) =>
        tx.conversations.update(id, conversation, { ...conversation, subject: 'Changed', version: 2 }),
      );
      expect(await mark(id)).toBe(false);
    });
  });
}
