import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Dated, DueQueue } from '../../src/delivery/due-queue.ts';
import { Lanes, type Turn } from '../../src/delivery/lanes.ts';

/** As OPERATING.md promises. */
const maxInFlight = 384;

describe('the queue of what is due', () => {
  test('gives the first that is due as a sorted list would, whatever is put, moved and taken out', () => {
    const step = fc.record({
      kind: fc.constantFrom('put', 'put', 'remove', 'take'),
      item: fc.nat(20),
      dueAtMs: fc.nat(50),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const items: Dated[] = Array.from({ length: 21 }, () => ({ dueAtMs: 0, heapIndex: -1 }));
        const queue = new DueQueue<Dated>();
        const inside = new Set<Dated>();
        const firstMs = () => Math.min(Number.POSITIVE_INFINITY, ...[...inside].map((item) => item.dueAtMs));
        for (const { kind, item: index, dueAtMs } of steps) {
          const item = items[index] ?? expect.fail();
          if (kind === 'put') {
            item.dueAtMs = dueAtMs;
            queue.put(item);
            inside.add(item);
          } else if (kind === 'remove') {
            queue.remove(item);
            inside.delete(item);
          } else {
            const first = firstMs();
            const taken = queue.take(dueAtMs);
            expect(taken?.dueAtMs).toBe(first <= dueAtMs ? first : undefined);
            if (taken !== undefined) expect(inside.delete(taken)).toBe(true);
          }
          expect(queue.firstMs).toBe(firstMs());
        }
      }),
    );
  });
});

describe('turns', () => {
  test('keep the limits, leave out nobody who is due, and let nobody be forgotten', () => {
    const webhook = fc.record({ backlog: fc.nat(40), dueAtMs: fc.nat(9), succeeds: fc.boolean() });
    const some = fc.array(webhook, { minLength: 1, maxLength: 600 });
    fc.assert(
      fc.property(some, fc.integer({ min: 1, max: 600 }), fc.infiniteStream(fc.nat()), (seeds, accounts, chance) => {
        const lanes = new Lanes();
        const left = new Map<string, number>();
        const running: Turn[] = [];
        for (const [index, { backlog, dueAtMs }] of seeds.entries()) {
          left.set(String(index), backlog);
          lanes.plan(`a${index % accounts}`, String(index), dueAtMs);
        }
        for (let nowMs = 0; lanes.size > 0; nowMs++) {
          const turns = lanes.take(nowMs);
          expect(new Set(turns.map(({ lane }) => lane.webhookId)).size, 'one turn each').toBe(turns.length);
          const given = turns.reduce((sum, { limit }) => sum + limit, 0);
          expect(running.length + given).toBeLessThanOrEqual(maxInFlight);
          for (const { lane, limit } of turns) {
            expect(limit).toBeGreaterThan(0);
            expect(lane.inFlight).toBeLessThanOrEqual(lane.window);
            expect(lane.owner.inFlight, 'half of all at most').toBeLessThanOrEqual(maxInFlight / 2);
          }
          if (running.length < maxInFlight && given === 0) expect(lanes.take(nowMs)).toEqual([]);
          for (const turn of turns) {
            const more = left.get(turn.lane.webhookId) ?? 0;
            const count = Math.min(more, turn.limit);
            left.set(turn.lane.webhookId, more - count);
            for (let each = 0; each < count; each++) running.push(turn);
            if (more > count) lanes.claimed(turn, count, nowMs);
            else lanes.claimed(turn, count);
          }
          // Some of what goes on ends, in any order.
          for (let ending = Math.ceil(running.length / 2); ending > 0; ending--) {
            const [turn] = running.splice((chance.next().value ?? 0) % running.length, 1);
            if (turn === undefined) break;
            lanes.ended(turn, seeds[Number(turn.lane.webhookId)]?.succeeds);
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
    const lanes = new Lanes();
    for (let index = 0; index < maxInFlight + 44; index++) lanes.plan(`a${index}`, `w${index}`, 0);
    const first = lanes.take(1);
    expect(first.map(({ lane, limit }) => [lane.webhookId, limit])).toEqual(
      Array.from({ length: maxInFlight }, (_, index) => [`w${index}`, 1]),
    );
    for (const turn of first) lanes.claimed(turn, 1, 1);
    expect(lanes.take(1)).toEqual([]);
    for (const turn of first.slice(0, 50)) lanes.ended(turn, true);
    const second = lanes.take(1).map(({ lane }) => lane.webhookId);
    expect(second.slice(0, 44)).toEqual(Array.from({ length: 44 }, (_, index) => `w${maxInFlight + index}`));
    const ended = new Set(first.slice(0, 50).map(({ lane }) => lane.webhookId));
    expect(second.slice(44).filter((id) => ended.has(id))).toHaveLength(6);
  });

  /** Lanes with all windows grown, of accounts that take what they get and let nothing end. */
  function greedy(accounts: Readonly<Record<string, number>>) {
    const lanes = new Lanes();
    const running: Turn[] = [];
    const run = (): Turn[] => {
      const given: Turn[] = [];
      for (let turns = lanes.take(0); turns.length > 0; turns = lanes.take(0)) {
        for (const turn of turns) {
          for (let each = 0; each < turn.limit; each++) running.push(turn);
          lanes.claimed(turn, turn.limit, 0);
        }
        given.push(...turns);
      }
      return given;
    };
    const inFlight = (): Record<string, number> => {
      const counts: Record<string, number> = {};
      for (const { lane } of running) counts[lane.owner.accountId] = (counts[lane.owner.accountId] ?? 0) + 1;
      return counts;
    };
    for (const [account, webhooks] of Object.entries(accounts)) {
      for (let index = 0; index < webhooks; index++) lanes.plan(account, `${account} ${index}`, 0);
    }
    for (let round = 0; round < 600; round++) {
      run();
      lanes.ended(running.shift() ?? expect.fail(), true);
    }
    run();
    return { lanes, running, run, inFlight };
  }

  test('leave an account as many places as all others together have free: alone it gets half', () => {
    const { alone = 0 } = greedy({ alone: 20 }).inFlight();
    expect(Math.abs(alone - maxInFlight / 2)).toBeLessThan(20);
    const { one = 0, two = 0 } = greedy({ one: 20, two: 9 }).inFlight();
    expect(Math.abs(one - maxInFlight / 3)).toBeLessThan(20);
    expect(Math.abs(two - maxInFlight / 3)).toBeLessThan(20);
  });

  test('find room for an account that comes late, and for a webhook of the greedy account itself', () => {
    const { lanes, run, inFlight } = greedy({ greedy: 19 });
    const before = inFlight()['greedy'] ?? 0;
    lanes.plan('greedy', 'greedy late', 0);
    expect(run().map(({ lane }) => lane.webhookId)).toContain('greedy late');
    for (let index = 0; index < 70; index++) lanes.plan(`late${index}`, `late${index}`, 0);
    const given = run().map(({ lane }) => lane.webhookId);
    for (let index = 0; index < 70; index++) expect(given).toContain(`late${index}`);
    expect((inFlight()['greedy'] ?? 0) - before).toBeLessThan(10);
  });

  test('count attempts of webhooks that are gone for their account: making others gives it no more', () => {
    const lanes = new Lanes();
    let inFlight = 0;
    for (let index = 0; index < 1_000; index++) {
      lanes.plan('greedy', `w${index}`, 0);
      for (const turn of lanes.take(0)) {
        inFlight += turn.limit;
        lanes.claimed(turn, turn.limit); // and the webhook is deleted while its receiver hangs
      }
    }
    expect(inFlight).toBe(maxInFlight / 2);
    lanes.plan('other', 'other', 0);
    expect(lanes.take(0)).toMatchObject([{ lane: { webhookId: 'other' }, limit: 4 }]);
  });

  test('cost no more when very many webhooks wait for their time', () => {
    const lanes = new Lanes();
    for (let index = 0; index < 100_000; index++) lanes.plan(`a${index}`, `later${index}`, 1e12 + (index % 997));
    const startedMs = performance.now();
    for (let round = 0; round < 5_000; round++) {
      lanes.plan('now', 'now', round);
      const [turn = expect.fail()] = lanes.take(round);
      lanes.claimed(turn, 1);
      lanes.ended(turn, true);
    }
    expect(lanes.firstMs).toBe(1e12);
    // To look at each of them each time would take far longer.
    expect(performance.now() - startedMs).toBeLessThan(3_000);
  });
});
