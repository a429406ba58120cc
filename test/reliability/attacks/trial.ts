import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createAccount, type Plan, updateAccount } from '../../../src/domain/accounts.ts';
import type { Ports } from '../../../src/domain/ports.ts';
import { portsOn } from '../../bench/data.ts';
import { slownessOf } from '../../support/slowness.ts';
import type { EmptyDatabase } from '../databases.ts';
import type { Target } from './attacker.ts';
import { heapGrowthMiB } from './bounds.ts';
import { heapAfterCollection } from './inspector.ts';
import type { Attack } from './table.ts';

// One server, its neighbour and its attacker, each a process of its own.

export type NeighbourOrder =
  | { readonly do: 'begin'; readonly url: string; readonly secret: string; readonly probe: Attack['probe'] }
  | { readonly do: 'report'; readonly patienceMs: number };

export type AttackerOrder =
  | {
      readonly do: 'prepare';
      readonly name: string;
      readonly url: string;
      readonly secret: string;
      readonly isLong: boolean;
    }
  | { readonly do: 'attack'; readonly attacks: readonly { readonly name: string; readonly target: Target }[] };

/** How long requests of one kind waited, from when they were due. */
export interface Waits {
  readonly count: number;
  readonly medianMs: number;
  readonly longestMs: number;
  /** What was answered that is no success. */
  readonly refusals: Readonly<Record<string, number>>;
}

export interface NeighbourReport {
  readonly read: Waits;
  readonly write: Waits;
  readonly probe?: Waits;
  /** How late the neighbour itself was. */
  readonly latestMs: number;
}

/** One run of an attack. */
export interface Run {
  readonly tookMs: number;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly neighbour: NeighbourReport;
  readonly peakMiB: number;
  readonly afterMiB: number;
  readonly heapMiB: number;
  readonly unitsSpent: number | undefined;
  /** How many times as slow the server was because others had the processor when it could have used it. */
  readonly slowness: number;
}

export interface Result {
  readonly name: string;
  /** The same without the attack. */
  readonly quiet: NeighbourReport;
  readonly before: { readonly memoryMiB: number; readonly heapMiB: number };
  readonly runs: readonly Run[];
  /** Only in the long run. */
  readonly after: NeighbourReport | undefined;
  readonly logMiB: number;
  readonly databaseMiB: number;
}

const built = process.env['ATTACKS_MAIN'] ?? fileURLToPath(new URL('../../../dist/main.js', import.meta.url));
/** Those of `npm start`. */
const flags = ['--max-semi-space-size=16', '--heap-growing-percent=60'];
const mebibyte = 1024 * 1024;
const raisedLimit = 100_000_000;
const trialLimit = 100;
/** What is spent on looking at how much was spent. */
const lookingLimit = 2;

/** The kernel has a connection's buffers, and collection takes its time: so long what was used may take to come back. */
const returnMs = 10_000;

interface Account {
  readonly id: string;
  readonly secret: string;
}

/** A program of ours in a process of its own, which obeys orders one at a time. */
class Helper {
  readonly #child: ChildProcess;
  readonly #ready: Promise<unknown>;

  constructor(file: string) {
    this.#child = fork(fileURLToPath(new URL(file, import.meta.url)), [], {
      execPath: process.execPath,
      env: { PATH: process.env['PATH'] },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#ready = once(this.#child, 'message');
  }

  async ask(order: NeighbourOrder | AttackerOrder): Promise<unknown> {
    await this.#ready;
    this.#child.send(order);
    const [answer] = await once(this.#child, 'message');
    return answer;
  }

  end(): void {
    this.#child.kill('SIGKILL');
  }
}

export interface TrialOptions {
  /** Of the server's heap. */
  readonly maxOldSpaceMiB?: number;
  readonly isLong: boolean;
}

export class Trial {
  readonly #options: TrialOptions;
  readonly #database: EmptyDatabase;
  readonly #folder: string;
  readonly #logPath: string;
  readonly #attacker = new Helper('attacker.mts');
  readonly #neighbour = new Helper('neighbour.mts');
  /** What the neighbour asks for, and how long it waited without an attack, once it has begun. */
  #begun: { readonly probe: Attack['probe']; readonly quiet: NeighbourReport } | undefined;
  #server: ChildProcess | undefined;
  #url = '';
  #inspectorUrl = '';
  #accounts = 0;
  /** After the last attack. */
  #heapAfterMiB: number | undefined;
  #neighbourSecret: string | undefined;
  /** The account of all attacks with raised limits. */
  #raised: Account | undefined;

  private constructor(folder: string, database: EmptyDatabase, options: TrialOptions) {
    this.#folder = folder;
    this.#logPath = join(folder, 'server.log');
    this.#database = database;
    this.#options = options;
  }

  /**
   * Starts a server, as `npm start` does.
   * @param newDatabase is given a folder that is removed with the trial
   */
  static async start(newDatabase: (folder: string) => Promise<EmptyDatabase>, options: TrialOptions): Promise<Trial> {
    const folder = mkdtempSync(join(tmpdir(), 'conversation-service-'));
    const trial = new Trial(folder, await newDatabase(folder), options);
    await trial.#start();
    return trial;
  }

  /** Whether the server has not ended by itself. */
  get isAlive(): boolean {
    return this.#server?.exitCode === null && this.#server.signalCode === null;
  }

  stop(): void {
    this.#server?.kill('SIGKILL');
    this.#attacker.end();
    this.#neighbour.end();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** The lines of the log that tell of something that is not as it should be. */
  troubles(): string[] {
    const lines = readFileSync(this.#logPath, 'utf8').split('\n');
    return lines.filter((line) => /"level":"(error|fatal)"/.test(line));
  }

  /** Runs attacks at once, each by an account of its own, so many times one after the other. */
  async run(name: string, attacks: readonly Attack[], repetitions: number): Promise<Result> {
    const attackers: Attacker[] = [];
    for (const attack of attacks) attackers.push(await this.#attackerFor(attack, attacks.length > 1));
    const quiet = await this.#beginNeighbour(attacks.find(({ probe }) => probe !== undefined)?.probe);
    const before = { heapMiB: this.#heapAfterMiB ?? (await this.#heapMiB()), memoryMiB: this.#memory().nowMiB };
    const [logBytes, databaseBytes] = [this.#logBytes(), await this.#database.bytes()];
    const runs: Run[] = [];
    for (let count = 0; count < repetitions && this.isAlive; count++) {
      if (count > 0) for (const each of attackers) await this.#renew(each);
      runs.push(await this.#runOnce(attackers, before.heapMiB));
    }
    this.#heapAfterMiB = runs.at(-1)?.heapMiB;
    return {
      name,
      quiet,
      before,
      runs,
      after: this.#options.isLong ? await this.#lookOn(1_000) : undefined,
      logMiB: (this.#logBytes() - logBytes) / mebibyte,
      databaseMiB: ((await this.#database.bytes()) - databaseBytes) / mebibyte,
    };
  }

  async #runOnce(attackers: readonly Attacker[], heapBeforeMiB: number): Promise<Run> {
    this.#forgetPeak();
    await this.#neighbourReport(0);
    const usedBefore = await Promise.all(attackers.map((each) => this.#used(each)));
    const startedMs = performance.now();
    const slowness = slownessOf(this.#server?.pid ?? Number.NaN);
    const outcomes = await this.#obeyed<Record<string, number>>({
      do: 'attack',
      attacks: attackers.map(({ attack, account, fixture }) => ({
        name: attack.name,
        target: {
          url: this.#url,
          secret: account?.secret ?? '',
          limits: attack.limits,
          fixture,
          isLong: this.#options.isLong,
        },
      })),
    });
    const tookMs = performance.now() - startedMs;
    const seen = await this.#neighbourReport(60_000);
    const timesAsSlow = slowness();
    const { peakMiB } = this.#memory();
    const usedAfter = await Promise.all(attackers.map((each) => this.#used(each)));
    let heapMiB = await this.#heapMiB();
    for (const endMs = performance.now() + returnMs; performance.now() < endMs; ) {
      if (heapMiB <= heapBeforeMiB + heapGrowthMiB || !this.isAlive) break;
      await sleep(500);
      heapMiB = await this.#heapMiB();
    }
    const spent = usedAfter.map((used, index) => (used ?? 0) - (usedBefore[index] ?? 0) - 1);
    return {
      tookMs,
      outcomes,
      neighbour: seen,
      peakMiB,
      afterMiB: this.#memory().nowMiB,
      heapMiB,
      slowness: timesAsSlow,
      unitsSpent: attackers.some(({ account }) => account !== undefined) ? Math.max(0, ...spent) : undefined,
    };
  }

  async #start(): Promise<void> {
    const { maxOldSpaceMiB } = this.#options;
    const log = openSync(this.#logPath, 'w');
    const options = maxOldSpaceMiB === undefined ? [] : [`--max-old-space-size=${maxOldSpaceMiB}`];
    const server = spawn(process.execPath, ['--inspect=127.0.0.1:0', ...flags, ...options, built, 'serve'], {
      env: {
        ...this.#environment(),
        NODE_ENV: 'production',
        WEBHOOK_ALLOW_HTTP: 'true',
        WEBHOOK_ALLOW_PRIVATE_NETWORKS: 'true',
      },
      stdio: ['ignore', log, 'pipe'],
    });
    closeSync(log);
    this.#server = server;
    let stderr = '';
    server.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    while (this.#url === '' || this.#inspectorUrl === '') {
      if (!this.isAlive) throw new Error(`The server did not start: ${stderr}`);
      await sleep(20);
      this.#url = /"url":"([^"]+)"/.exec(readFileSync(this.#logPath, 'utf8'))?.[1] ?? '';
      this.#inspectorUrl = /ws:\/\/\S+/.exec(stderr)?.[0] ?? '';
    }
  }

  #environment(): Record<string, string | undefined> {
    return { PATH: process.env['PATH'], PORT: '0', DATABASE_URL: this.#database.url };
  }

  /** Does what the command line would, without the time that a process of its own takes. */
  async #asOperator<T>(work: (ports: Ports) => Promise<T>): Promise<T> {
    const storage = await this.#database.open();
    try {
      return await work(portsOn(storage));
    } finally {
      await storage.close();
    }
  }

  async #account(plan: Plan, requestsPerHour = raisedLimit): Promise<Account> {
    const input = { name: `account-${this.#accounts++}`, plan, requestsPerHour };
    const { account, apiKey } = await this.#asOperator((ports) => createAccount(ports, input));
    return { id: account.id, secret: apiKey.secret };
  }

  /** Prepares an attack with requests enough, then leaves as many as there are to attack with. */
  async #attackerFor(attack: Attack, isOneOfSeveral: boolean): Promise<Attacker> {
    if (attack.limits === 'none') return { attack, account: undefined, fixture: {} };
    const { name, prepare, limits } = attack;
    const isTrial = limits === 'trial';
    if (isTrial && prepare === undefined) {
      return { attack, account: await this.#account('trial', trialLimit + lookingLimit), fixture: {} };
    }
    const isOwn = isTrial || isOneOfSeveral;
    if (!isOwn) this.#raised ??= await this.#account('business');
    const account = (isOwn ? undefined : this.#raised) ?? (await this.#account(isTrial ? 'trial' : 'business'));
    const order = { url: this.#url, secret: account.secret, isLong: this.#options.isLong };
    const fixture = await this.#obeyed<Record<string, string>>({ do: 'prepare', name, ...order });
    const attacker = { attack, account, fixture };
    await this.#renew(attacker);
    return attacker;
  }

  /** What an hour would do: a trial has its hundred requests again. */
  async #renew(attacker: Attacker): Promise<void> {
    if (attacker.attack.limits !== 'trial' || attacker.account === undefined) return;
    const { id } = attacker.account;
    const requestsPerHour = ((await this.#used(attacker)) ?? 0) + trialLimit + lookingLimit;
    await this.#asOperator((ports) => updateAccount(ports, id, { requestsPerHour }));
    await sleep(150); // another process's change is seen within 100 ms
  }

  /** How many requests the account has spent. */
  async #used({ account }: Attacker): Promise<number | undefined> {
    if (account === undefined || !this.isAlive) return undefined;
    const headers = { authorization: `Bearer ${account.secret}` };
    const response = await fetch(`${this.#url}/v1/account`, { headers, signal: AbortSignal.timeout(60_000) }).catch(
      () => undefined,
    );
    await response?.arrayBuffer();
    const number = (name: string): number => Number(response?.headers.get(name));
    return number('x-ratelimit-limit') - number('x-ratelimit-remaining');
  }

  /** Lets the neighbour ask for what it does not ask for yet. @returns how long it waits without an attack */
  async #beginNeighbour(probe: Attack['probe']): Promise<NeighbourReport> {
    if (this.#begun !== undefined && this.#begun.probe === probe) return this.#begun.quiet;
    this.#neighbourSecret ??= (await this.#account('business')).secret;
    await this.#neighbour.ask({ do: 'begin', url: this.#url, secret: this.#neighbourSecret, probe });
    await sleep(this.#options.isLong ? 1_000 : 100);
    const quiet = await this.#lookOn(this.#options.isLong ? 2_000 : 400);
    this.#begun = { probe, quiet };
    return quiet;
  }

  /** What the neighbour sees while nothing is done. */
  async #lookOn(ms: number): Promise<NeighbourReport> {
    await this.#neighbourReport(0);
    await sleep(ms);
    return await this.#neighbourReport(10_000);
  }

  async #neighbourReport(patienceMs: number): Promise<NeighbourReport> {
    return (await this.#neighbour.ask({ do: 'report', patienceMs })) as NeighbourReport;
  }

  async #obeyed<T>(order: AttackerOrder): Promise<T> {
    const { result, error } = (await this.#attacker.ask(order)) as { result: T; error?: string };
    if (error !== undefined) throw new Error(error);
    return result;
  }

  async #heapMiB(): Promise<number> {
    if (!this.isAlive) return Number.NaN;
    return (await heapAfterCollection(this.#inspectorUrl).catch(() => Number.NaN)) / mebibyte;
  }

  #memory(): { nowMiB: number; peakMiB: number } {
    try {
      const status = readFileSync(`/proc/${this.#server?.pid}/status`, 'utf8');
      const of = (name: string): number => Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1_024;
      return { nowMiB: of('VmRSS'), peakMiB: of('VmHWM') };
    } catch {
      return { nowMiB: Number.NaN, peakMiB: Number.NaN }; // it has ended, or this is not Linux
    }
  }

  /** Lets the kernel count the peak of the memory from now on. */
  #forgetPeak(): void {
    try {
      writeFileSync(`/proc/${this.#server?.pid}/clear_refs`, '5');
    } catch {
      // it then counts from the start
    }
  }

  #logBytes(): number {
    return statSync(this.#logPath).size;
  }
}

interface Attacker {
  readonly attack: Attack;
  readonly account: Account | undefined;
  readonly fixture: Record<string, string>;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
