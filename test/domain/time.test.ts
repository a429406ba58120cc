import fc from 'fast-check';
import { expect, test } from 'vitest';
import { timestamp } from '../../src/domain/time.ts';

const limitMs = 8_640_000_000_000_000;

test('a time is written as the language would', () => {
  const times = fc.oneof(
    fc.integer({ min: -limitMs, max: limitMs }),
    fc.integer({ min: Date.parse('2020-01-01'), max: Date.parse('2040-01-01') }),
    fc.constantFrom(0, -1, 1, 86_399_999, 86_400_000, -86_400_000, limitMs, -limitMs),
  );
  fc.assert(
    fc.property(times, (epochMs) => {
      expect(timestamp(epochMs)).toBe(new Date(epochMs).toISOString());
    }),
    { numRuns: 2_000 },
  );
});

test('what is no time is refused', () => {
  for (const epochMs of [Number.NaN, Number.POSITIVE_INFINITY, limitMs + 86_400_000]) {
    expect(() => timestamp(epochMs)).toThrow(RangeError);
  }
});
