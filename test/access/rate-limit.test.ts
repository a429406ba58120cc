import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Charge, RateLimiter } from '../../src/access/rate-limit.ts';
import type { Account } from '../../src/domain/accounts.ts';
import { DomainError } from '../../src/domain/errors.ts';
import type { RateLimit } from '../../src/domain/ports.ts';
import { openSqliteStorage, type SqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { hourMs, minuteMs, secondMs, TestClock } from '../support/clock.ts';
import { effort, longTest } from '../support/effort.ts';
import { gate } from '../support/wait.ts';

let folder: string;
/** Two storages on one file, as two processes would have them. */
let storages: readonly [SqliteStorage, SqliteStorage];
/** One on the same file that waits for no lock of another process. */
let impatient: SqliteStorage;
let observer: Database.Database;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'conversation-service-'));
  const path = join(folder, 'test.db');
  storages = [openSqliteStorage(path), openSqliteStorage(path)];
  impatient = openSqliteStorage(path, { busyTimeoutMs: 0 });
  observer = new Database(path, { readonly: true });
});
afterAll(async () => {
  observer.close();
  for (const storage of [...storages, impatient]) await storage.close();
  rmSync(folder, { recursive: true });
});

// Each test begins with a clock of its own.
beforeEach(forgetClock);

let accounts = 0;

/** An account of its own for each test: the limiter needs no more of it than its id and its limit. */
function accountWith(requestsPerHour: number, id = `acct_${++accounts}`): Account {
  return { id, name: 'test', plan: 'trial', requestsPerHour, createdAt: '2026-11-21T06:12:00.000Z' };
}

function limiterOn(clock: TestClock, which: 0 | 1 = 0): RateLimiter {
  return new RateLimiter({ storage: storages[which], clock });
}

/** It changes whenever anything is committed to the file. */
function dataVersion(): unknown {
  return observer.pragma('data_version', { simple: true });
}

/** As if no request had been counted yet. */
function forgetClock(): void {
  const other = new Database(observer.name);
  other.exec('DELETE FROM rate_clock');
  other.close();
}

/** Does something while another process holds the lock that everybody needs who writes. */
async function whileLocked(work: () => Promise<void>): Promise<void> {
  const other = new Database(observer.name);
  try {
    other.exec('BEGIN IMMEDIATE');
    await work();
  } finally {
    other.close();
  }
}

/** What is counted against an account in the file, spent or reserved. */
function countedOf({ id }: Account): number {
  return observer
    .prepare('SELECT coalesce(sum(count), 0) FROM rate_windows WHERE account_id = ?')
    .pluck()
    .get(id) as number;
}

type Outcome = { readonly admission: Charge } | { readonly refusal: DomainError };

async function attempt(limiter: RateLimiter, account: Account, units = 1): Promise<Outcome> {
  try {
    return { admission: await limiter.admit(account, units) };
  } catch (error) {
    if (error instanceof DomainError && error.code === 'RATE_LIMITED') return { refusal: error };
    throw error;
  }
}

function isAdmitted(outcome: Outcome): boolean {
  return 'admission' in outcome;
}

/** How many single requests are admitted until one is refused. */
async function admitUntilRefused(limiter: RateLimiter, account: Account): Promise<number> {
  for (let count = 0; ; count++) if (!isAdmitted(await attempt(limiter, account))) return count;
}

async function refusalOf(limiter: RateLimiter, account: Account, units = 1): Promise<DomainError> {
  const outcome = await attempt(limiter, account, units);
  if ('refusal' in outcome) return outcome.refusal;
  throw new Error('It was admitted');
}

function minuteOf(ms: number): number {
  return Math.floor(ms / minuteMs);
}

/** The contract word for word, without a thought for speed: a list of what was admitted, and when. */
class Model {
  readonly admitted: { readonly atMs: number; readonly units: number }[] = [];
  limit: number;

  constructor(limit: number) {
    this.limit = limit;
  }

  /** What the current minute and the 60 before it hold. */
  usedAt(nowMs: number): number {
    const first = minuteOf(nowMs) - 60;
    return this.admitted.reduce((sum, { atMs, units }) => (minuteOf(atMs) >= first ? sum + units : sum), 0);
  }

  remainingAt(nowMs: number): number {
    return Math.max(0, this.limit - this.usedAt(nowMs));
  }

  /** When so many units are free if nothing else is admitted; undefined if they never are. */
  freeAt(nowMs: number, units: number): number | undefined {
    if (units > this.limit) return undefined;
    let at = nowMs;
    while (this.remainingAt(at) < units) at = (minuteOf(at) + 1) * minuteMs;
    return at;
  }

  /** @param refused the units of a refusal that the state comes with: it says when these are free */
  stateAt(nowMs: number, refused = 0): RateLimit {
    const remaining = this.remainingAt(nowMs);
    const units = refused > this.limit ? 0 : refused;
    const resetAtMs = this.freeAt(nowMs, Math.min(Math.max(remaining + 1, units), this.limit)) ?? nowMs;
    return { limit: this.limit, remaining, resetAtMs, resetAfterSeconds: Math.ceil((resetAtMs - nowMs) / secondMs) };
  }

  admit(nowMs: number, units: number): boolean {
    if (this.remainingAt(nowMs) < units) return false;
    this.admitted.push({ atMs: nowMs, units });
    return true;
  }

  takeBack(atMs: number): void {
    this.admitted.splice(
      this.admitted.findIndex((admission) => admission.atMs === atMs && admission.units === 1),
      1,
    );
  }
}

const units = fc.integer({ min: 1, max: 10 });
const burst = fc.array(fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, units), { minLength: 2, maxLength: 40 });
const meanwhile = fc.array(units, { maxLength: 2 });
const limits = fc.constantFrom(1, 3, 10, 64, 100, 150, 1_000);
/** Milliseconds, seconds, minutes, hours; and `toMinute`: to the next full minute, just before or just after it. */
const step = fc.oneof(
  fc.record({ ms: fc.integer({ min: 1, max: 1_500 }) }),
  fc.record({ ms: fc.integer({ min: 1, max: 60 }).map((seconds) => seconds * secondMs) }),
  fc.record({ ms: fc.integer({ min: 1, max: 62 }).map((minutes) => minutes * minuteMs) }),
  fc.record({ ms: fc.integer({ min: 1, max: 3 }).map((hours) => hours * hourMs + 1) }),
  fc.record({ toMinute: fc.constantFrom(-1, 0, 1) }),
);

/** By how much somebody sets the clock: half seconds, minutes, hours and a year, forward or back. */
const set = fc
  .tuple(fc.constantFrom(1, -1), fc.integer({ min: 1, max: 60 }), fc.constantFrom(500, minuteMs, hourMs, 146 * hourMs))
  .map(([sign, count, unitMs]) => sign * count * unitMs);

type Step = { ms: number } | { toMinute: number };

/** The time that passes, whatever the machine's clock shows: what the limiter goes by. */
class Time {
  readonly clock = new TestClock();
  /** What the clock would show if nobody had ever set it. */
  nowMs: number;

  constructor(startMs: number) {
    this.clock.nowMs = startMs;
    this.nowMs = startMs;
  }

  get setByMs(): number {
    return this.clock.nowMs - this.nowMs;
  }

  pass(by: Step): void {
    const target = 'ms' in by ? this.nowMs + by.ms : (minuteOf(this.nowMs) + 1) * minuteMs + by.toMinute;
    const ms = Math.max(0, target - this.nowMs);
    this.nowMs += ms;
    this.clock.advance(ms);
  }
}

const action = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('admit' as const), units }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('burst' as const), burst }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('advance' as const), step }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('batch' as const), units, step, meanwhile }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('tick' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('limit' as const), limit: limits }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('set' as const), byMs: set }) },
);

const start = fc.integer({ min: 0, max: hourMs }).map((ms) => Date.parse('2026-11-21T06:00:00.000Z') + ms);

describe('one limiter that is never killed, with a clock that is set and a file that is locked now and then', () => {
  const actions = fc.array(
    fc.oneof(
      { weight: 19, arbitrary: action },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('lock' as const), burst }) },
    ),
    { minLength: 5, maxLength: 40 },
  );

  /** Does the next thing to a limiter and to the model, and compares what they say. */
  class Pair {
    readonly time: Time;
    readonly model: Model;
    #account: Account;
    #limiter: RateLimiter;

    constructor(startMs: number, limit: number) {
      this.time = new Time(startMs);
      this.model = new Model(limit);
      this.#account = accountWith(limit);
      this.#limiter = new RateLimiter({ storage: impatient, clock: this.time.clock });
    }

    /** The limiter's clock begins with what the machine's shows at the first request. */
    static async open(startMs: number, limit: number): Promise<Pair> {
      const pair = new Pair(startMs, limit);
      forgetClock();
      await pair.admitAll([1]);
      return pair;
    }

    /** By the machine's clock as it is set. */
    #stateAt(nowMs: number, refused?: number): RateLimit {
      const { resetAtMs, ...state } = this.model.stateAt(nowMs, refused);
      return { ...state, resetAtMs: resetAtMs + this.time.setByMs };
    }

    async admitAll(requests: readonly number[]): Promise<void> {
      const now = this.time.nowMs;
      const outcomes = await Promise.all(requests.map((each) => attempt(this.#limiter, this.#account, each)));
      for (const [index, each] of requests.entries()) {
        const outcome = outcomes[index] as Outcome;
        const admitted = this.model.admit(now, each);
        expect(isAdmitted(outcome), `${each} units, ${this.model.remainingAt(now)} remaining`).toBe(admitted);
        if ('admission' in outcome) {
          expect(outcome.admission).toMatchObject({ ...this.#stateAt(now), minute: minuteOf(now) });
        } else {
          const freeAtMs = this.model.freeAt(now, each);
          expect(outcome.refusal.facts.retryAfterSeconds).toBe(
            freeAtMs === undefined ? undefined : Math.ceil((freeAtMs - now) / secondMs),
          );
        }
      }
      // A refusal in the midst of a burst sees what those behind it take, so only its last word is compared.
      const last = outcomes.at(-1);
      if (last !== undefined && 'refusal' in last)
        expect(last.refusal.facts.rateLimit).toEqual(this.#stateAt(now, requests.at(-1)));
    }

    /** What a batch does: one unit at the admission, and when its body has come all of it or nothing. */
    async batch(size: number, wait: Step, meanwhile: readonly number[]): Promise<void> {
      const atMs = this.time.nowMs;
      const outcome = await attempt(this.#limiter, this.#account);
      expect(isAdmitted(outcome)).toBe(this.model.admit(atMs, 1));
      if (!('admission' in outcome)) return;
      this.time.pass(wait);
      await this.admitAll(meanwhile);
      await this.#limiter.refund(this.#account, outcome.admission);
      this.model.takeBack(atMs);
      await this.admitAll([size]);
    }

    async restart(): Promise<void> {
      await this.#limiter.handBack({ all: true });
      this.#limiter = new RateLimiter({ storage: impatient, clock: this.time.clock });
    }

    async tick(): Promise<void> {
      await this.#limiter.handBack();
    }

    /** Nothing can be written for a while: who is let in all the same counts, and nothing else does. */
    async lock(requests: readonly number[]): Promise<void> {
      const now = this.time.nowMs;
      await whileLocked(async () => {
        const all = requests.map((each) => attempt(this.#limiter, this.#account, each));
        const [handedBack, ...outcomes] = await Promise.allSettled([this.#limiter.handBack({ all: true }), ...all]);
        for (const [index, outcome] of outcomes.entries()) {
          if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'UNAVAILABLE' });
          else if (isAdmitted(outcome.value)) expect(this.model.admit(now, requests[index] as number)).toBe(true);
        }
        if (handedBack.status === 'rejected') expect(handedBack.reason).toMatchObject({ code: 'UNAVAILABLE' });
      });
    }

    changeLimit(limit: number): void {
      this.model.limit = limit;
      this.#account = accountWith(limit, this.#account.id);
    }

    async comparePeek(): Promise<void> {
      expect(await this.#limiter.peek(this.#account)).toEqual(this.#stateAt(this.time.nowMs));
    }
  }

  test('decides, and tells what is left and when there is more, exactly as the contract counts', async () => {
    await fc.assert(
      fc.asyncProperty(start, limits, actions, async (at, limit, all) => {
        const pair = await Pair.open(at, limit);
        for (const next of all) {
          if (next.kind === 'admit') await pair.admitAll([next.units]);
          else if (next.kind === 'burst') await pair.admitAll(next.burst);
          else if (next.kind === 'advance') pair.time.pass(next.step);
          else if (next.kind === 'batch') await pair.batch(next.units, next.step, next.meanwhile);
          else if (next.kind === 'tick') await pair.tick();
          else if (next.kind === 'restart') await pair.restart();
          else if (next.kind === 'set') pair.time.clock.nowMs += next.byMs;
          else if (next.kind === 'lock') await pair.lock(next.burst);
          else pair.changeLimit(next.limit);
          await pair.comparePeek();
        }
      }),
      { numRuns: effort(40, 1_500) },
    );
  });
});

describe('whatever happens', () => {
  const who = fc.constantFrom(0 as const, 1 as const);
  const disaster = fc.oneof(
    { weight: 10, arbitrary: fc.tuple(who, action) },
    { weight: 2, arbitrary: fc.tuple(who, fc.record({ kind: fc.constant('crash' as const) })) },
    { weight: 2, arbitrary: fc.tuple(who, fc.record({ kind: fc.constant('both' as const), burst })) },
    { weight: 1, arbitrary: fc.tuple(who, fc.record({ kind: fc.constant('reboot' as const), step })) },
  );

  /** Two processes on one file, and the time that has really passed, whatever their clock says of it. */
  class Ports {
    readonly time: Time;
    #limit: number;
    #account: Account;
    readonly #limiters: RateLimiter[];
    readonly #admitted: { readonly atMs: number; readonly units: number }[] = [];
    readonly #model: Model;

    constructor(startMs: number, limit: number) {
      this.time = new Time(startMs);
      this.#limit = limit;
      this.#model = new Model(limit);
      this.#account = accountWith(limit);
      this.#limiters = [limiterOn(this.time.clock, 0), limiterOn(this.time.clock, 1)];
    }

    static async open(startMs: number, limit: number): Promise<Ports> {
      const ports = new Ports(startMs, limit);
      forgetClock();
      await ports.admitAll([{ by: 0, units: 1 }]);
      return ports;
    }

    limiter(index: 0 | 1): RateLimiter {
      return this.#limiters[index] as RateLimiter;
    }

    async admitAll(requests: readonly { readonly by: 0 | 1; readonly units: number }[]): Promise<void> {
      const now = this.time.nowMs;
      const outcomes = await Promise.all(
        requests.map(({ by, units }) => attempt(this.limiter(by), this.#account, units)),
      );
      for (const [index, { units }] of requests.entries()) {
        if (!isAdmitted(outcomes[index] as Outcome)) continue;
        const inTheHour = this.#ofTheHour().reduce((sum, each) => sum + each.units, units);
        expect(inTheHour, 'in the 60 minutes up to now').toBeLessThanOrEqual(this.#limit);
        expect(this.#model.admit(now, units), 'admitted with nothing left').toBe(true);
        this.#admitted.push({ atMs: now, units });
      }
    }

    #ofTheHour() {
      return this.#admitted.filter(({ atMs }) => atMs > this.time.nowMs - hourMs);
    }

    async batch(by: 0 | 1, units: number, wait: Step): Promise<void> {
      const outcome = await attempt(this.limiter(by), this.#account);
      if (!('admission' in outcome)) return;
      expect(outcome.admission.minute).toBe(minuteOf(this.time.nowMs));
      this.time.pass(wait);
      await this.limiter(by).refund(this.#account, outcome.admission);
      await this.admitAll([{ by, units }]);
    }

    /** The machine is off for a while, in which its clock goes on. */
    async reboot(by: 0 | 1, wait: Step): Promise<void> {
      const one = [{ by, units: 1 }];
      this.time.pass({ ms: minuteMs });
      await this.admitAll(one); // who asks, a minute later, lets it be known what the clock was set to: also if refused
      this.time.pass(wait);
      this.time.clock.reboot();
      for (const index of [0, 1] as const) this.crash(index);
      await this.admitAll(one);
    }

    async restart(index: 0 | 1): Promise<void> {
      await this.limiter(index).handBack({ all: true });
      this.crash(index);
    }

    crash(index: 0 | 1): void {
      this.#limiters[index] = limiterOn(this.time.clock, index);
    }

    changeLimit(limit: number): void {
      this.#limit = limit;
      this.#model.limit = limit;
      this.#account = accountWith(limit, this.#account.id);
    }
  }

  test('no 60 minutes see more than the limit: crashes, two processes, a clock that is set, a machine that starts anew', async () => {
    await fc.assert(
      fc.asyncProperty(
        start,
        limits,
        fc.array(disaster, { minLength: 5, maxLength: 40 }),
        async (at, limit, actions) => {
          const ports = await Ports.open(at, limit);
          for (const [by, next] of actions) {
            if (next.kind === 'admit') await ports.admitAll([{ by, units: next.units }]);
            else if (next.kind === 'burst') await ports.admitAll(next.burst.map((units) => ({ by, units })));
            else if (next.kind === 'both') {
              await ports.admitAll(next.burst.map((units, index) => ({ by: index % 2 === 0 ? 0 : 1, units })));
            } else if (next.kind === 'advance') ports.time.pass(next.step);
            else if (next.kind === 'batch') await ports.batch(by, next.units, next.step);
            else if (next.kind === 'tick') await ports.limiter(by).handBack();
            else if (next.kind === 'restart') await ports.restart(by);
            else if (next.kind === 'crash') ports.crash(by);
            else if (next.kind === 'set') ports.time.clock.nowMs += next.byMs;
            else if (next.kind === 'reboot') await ports.reboot(by, next.step);
            else ports.changeLimit(next.limit);
          }
        },
      ),
      { numRuns: effort(80, 1_500) },
    );
  });
});

describe('one process alone', () => {
  test.each([1, 3, 100, 1_000])('admits exactly its limit of %i, then refuses', async (limit) => {
    const account = accountWith(limit);
    const limiter = limiterOn(new TestClock());
    expect(await admitUntilRefused(limiter, account)).toBe(limit);
    expect((await limiter.peek(account)).remaining).toBe(0);
  });

  test.each([64, 100, 101, 300])('admits exactly 100 of %i that come at once', async (count) => {
    const account = accountWith(100);
    const limiter = limiterOn(new TestClock());
    const outcomes = await Promise.all(Array.from({ length: count }, () => attempt(limiter, account)));
    expect(outcomes.filter(isAdmitted)).toHaveLength(Math.min(count, 100));
    expect(countedOf(account)).toBe(Math.min(count, 100));
  });

  test('admits a batch as a whole or not at all, and a refused one costs nothing', async () => {
    const account = accountWith(10);
    const limiter = limiterOn(new TestClock());
    await limiter.admit(account, 8);
    await refusalOf(limiter, account, 3);
    expect(countedOf(account)).toBe(8);
    await limiter.admit(account, 2);
    await refusalOf(limiter, account);
  });

  test('says of a batch that is too large for what is left that it is, and not that nothing is left', async () => {
    const account = accountWith(6);
    const limiter = limiterOn(new TestClock());
    await limiter.admit(account, 3);
    expect((await refusalOf(limiter, account, 4)).message).toBe(
      'The account has fewer of its 6 requests per hour left than this needs.',
    );
    await limiter.admit(account, 3);
    expect((await refusalOf(limiter, account, 4)).message).toBe('The account has used its 6 requests per hour.');
  });

  test('says of a batch above the limit that no wait will do', async () => {
    const account = accountWith(4);
    const { facts } = await refusalOf(limiterOn(new TestClock()), account, 5);
    expect(facts.retryAfterSeconds).toBeUndefined();
    expect(facts.rateLimit).toMatchObject({ limit: 4, remaining: 4 });
  });

  test.each([
    [1, 0],
    [1, 250],
    [2, 0],
    [5, 59_999],
  ])('admits %i units exactly Retry-After later, and not a moment before they are free', async (units, startMs) => {
    const clock = new TestClock();
    clock.advance(startMs);
    const account = accountWith(6);
    const limiter = limiterOn(clock);
    for (let minute = 0; minute < 6; minute++) {
      await limiter.admit(account);
      clock.advance(minuteMs);
    }
    const refusedAtMs = clock.now();
    const { retryAfterSeconds = 0 } = (await refusalOf(limiter, account, units)).facts;
    // The first unit leaves the window 61 minutes after the minute that it came in, then one a minute.
    const freeAtMs = Math.floor((refusedAtMs - 6 * minuteMs) / minuteMs + 60 + units) * minuteMs;
    expect(retryAfterSeconds).toBe(Math.ceil((freeAtMs - refusedAtMs) / secondMs));
    for (const early of [refusedAtMs + (retryAfterSeconds - 1) * secondMs, freeAtMs - 1]) {
      clock.advanceTo(early);
      await refusalOf(limiter, account, units);
    }
    clock.advanceTo(refusedAtMs + retryAfterSeconds * secondMs);
    expect(isAdmitted(await attempt(limiter, account, units))).toBe(true);
  });

  test('has more left exactly at resetAtMs, and not 1 ms before', async () => {
    const clock = new TestClock();
    const account = accountWith(5);
    const limiter = limiterOn(clock);
    clock.advance(12_345);
    await limiter.admit(account, 2);
    clock.advance(3 * minuteMs);
    const { remaining, resetAtMs } = await limiter.admit(account);
    expect(remaining).toBe(2);
    clock.advanceTo(resetAtMs - 1);
    expect(await limiter.peek(account)).toMatchObject({ remaining: 2, resetAtMs });
    clock.advanceTo(resetAtMs);
    expect(await limiter.peek(account)).toMatchObject({ remaining: 4 });
  });

  test('takes a new limit of the account at once', async () => {
    const account = accountWith(100);
    const limiter = limiterOn(new TestClock());
    for (let sent = 0; sent < 40; sent++) await limiter.admit(account);
    const lowered = accountWith(30, account.id);
    expect((await refusalOf(limiter, lowered)).facts.rateLimit).toMatchObject({ limit: 30, remaining: 0 });
    const raised = accountWith(50, account.id);
    expect(await admitUntilRefused(limiter, raised)).toBe(10);
  });

  test('holds those that wait together to the limit that was read last', async () => {
    const account = accountWith(6_400);
    const limiter = limiterOn(new TestClock());
    const first = attempt(limiter, account);
    const second = attempt(limiter, accountWith(1, account.id));
    expect(isAdmitted(await first)).toBe(true);
    expect(isAdmitted(await second)).toBe(false);
  });

  test('spends a block in its own minute only, also when that has passed before the block was written', async () => {
    const clock = new TestClock();
    const account = accountWith(1);
    const [storage] = storages;
    const write: typeof storage.write = async (work) => {
      const result = await storage.write(work);
      if (clock.now() === slowAtMs) clock.advance(minuteMs);
      return result;
    };
    const slowAtMs = clock.now();
    await new RateLimiter({ storage: { ...storage, write }, clock }).admit(account);
    const admittedAtMs = clock.now();
    expect(admittedAtMs).toBe(slowAtMs + minuteMs);
    clock.advanceTo(admittedAtMs + hourMs);
    await refusalOf(limiterOn(clock), account);
    clock.advance(minuteMs);
    await limiterOn(clock).admit(account);
  });

  test('knows of what is left of its block when the minute of it has passed', async () => {
    const clock = new TestClock();
    const account = accountWith(6_400);
    const limiter = limiterOn(clock);
    await limiter.admit(account);
    clock.advance(minuteMs);
    expect((await limiter.peek(account)).remaining).toBe(6_399);
  });
});

describe('a unit that is given back', () => {
  test('goes back to the minute that it was counted in', async () => {
    const clock = new TestClock();
    const account = accountWith(10);
    const limiter = limiterOn(clock);
    clock.advance(59_000);
    const admission = await limiter.admit(account);
    clock.advance(1_000);
    await limiter.admit(account);
    await limiter.refund(account, admission);
    expect(await admitUntilRefused(limiter, account)).toBe(9);
    // As the first minute leaves the window, nothing leaves with it: its one unit was given back.
    clock.advance(60 * minuteMs);
    await refusalOf(limiter, account);
    clock.advance(minuteMs);
    expect(await admitUntilRefused(limiter, account)).toBe(10);
  });

  test('is there for a batch at once, also when others wait for a block', async () => {
    const account = accountWith(3);
    const limiter = limiterOn(new TestClock());
    const admission = await limiter.admit(account);
    const waiting = attempt(limiter, account);
    await limiter.refund(account, admission);
    expect(isAdmitted(await attempt(limiter, account, 2))).toBe(true);
    expect(isAdmitted(await waiting)).toBe(true);
  });

  test('is not lost while others wait for a block', async () => {
    const account = accountWith(3);
    const limiter = limiterOn(new TestClock());
    const admission = await limiter.admit(account);
    const waiting = attempt(limiter, account);
    await limiter.refund(account, admission);
    expect(isAdmitted(await waiting)).toBe(true);
    expect(await admitUntilRefused(limiter, account)).toBe(2);
  });
});

describe('what it costs', () => {
  test('an admission from a block writes nothing', async () => {
    const account = accountWith(10_000);
    const limiter = limiterOn(new TestClock());
    await limiter.admit(account); // reserves ⌊10,000 / 64⌋ = 156
    expect(countedOf(account)).toBe(156);
    const before = dataVersion();
    for (let sent = 1; sent < 156; sent++) await limiter.admit(account);
    expect(dataVersion()).toBe(before);
    await limiter.admit(account); // the next block: ⌊9,844 / 64⌋
    expect(dataVersion()).not.toBe(before);
    expect(countedOf(account)).toBe(156 + 153);
  });

  test('those that come while a block is being reserved are served from it', async () => {
    const account = accountWith(10_000);
    const [storage] = storages;
    let commits = 0;
    const write: typeof storage.write = (work) => {
      commits++;
      return storage.write(work);
    };
    const limiter = new RateLimiter({ storage: { ...storage, write }, clock: new TestClock() });
    await Promise.all(Array.from({ length: 156 }, () => limiter.admit(account)));
    expect(commits).toBe(1);
  });

  test('a flood of refused requests writes nothing', async () => {
    const clock = new TestClock();
    const account = accountWith(5);
    const limiter = limiterOn(clock);
    await limiter.admit(account, 4);
    await refusalOf(limiter, account, 2);
    const before = dataVersion();
    for (let sent = 0; sent < 1_000; sent++) {
      await refusalOf(limiter, account, 2);
      clock.advance(10);
    }
    expect(dataVersion()).toBe(before);
    await limiter.admit(account);
    const full = dataVersion();
    for (let sent = 0; sent < 1_000; sent++) {
      await refusalOf(limiter, account);
      clock.advance(300);
    }
    expect(dataVersion()).toBe(full);
  });

  test('nor does one of refused batches, though much is left', async () => {
    const clock = new TestClock();
    const account = accountWith(1_000);
    const limiter = limiterOn(clock);
    await limiter.admit(account);
    clock.advance(secondMs);
    await refusalOf(limiter, account, 1_000); // what was left of its block goes back
    const before = dataVersion();
    for (let sent = 0; sent < 300; sent++) {
      await refusalOf(limiter, account, 1_000);
      clock.advance(secondMs);
    }
    expect(dataVersion()).toBe(before);
    expect(await limiter.peek(account)).toMatchObject({ remaining: 999 });
  });

  longTest('an account that was quiet for a minute costs no memory', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const heapUsed = (): number => {
      collect();
      return process.memoryUsage().heapUsed;
    };
    const clock = new TestClock();
    const limiter = limiterOn(clock);
    const useOnce = (): Promise<unknown> =>
      Promise.all(Array.from({ length: effort(3_000, 5_000) }, () => limiter.admit(accountWith(640))));
    const quietMinute = async (): Promise<void> => {
      clock.advance(minuteMs);
      await limiter.handBack();
    };
    await useOnce(); // what is made once and kept is no leak
    await quietMinute();
    const before = heapUsed();
    await useOnce();
    const busy = heapUsed() - before;
    await quietMinute();
    const quiet = heapUsed() - before;
    expect(quiet).toBeLessThan(busy / 2);
  });
});

describe('several processes and restarts', () => {
  test('a clean stop hands back all that was not spent', async () => {
    const clock = new TestClock();
    const account = accountWith(1_000);
    let total = 0;
    for (let run = 0; run < 7; run++) {
      const limiter = limiterOn(clock);
      for (let sent = 0; sent < 3; sent++) await limiter.admit(account);
      total += 3;
      await limiter.handBack({ all: true });
      expect(countedOf(account)).toBe(total);
    }
    expect(await admitUntilRefused(limiterOn(clock), account)).toBe(1_000 - total);
  });

  test('what cannot be handed back since another process holds the lock is handed back later', async () => {
    const clock = new TestClock();
    const account = accountWith(640);
    const limiter = new RateLimiter({ storage: impatient, clock });
    await limiter.admit(account);
    clock.advance(minuteMs);
    await whileLocked(async () => {
      await expect(limiter.handBack()).rejects.toMatchObject({ code: 'UNAVAILABLE' });
      expect(await limiter.peek(account)).toMatchObject({ remaining: 639 });
    });
    expect(countedOf(account)).toBe(10);
    await limiter.handBack();
    expect(countedOf(account)).toBe(1);
    await limiter.handBack();
    expect(countedOf(account), 'and once').toBe(1);
  });

  test('who is not let in since another process holds the lock loses nothing of what was reserved', async () => {
    const account = accountWith(640);
    const limiter = new RateLimiter({ storage: impatient, clock: new TestClock() });
    await limiter.admit(account);
    await whileLocked(async () => {
      await expect(limiter.admit(account, 10)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
      await limiter.admit(account, 9);
    });
    expect(countedOf(account)).toBe(10);
  });

  test('a stop while a block is being replaced hands nothing back twice', async () => {
    const account = accountWith(640);
    const limiter = limiterOn(new TestClock());
    await limiter.admit(account); // nine are left of its block
    const [outcome] = await Promise.all([attempt(limiter, account, 10), limiter.handBack({ all: true })]);
    expect(isAdmitted(outcome)).toBe(true);
    expect(countedOf(account)).toBeGreaterThanOrEqual(11);
  });

  test('after a crash a block counts as spent, and no more than a block', async () => {
    const clock = new TestClock();
    const account = accountWith(1_000);
    await limiterOn(clock).admit(account); // ⌊1,000 / 64⌋ = 15 reserved, one of them spent
    expect(await admitUntilRefused(limiterOn(clock), account)).toBe(1_000 - 15);
  });

  test('a batch that was refused reserves nothing that a crash could lose', async () => {
    const clock = new TestClock();
    const account = accountWith(10);
    const limiter = limiterOn(clock);
    await limiter.admit(account);
    clock.advance(secondMs);
    await refusalOf(limiter, account, 10);
    expect(countedOf(account)).toBe(1);
  });

  test('two processes admit exactly the 100 of a trial between them', async () => {
    const clock = new TestClock();
    const account = accountWith(100);
    const limiters = [limiterOn(clock, 0), limiterOn(clock, 1)] as const;
    const outcomes = await Promise.all(
      Array.from({ length: 150 }, (_, index) => attempt(limiters[index % 2 === 0 ? 0 : 1], account)),
    );
    expect(outcomes.filter(isAdmitted)).toHaveLength(100);
  });

  test('the last fifth is kept exactly, also when a block is reserved while it is looked up how much is left', async () => {
    const account = accountWith(1_000);
    const [storage] = storages;
    const { opened, open } = gate();
    const { rateWindows } = storage.read;
    const since: typeof rateWindows.since = async (...asked) => {
      const windows = rateWindows.since(...asked);
      await opened; // the answer of a database is on its way for a while
      return windows;
    };
    const read = { ...storage.read, rateWindows: { ...rateWindows, since } };
    const limiter = new RateLimiter({ storage: { ...storage, read }, clock: new TestClock() });
    for (let sent = 0; sent < 800; sent++) await limiter.admit(account); // all that was reserved is spent
    const ofPage = limiter.admitSparing(account, 1);
    await limiter.admit(account);
    open();
    await expect(ofPage).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  });

  test('what one process hands back another can use within a second', async () => {
    const clock = new TestClock();
    const account = accountWith(1_000);
    const [one, other] = [limiterOn(clock, 0), limiterOn(clock, 1)];
    await one.admit(account);
    expect(await admitUntilRefused(other, account)).toBe(985);
    await one.handBack({ all: true });
    clock.advance(secondMs);
    expect(await admitUntilRefused(other, account)).toBe(14);
  });

  test('what was given back counts no more, also when it is spent again', async () => {
    const clock = new TestClock();
    const account = accountWith(3);
    const limiter = limiterOn(clock);
    const admission = await limiter.admit(account, 2);
    await limiter.admit(account);
    clock.advance(55 * secondMs);
    await refusalOf(limiter, account);
    await limiter.refund(account, admission);
    clock.advance(5 * secondMs);
    expect(await admitUntilRefused(limiter, account)).toBe(2);
    clock.advance(hourMs);
    expect(await admitUntilRefused(limiter, account), 'what had not been given back').toBe(1);
    clock.advance(minuteMs);
    expect(await admitUntilRefused(limiter, account), 'and what was spent again').toBe(2);
  });

  test('what has left the window is neither given back nor shown as if it were', async () => {
    const clock = new TestClock();
    const account = accountWith(64);
    const [one, other] = [limiterOn(clock, 0), limiterOn(clock, 1)];
    const early = await one.admit(account, 2);
    await one.handBack({ all: true });
    const late = await one.admit(account, 32);
    expect(await admitUntilRefused(other, account)).toBe(30);
    clock.advance(2 * hourMs);
    expect(await admitUntilRefused(other, account)).toBe(64);
    for (const admission of [early, late]) await one.refund(account, admission);
    await one.handBack({ all: true });
    expect(await one.peek(account)).toMatchObject({ remaining: 0 });
    expect(await admitUntilRefused(other, account)).toBe(0);
    clock.advance(2 * secondMs);
    expect(await admitUntilRefused(one, account)).toBe(0);
  });

  test('a block whose minute was long forgotten is not handed back to it', async () => {
    const clock = new TestClock();
    const account = accountWith(1_000);
    const [one, other] = [limiterOn(clock, 0), limiterOn(clock, 1)];
    await one.admit(account);
    clock.advance(2 * hourMs);
    await other.admit(account);
    await one.handBack();
    expect(
      observer.prepare('SELECT min(count) FROM rate_windows WHERE account_id = ?').pluck().get(account.id),
    ).toBeGreaterThan(0);
  });
});

describe('a clock that is set', () => {
  const byHow = [30 * secondMs, 20 * minuteMs, 2 * hourMs, 365 * 24 * hourMs].flatMap((ms) => [{ ms }, { ms: -ms }]);

  test.each(byHow)(
    'by $ms ms makes no request older or younger than it is, and right again neither',
    async ({ ms }) => {
      const clock = new TestClock();
      const account = accountWith(10);
      const limiters = [limiterOn(clock, 0), limiterOn(clock, 1)] as const;
      const admitted = () => admitUntilRefused(limiters[0], account);
      expect(await admitted()).toBe(10);
      clock.nowMs += ms;
      const { retryAfterSeconds, rateLimit } = (await refusalOf(limiters[1], account)).facts;
      expect(retryAfterSeconds).toBe(61 * 60);
      expect(rateLimit).toMatchObject({ remaining: 0, resetAtMs: clock.nowMs + 61 * minuteMs });
      clock.advance(59 * minuteMs);
      expect(await admitted()).toBe(0);
      clock.nowMs -= ms;
      clock.advance(2 * minuteMs - 1);
      for (const limiter of limiters) expect(await admitUntilRefused(limiter, account)).toBe(0);
      clock.advance(1);
      expect(await admitted()).toBe(10);
    },
  );

  test.each(byHow)('by $ms ms while nobody counts, and then the program is started: neither', async ({ ms }) => {
    const clock = new TestClock();
    const account = accountWith(10);
    expect(await admitUntilRefused(limiterOn(clock), account)).toBe(10);
    clock.nowMs += ms;
    clock.advance(61 * minuteMs - 1);
    expect(await admitUntilRefused(limiterOn(clock), account)).toBe(0);
    clock.advance(1);
    expect(await admitUntilRefused(limiterOn(clock), account)).toBe(10);
  });

  test('after the machine was started, where the system has no name for that, makes nothing older', async () => {
    const clock = new TestClock();
    clock.advance(hourMs);
    const account = accountWith(10);
    expect(await admitUntilRefused(limiterOn(clock), account)).toBe(10);
    clock.reboot({ isNamed: false });
    const limiter = limiterOn(clock);
    await refusalOf(limiter, account);
    clock.nowMs += 2 * hourMs;
    clock.advance(2 * secondMs);
    await refusalOf(limiter, account);
  });

  test.each(byHow)('by $ms ms, and then the machine is started: neither', async ({ ms }) => {
    const clock = new TestClock();
    const account = accountWith(10);
    expect(await admitUntilRefused(limiterOn(clock), account)).toBe(10);
    clock.nowMs += ms;
    await refusalOf(limiterOn(clock), account); // who is refused lets it be known, too
    clock.advance(50 * minuteMs);
    clock.reboot();
    clock.advance(11 * minuteMs - 1);
    const limiter = limiterOn(clock);
    expect(await admitUntilRefused(limiter, account)).toBe(0);
    clock.advance(1);
    expect(await admitUntilRefused(limiter, account)).toBe(10);
  });

  test('after a process has only looked: all go by the clock of who counted first', async () => {
    const clock = new TestClock();
    clock.advance(minuteMs - 1);
    const account = accountWith(100);
    const [one, other] = [limiterOn(clock, 0), limiterOn(clock, 1)];
    await one.peek(account);
    clock.nowMs += 59 * secondMs;
    await other.admit(accountWith(1));
    clock.advance(59 * secondMs);
    expect(await admitUntilRefused(one, account)).toBe(100);
    const { retryAfterSeconds = 0 } = (await refusalOf(one, account)).facts;
    expect(retryAfterSeconds).toBeGreaterThan(60 * 60);
    expect((await refusalOf(other, account)).facts.retryAfterSeconds).toBe(retryAfterSeconds);
    clock.advance((retryAfterSeconds - 1) * secondMs);
    for (const limiter of [one, other]) expect(await admitUntilRefused(limiter, account)).toBe(0);
  });

  test('just before a clean stop, and then the machine is started, makes nothing older', async () => {
    const clock = new TestClock();
    const account = accountWith(6_400);
    const limiter = limiterOn(clock);
    await limiter.admit(account);
    clock.nowMs += 2 * hourMs;
    await limiter.admit(account);
    await limiter.handBack({ all: true });
    clock.reboot();
    expect(await limiterOn(clock).peek(account)).toMatchObject({ remaining: 6_398 });
  });

  test('to long ago as the machine is started locks nobody out for longer than a window', async () => {
    const clock = new TestClock();
    const account = accountWith(10);
    expect(await admitUntilRefused(limiterOn(clock), account)).toBe(10);
    clock.reboot();
    clock.nowMs = 0;
    const limiter = limiterOn(clock);
    expect((await refusalOf(limiter, account)).facts.retryAfterSeconds).toBe(61 * 60);
    clock.advance(61 * minuteMs);
    expect(await admitUntilRefused(limiter, account)).toBe(10);
  });

  test('differently on two machines that have the file in turn, of which one has run for longer, counts on', async () => {
    const account = accountWith(10);
    const [here, there] = [new TestClock(), new TestClock()];
    there.boot = 'another';
    for (const clock of [here, there]) clock.advance(hourMs);
    there.advance(24 * hourMs);
    there.nowMs = here.nowMs + minuteMs;
    expect(await admitUntilRefused(limiterOn(here), account)).toBe(10);
    const limiter = limiterOn(there);
    expect((await refusalOf(limiter, account)).facts.retryAfterSeconds).toBe(60 * 60);
    there.advance(hourMs);
    expect(await admitUntilRefused(limiter, account)).toBe(10);
  });
});
