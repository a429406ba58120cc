import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Dated, DeliveryQueue, DueHeap, type Grant } from '../../src/webhooks/delivery-queue.ts';
import { longTest } from '../support/effort.ts';

/** As OPERATING.md promises. */
const maxInFlight = 384;

describe('the heap of what is due', () => {
  test('gives the first that is due as a sorted list would, whatever is put, moved and taken out', () => {
    const step = fc.record({
      kind: fc.constantFrom('put', 'put', 'remove', 'take'),
      item: fc.nat(20),
      dueAtMs: fc.nat(50),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const items: Dated[] = Array.from({ length: 21 }, () => ({ dueAtMs: 0, heapIndex: -1 }));
        const heap = new DueHeap<Dated>();
        const inside = new Set<Dated>();
        const firstMs = () => Math.min(Number.POSITIVE_INFINITY, ...[...inside].map((item) => item.dueAtMs));
        for (const { kind, item: index, dueAtMs } of steps) {
          const item = items[index] ?? expect.fail();
          if (kind === 'put') {
            item.dueAtMs = dueAtMs;
            heap.put(item);
            inside.add(item);
          } else if (kind === 'remove') {
            heap.remove(item);
            inside.delete(item);
          } else {
            const first = firstMs();
            const taken = heap.take(dueAtMs);
            expect(taken?.dueAtMs).toBe(first <= dueAtMs ? first : undefined);
            if (taken !== undefined) expect(inside.delete(taken)).toBe(true);
          }
          expect(heap.firstMs).toBe(firstMs());
        }
      }),
    );
  });
});

describe('the queue of deliveries', () => {
  test('keep the limits, leave out nobody who is due, and let nobody be forgotten', () => {
    const webhook = fc.record({ backlog: fc.nat(40), dueAtMs: fc.nat(9), succeeds: fc.boolean() });
    const some = fc.array(webhook, { minLength: 1, maxLength: 600 });
    fc.assert(
      fc.property(some, fc.integer({ min: 1, max: 600 }), fc.infiniteStream(fc.nat()), (seeds, accounts, chance) => {
        const queue = new DeliveryQueue();
        const left = new Map<string, number>();
        const running: Grant[] = [];
        for (const [index, { backlog, dueAtMs }] of seeds.entries()) {
          left.set(String(index), backlog);
          queue.plan(`a${index % accounts}`, String(index), dueAtMs);
        }
        for (let nowMs = 0; queue.size > 0; nowMs++) {
          const grants = queue.grant(nowMs);
          expect(new Set(grants.map(({ webhook }) => webhook.id)).size, 'one each').toBe(grants.length);
          const given = grants.reduce((sum, { limit }) => sum + limit, 0);
          expect(running.length + given).toBeLessThanOrEqual(maxInFlight);
          for (const { webhook, limit } of grants) {
            expect(limit).toBeGreaterThan(0);
            expect(webhook.inFlight).toBeLessThanOrEqual(webhook.window);
            expect(webhook.account.inFlight, 'half of all at most').toBeLessThanOrEqual(maxInFlight / 2);
          }
          if (running.length < maxInFlight && given === 0) expect(queue.grant(nowMs)).toEqual([]);
          for (const grant of grants) {
            const more = left.get(grant.webhook.id) ?? 0;
            const count = Math.min(more, grant.limit);
            left.set(grant.webhook.id, more - count);
            for (let each = 0; each < count; each++) running.push(grant);
            if (more > count) queue.claimed(grant, count, nowMs);
            else queue.claimed(grant, count);
          }
          // Some of what goes on ends, in any order.
          for (let ending = Math.ceil(running.length / 2); ending > 0; ending--) {
            const [grant] = running.splice((chance.next().value ?? 0) % running.length, 1);
            if (grant === undefined) break;
            queue.ended(grant, seeds[Number(grant.webhook.id)]?.succeeds);
          }
          expect(nowMs, 'it comes to an end').toBeLessThan(20_000);
        }
        expect([...left.values()].filter((count) => count > 0)).toEqual([]);
        expect(running).toEqual([]);
      }),
      { numRuns: 30 },
    );
  });

  test('give each webhook one before any gets more, in the order in which they came', () => {
    const queue = new DeliveryQueue();
    for (let index = 0; index < maxInFlight + 44; index++) queue.plan(`a${index}`, `w${index}`, 0);
    const first = queue.grant(1);
    expect(first.map(({ webhook, limit }) => [webhook.id, limit])).toEqual(
      Array.from({ length: maxInFlight }, (_, index) => [`w${index}`, 1]),
    );
    for (const grant of first) queue.claimed(grant, 1, 1);
    expect(queue.grant(1)).toEqual([]);
    for (const grant of first.slice(0, 50)) queue.ended(grant, true);
    const second = queue.grant(1).map(({ webhook }) => webhook.id);
    expect(second.slice(0, 44)).toEqual(Array.from({ length: 44 }, (_, index) => `w${maxInFlight + index}`));
    const ended = new Set(first.slice(0, 50).map(({ webhook }) => webhook.id));
    expect(second.slice(44).filter((id) => ended.has(id))).toHaveLength(6);
  });

  /** A queue with all windows grown, of accounts that take what they get and let nothing end. */
  function greedy(accounts: Readonly<Record<string, number>>) {
    const queue = new DeliveryQueue();
    const running: Grant[] = [];
    const run = (): Grant[] => {
      const given: Grant[] = [];
      for (let grants = queue.grant(0); grants.length > 0; grants = queue.grant(0)) {
        for (const grant of grants) {
          for (let each = 0; each < grant.limit; each++) running.push(grant);
          queue.claimed(grant, grant.limit, 0);
        }
        given.push(...grants);
      }
      return given;
    };
    const inFlight = (): Record<string, number> => {
      const counts: Record<string, number> = {};
      for (const { webhook } of running) counts[webhook.account.id] = (counts[webhook.account.id] ?? 0) + 1;
      return counts;
    };
    for (const [account, webhooks] of Object.entries(accounts)) {
      for (let index = 0; index < webhooks; index++) queue.plan(account, `${account} ${index}`, 0);
    }
    for (let round = 0; round < 600; round++) {
      run();
      queue.ended(running.shift() ?? expect.fail(), true);
    }
    run();
    return { queue, running, run, inFlight };
  }

  test('leave an account as many places as all others together have free: alone it gets half', () => {
    const { alone = 0 } = greedy({ alone: 20 }).inFlight();
    expect(Math.abs(alone - maxInFlight / 2)).toBeLessThan(20);
    const { one = 0, two = 0 } = greedy({ one: 20, two: 9 }).inFlight();
    expect(Math.abs(one - maxInFlight / 3)).toBeLessThan(20);
    expect(Math.abs(two - maxInFlight / 3)).toBeLessThan(20);
  });

  test('find room for an account that comes late, and for a webhook of the greedy account itself', () => {
    const { queue, run, inFlight } = greedy({ greedy: 19 });
    const before = inFlight()['greedy'] ?? 0;
    queue.plan('greedy', 'greedy late', 0);
    expect(run().map(({ webhook }) => webhook.id)).toContain('greedy late');
    for (let index = 0; index < 70; index++) queue.plan(`late${index}`, `late${index}`, 0);
    const given = run().map(({ webhook }) => webhook.id);
    for (let index = 0; index < 70; index++) expect(given).toContain(`late${index}`);
    expect((inFlight()['greedy'] ?? 0) - before).toBeLessThan(10);
  });

  test('count attempts of webhooks that are gone for their account: making others gives it no more', () => {
    const queue = new DeliveryQueue();
    let inFlight = 0;
    for (let index = 0; index < 1_000; index++) {
      queue.plan('greedy', `w${index}`, 0);
      for (const grant of queue.grant(0)) {
        inFlight += grant.limit;
        queue.claimed(grant, grant.limit); // and the webhook is deleted while its receiver hangs
      }
    }
    expect(inFlight).toBe(maxInFlight / 2);
    queue.plan('other', 'other', 0);
    expect(queue.grant(0)).toMatchObject([{ webhook: { id: 'other' }, limit: 4 }]);
  });

  longTest('cost no more when very many webhooks wait for their time', () => {
    const queue = new DeliveryQueue();
    for (let index = 0; index < 100_000; index++) queue.plan(`a${index}`, `later${index}`, 1e12 + (index % 997));
    const startedMs = performance.now();
    for (let round = 0; round < 5_000; round++) {
      queue.plan('now', 'now', round);
      const [grant = expect.fail()] = queue.grant(round);
      queue.claimed(grant, 1);
      queue.ended(grant, true);
    }
    expect(queue.firstMs).toBe(1e12);
    // To look at each of them each time would take far longer.
    expect(performance.now() - startedMs).toBeLessThan(3_000);
  });
});
