import fc from 'fast-check';
import postgres from 'postgres';
import { beforeAll, expect, onTestFinished } from 'vitest';
import { RateLimiter } from '../../src/access/rate-limit.ts';
import type { Account } from '../../src/domain/accounts.ts';
import { DomainError } from '../../src/domain/errors.ts';
import { openPostgresStorage, type PostgresStorage } from '../../src/storage/postgres/storage.ts';
import { hourMs, minuteMs, secondMs, TestClock } from '../support/clock.ts';
import { effort, longTest } from '../support/effort.ts';
import { postgresServer } from '../support/postgres.ts';
import { sampleAccount, storedAccount } from '../support/samples.ts';
import { eventually } from '../support/wait.ts';

// Three nodes that share the budgets of accounts in PostgreSQL. Each has clocks of its own, and the database another one,
// which a test sets: a function of the same name stands before PostgreSQL's own.

const { database } = postgresServer();
const nodeCount = 3;
const startMs = Date.parse('2026-11-21T06:12:00.000Z');

let url: string;

beforeAll(async () => {
  url = await database();
  const client = postgres(url, { max: 1, onnotice: () => {} });
  await client.unsafe(`CREATE TABLE test_time (ms bigint NOT NULL);
    INSERT INTO test_time VALUES (0);
    CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql
      AS 'SELECT to_timestamp(ms / 1000.0) FROM public.test_time';
    ALTER DATABASE ${new URL(url).pathname.slice(1)} SET search_path = public, pg_catalog`);
  await client.end();
});

/** A node, which can be killed and started again. */
class Node {
  readonly clock = new TestClock();
  readonly #storage: PostgresStorage;
  #limiter: RateLimiter;

  /** @param number no two machines show the same time, nor have been up for as long */
  static async open(number: number): Promise<Node> {
    const clock = new TestClock();
    clock.boot = `machine ${number}`;
    clock.advance(number * hourMs);
    clock.nowMs = startMs + number * 17 * secondMs;
    return new Node(await openPostgresStorage(url, { clock, maxReaders: 1, maxSessions: 1 }), clock);
  }

  private constructor(storage: PostgresStorage, clock: TestClock) {
    this.#storage = storage;
    this.clock = clock;
    this.#limiter = this.#started();
    onTestFinished(() => storage.close());
  }

  get storage(): PostgresStorage {
    return this.#storage;
  }

  /** What it has reserved is lost. */
  kill(): void {
    this.#limiter = this.#started();
  }

  /** @returns how many of so many single requests are let in */
  async admit(account: Account, count: number): Promise<number> {
    const outcomes = await Promise.all(Array.from({ length: count }, () => this.#isAdmitted(account)));
    return outcomes.filter((isAdmitted) => isAdmitted).length;
  }

  async handBack(): Promise<void> {
    await this.#limiter.handBack();
  }

  #started(): RateLimiter {
    return new RateLimiter({ storage: this.#storage, clock: this.clock });
  }

  async #isAdmitted(account: Account): Promise<boolean> {
    try {
      await this.#limiter.admit(account);
      return true;
    } catch (error) {
      if (error instanceof DomainError && error.code === 'RATE_LIMITED') return false;
      throw error;
    }
  }
}

/** The nodes, the time that has really passed, and what was let in when. */
class Nodes {
  readonly #nodes: readonly Node[];
  readonly #observer: postgres.Sql;
  readonly #admitted: { readonly atMs: number; readonly count: number }[] = [];
  #account: Account | undefined;
  #nowMs = startMs;
  /** What the database's clock shows instead. */
  #databaseMs = startMs;

  static async open(): Promise<Nodes> {
    const nodes = await Promise.all(Array.from({ length: nodeCount }, (_, index) => Node.open(index + 1)));
    const observer = postgres(url, { max: 1, onnotice: () => {} });
    onTestFinished(() => observer.end({ timeout: 0 }));
    return new Nodes(nodes, observer);
  }

  private constructor(nodes: readonly Node[], observer: postgres.Sql) {
    this.#nodes = nodes;
    this.#observer = observer;
  }

  /** Begins anew, with an account of its own. */
  async begin(requestsPerHour: number): Promise<void> {
    this.#admitted.length = 0;
    this.#databaseMs = this.#nowMs;
    await this.#observer`UPDATE rate_clock SET at = 0`;
    for (const node of this.#nodes) node.kill();
    await this.pass(0);
    const account = await storedAccount(this.#node(0).storage);
    this.#account = { ...account, requestsPerHour };
  }

  async pass(ms: number): Promise<void> {
    this.#nowMs += ms;
    for (const { clock } of this.#nodes) clock.advance(ms);
    await this.#setDatabase(ms);
  }

  /** Sets the database's clock back, as NTP does with one that was wrong. */
  async setBack(ms: number): Promise<void> {
    await this.#setDatabase(-ms);
  }

  setNode(index: number, byMs: number): void {
    this.#node(index).clock.nowMs += byMs;
  }

  kill(index: number): void {
    this.#node(index).kill();
  }

  async handBack(): Promise<void> {
    for (const node of this.#nodes) await node.handBack();
  }

  /** Sends so many requests to each of some nodes at once. @returns how many were let in */
  async admit(indices: readonly number[], count: number): Promise<number> {
    const account = this.#account ?? expect.fail('it has not begun');
    const counts = await Promise.all(indices.map((index) => this.#node(index).admit(account, count)));
    const admitted = counts.reduce((sum, each) => sum + each, 0);
    this.#admitted.push({ atMs: this.#nowMs, count: admitted });
    const inTheHour = this.#admitted
      .filter(({ atMs }) => atMs > this.#nowMs - hourMs)
      .reduce((sum, each) => sum + each.count, 0);
    expect(inTheHour, 'in the 60 minutes up to now').toBeLessThanOrEqual(account.requestsPerHour ?? 0);
    return admitted;
  }

  /** Sends to one node while another transaction holds the account, which lets go of it after this time. */
  async admitAfterWait(index: number, count: number, ms: number): Promise<number> {
    const holder = postgres(url, { max: 1, onnotice: () => {} });
    onTestFinished(() => holder.end({ timeout: 0 }));
    let admitting: Promise<number> | undefined;
    await holder.begin(async (client) => {
      await client`SELECT 1 FROM account_totals WHERE account_id = ${this.#account?.id ?? ''} FOR UPDATE`;
      admitting = this.admit([index], count);
      const waiting = () => this.#observer`SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'`;
      await eventually(waiting, ({ length }) => length > 0);
      await this.pass(ms);
    });
    return (await admitting) ?? expect.fail('nothing was sent');
  }

  /** Sends to all nodes until all refuse. @returns how many were let in */
  async admitAll(): Promise<number> {
    for (let sum = 0; ; ) {
      const admitted = await this.admit([0, 1, 2], 7);
      sum += admitted;
      if (admitted === 0) return sum;
    }
  }

  #node(index: number): Node {
    return this.#nodes[index] ?? expect.fail('there is no such node');
  }

  async #setDatabase(byMs: number): Promise<void> {
    this.#databaseMs += byMs;
    await this.#observer`UPDATE test_time SET ms = ${this.#databaseMs}`;
  }
}

const node = fc.integer({ min: 0, max: nodeCount - 1 });
const some = fc.uniqueArray(node, { minLength: 1 });
const count = fc.integer({ min: 1, max: 12 });
const passing = fc.oneof(
  fc.integer({ min: 1, max: 1_500 }),
  fc.integer({ min: 1, max: 60 }).map((seconds) => seconds * secondMs),
  fc.integer({ min: 1, max: 62 }).map((minutes) => minutes * minuteMs),
);
const jump = fc
  .tuple(fc.constantFrom(1, -1), fc.integer({ min: 1, max: 90 }))
  .map(([sign, minutes]) => sign * minutes * minuteMs);
const action = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('admit' as const), some, count }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: passing }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('kill' as const), node }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('jump' as const), node, byMs: jump }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('hand back' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('set back' as const), ms: passing }),
  },
);
const limits = fc.constantFrom(1, 3, 10, 64, 150);

longTest(
  'nodes never let in more than the limit in any 60 minutes, whoever is killed and whatever clocks show',
  {
    timeout: effort(60_000, 600_000),
  },
  async () => {
    const nodes = await Nodes.open();
    await fc.assert(
      fc.asyncProperty(limits, fc.array(action, { minLength: 5, maxLength: 40 }), async (limit, actions) => {
        await nodes.begin(limit);
        for (const next of actions) {
          if (next.kind === 'admit') await nodes.admit(next.some, next.count);
          else if (next.kind === 'pass') await nodes.pass(next.ms);
          else if (next.kind === 'kill') nodes.kill(next.node);
          else if (next.kind === 'jump') nodes.setNode(next.node, next.byMs);
          else if (next.kind === 'hand back') await nodes.handBack();
          else await nodes.setBack(next.ms);
        }
      }),
      { numRuns: effort(15, 400) },
    );
  },
);

longTest('a node that waits for the account lets in what is free by then, and no earlier', async () => {
  const nodes = await Nodes.open();
  await nodes.begin(10);
  await nodes.pass(minuteMs - 500);
  expect(await nodes.admit([0], 15)).toBe(10);
  await nodes.pass(hourMs - 4 * secondMs);
  expect(await nodes.admitAfterWait(0, 15, 2_500)).toBe(0);
  await nodes.pass(1_500);
  expect(await nodes.admit([1], 15)).toBe(0);
  await nodes.pass(500);
  expect(await nodes.admit([0, 1], 15)).toBe(10);
});

longTest('all of the limit can be used over three nodes, but for what one had reserved that was killed', async () => {
  const nodes = await Nodes.open();
  const limit = 640;
  await nodes.begin(limit);
  expect(await nodes.admitAll()).toBe(limit);
  await nodes.pass(61 * minuteMs);
  for (const byMs of [10 * minuteMs, -20 * minuteMs]) {
    nodes.setNode(1, byMs);
    expect(await nodes.admitAll()).toBe(limit);
    await nodes.pass(61 * minuteMs);
  }
  const before = await nodes.admit([0, 1, 2], 3);
  nodes.kill(2);
  const all = before + (await nodes.admitAll());
  expect(all).toBeLessThan(limit);
  expect(all).toBeGreaterThanOrEqual(limit - limit / 64);
});

longTest('nodes that hand back what they have of the same accounts never have to begin again', async () => {
  const ownUrl = await database();
  const undone: string[] = [];
  const onStatement = (text: string): void => {
    if (/^(?:ROLLBACK|SAVEPOINT)/.test(text)) undone.push(text);
  };
  const nodes = await Promise.all(
    [1, 2].map(async () => {
      const clock = new TestClock();
      const storage = await openPostgresStorage(ownUrl, { clock, onStatement });
      onTestFinished(() => storage.close());
      return { storage, limiter: new RateLimiter({ storage, clock }) };
    }),
  );
  const [one = expect.fail(), two = expect.fail()] = nodes;
  const accounts = Array.from({ length: 100 }, () => sampleAccount());
  await one.storage.write(async (tx) => {
    for (const account of accounts) await tx.accounts.insert(account);
  });
  for (const account of accounts) await one.limiter.admit(account);
  for (const account of accounts.toReversed()) await two.limiter.admit(account);
  await Promise.all(nodes.map(({ limiter }) => limiter.handBack({ all: true })));
  expect(undone).toEqual([]);
  const client = postgres(ownUrl, { max: 1 });
  onTestFinished(() => client.end({ timeout: 0 }));
  const [counted] = await client`SELECT count(DISTINCT account_id)::integer AS accounts, sum(count)::integer AS requests
    FROM rate_windows WHERE count > 0`;
  expect(counted).toEqual({ accounts: accounts.length, requests: 2 * accounts.length });
});
