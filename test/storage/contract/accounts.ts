import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { IdempotencyRecord } from '../../../src/domain/idempotency.ts';
import type { RateWindow } from '../../../src/domain/rate-window.ts';
import type { ClockReading } from '../../../src/domain/steady-clock.ts';
import type { Storage } from '../../../src/domain/storage-port.ts';
import { timestamp } from '../../../src/domain/time.ts';
import { effort } from '../../support/effort.ts';
import {
  awkwardText,
  ids,
  sampleAccount,
  sampleConversation,
  sampleEvent,
  sampleHash,
  sampleKey,
  start,
  startMs,
  storedAccount,
} from '../../support/samples.ts';
import type { OpenedStorage } from './opened.ts';

/** What every storage promises of accounts, what lets their programs in, and what is counted and kept for these: a part of `storageContract`. */
export function accountsContract(open: () => Promise<OpenedStorage>): void {
  describe('accounts', () => {
    test('are read back as they were stored', async () => {
      const { storage } = await open();
      const plain = sampleAccount();
      const full = sampleAccount({ name: awkwardText, plan: 'business', requestsPerHour: 1_000_000_000 });
      await storage.write(async (tx) => {
        await tx.accounts.insert(plain);
        await tx.accounts.insert(full);
      });
      expect(await storage.read.accounts.find(plain.id)).toEqual(plain);
      expect(await storage.read.accounts.find(full.id)).toEqual(full);
      expect(await storage.read.accounts.find(ids.next('account', startMs))).toBeUndefined();
    });

    test('are listed oldest first', async () => {
      const { storage } = await open();
      const accounts = [5, 1, 4, 1, 3].map((minutes) => {
        const createdMs = startMs + minutes * 60_000;
        return sampleAccount({ id: ids.next('account', createdMs), createdAt: timestamp(createdMs) });
      });
      await storage.write(async (tx) => {
        for (const account of accounts) await tx.accounts.insert(account);
      });
      expect(await storage.read.accounts.list()).toEqual(accounts.toSorted((a, b) => (a.id < b.id ? -1 : 1)));
    });

    test('are none until the first is stored, and who sees that there are none is the one who stores it', async () => {
      const { storage, beside } = await open();
      const other = await beside();
      const seen: boolean[] = [];
      const storeFirst = (on: Storage) =>
        on.write(async (tx) => {
          const areNone = await tx.accounts.areNone();
          seen.push(areNone);
          if (areNone) await tx.accounts.insert(sampleAccount());
        });
      await Promise.all([storage, other, storage, other].map(storeFirst));
      expect(seen.filter(Boolean)).toHaveLength(1);
      expect(await storage.read.accounts.list()).toHaveLength(1);
    });

    test('are added by nobody else while somebody who has seen that there are none goes on', async () => {
      const { storage, beside } = await open();
      const other = await beside();
      const first = sampleAccount();
      const order: string[] = [];
      let adding: Promise<unknown> | undefined;
      await storage.write(async (tx) => {
        expect(await tx.accounts.areNone()).toBe(true);
        adding = other.write(async (beside) => beside.accounts.insert(sampleAccount())).then(() => order.push('other'));
        for (let looks = 0; looks < 5; looks++) await other.read.accounts.list(); // time enough for a lone insert
        await tx.accounts.insert(first);
        order.push('first');
      });
      await adding;
      expect(order).toEqual(['first', 'other']);
      expect(await storage.read.accounts.list()).toHaveLength(2);
    });

    test('keep the origins of their own, which are found with and without their account', async () => {
      const { storage, reopen } = await open();
      const [account, other] = [await storedAccount(storage), await storedAccount(storage)];
      const [shop, blog] = ['https://shop.example', 'https://blog.example'];
      await storage.write(async (tx) => {
        await tx.accounts.setOrigins(account.id, [shop, blog]);
        await tx.accounts.setOrigins(other.id, [shop]);
        expect(await tx.accounts.origins(account.id)).toEqual([blog, shop]);
      });
      const { accounts } = (await reopen()).read;
      expect(await accounts.origins(account.id)).toEqual([blog, shop]);
      const found = async (origin: string) => [
        await accounts.hasOrigin(origin),
        await accounts.hasOrigin(origin, account.id),
        await accounts.hasOrigin(origin, other.id),
      ];
      expect(await found(shop)).toEqual([true, true, true]);
      expect(await found(blog)).toEqual([true, true, false]);
      expect(await found('https://SHOP.example')).toEqual([false, false, false]);
    });

    test('can change name, plan and limit independently', async () => {
      const { storage } = await open();
      const [account, other] = [await storedAccount(storage), await storedAccount(storage)];
      const changed = { ...account, name: 'Renamed', plan: 'trial', requestsPerHour: 7 } as const;
      await storage.write(async (tx) => tx.accounts.update(changed));
      expect(await storage.read.accounts.find(account.id)).toEqual(changed);
      await storage.write(async (tx) => tx.accounts.update({ ...changed, requestsPerHour: null }));
      expect(await storage.read.accounts.find(account.id)).toEqual({ ...changed, requestsPerHour: null });
      expect(await storage.read.accounts.find(other.id)).toEqual(other);
    });

    test('start with all counters at zero', async () => {
      const { storage } = await open();
      const { id } = await storedAccount(storage);
      expect(await storage.read.accounts.totals(id)).toMatchObject({
        active: 0,
        pending: 0,
        closed: 0,
        eventSequence: 0,
      });
    });
  });

  describe('API keys', () => {
    test('are read back as they were stored, by id and by secret, with their account', async () => {
      const { storage } = await open();
      const account = await storedAccount(storage);
      const keys = [
        sampleKey(),
        sampleKey({
          name: awkwardText,
          scopes: [],
          expiresAt: timestamp(startMs + 1),
          lastUsedAt: timestamp(startMs + 2),
          revokedAt: timestamp(startMs + 3),
        }),
      ].map((key) => ({ key, hash: sampleHash() }));
      await storage.write(async (tx) => {
        for (const { key, hash } of keys) await tx.apiKeys.insert(account.id, key, hash);
      });
      for (const { key, hash } of keys) {
        expect(await storage.read.apiKeys.find(account.id, key.id)).toEqual(key);
        expect(await storage.read.apiKeys.findWithAccount(account.id, key.id)).toEqual({ key, account });
        expect(await storage.read.apiKeys.findBySecret(hash)).toMatchObject({ key, account });
      }
      const unknown = ids.next('apiKey', startMs);
      expect(await storage.read.apiKeys.find(account.id, unknown)).toBeUndefined();
      const [first, second] = keys.map(({ key }) => key);
      const asked = [second?.id ?? '', unknown, first?.id ?? ''];
      expect(await storage.read.apiKeys.findMany(account.id, asked)).toEqual([second, undefined, first]);
      expect(await storage.read.apiKeys.findMany(account.id, [])).toEqual([]);
      expect(await storage.read.apiKeys.findBySecret(sampleHash())).toBeUndefined();
    });

    test('can change lastUsedAt and revokedAt, and nothing else', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const [key, other] = [sampleKey(), sampleKey()];
      const used = { ...key, lastUsedAt: timestamp(startMs + 60_000) };
      const revoked = { ...used, revokedAt: timestamp(startMs + 90_000) };
      await storage.write(async (tx) => {
        await tx.apiKeys.insert(accountId, key, sampleHash());
        await tx.apiKeys.insert(accountId, other, sampleHash());
        await tx.apiKeys.update(used);
      });
      expect(await storage.read.apiKeys.find(accountId, key.id)).toEqual(used);
      await storage.write(async (tx) => tx.apiKeys.update({ ...revoked, name: 'ignored', scopes: [] }));
      expect(await storage.read.apiKeys.find(accountId, key.id)).toEqual(revoked);
      expect(await storage.read.apiKeys.find(accountId, other.id)).toEqual(other);
    });

    test('stay revoked, whoever changes what they were before', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const key = sampleKey();
      const revokedAt = timestamp(startMs + 90_000);
      await storage.write(async (tx) => tx.apiKeys.insert(accountId, key, sampleHash()));
      await storage.write(async (tx) => tx.apiKeys.update({ ...key, revokedAt }));
      const lastUsedAt = timestamp(startMs + 120_000);
      await storage.write(async (tx) => tx.apiKeys.update({ ...key, lastUsedAt }));
      expect(await storage.read.apiKeys.find(accountId, key.id)).toEqual({ ...key, lastUsedAt, revokedAt });
    });

    test('cannot share a secret', async () => {
      const { storage } = await open();
      const [one, two] = [await storedAccount(storage), await storedAccount(storage)];
      const hash = sampleHash();
      await storage.write(async (tx) => tx.apiKeys.insert(one.id, sampleKey(), hash));
      await expect(storage.write(async (tx) => tx.apiKeys.insert(two.id, sampleKey(), hash))).rejects.toThrow();
      expect((await storage.read.apiKeys.findBySecret(hash))?.account).toEqual(one);
      expect(await storage.read.apiKeys.count(two.id)).toBe(0);
    });

    test('are paged newest first by offset and by cursor, and counted with and without the revoked', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const { id: otherId } = await storedAccount(storage);
      const keys = [3, 9, 1, 9, 5, 7].map((minute) =>
        sampleKey({
          id: ids.next('apiKey', startMs + minute * 60_000),
          createdAt: timestamp(startMs + minute * 60_000),
          revokedAt: minute === 9 ? start : null,
        }),
      );
      await storage.write(async (tx) => {
        for (const key of keys) await tx.apiKeys.insert(accountId, key, sampleHash());
        await tx.apiKeys.insert(otherId, sampleKey(), sampleHash());
      });
      const sorted = keys.toSorted((a, b) => (a.id < b.id ? 1 : -1));
      for (let limit = 1; limit <= 7; limit++) {
        for (let offset = 0; offset <= 7; offset++) {
          expect(await storage.read.apiKeys.page(accountId, { limit, offset })).toEqual({
            items: sorted.slice(offset, offset + limit),
            hasMore: sorted.length > offset + limit,
          });
        }
        for (const [index, { id: after }] of sorted.entries()) {
          expect(await storage.read.apiKeys.page(accountId, { limit, offset: 0, after })).toEqual({
            items: sorted.slice(index + 1, index + 1 + limit),
            hasMore: sorted.length > index + 1 + limit,
          });
        }
      }
      expect(await storage.read.apiKeys.count(accountId)).toBe(6);
      expect(await storage.read.apiKeys.countLive(accountId, startMs)).toBe(4);
    });

    /** Keys of an account by a name each, with how many milliseconds after the start each ends. */
    const ending = {
      never: {},
      later: { expiresAt: timestamp(startMs + 9) },
      expired4: { expiresAt: timestamp(startMs + 4) },
      expired2: { expiresAt: timestamp(startMs + 2) },
      revoked3: { revokedAt: timestamp(startMs + 3) },
      revoked1: { revokedAt: timestamp(startMs + 1), expiresAt: timestamp(startMs + 9) },
      expired0: { revokedAt: timestamp(startMs + 6), expiresAt: timestamp(startMs) },
    };

    async function endingKeys(storage: Storage, accountId: string): Promise<() => Promise<string[]>> {
      await storage.write(async (tx) => {
        for (const [name, ends] of Object.entries(ending)) {
          await tx.apiKeys.insert(accountId, sampleKey({ name, ...ends }), sampleHash());
        }
      });
      return async () => {
        const { items } = await storage.read.apiKeys.page(accountId, { limit: 10, offset: 0 });
        return items.map(({ name }) => name).toSorted();
      };
    }

    test('that have ended are removed but for the last ones of the account, the first to end first', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const { id: otherId } = await storedAccount(storage);
      const [left, others] = [await endingKeys(storage, accountId), await endingKeys(storage, otherId)];
      const remove = (kept: number, limit: number) =>
        storage.write(async (tx) => tx.apiKeys.removeEnded(accountId, startMs + 5, { kept, limit }));
      expect(await storage.read.apiKeys.countLive(accountId, startMs + 5)).toBe(2);
      await remove(5, 10);
      expect(await left()).toHaveLength(7);
      await remove(3, 1);
      expect(await left()).toEqual(['expired0', 'expired2', 'expired4', 'later', 'never', 'revoked3']);
      await remove(3, 10);
      expect(await left()).toEqual(['expired2', 'expired4', 'later', 'never', 'revoked3']);
      await remove(0, 10);
      expect(await left()).toEqual(['later', 'never']);
      expect(await others()).toHaveLength(7);
    });

    test('that have expired are pruned across all accounts, up to a time and never beyond the limit; revoked ones stay', async () => {
      const { storage } = await open();
      const accounts = [await storedAccount(storage), await storedAccount(storage)];
      const left = await Promise.all(accounts.map(({ id }) => endingKeys(storage, id)));
      const prune = (before: number, limit: number) =>
        storage.write(async (tx) => tx.apiKeys.prune(startMs + before, limit));
      expect(await prune(3, 1)).toBe(1);
      expect(await prune(5, 10)).toBe(3);
      expect(await prune(5, 10)).toBe(0);
      const rest = ['expired0', 'later', 'never', 'revoked1', 'revoked3'];
      expect(await Promise.all(left.map((names) => names()))).toEqual([rest, rest]);
    });
  });

  describe('the number of revocations', () => {
    test('grows with every revocation, of any account, and with nothing else', async () => {
      const { storage, beside, reopen } = await open();
      const [one, two] = [await storedAccount(storage), await storedAccount(storage)];
      const [first, second] = [sampleKey(), sampleKey()];
      const revocations = () => storage.read.apiKeys.revocations();
      const before = await revocations();
      await storage.write(async (tx) => {
        await tx.apiKeys.insert(one.id, first, sampleHash());
        await tx.apiKeys.insert(two.id, second, sampleHash());
        await tx.apiKeys.update({ ...first, lastUsedAt: timestamp(startMs + 60_000) });
        await tx.events.append(one.id, [sampleEvent(sampleConversation())]);
      });
      expect(await revocations()).toBe(before);

      await storage.write(async (tx) => tx.apiKeys.update({ ...first, revokedAt: start }));
      const afterOne = await revocations();
      expect(afterOne).toBeGreaterThan(before);
      const undone = storage.write(async (tx) => {
        await tx.apiKeys.update({ ...second, revokedAt: start });
        throw new Error('on purpose');
      });
      await expect(undone).rejects.toThrow('on purpose');
      expect(await revocations()).toBe(afterOne);

      const other = await beside();
      await other.write(async (tx) => tx.apiKeys.update({ ...second, revokedAt: start }));
      const afterTwo = await revocations();
      expect(afterTwo).toBeGreaterThan(afterOne);
      expect(await storage.write(async (tx) => tx.apiKeys.revocations())).toBe(afterTwo);
      expect(await (await reopen()).read.apiKeys.revocations()).toBe(afterTwo);
    });
  });

  describe('the key that tokens are signed with', () => {
    test('is 256 bits that differ between databases, survive reopening and are the same in every process', async () => {
      const { storage, beside, reopen } = await open();
      const key = Buffer.from(await storage.read.apiKeys.tokenKey());
      expect(key).toHaveLength(32);
      expect(key.equals(await storage.write(async (tx) => tx.apiKeys.tokenKey()))).toBe(true);
      expect(key.equals(await (await beside()).read.apiKeys.tokenKey())).toBe(true);
      expect(key.equals(await (await reopen()).read.apiKeys.tokenKey())).toBe(true);
      expect(key.equals(await (await open()).storage.read.apiKeys.tokenKey())).toBe(false);
    });
  });

  describe('rate windows', () => {
    test('hold the sum of what was added to each minute until they are pruned', async () => {
      const { storage } = await open();
      const minute = fc.integer({ min: 100, max: 108 });
      const step = fc.oneof(
        fc.record({ kind: fc.constant('add' as const), minute, count: fc.integer({ min: -5, max: 20 }) }),
        fc.record({ kind: fc.constant('prune' as const), minute, count: fc.constant(0) }),
      );
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 30 }), minute, async (steps, from) => {
          const { id: accountId } = await storedAccount(storage);
          const { id: otherId } = await storedAccount(storage);
          const windows = new Map<number, RateWindow>();
          await storage.write(async (tx) => tx.rateWindows.add(otherId, 99, 1));
          await Promise.all(
            steps.map((step) => {
              if (step.kind === 'prune') {
                for (const key of [...windows.keys()]) if (key < step.minute) windows.delete(key);
                return storage.write(async (tx) => tx.rateWindows.prune(accountId, step.minute));
              }
              const { count } = windows.get(step.minute) ?? { count: 0 };
              const window = { minute: step.minute, count: count + step.count };
              windows.set(step.minute, window);
              return storage.write(async (tx) =>
                expect(await tx.rateWindows.add(accountId, step.minute, step.count)).toEqual(window),
              );
            }),
          );
          const expected = [...windows.values()]
            .filter(({ minute, count }) => minute >= from && count > 0)
            .sort((a, b) => a.minute - b.minute);
          expect(await storage.read.rateWindows.since(accountId, from)).toEqual(expected);
          expect(await storage.read.rateWindows.since(otherId, 0)).toEqual([{ minute: 99, count: 1 }]);
        }),
        { numRuns: effort(12, 40) },
      );
    });

    test('omit a minute whose whole count was given back', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      await storage.write(async (tx) => {
        await tx.rateWindows.add(accountId, 10, 5);
        await tx.rateWindows.add(accountId, 11, 5);
        await tx.rateWindows.add(accountId, 10, -5);
        await tx.rateWindows.add(accountId, 11, -2);
      });
      expect(await storage.read.rateWindows.since(accountId, 0)).toEqual([{ minute: 11, count: 3 }]);
    });
  });

  describe('the clock of the limiter', () => {
    const reading = (atMs: number): ClockReading => ({ atMs, wallMs: atMs + 5, uptimeMs: 7, boot: 'boot' });

    test('goes on from the last reading that any process stored', async () => {
      const { storage, beside, reopen } = await open();
      // Far from what any clock of the machine shows.
      const atMs = Date.parse('2061-11-21T06:12:00.000Z');
      await storage.write(async (tx) => {
        await tx.rateWindows.setClock(reading(atMs));
        expect((await tx.rateWindows.clock())?.atMs).toBeGreaterThanOrEqual(atMs);
      });
      for (const openOther of [async () => storage, beside, reopen]) {
        const kept = await (await openOther()).read.rateWindows.clock();
        expect(kept?.atMs).toBeGreaterThanOrEqual(atMs);
        expect(kept?.atMs).toBeLessThan(atMs + 60_000);
      }
    });
  });

  describe('kept results', () => {
    const kept = (facts: Partial<IdempotencyRecord> = {}): IdempotencyRecord => ({
      fingerprint: sampleHash(),
      result: JSON.stringify({ text: awkwardText }),
      conversationId: null,
      createdAtMs: startMs,
      ...facts,
    });

    test('are read back as they were stored, by account and key, also after reopening', async () => {
      const { storage, reopen } = await open();
      const [one, other] = [await storedAccount(storage), await storedAccount(storage)];
      const results = [kept(), kept({ conversationId: ids.next('conversation', startMs) }), kept({ result: null })];
      await storage.write(async (tx) => {
        for (const [index, result] of results.entries())
          await tx.idempotencyRecords.put(one.id, `key ${index}`, result);
        await tx.idempotencyRecords.put(other.id, 'key 0', kept({ result: 'theirs' }));
      });
      const { read } = await reopen();
      for (const [index, { fingerprint, ...facts }] of results.entries()) {
        const found = await read.idempotencyRecords.find(one.id, `key ${index}`);
        expect(found).toMatchObject(facts);
        expect([...(found?.fingerprint ?? [])]).toEqual([...fingerprint]);
      }
      expect(await read.idempotencyRecords.find(other.id, 'key 0')).toMatchObject({ result: 'theirs' });
      expect(await read.idempotencyRecords.find(other.id, 'key 1')).toBeUndefined();
      expect(await read.idempotencyRecords.find(one.id, 'KEY 0')).toBeUndefined();
    });

    test('replace the previous result of their key, unless the transaction is rolled back', async () => {
      const { storage } = await open();
      const { id } = await storedAccount(storage);
      const [first, second] = [kept({ result: 'first' }), kept({ result: 'second', createdAtMs: startMs + 1 })];
      await storage.write(async (tx) => tx.idempotencyRecords.put(id, 'key', first));
      const undone = storage.write(async (tx) => {
        await tx.idempotencyRecords.put(id, 'key', second);
        expect(await tx.idempotencyRecords.find(id, 'key')).toMatchObject({ result: 'second' });
        throw new Error('on purpose');
      });
      await expect(undone).rejects.toThrow('on purpose');
      expect(await storage.read.idempotencyRecords.find(id, 'key')).toMatchObject({
        result: 'first',
        createdAtMs: startMs,
      });
      await storage.write(async (tx) => tx.idempotencyRecords.put(id, 'key', second));
      expect(await storage.read.idempotencyRecords.find(id, 'key')).toMatchObject({ result: 'second' });
    });

    test('are pruned oldest first across all accounts, up to a time and never beyond the limit', async () => {
      const { storage } = await open();
      const accounts = [await storedAccount(storage), await storedAccount(storage)];
      await storage.write(async (tx) => {
        for (let index = 0; index < 10; index++) {
          const account = accounts[index % 2] as (typeof accounts)[0];
          await tx.idempotencyRecords.put(account.id, `key ${index}`, kept({ createdAtMs: startMs + index }));
        }
      });
      const left = async () => {
        const found = Array.from({ length: 10 }, (_, index) =>
          storage.read.idempotencyRecords.find(accounts[index % 2]?.id ?? '', `key ${index}`),
        );
        return (await Promise.all(found)).flatMap((one) => (one === undefined ? [] : [one.createdAtMs - startMs]));
      };
      const prune = (before: number, limit: number) =>
        storage.write(async (tx) => tx.idempotencyRecords.prune(startMs + before, limit));
      expect(await prune(7, 3)).toBe(3);
      expect(await left()).toEqual([3, 4, 5, 6, 7, 8, 9]);
      expect(await prune(7, 10)).toBe(4);
      expect(await left()).toEqual([7, 8, 9]);
      expect(await prune(7, 10)).toBe(0);
    });
  });
}
