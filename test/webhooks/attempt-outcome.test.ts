import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { deliveryView, type StoredDelivery, startedAnew } from '../../src/domain/delivery-record.ts';
import { timestamp } from '../../src/domain/time.ts';
import { type StoredWebhook, withEnabled } from '../../src/domain/webhook-record.ts';
import { applyOutcome, waitMs } from '../../src/webhooks/attempt-outcome.ts';
import { parseRetryAfter } from '../../src/webhooks/client.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../support/clock.ts';

// The rules of the schedule for any sequence of answers, against a model that is written from the contract.

const waitsMs = [
  5 * secondMs,
  5 * minuteMs,
  30 * minuteMs,
  2 * hourMs,
  5 * hourMs,
  10 * hourMs,
  14 * hourMs,
  20 * hourMs,
  24 * hourMs,
];
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('the wait for the next attempt', () => {
  test('is within a fifth of the contract’s, and uses the whole range', () => {
    for (const [index, wait] of waitsMs.entries()) {
      expect(waitMs(index + 1, 0)).toBe(0.8 * wait);
      expect(waitMs(index + 1, 0.5)).toBe(wait);
      expect(waitMs(index + 1, 1 - Number.EPSILON)).toBe(1.2 * wait);
    }
    expect(waitMs(10, 0.5)).toBeUndefined();
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 9 }), random, (step, chance) => {
        const [wait = 0, got] = [waitsMs[step - 1], waitMs(step, chance)];
        expect(got).toBeGreaterThanOrEqual(0.8 * wait);
        expect(got).toBeLessThanOrEqual(1.2 * wait);
      }),
    );
  });

  test('is the longer of the schedule’s and the receiver’s, which is limited to a day', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 9 }), random, fc.nat(3 * dayMs), (step, chance, asked) => {
        expect(waitMs(step, chance, asked)).toBe(Math.max(waitMs(step, chance) ?? 0, Math.min(asked, dayMs)));
      }),
    );
    expect(waitMs(10, 0.5, hourMs)).toBeUndefined();
  });

  test('that a receiver asks for in any form is parsed as a time that is not negative, or ignored', () => {
    const text = fc.oneof(fc.string(), fc.date({ noInvalidDate: true }).map(String), fc.integer().map(String));
    fc.assert(
      fc.property(text, fc.nat(), (header, nowMs) => {
        const wait = parseRetryAfter(header, nowMs);
        expect(wait === undefined || wait >= 0).toBe(true);
      }),
    );
    fc.assert(
      fc.property(fc.nat(4_000_000_000), (seconds) => {
        expect(parseRetryAfter(String(seconds), 0)).toBe(seconds * 1_000);
        expect(parseRetryAfter(new Date(seconds * 1_000).toUTCString(), 0)).toBe(seconds * 1_000);
        expect(parseRetryAfter(new Date(seconds * 1_000).toUTCString(), (seconds + 1) * 1_000)).toBe(0);
      }),
    );
    expect(parseRetryAfter(undefined, 0)).toBeUndefined();
  });
});

type Step =
  | { kind: 'attempt'; status: number | null; random: number; retryAfterMs: number | undefined; hasMoved: boolean }
  | { kind: 'redeliver' }
  | { kind: 'switch'; enabled: boolean };

const attempt = fc.record({
  kind: fc.constant('attempt' as const),
  status: fc.option(fc.constantFrom(200, 204, 299, 301, 400, 410, 429, 500, 500, 500), { nil: null }),
  random,
  retryAfterMs: fc.option(fc.nat(2 * dayMs), { nil: undefined }),
  hasMoved: fc.boolean(),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 10, arbitrary: attempt },
  { weight: 1, arbitrary: fc.constant<Step>({ kind: 'redeliver' }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('switch' as const), enabled: fc.boolean() }) },
);

const startMs = Date.parse('2026-11-21T06:12:00.000Z');
const newDelivery: StoredDelivery = {
  id: 'dlv_1',
  webhookId: 'whk_1',
  eventId: 'evt_1',
  eventType: 'lead.captured',
  eventSequence: 1,
  sample: null,
  status: 'pending',
  attemptCount: 0,
  step: 0,
  trigger: 'schedule',
  dueAt: timestamp(startMs),
  traceparent: null,
  createdAt: timestamp(startMs),
  completedAt: null,
};
const newWebhook: StoredWebhook = {
  id: 'whk_1',
  url: 'https://example.com',
  events: ['lead.captured'],
  description: null,
  enabled: true,
  disabledReason: null,
  createdAt: timestamp(startMs),
  updatedAt: timestamp(startMs),
  secrets: [],
  failingSince: null,
};

test('a delivery and its webhook follow the contract, whatever the receiver responds', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(step, fc.nat(30 * hourMs)), { maxLength: 60 }), (steps) => {
      let [delivery, webhook, now] = [newDelivery, newWebhook, startMs];
      // The model.
      let [attempts, failures, manual, reason, failingSinceMs] = [
        0,
        0,
        false,
        null as string | null,
        null as number | null,
      ];
      let expected: 'pending' | 'succeeded' | 'failed' = 'pending';
      for (const [one, laterMs] of steps) {
        now += laterMs;
        const before = structuredClone({ delivery, webhook });
        if (one.kind === 'redeliver') {
          delivery = startedAnew(delivery, timestamp(now));
          [failures, manual, expected] = [0, true, 'pending'];
          expect(delivery).toMatchObject({ status: 'pending', dueAt: timestamp(now), completedAt: null });
        } else if (one.kind === 'switch') {
          webhook = one.enabled !== webhook.enabled ? withEnabled(webhook, one.enabled ? null : 'requested') : webhook;
          if (one.enabled !== (reason === null)) {
            reason = one.enabled ? null : 'requested';
            failingSinceMs = null;
          }
        } else if (expected === 'pending' && reason === null) {
          const { status, retryAfterMs, hasMoved } = one;
          const outcome = { status, body: null, error: null, durationMs: 1, retryAfterMs };
          const after = applyOutcome({ delivery, webhook }, outcome, {
            url: hasMoved ? 'https://old.example.com' : webhook.url,
            now,
            random: one.random,
          });
          attempts++;
          if (one.status !== null && one.status >= 200 && one.status < 300) {
            expected = 'succeeded';
            if (!hasMoved) failingSinceMs = null;
          } else {
            failures++;
            if (failures === 10) expected = 'failed';
            if (!hasMoved) {
              if (!manual) failingSinceMs ??= now;
              if (failingSinceMs !== null && now - failingSinceMs >= 5 * dayMs) reason = 'failing';
              if (one.status === 410) reason = 'gone';
              if (reason !== null) failingSinceMs = null;
            }
            const wait = waitsMs[failures - 1] ?? 0;
            const waits = Date.parse(after.delivery.dueAt ?? timestamp(now)) - now;
            const asked = failures === 10 ? 0 : Math.min(one.retryAfterMs ?? 0, dayMs);
            expect(waits).toBeGreaterThanOrEqual(Math.max(Math.floor(0.8 * wait), asked));
            expect(waits).toBeLessThanOrEqual(Math.max(Math.ceil(1.2 * wait), asked));
          }
          manual = false;
          ({ delivery, webhook } = after);
          expect(delivery.completedAt).toBe(expected === 'pending' ? null : timestamp(now));
        }
        expect(delivery).toMatchObject({ status: expected, attemptCount: attempts, step: failures });
        expect(delivery.dueAt === null).toBe(expected !== 'pending');
        expect([webhook.enabled, webhook.disabledReason]).toEqual([reason === null, reason]);
        expect(webhook.failingSince).toBe(failingSinceMs === null ? null : timestamp(failingSinceMs));
        const view = deliveryView({ ...delivery, webhookEnabled: webhook.enabled, isTried: false });
        expect(view.status).toBe(expected === 'pending' && reason !== null ? 'paused' : expected);
        if (view.status !== 'pending') expect(view.nextAttemptAt).toBeNull();
        expect({ before }).toEqual({ before: structuredClone(before) });
      }
    }),
  );
});
