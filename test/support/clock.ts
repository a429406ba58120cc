import { existsSync, writeFileSync } from 'node:fs';
import type { Clock } from '../../src/domain/ports.ts';

export const secondMs = 1_000;
export const minuteMs = 60 * secondMs;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

/** A clock that stands still until a test lets time pass, or sets it. */
export class TestClock implements Clock {
  boot = 'first';
  #nowMs = 0;
  #uptimeMs = 0;
  #file: string | undefined;

  constructor(start = '2026-11-21T06:12:00.000Z') {
    this.nowMs = Date.parse(start);
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  /** Sets the clock, without time passing. */
  set nowMs(epochMs: number) {
    this.#nowMs = epochMs;
    if (this.#file !== undefined && existsSync(this.#file)) writeFileSync(this.#file, String(epochMs));
  }

  now(): number {
    return this.#nowMs;
  }

  /** Shows its time in a file, until that is removed, for a database whose clock it is. */
  showIn(file: string): void {
    this.#file = file;
    writeFileSync(file, String(this.#nowMs));
  }

  uptimeMs(): number {
    return this.#uptimeMs;
  }

  /** Lets time pass. */
  advance(ms: number): void {
    this.nowMs += ms;
    this.#uptimeMs += ms;
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
