import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Attempt, longestLeaseMs, type StoredDelivery } from '../../../src/domain/delivery-record.ts';
import { lowestIdAt } from '../../../src/domain/ids.ts';
import type { PageQuery, Slice } from '../../../src/domain/paging.ts';
import type {
  AttemptRange,
  Claim,
  DeliveryBacklog,
  DeliveryLease,
  Storage,
  WantedDeliveries,
} from '../../../src/domain/storage-port.ts';
import { timestamp } from '../../../src/domain/time.ts';
import { type StoredWebhook, withEnabled } from '../../../src/domain/webhook-record.ts';
import { effort } from '../../support/effort.ts';
import {
  awkwardText,
  ids,
  sampleAttempt,
  sampleConversation,
  sampleDelivery,
  sampleEvent,
  sampleWebhook,
  startMs,
  storedAccount,
  storedEvent,
} from '../../support/samples.ts';
import { until } from '../../support/wait.ts';
import type { OpenedStorage } from './opened.ts';

/** What every storage promises of webhooks and of the log of their deliveries: a part of `storageContract`. */
export function webhooksContract(open: () => Promise<OpenedStorage>): void {
  describe('webhooks', () => {
    test('are read back as they were stored, with all fields set and with all optional fields empty', async () => {
      const { storage, reopen } = await open();
      const { id: accountId } = await storedAccount(storage);
      const [empty, full] = [sampleWebhook({ events: [], secrets: [] }), fullWebhook()];
      await storage.write(async (tx) => {
        await tx.webhooks.insert(accountId, empty);
        await tx.webhooks.insert(accountId, full);
        expect(await tx.webhooks.find(accountId, full.id)).toEqual(full);
      });
      expect(await storage.read.webhooks.find(accountId, empty.id)).toEqual(empty);
      expect(await storage.read.webhooks.find(accountId, ids.next('webhook', startMs))).toBeUndefined();
      expect(await (await reopen()).read.webhooks.find(accountId, full.id)).toEqual(full);
    });

    test('can change everything except id and creation time, without changing another webhook', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const [webhook, other] = [sampleWebhook(), sampleWebhook()];
      await storage.write(async (tx) => {
        await tx.webhooks.insert(accountId, webhook);
        await tx.webhooks.insert(accountId, other);
      });
      const changed = { ...fullWebhook(), id: webhook.id, createdAt: webhook.createdAt };
      await storage.write(async (tx) => tx.webhooks.update(accountId, { ...changed, createdAt: timestamp(0) }));
      expect(await storage.read.webhooks.find(accountId, webhook.id)).toEqual(changed);
      await storage.write(async (tx) => tx.webhooks.update(accountId, webhook));
      expect(await storage.read.webhooks.find(accountId, webhook.id)).toEqual(webhook);
      expect(await storage.read.webhooks.find(accountId, other.id)).toEqual(other);
    });

    test('are found by many ids at once, in the order of the ids, also by the same id twice', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const [a, b, removed] = [sampleWebhook(), fullWebhook(), sampleWebhook()];
      await storage.write(async (tx) => {
        for (const webhook of [a, b, removed]) await tx.webhooks.insert(accountId, webhook);
        await tx.webhooks.remove(accountId, removed.id);
      });
      const asked = [b.id, ids.next('webhook', startMs), a.id, b.id, removed.id, 'no id at all', "'"];
      const expected = [b, undefined, a, b, undefined, undefined, undefined];
      expect(await storage.read.webhooks.findMany(accountId, asked)).toEqual(expected);
      expect(await storage.read.webhooks.findMany(accountId, [])).toEqual([]);
    });

    test('are paged newest first as by a plain sort, and counted, without removed ones', async () => {
      const { storage } = await open();
      const seed = fc.record({ createdMs: fc.nat(4), removed: fc.boolean() });
      await fc.assert(
        fc.asyncProperty(fc.array(seed, { maxLength: 12 }), questions, async (seeds, asked) => {
          const { id: accountId } = await storedAccount(storage);
          const webhooks = seeds.map(({ createdMs }) => {
            const atMs = startMs + createdMs;
            return sampleWebhook({ id: ids.next('webhook', atMs), createdAt: timestamp(atMs) });
          });
          await storage.write(async (tx) => {
            for (const webhook of webhooks) await tx.webhooks.insert(accountId, webhook);
            for (const [index, { removed }] of seeds.entries()) {
              if (removed) await tx.webhooks.remove(accountId, webhooks[index]?.id ?? '');
            }
          });
          const kept = webhooks.filter((_, index) => !seeds[index]?.removed);
          await expectPages(kept, asked, (query) => storage.read.webhooks.page(accountId, query));
          expect(await storage.read.webhooks.count(accountId)).toBe(kept.length);
          expect(await storage.write(async (tx) => tx.webhooks.count(accountId))).toBe(kept.length);
        }),
        { numRuns: effort(8, 20) },
      );
    });

    test('are listed with the events that they want only while they are enabled', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const { id: otherId } = await storedAccount(storage);
      const wanting = sampleWebhook({ events: ['lead.captured', 'conversation.started'] });
      const [all, disabled, removed, theirs] = [sampleWebhook(), fullWebhook(), sampleWebhook(), sampleWebhook()];
      await storage.write(async (tx) => {
        for (const webhook of [wanting, all, disabled, removed]) await tx.webhooks.insert(accountId, webhook);
        await tx.webhooks.insert(otherId, theirs);
        await tx.webhooks.remove(accountId, removed.id);
      });
      const enabled = async () => (await storage.read.webhooks.enabled(accountId)).toSorted(byId);
      expect(await enabled()).toEqual([wanting, all].map(({ id, events }) => ({ id, events })).toSorted(byId));
      await storage.write(async (tx) => {
        await tx.webhooks.update(accountId, withEnabled(all, 'gone'));
        await tx.webhooks.update(accountId, withEnabled(disabled, null));
      });
      expect(await enabled()).toEqual([wanting, disabled].map(({ id, events }) => ({ id, events })).toSorted(byId));
    });

    test('are gone with their deliveries as soon as they are removed, and a late update does not bring them back', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const webhook = sampleWebhook();
      const delivery = sampleDelivery(webhook.id);
      await storage.write(async (tx) => {
        await tx.webhooks.insert(accountId, webhook);
        await tx.deliveries.insert(accountId, delivery);
      });
      expect(await ofWebhook(storage, accountId, webhook, delivery)).toMatchObject({ webhook, count: 1 });
      await storage.write(async (tx) => tx.webhooks.remove(accountId, webhook.id));
      const gone = {
        webhook: undefined,
        delivery: undefined,
        many: [undefined],
        page: { items: [], hasMore: false },
        count: 0,
        attempts: [[]],
        failed: [],
        due: [],
        claim: { claimed: [], nextDueAtMs: undefined },
      };
      expect(await ofWebhook(storage, accountId, webhook, delivery)).toEqual(gone);
      await storage.write(async (tx) => tx.webhooks.update(accountId, { ...webhook, description: 'too late' }));
      expect(await ofWebhook(storage, accountId, webhook, delivery)).toEqual(gone);
    });

    test('cannot be inserted into an account that does not exist, or twice into the same one', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const webhook = sampleWebhook();
      await storage.write(async (tx) => tx.webhooks.insert(accountId, webhook));
      const nowhere = ids.next('account', startMs);
      await expect(storage.write(async (tx) => tx.webhooks.insert(nowhere, sampleWebhook()))).rejects.toThrow();
      await expect(storage.write(async (tx) => tx.webhooks.insert(accountId, webhook))).rejects.toThrow();
      expect(await storage.read.webhooks.count(accountId)).toBe(1);
    });
  });

  describe('deliveries', () => {
    test('are read back as they were stored, with all fields set and with all optional fields empty', async () => {
      const { storage, reopen } = await open();
      const { accountId, webhook } = await storedWebhook(storage);
      const [empty, full] = [sampleDelivery(webhook.id, { eventSequence: null, dueAt: null }), fullDelivery(webhook)];
      await storage.write(async (tx) => {
        await tx.deliveries.insert(accountId, empty);
        await tx.deliveries.insert(accountId, full);
      });
      const reopened = await reopen();
      const stored = [empty, full].map((delivery) => ({ ...delivery, webhookEnabled: true, isTried: false }));
      for (const delivery of stored)
        expect(await reopened.read.deliveries.find(accountId, delivery.id)).toEqual(delivery);
      const asked = [full.id, ids.next('delivery', startMs), empty.id, full.id, "'"];
      expect(await reopened.read.deliveries.findMany(accountId, asked)).toEqual([
        stored[1],
        undefined,
        stored[0],
        stored[1],
        undefined,
      ]);
      expect(await reopened.read.deliveries.findMany(accountId, [])).toEqual([]);
      expect(await reopened.read.deliveries.find(accountId, ids.next('delivery', startMs))).toBeUndefined();
      expect(await reopened.write(async (tx) => tx.deliveries.release('mine', ['unknown']))).toEqual([undefined]);
    });

    test('show whether their webhook is enabled', async () => {
      const { storage } = await open();
      const { accountId, webhook } = await storedWebhook(storage);
      const delivery = sampleDelivery(webhook.id);
      await storage.write(async (tx) => {
        await tx.deliveries.insert(accountId, delivery);
        await tx.webhooks.update(accountId, withEnabled(webhook, 'requested'));
      });
      const paused = { ...delivery, webhookEnabled: false, isTried: false };
      expect(await storage.read.deliveries.find(accountId, delivery.id)).toEqual(paused);
      expect(await storage.read.deliveries.findMany(accountId, [delivery.id])).toEqual([paused]);
      const page = await storage.read.deliveries.page(accountId, webhook.id, { limit: 5, offset: 0 });
      expect(page.items).toEqual([paused]);
    });

    test('can change their progress, but not what they deliver or to whom', async () => {
      const { storage } = await open();
      const { accountId, webhook } = await storedWebhook(storage);
      const other = sampleWebhook();
      const [delivery, neighbour] = [sampleDelivery(webhook.id), sampleDelivery(webhook.id)];
      const { status, attemptCount, step, trigger, dueAt, completedAt, ...rest } = fullDelivery(other);
      await storage.write(async (tx) => {
        await tx.webhooks.insert(accountId, other);
        await tx.deliveries.insert(accountId, delivery);
        await tx.deliveries.insert(accountId, neighbour);
        await tx.deliveries.update(accountId, {
          ...rest,
          ...{ status, attemptCount, step, trigger, dueAt, completedAt },
          id: delivery.id,
        });
      });
      expect(await storage.read.deliveries.find(accountId, delivery.id)).toEqual({
        ...delivery,
        ...{ status, attemptCount, step, trigger, dueAt, completedAt },
        webhookEnabled: true,
        isTried: false,
      });
      expect(await storage.read.deliveries.find(accountId, neighbour.id)).toEqual({
        ...neighbour,
        webhookEnabled: true,
        isTried: false,
      });
      await storage.write(async (tx) => tx.deliveries.update(accountId, delivery));
      expect(await storage.read.deliveries.find(accountId, delivery.id)).toMatchObject({
        ...delivery,
        webhookEnabled: true,
      });
    });

    test('are as the last of the changes left them, whatever units of work did at the same time', async () => {
      const { storage } = await open();
      const { accountId, webhook } = await storedWebhook(storage);
      const [known, added] = [sampleDelivery(webhook.id), sampleDelivery(webhook.id)];
      await storage.write(async (tx) => tx.deliveries.insert(accountId, known));
      await Promise.all([
        storage.write(async (tx) => tx.deliveries.update(accountId, { ...known, step: 2 }), accountId, ['known']),
        storage.write(
          async (tx) => {
            await tx.deliveries.insert(accountId, added);
            await tx.deliveries.update(accountId, { ...added, step: 3 });
            await tx.deliveries.update(accountId, { ...added, step: 4 });
          },
          accountId,
          ['added'],
        ),
      ]);
      const stored = await storage.read.deliveries.findMany(accountId, [known.id, added.id]);
      expect(stored.map((delivery) => delivery?.step)).toEqual([2, 4]);
    });

    test('cannot be inserted for a webhook that does not exist, or twice', async () => {
      const { storage } = await open();
      const { accountId, webhook } = await storedWebhook(storage);
      const delivery = sampleDelivery(webhook.id);
      await storage.write(async (tx) => tx.deliveries.insert(accountId, delivery));
      const toNobody = sampleDelivery(ids.next('webhook', startMs));
      await expect(storage.write(async (tx) => tx.deliveries.insert(accountId, toNobody))).rejects.toThrow();
      await expect(storage.write(async (tx) => tx.deliveries.insert(accountId, delivery))).rejects.toThrow();
      expect(await storage.read.deliveries.count(accountId, webhook.id)).toBe(1);
    });

    test('of one webhook are paged newest first as by a plain sort, and counted', async () => {
      const { storage } = await open();
      const seed = fc.record({ createdMs: fc.nat(4), mine: fc.boolean() });
      await fc.assert(
        fc.asyncProperty(fc.array(seed, { maxLength: 20 }), questions, async (seeds, asked) => {
          const { accountId, webhook } = await storedWebhook(storage);
          const other = sampleWebhook();
          const deliveries = seeds.map(({ createdMs, mine }) =>
            sampleDelivery((mine ? webhook : other).id, {}, startMs + createdMs),
          );
          await storage.write(async (tx) => {
            await tx.webhooks.insert(accountId, other);
            for (const delivery of deliveries) await tx.deliveries.insert(accountId, delivery);
          });
          for (const { id } of [webhook, other]) {
            const kept = deliveries
              .filter(({ webhookId }) => webhookId === id)
              .map((delivery) => ({ ...delivery, webhookEnabled: true, isTried: false }));
            await expectPages(kept, asked, (query) => storage.read.deliveries.page(accountId, id, query));
            expect(await storage.read.deliveries.count(accountId, id)).toBe(kept.length);
            expect(await storage.write(async (tx) => tx.deliveries.count(accountId, id))).toBe(kept.length);
          }
        }),
        { numRuns: effort(8, 20) },
      );
    });

    test('that have failed are listed by id from any place on', async () => {
      const { storage } = await open();
      const seed = fc.record({
        createdMs: fc.nat(5),
        status: fc.constantFrom('failed', 'failed', 'failed', 'pending', 'succeeded'),
        eventSequence: fc.option(fc.integer({ min: 1, max: 9 })),
        mine: fc.boolean(),
      });
      const range = fc.record({ fromMs: fc.nat(6), limit: fc.integer({ min: 1, max: 9 }) });
      await fc.assert(
        fc.asyncProperty(
          fc.array(seed, { maxLength: 20 }),
          fc.array(range, { minLength: 1, maxLength: 8 }),
          async (seeds, ranges) => {
            const { accountId, webhook } = await storedWebhook(storage);
            const other = sampleWebhook();
            const deliveries = seeds.map(({ createdMs, status, eventSequence, mine }) =>
              sampleDelivery(
                (mine ? webhook : other).id,
                { status, eventSequence, sample: eventSequence === null ? '{}' : null },
                startMs + createdMs,
              ),
            );
            await storage.write(async (tx) => {
              await tx.webhooks.insert(accountId, other);
              for (const delivery of deliveries) await tx.deliveries.insert(accountId, delivery);
            });
            const failed = (from: Parameters<Storage['read']['deliveries']['failed']>[2]) =>
              storage.read.deliveries.failed(accountId, webhook.id, from);
            for (const { fromMs, limit } of ranges) {
              const fromId = lowestIdAt('delivery', startMs + fromMs);
              const fitting = deliveries
                .filter(({ webhookId, status, id }) => webhookId === webhook.id && status === 'failed' && id >= fromId)
                .toSorted(byId);
              expect(await failed({ fromId, limit })).toEqual(fitting.slice(0, limit));
              // What comes after one of them.
              const [first] = fitting;
              if (first === undefined) continue;
              expect(await failed({ fromId: `${first.id}~`, limit })).toEqual(fitting.slice(1, limit + 1));
            }
          },
        ),
        { numRuns: effort(8, 20) },
      );
    });

    test('have their attempts read by number, in ranges of many deliveries at once', async () => {
      const { storage, reopen } = await open();
      const { accountId, webhook } = await storedWebhook(storage);
      const theirs = await storedWebhook(storage);
      const attempts = new Map<string, Attempt[]>();
      await storage.write(async (tx) => {
        for (const [index, count] of [3, 0, 7, 1, 2].entries()) {
          const delivery = sampleDelivery(index === 4 ? theirs.webhook.id : webhook.id);
          attempts.set(delivery.id, Array.from({ length: count }, fullOrEmptyAttempt));
          await tx.deliveries.insert(index === 4 ? theirs.accountId : accountId, delivery);
        }
        // In another order than their own.
        for (const [id, list] of attempts) {
          for (const [index, attempt] of [...list.entries()].reverse()) {
            await tx.deliveries.insertAttempt(id, index + 1, attempt);
          }
        }
      });
      const reopened = await reopen();
      const [stranger] = [...attempts.keys()].slice(-1);
      const range = fc.record({
        deliveryId: fc.constantFrom(...attempts.keys(), 'unknown', "'"),
        from: fc.integer({ min: 0, max: 9 }),
        to: fc.integer({ min: 0, max: 9 }),
      });
      await fc.assert(
        fc.asyncProperty(fc.array(range, { maxLength: 12 }), async (ranges) => {
          const expected = ranges.map(({ deliveryId, from, to }: AttemptRange) => {
            const list = deliveryId === stranger ? [] : (attempts.get(deliveryId) ?? []);
            return from > to ? [] : list.slice(Math.max(0, from - 1), Math.max(0, to));
          });
          expect(await reopened.read.deliveries.attempts(accountId, ranges)).toEqual(expected);
        }),
        { numRuns: effort(20, 60) },
      );
    });

    test('cannot have two attempts with the same number', async () => {
      const { storage } = await open();
      const { accountId, webhook } = await storedWebhook(storage);
      const delivery = sampleDelivery(webhook.id);
      const attempt = sampleAttempt();
      await storage.write(async (tx) => {
        await tx.deliveries.insert(accountId, delivery);
        await tx.deliveries.insertAttempt(delivery.id, 1, attempt);
      });
      const again = storage.write(async (tx) => tx.deliveries.insertAttempt(delivery.id, 1, sampleAttempt()));
      await expect(again).rejects.toThrow();
      const range = { deliveryId: delivery.id, from: 1, to: 9 };
      expect(await storage.read.deliveries.attempts(accountId, [range])).toEqual([[attempt]]);
    });
  });

  describe('a claim', () => {
    test('returns all that an attempt needs: the delivery, its webhook and, if the log still has it, its event', async () => {
      const { storage } = await open();
      const { accountId, webhook } = await storedWebhook(storage, fullWebhook({ enabled: true, disabledReason: null }));
      const event = sampleEvent(sampleConversation());
      const of = (dueMs: number, changes: Partial<StoredDelivery>) =>
        sampleDelivery(webhook.id, { dueAt: timestamp(startMs + dueMs), ...changes });
      const deliveries = [
        of(1, { eventSequence: null, sample: '{"test":true}' }),
        of(2, { eventSequence: 1, eventId: event.id, attemptCount: 3, step: 2, trigger: 'manual' }),
        of(3, { eventSequence: 2 }),
      ];
      await storage.write(async (tx) => {
        await tx.events.append(accountId, [event]);
        for (const delivery of deliveries) await tx.deliveries.insert(accountId, delivery);
      });
      const { claimed } = await claim(storage, webhook.id, { nowMs: startMs + 3 });
      const stored = storedEvent(event, 1);
      expect(claimed).toEqual(
        deliveries.map((delivery, index) => ({ delivery, accountId, webhook, event: index === 1 ? stored : null })),
      );
      for (const { delivery } of claimed) {
        expect(await storage.read.deliveries.find(accountId, delivery.id)).toEqual({
          ...delivery,
          webhookEnabled: true,
          isTried: true,
        });
      }
    });

    test('of several webhooks returns the deliveries of each in order, and one object per event', async () => {
      const { storage } = await open();
      const { accountId, webhook: first } = await storedWebhook(storage);
      const others = [sampleWebhook(), withEnabled(sampleWebhook(), 'requested')] as const;
      const elsewhere = await storedWebhook(storage);
      const event = sampleEvent(sampleConversation());
      const of = ({ id }: StoredWebhook, dueMs: number) =>
        sampleDelivery(id, { eventSequence: 1, dueAt: timestamp(startMs + dueMs), step: dueMs });
      const made = [
        of(first, 1),
        of(first, 2),
        of(first, 3),
        of(others[0], 4),
        of(others[1], 5),
        of(elsewhere.webhook, 6),
      ];
      await storage.write(async (tx) => {
        for (const webhook of others) await tx.webhooks.insert(accountId, webhook);
        for (const account of [accountId, elsewhere.accountId]) await tx.events.append(account, [event]);
        for (const delivery of made) {
          const isElsewhere = delivery.webhookId === elsewhere.webhook.id;
          await tx.deliveries.insert(isElsewhere ? elsewhere.accountId : accountId, delivery);
        }
      });
      const asked = [others[0], elsewhere.webhook, first, others[1], sampleWebhook()];
      const claims = await storage.write(async (tx) =>
        tx.deliveries.claim(
          asked.map(({ id }) => ({ webhookId: id, limit: 2 })),
          { id: 'mine', nowMs: startMs + 9, endsMs: startMs + leaseMs },
        ),
      );
      expect(claims.map(({ claimed }) => claimed.map(({ delivery }) => delivery.step))).toEqual([
        [4],
        [6],
        [1, 2],
        [],
        [],
      ]);
      expect(claims.map(({ nextDueAtMs }) => nextDueAtMs)).toEqual([
        undefined,
        undefined,
        startMs + 3,
        undefined,
        undefined,
      ]);
      const [[other] = [], [foreign] = [], both = []] = claims.map(({ claimed }) => claimed);
      expect(new Set([other, ...both].map((one) => one?.event)).size).toBe(1);
      expect(foreign?.event).not.toBe(other?.event);
      expect(foreign?.accountId).toBe(elsewhere.accountId);
    });

    test('can be released by its holder only', async () => {
      const { storage } = await open();
      const { accountId, webhook } = await storedWebhook(storage);
      const [one, other, free] = [sampleDelivery(webhook.id), sampleDelivery(webhook.id), sampleDelivery(webhook.id)];
      await storage.write(async (tx) => {
        for (const delivery of [one, other]) await tx.deliveries.insert(accountId, delivery);
      });
      await claim(storage, webhook.id, { nowMs: startMs });
      await storage.write(async (tx) => tx.deliveries.insert(accountId, free));
      const release = (lease: string, ...deliveries: readonly StoredDelivery[]) =>
        storage.write(async (tx) =>
          tx.deliveries.release(
            lease,
            deliveries.map(({ id }) => id),
          ),
        );
      expect(await release('theirs', one, other)).toEqual([undefined, undefined]);
      const later = { ...one, step: 3, dueAt: timestamp(startMs + 5) };
      await storage.write(async (tx) => tx.deliveries.update(accountId, later));
      expect(await release('mine', free, one)).toEqual([undefined, { delivery: later, accountId, webhook }]);
      expect(await release('mine', one)).toEqual([undefined]);
      const tried = await storage.read.deliveries.findMany(accountId, [one.id, other.id, free.id]);
      expect(tried.map((delivery) => delivery?.isTried)).toEqual([false, true, false]);
    });

    test('takes nothing if the transaction is rolled back', async () => {
      const { storage } = await open();
      const { accountId, webhook } = await storedWebhook(storage);
      await storage.write(async (tx) => tx.deliveries.insert(accountId, sampleDelivery(webhook.id)));
      const lease = { id: 'one', nowMs: startMs, endsMs: startMs + leaseMs };
      const undone = storage.write(async (tx) => {
        const [taken] = await tx.deliveries.claim([{ webhookId: webhook.id, limit: 5 }], lease);
        expect(taken?.claimed).toHaveLength(1);
        throw new Error('on purpose');
      });
      await expect(undone).rejects.toThrow('on purpose');
      expect((await claim(storage, webhook.id, { nowMs: startMs })).claimed).toHaveLength(1);
    });

    test('never gives the same delivery to two concurrent claimers', async () => {
      const { storage, beside } = await open();
      const other = await beside();
      const { accountId, webhook } = await storedWebhook(storage);
      const deliveries = Array.from({ length: 200 }, (_, index) => sampleDelivery(webhook.id, {}, startMs + index));
      await storage.write(async (tx) => {
        for (const delivery of deliveries) await tx.deliveries.insert(accountId, delivery);
      });
      const given = await Promise.all(
        [storage, other, storage, other].map(async (each, index) => {
          const got: string[] = [];
          for (;;) {
            const { claimed } = await claim(each, webhook.id, { nowMs: startMs + 500, limit: 3 + index });
            if (claimed.length === 0) return got;
            got.push(...claimed.map(({ delivery }) => delivery.id));
          }
        }),
      );
      expect(given.flat().toSorted()).toEqual(deliveries.map(({ id }) => id).toSorted());
    });

    test('agrees with a plain list, whatever two claimers and their operators do in between', async () => {
      const { storage, beside } = await open();
      const claimers = [storage, await beside()];
      await fc.assert(
        fc.asyncProperty(fc.array(commands, { minLength: 10, maxLength: 50 }), async (script) => {
          // Whatever earlier runs have left is out of the way.
          await storage.write(async (tx) => tx.deliveries.prune(startMs + 1e9, 1_000));
          await new Model(claimers).play(script);
        }),
        { numRuns: effort(6, 60) },
      );
    }, 30_000);
  });

  describe('pruning deliveries', () => {
    test('removes their attempts too, and nothing of younger ones', async () => {
      const { storage } = await open();
      const { accountId, webhook } = await storedWebhook(storage);
      const [old, young] = [sampleDelivery(webhook.id), sampleDelivery(webhook.id, {}, startMs + 1)];
      await storage.write(async (tx) => {
        for (const delivery of [old, young]) {
          await tx.deliveries.insert(accountId, delivery);
          await tx.deliveries.insertAttempt(delivery.id, 1, sampleAttempt());
        }
      });
      const prune = (beforeMs: number) => storage.write(async (tx) => tx.deliveries.prune(beforeMs, 10));
      const areThere = (beforeMs: number) => storage.read.deliveries.hasBefore(beforeMs);
      expect([await areThere(startMs), await areThere(startMs + 1)]).toEqual([false, true]);
      expect(await prune(startMs)).toBe(0);
      expect(await prune(startMs + 1)).toBe(1);
      expect([await areThere(startMs + 1), await areThere(startMs + 2)]).toEqual([false, true]);
      const ranges = [old, young].map(({ id }) => ({ deliveryId: id, from: 1, to: 9 }));
      const [ofOld, ofYoung] = await storage.read.deliveries.attempts(accountId, ranges);
      expect([ofOld?.length, ofYoung?.length]).toEqual([0, 1]);
      expect(await storage.read.deliveries.find(accountId, old.id)).toBeUndefined();
    });

    test('leaves everything as it was if the transaction is rolled back', async () => {
      const { storage } = await open();
      const { accountId, webhook } = await storedWebhook(storage);
      await storage.write(async (tx) => tx.deliveries.insert(accountId, sampleDelivery(webhook.id)));
      const undone = storage.write(async (tx) => {
        expect(await tx.deliveries.prune(startMs + 10, 5)).toBe(1);
        throw new Error('on purpose');
      });
      await expect(undone).rejects.toThrow('on purpose');
      expect(await storage.read.deliveries.count(accountId, webhook.id)).toBe(1);
    });
  });

  describe('a watcher of deliveries', () => {
    test('is notified of every webhook that has something new to send, and of no other', async () => {
      const { storage } = await open();
      const work = fc.record({
        webhook: fc.nat(3),
        kind: fc.constantFrom('insert', 'retry', 'settle', 'enable', 'disable', 'remove'),
        fails: fc.boolean(),
        waits: fc.boolean(),
      });
      await fc.assert(
        fc.asyncProperty(fc.array(work, { maxLength: 20 }), async (works) => {
          const made = await Promise.all(Array.from({ length: 4 }, () => storedWebhook(storage)));
          const deliveries = made.map(({ webhook }) => sampleDelivery(webhook.id));
          await storage.write(async (tx) => {
            for (const [index, { accountId }] of made.entries()) {
              await tx.deliveries.insert(accountId, deliveries[index] ?? expect.fail());
            }
          });
          const told = new Set<string>();
          const accountIds: unknown[] = [];
          const stop = storage.watch((touched) => {
            accountIds.push(...(touched?.accountIds ?? []));
            for (const [webhookId, accountId] of touched?.webhooks ?? []) told.add(`${accountId} ${webhookId}`);
          });
          const tried = new Set<string>();
          const running: Promise<unknown>[] = [];
          for (const { webhook: index, kind, fails, waits } of works) {
            const [{ accountId, webhook } = expect.fail(), delivery = expect.fail()] = [made[index], deliveries[index]];
            const due = ['insert', 'retry', 'enable'].includes(kind);
            const write = storage.write(async (tx) => {
              if (kind === 'insert') await tx.deliveries.insert(accountId, sampleDelivery(webhook.id));
              if (kind === 'retry') await tx.deliveries.update(accountId, delivery);
              if (kind === 'settle')
                await tx.deliveries.update(accountId, { ...delivery, status: 'succeeded', dueAt: null });
              if (kind === 'enable') await tx.webhooks.update(accountId, webhook);
              if (kind === 'disable') await tx.webhooks.update(accountId, withEnabled(webhook, 'requested'));
              if (kind === 'remove') await tx.webhooks.remove(accountId, webhook.id);
              if (fails) throw new Error('on purpose');
            });
            if (due) tried.add(`${accountId} ${webhook.id}`);
            running.push(
              write.then(
                // At once when the promise resolves, not some time later.
                () => due && expect(told).toContain(`${accountId} ${webhook.id}`),
                () => undefined,
              ),
            );
            if (waits) await nextTurn();
          }
          await Promise.all(running);
          stop();
          expect([...told].filter((id) => !tried.has(id))).toEqual([]);
          expect(accountIds).toEqual([]);
        }),
        { numRuns: effort(8, 20) },
      );
    });

    test('can ask how much is waiting for enabled webhooks, and since when', async () => {
      const { storage } = await open();
      const { accountId, webhook } = await storedWebhook(storage);
      const off = fullWebhook({ enabled: false });
      const other = await storedWebhook(storage);
      const at = (ms: number, changes: Partial<StoredDelivery> = {}) =>
        sampleDelivery(webhook.id, { dueAt: timestamp(startMs + ms), ...changes });
      expect(await storage.read.deliveries.backlog(startMs, 10)).toEqual(backlogOf(0, 0, undefined));
      await storage.write(async (tx) => {
        await tx.webhooks.insert(accountId, off);
        const none = at(-9, { status: 'succeeded', dueAt: null });
        for (const delivery of [at(-5), at(0), at(1), none]) await tx.deliveries.insert(accountId, delivery);
        const theirs = sampleDelivery(other.webhook.id, { dueAt: timestamp(startMs - 7) });
        await tx.deliveries.insert(other.accountId, theirs);
        await tx.deliveries.insert(accountId, sampleDelivery(off.id, { dueAt: timestamp(startMs - 8) }));
      });
      expect(await storage.read.deliveries.backlog(startMs, 10)).toEqual(backlogOf(4, 3, startMs - 7));
      expect(await storage.read.deliveries.backlog(startMs - 8, 10)).toEqual(backlogOf(4, 0, undefined));
      expect(await storage.read.deliveries.backlog(startMs, 2)).toEqual(backlogOf(2, 2, startMs - 7));
    });

    test('is notified when another process makes something due', async () => {
      const { storage, beside } = await open();
      const other = await beside();
      const { accountId, webhook } = await storedWebhook(storage);
      let told = 0;
      const stop = storage.watch(() => {
        told++;
      });
      await other.write(async (tx) => tx.deliveries.insert(accountId, sampleDelivery(webhook.id)));
      await until(() => told > 0);
      stop();
      expect(await storage.read.deliveries.due(startMs)).toEqual([
        { accountId, webhookId: webhook.id, dueAtMs: startMs },
      ]);
    });
  });
}

const leaseMs = 1_000;

function fullWebhook(changes: Partial<StoredWebhook> = {}): StoredWebhook {
  return sampleWebhook({
    url: 'http://例え.jp:8080/hooks?a=1&b=%00',
    events: ['lead.captured'],
    description: awkwardText,
    enabled: false,
    disabledReason: 'failing',
    secrets: [
      { secret: 'whsec_bmV3', until: null },
      { secret: 'whsec_b2xk', until: timestamp(startMs + 5) },
    ],
    failingSince: timestamp(startMs + 4),
    updatedAt: timestamp(startMs + 6),
    ...changes,
  });
}

function backlogOf(pending: number, due: number, oldestDueAtMs: number | undefined): DeliveryBacklog {
  return { pending, due, oldestDueAtMs };
}

function fullDelivery(webhook: StoredWebhook): StoredDelivery {
  return sampleDelivery(webhook.id, {
    eventType: 'lead.captured',
    eventSequence: 2 ** 40,
    sample: JSON.stringify({ text: awkwardText }),
    status: 'failed',
    attemptCount: 99,
    step: 9,
    trigger: 'manual',
    dueAt: timestamp(startMs + 1),
    traceparent: awkwardText,
    completedAt: timestamp(startMs + 2),
  });
}

function fullOrEmptyAttempt(_: unknown, index: number): Attempt {
  return index % 2 === 0
    ? sampleAttempt({ responseStatus: null, responseBody: null, error: awkwardText, trigger: 'manual', durationMs: 0 })
    : sampleAttempt({ responseStatus: 599, responseBody: awkwardText, startedAt: timestamp(startMs + index) });
}

/** A webhook in an account of its own. */
async function storedWebhook(
  storage: Storage,
  webhook = sampleWebhook(),
): Promise<{ accountId: string; webhook: StoredWebhook }> {
  const { id: accountId } = await storedAccount(storage);
  await storage.write(async (tx) => tx.webhooks.insert(accountId, webhook));
  return { accountId, webhook };
}

function claim(storage: Storage, webhookId: string, { nowMs, limit = 10 }: { nowMs: number; limit?: number }) {
  return claimOf(storage, { webhookId, limit }, { id: 'mine', nowMs, endsMs: nowMs + leaseMs });
}

/** A claim of one webhook. */
async function claimOf(storage: Storage, wanted: WantedDeliveries, lease: DeliveryLease): Promise<Claim> {
  const [claim] = await storage.write(async (tx) => tx.deliveries.claim([wanted], lease));
  return claim ?? expect.fail();
}

/** Everything that can be asked of a webhook and its one delivery. */
async function ofWebhook(storage: Storage, accountId: string, webhook: StoredWebhook, delivery: StoredDelivery) {
  const { webhooks, deliveries } = storage.read;
  return {
    webhook: await webhooks.find(accountId, webhook.id),
    delivery: await deliveries.find(accountId, delivery.id),
    many: await deliveries.findMany(accountId, [delivery.id]),
    page: await deliveries.page(accountId, webhook.id, { limit: 9, offset: 0 }),
    count: await deliveries.count(accountId, webhook.id),
    attempts: await deliveries.attempts(accountId, [{ deliveryId: delivery.id, from: 1, to: 9 }]),
    failed: await deliveries.failed(accountId, webhook.id, { fromId: '', limit: 9 }),
    due: await deliveries.due(startMs),
    claim: await claim(storage, webhook.id, { nowMs: startMs }),
  };
}

function byId(a: { readonly id: string }, b: { readonly id: string }): number {
  return a.id < b.id ? -1 : 1;
}

// ── Pages ───────────────────────────────────────────────────────────────────────────────────────

interface Question {
  readonly limit: number;
  readonly offset: number;
  readonly cursor: number | null;
}

const questions: fc.Arbitrary<Question[]> = fc.array(
  fc.record({
    limit: fc.integer({ min: 1, max: 9 }),
    offset: fc.oneof(fc.nat(25), fc.constant(2 ** 31 - 1)),
    cursor: fc.option(fc.nat()),
  }),
  { minLength: 5, maxLength: 10 },
);

/** Asks for pages by offset and by cursor, and compares them with those of a plain sort. */
async function expectPages<T extends { readonly id: string }>(
  items: readonly T[],
  asked: readonly Question[],
  page: (query: PageQuery) => Slice<T> | Promise<Slice<T>>,
): Promise<void> {
  const sorted = items.toSorted((a, b) => byId(b, a));
  for (const { limit, offset, cursor } of asked) {
    const after = cursor === null ? undefined : sorted[cursor % sorted.length];
    const rest = after === undefined ? sorted.slice(offset) : sorted.slice(sorted.indexOf(after) + 1);
    const query = after === undefined ? { limit, offset } : { limit, offset: 0, after: after.id };
    expect(await page(query)).toEqual({ items: rest.slice(0, limit), hasMore: rest.length > limit });
  }
}

// ── Two claimers, and a plain list to hold against them ─────────────────────────────────────────

const place = fc.nat(2);
const claimer = fc.nat(1);

const commands = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('insert' as const), webhook: place, dueMs: fc.nat(9) }) },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('claim' as const),
      webhooks: fc.uniqueArray(place, { minLength: 1 }),
      claimer,
      limit: fc.integer({ min: 1, max: 5 }),
      leaseMs: fc.integer({ min: 1, max: 20 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('end' as const),
      claimer,
      which: fc.nat(),
      status: fc.constantFrom('pending' as const, 'succeeded' as const, 'failed' as const),
      waitMs: fc.nat(9),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('switch' as const), webhook: place, enabled: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('remove' as const), webhook: place }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('advance' as const), ms: fc.integer({ min: 1, max: 9 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('setBack' as const),
      // By little, or by so much that the end of a lease lies as far ahead as none does, or farther.
      ms: fc.oneof(fc.nat(9), fc.integer({ min: longestLeaseMs - 20, max: longestLeaseMs + 20 })),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('prune' as const),
      ageMs: fc.nat(30),
      limit: fc.integer({ min: 1, max: 6 }),
    }),
  },
);
type Command = typeof commands extends fc.Arbitrary<infer T> ? T : never;

/** A delivery, and who has claimed it, if that was not ended. */
type Known = StoredDelivery & { readonly claim?: { readonly lease: string; readonly endsMs: number } };

function stored({ claim: _, ...delivery }: Known): StoredDelivery {
  return delivery;
}

/** Does to the storage what it does to a list of its own, and looks whether both stay the same. */
class Model {
  readonly #claimers: readonly Storage[];
  readonly #webhooks: { accountId: string; webhook: StoredWebhook }[] = [];
  /** Those of webhooks that are still there. */
  #deliveries: Known[] = [];
  /** Webhooks that were removed and their deliveries, as many as are left. */
  #orphans = 0;
  #nowMs = startMs;

  constructor(claimers: readonly Storage[]) {
    this.#claimers = claimers;
  }

  async play(script: readonly Command[]): Promise<void> {
    for (let count = 0; count < 3; count++) this.#webhooks.push(await storedWebhook(this.#storage(0)));
    for (const command of script) {
      await this.#do(command);
      await this.#compare();
    }
    // Where this run ends the next begins.
    for (const { accountId, webhook } of this.#webhooks) {
      await this.#storage(0).write(async (tx) => tx.webhooks.remove(accountId, webhook.id));
    }
  }

  #storage(claimer: number): Storage {
    return this.#claimers[claimer] ?? expect.fail();
  }

  async #do(command: Command): Promise<void> {
    if (command.kind === 'advance') {
      this.#nowMs += command.ms;
    } else if (command.kind === 'setBack') {
      this.#nowMs -= command.ms;
    } else if (command.kind === 'insert') {
      const { accountId = '', webhook } = this.#webhooks[command.webhook] ?? {};
      if (webhook === undefined) return; // removed
      const delivery = sampleDelivery(webhook.id, { dueAt: timestamp(this.#nowMs + command.dueMs) }, this.#nowMs);
      await this.#storage(0).write(async (tx) => tx.deliveries.insert(accountId, delivery));
      this.#deliveries.push(delivery);
    } else if (command.kind === 'claim') {
      await this.#claim(command);
    } else if (command.kind === 'end') {
      await this.#end(command);
    } else if (command.kind === 'switch') {
      const known = this.#webhooks[command.webhook];
      if (known === undefined) return;
      known.webhook = withEnabled(known.webhook, command.enabled ? null : 'requested');
      await this.#storage(1).write(async (tx) => tx.webhooks.update(known.accountId, known.webhook));
    } else if (command.kind === 'remove') {
      const [known] = this.#webhooks.splice(command.webhook, 1);
      if (known === undefined) return;
      await this.#storage(1).write(async (tx) => tx.webhooks.remove(known.accountId, known.webhook.id));
      const left = this.#deliveries.filter(({ webhookId }) => webhookId !== known.webhook.id);
      this.#orphans += this.#deliveries.length - left.length + 1;
      this.#deliveries = left;
    } else {
      await this.#prune(command.ageMs, command.limit);
    }
  }

  async #claim({ webhooks, claimer, limit, leaseMs }: Extract<Command, { kind: 'claim' }>): Promise<void> {
    const lease = { id: String(claimer), nowMs: this.#nowMs, endsMs: this.#nowMs + leaseMs };
    const asked = webhooks.map((index) => this.#webhooks[index]?.webhook);
    const wanted = asked.map((webhook) => ({ webhookId: webhook?.id ?? 'unknown', limit }));
    const claims = await this.#storage(claimer).write(async (tx) => tx.deliveries.claim(wanted, lease));
    expect(claims).toHaveLength(asked.length);
    for (const [index, claim] of claims.entries()) this.#expectClaim(asked[index], claim, { limit, lease });
  }

  #expectClaim(
    webhook: StoredWebhook | undefined,
    { claimed, nextDueAtMs }: Claim,
    { limit, lease }: { limit: number; lease: DeliveryLease },
  ): void {
    const due = this.#pending(webhook)
      .filter((known) => Date.parse(known.dueAt) <= this.#nowMs && !this.#isHeld(known))
      .toSorted((a, b) => (a.dueAt < b.dueAt ? -1 : 1));
    const before = new Map(due.map((delivery) => [delivery.id, delivery]));
    // Of those that are due since the same moment any may be given.
    expect(claimed.map(({ delivery }) => before.get(delivery.id)?.dueAt)).toEqual(
      due.slice(0, limit).map(({ dueAt }) => dueAt),
    );
    const taken = new Map(
      claimed.map(({ delivery: { id } }) => {
        const delivery = before.get(id) ?? expect.fail();
        return [id, { ...delivery, claim: { lease: lease.id, endsMs: lease.endsMs } }] as const;
      }),
    );
    expect(taken.size, 'each once').toBe(claimed.length);
    expect(claimed.map(({ delivery }) => delivery)).toEqual([...taken.values()].map(stored));
    this.#deliveries = this.#deliveries.map((delivery) => taken.get(delivery.id) ?? delivery);
    const left = this.#pending(webhook).filter((known) => !this.#isHeld(known));
    const times = left.filter(({ id }) => !taken.has(id)).map(({ dueAt }) => Date.parse(dueAt));
    expect(nextDueAtMs).toBe(times.length === 0 ? undefined : Math.min(...times));
  }

  /** The end of an attempt, as a sender records it: if it is still its own. */
  async #end({ claimer, which, status, waitMs }: Extract<Command, { kind: 'end' }>): Promise<void> {
    const lease = String(claimer);
    const held = this.#deliveries.filter(({ claim }) => claim?.lease === lease);
    const known = held[which % held.length];
    if (known === undefined) return;
    const previous = stored(known);
    const next: StoredDelivery = {
      ...previous,
      status,
      attemptCount: previous.attemptCount + 1,
      dueAt: status === 'pending' ? timestamp(this.#nowMs + waitMs) : null,
    };
    await this.#storage(claimer).write(async (tx) => {
      const [current] = await tx.deliveries.release(lease, [previous.id]);
      expect(current?.delivery).toEqual(previous);
      expect(current?.webhook).toEqual(
        this.#webhooks.find(({ webhook }) => webhook.id === previous.webhookId)?.webhook,
      );
      await tx.deliveries.insertAttempt(previous.id, next.attemptCount, sampleAttempt());
      await tx.deliveries.update(current?.accountId ?? expect.fail(), next);
    });
    this.#deliveries = this.#deliveries.map((delivery) => (delivery === known ? next : delivery));
  }

  async #prune(ageMs: number, limit: number): Promise<void> {
    const beforeMs = this.#nowMs - ageMs;
    const removed = await this.#storage(0).write(async (tx) => tx.deliveries.prune(beforeMs, limit));
    const old = this.#deliveries.filter(({ createdAt }) => createdAt < timestamp(beforeMs)).toSorted(byId);
    expect(removed).toBe(Math.min(limit, old.length + this.#orphans));
    const left: Known[] = [];
    for (const delivery of old) if (await this.#find(delivery)) left.push(delivery);
    expect(left, 'the oldest go first').toEqual(old.slice(old.length - left.length));
    const gone = new Set<StoredDelivery>(old.slice(0, old.length - left.length));
    this.#deliveries = this.#deliveries.filter((delivery) => !gone.has(delivery));
    this.#orphans -= removed - gone.size;
  }

  async #find(delivery: StoredDelivery): Promise<unknown> {
    const known = this.#webhooks.find(({ webhook }) => webhook.id === delivery.webhookId) ?? expect.fail();
    return await this.#storage(0).read.deliveries.find(known.accountId, delivery.id);
  }

  #pending(webhook: StoredWebhook | undefined): (Known & { dueAt: string })[] {
    return this.#deliveries.flatMap((delivery) =>
      webhook?.enabled && delivery.webhookId === webhook.id && delivery.status === 'pending' && delivery.dueAt !== null
        ? [{ ...delivery, dueAt: delivery.dueAt }]
        : [],
    );
  }

  #isHeld({ claim }: Known): boolean {
    return claim !== undefined && claim.endsMs > this.#nowMs && !this.#isOfAnotherClock(claim);
  }

  /** Whether a claim ends later than any can that was made by the clock as it is now. */
  #isOfAnotherClock({ endsMs }: { readonly endsMs: number }): boolean {
    return endsMs > this.#nowMs + longestLeaseMs;
  }

  #firstDueMs(webhook: StoredWebhook | undefined): number | undefined {
    const times = this.#pending(webhook).map(({ dueAt, claim }) =>
      claim === undefined || this.#isOfAnotherClock(claim) ? Date.parse(dueAt) : claim.endsMs,
    );
    return times.length === 0 ? undefined : Math.min(...times);
  }

  async #compare(): Promise<void> {
    const { deliveries } = this.#storage(1).read;
    const due = this.#webhooks.flatMap(({ accountId, webhook }) => {
      const dueAtMs = this.#firstDueMs(webhook);
      return dueAtMs === undefined ? [] : [{ accountId, webhookId: webhook.id, dueAtMs }];
    });
    const order = (a: { webhookId: string }, b: { webhookId: string }) => (a.webhookId < b.webhookId ? -1 : 1);
    expect((await deliveries.due(this.#nowMs)).toSorted(order)).toEqual(due.toSorted(order));
    const waiting = this.#webhooks.flatMap(({ webhook }) => this.#pending(webhook));
    const times = waiting.filter((known) => !this.#isHeld(known)).map(({ dueAt }) => Date.parse(dueAt));
    const past = times.filter((dueMs) => dueMs <= this.#nowMs);
    expect(await deliveries.backlog(this.#nowMs, 100)).toEqual({
      pending: waiting.length,
      due: past.length,
      oldestDueAtMs: past.length === 0 ? undefined : Math.min(...past),
    });
    for (const { accountId, webhook } of this.#webhooks) {
      const mine = this.#deliveries.filter(({ webhookId }) => webhookId === webhook.id);
      const page = await deliveries.page(accountId, webhook.id, { limit: 100, offset: 0 });
      expect(page.items.toReversed()).toEqual(
        mine.toSorted(byId).map((known) => {
          const isTried = known.claim !== undefined;
          return { ...stored(known), webhookEnabled: webhook.enabled, isTried };
        }),
      );
    }
  }
}
