import { existsSync, writeFileSync } from 'node:fs';
import type { Clock } from '../../src/domain/ports.ts';

export const secondMs = 1_000;
export const minuteMs = 60 * secondMs;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

/** A clock that stands still until a test lets time pass, or sets it. */
export class TestClock implements Clock {
  /** To assign it is to set the clock, without time passing. */
  nowMs: number;
  boot = 'first';
  #uptimeMs = 0;
  #shown: { readonly file: string; nowMs: number } | undefined;

  constructor(start = '2026-11-21T06:12:00.000Z') {
    this.nowMs = Date.parse(start);
  }

  now(): number {
    return this.nowMs;
  }

  /** Shows in a file, until that is removed, how time passes: for a database, whose clock nobody sets. */
  showIn(file: string): void {
    this.#shown = { file, nowMs: this.nowMs };
    writeFileSync(file, String(this.nowMs));
  }

  uptimeMs(): number {
    return this.#uptimeMs;
  }

  /** Lets time pass. */
  advance(ms: number): void {
    this.nowMs += ms;
    this.#uptimeMs += ms;
    if (this.#shown === undefined || !existsSync(this.#shown.file)) return;
    this.#shown.nowMs += ms;
    writeFileSync(this.#shown.file, String(this.#shown.nowMs));
  }

  /** Lets time pass until the clock shows a time. */
  advanceTo(epochMs: number): void {
    this.advance(epochMs - this.nowMs);
  }

  /** The machine starts anew: what nobody can set begins anew, too. Not all systems have a name for each start. */
  reboot({ isNamed = true } = {}): void {
    if (isNamed) this.boot += ', next';
    this.#uptimeMs = 0;
  }
}
