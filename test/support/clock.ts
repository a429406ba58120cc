import type { Clock } from '../../src/domain/ports.ts';

/** A clock that stands still until a test moves it. */
export class TestClock implements Clock {
  nowMs: number;

  constructor(start = '2026-11-21T06:12:00.000Z') {
    this.nowMs = Date.parse(start);
  }

  now(): number {
    return this.nowMs;
  }

  advance(ms: number): void {
    this.nowMs += ms;
  }
}
