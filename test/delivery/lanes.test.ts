import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Dated, DueQueue } from '../../src/delivery/due-queue.ts';
import { Lanes, type Turn } from '../../src/delivery/lanes.ts';

/** As OPERATING.md promises. */
const maxInFlight = 384;
const reserved = 64;

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
    fc.assert(
      fc.property(fc.array(webhook, { minLength: 1, maxLength: 600 }), fc.infiniteStream(fc.nat()), (seeds, chance) => {
        const lanes = new Lanes();
        const left = new Map<string, number>();
        const running: Turn[] = [];
        for (const [index, { backlog, dueAtMs }] of seeds.entries()) {
          left.set(String(index), backlog);
          lanes.plan(String(index), dueAtMs);
        }
        for (let nowMs = 0; lanes.size > 0; nowMs++) {
          const turns = lanes.take(nowMs);
          expect(new Set(turns.map(({ lane }) => lane.webhookId)).size, 'one turn each').toBe(turns.length);
          const given = turns.reduce((sum, { limit }) => sum + limit, 0);
          expect(running.length + given).toBeLessThanOrEqual(maxInFlight);
          for (const { lane, limit } of turns) {
            expect(limit).toBeGreaterThan(0);
            expect(lane.inFlight).toBeLessThanOrEqual(lane.window);
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
    for (let index = 0; index < maxInFlight + 44; index++) lanes.plan(`w${index}`, 0);
    const first = lanes.take(1);
    expect(first.map(({ lane, limit }) => [lane.webhookId, limit])).toEqual(
      Array.from({ length: maxInFlight }, (_, index) => [`w${index}`, 1]),
    );
    for (const turn of first) lanes.claimed(turn, 1, 1);
    expect(lanes.take(1)).toEqual([]);
    for (const turn of first.slice(0, 50)) lanes.ended(turn, true);
    expect(lanes.take(1).map(({ lane }) => lane.webhookId)).toEqual([
      ...Array.from({ length: 44 }, (_, index) => `w${maxInFlight + index}`),
      ...Array.from({ length: 6 }, (_, index) => `w${index}`),
    ]);
  });

  test('keep places for webhooks that have nothing in flight', () => {
    const lanes = new Lanes();
    const running: Turn[] = [];
    const run = () => {
      const turns = lanes.take(0);
      for (const turn of turns) {
        for (let each = 0; each < turn.limit; each++) running.push(turn);
        lanes.claimed(turn, turn.limit, 0);
      }
      return turns;
    };
    for (let index = 0; index < 20; index++) lanes.plan(`greedy${index}`, 0);
    for (let round = 0; round < 600; round++) {
      run();
      lanes.ended(running.shift() ?? expect.fail(), true); // all windows grow
    }
    run();
    expect(running).toHaveLength(maxInFlight - reserved);
    expect(run()).toEqual([]);
    for (let index = 0; index < 70; index++) lanes.plan(`late${index}`, 0);
    expect(run().map(({ lane, limit }) => [lane.webhookId, limit])).toEqual(
      Array.from({ length: reserved }, (_, index) => [`late${index}`, 1]),
    );
  });

  test('cost no more when very many webhooks wait for their time', () => {
    const lanes = new Lanes();
    for (let index = 0; index < 100_000; index++) lanes.plan(`later${index}`, 1e12 + (index % 997));
    const startedMs = performance.now();
    for (let round = 0; round < 5_000; round++) {
      lanes.plan('now', round);
      const [turn = expect.fail()] = lanes.take(round);
      lanes.claimed(turn, 1);
      lanes.ended(turn, true);
    }
    expect(lanes.firstMs).toBe(1e12);
    // To look at each of them each time would take far longer.
    expect(performance.now() - startedMs).toBeLessThan(3_000);
  });
});
