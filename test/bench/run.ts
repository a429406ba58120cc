import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type BenchData, makeData, makePostgresData } from './data.ts';
import { compareDeliveries } from './deliveries.ts';
import { compareFanOut } from './fanout.ts';
import { filterTimes } from './filters.ts';
import {
  type CostResult,
  compareSizes,
  memoryOfSubscriptions,
  memoryUnderLoad,
  readsAmongWrites,
  startTime,
} from './growth.ts';
import { compareBusyAccount, compareFanOutOfNodes } from './nodes.ts';
import { plot } from './plot.ts';
import { withPostgres } from './postgres.ts';
import { searchTimes } from './search.ts';
import { compare, median, type Plan, postgresWorks, repeated, type WorkResult, works } from './throughput.ts';

// `npm run bench`: the service beside its peers, at the same work on the same data in the same run. `--only TEXT` takes
// the works whose names hold the text (and `--only cost` growth and cost), `--quick` is for a first look, `--rounds` and
// `--seconds` say how often and how long each is measured, `--out FILE` says where all values go, `--plot FILE` draws the
// ratios as SVG.

const folder = import.meta.dirname;
const { values: options } = parseArgs({
  options: {
    only: { type: 'string' },
    quick: { type: 'boolean' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    out: { type: 'string' },
    plot: { type: 'string' },
  },
});

const plan: Plan = {
  rounds: Number(options.rounds ?? (options.quick ? 1 : 5)),
  seconds: Number(options.seconds ?? (options.quick ? 3 : 5)),
  connections: 64,
};
const amounts = { conversations: options.quick ? 2_000 : 20_000, accounts: options.quick ? 10 : 100 };

if (!existsSync(join(folder, 'node_modules'))) {
  execFileSync('npm', ['ci'], { cwd: folder, stdio: 'inherit' });
}
await import('../../esbuild.config.ts');

const only = (options.only ?? '').toLowerCase();
const comparison = (work: (typeof works)[number]) => ({
  name: work.name,
  run: (data: BenchData) => compare(work, data, plan),
});
const chosen = [
  ...works.map(comparison),
  { name: 'Webhook deliveries', run: (data: BenchData) => compareDeliveries(data, plan) },
  { name: 'Fan-out to 1,000 sockets', run: (data: BenchData) => compareFanOut(data, plan) },
  comparison(repeated),
].filter(({ name }) => name.toLowerCase().includes(only));
const chosenOnPostgres = [
  ...postgresWorks.map(comparison),
  {
    name: 'PostgreSQL: sends of one account to two nodes',
    run: (data: BenchData) => compareBusyAccount(data, plan),
  },
  {
    name: 'PostgreSQL: fan-out to 1,000 sockets on two nodes',
    run: (data: BenchData) => compareFanOutOfNodes(data, plan),
  },
].filter(({ name }) => name.toLowerCase().includes(only));
const sizes = { small: 10_000, large: options.quick ? 100_000 : 1_000_000, withMessages: 1_000 };
const quickGrowth = { samples: 100, deep: 50_000 };
const fullGrowth = { samples: 400, deep: 100_000 };
interface Cost {
  readonly name: string;
  run(small: BenchData, large: BenchData): Promise<CostResult | CostResult[]>;
}
const allCosts: readonly Cost[] = [
  { name: 'growth', run: (small, large) => compareSizes(small, large, options.quick ? quickGrowth : fullGrowth) },
  { name: 'p99 of reads', run: (_, large) => readsAmongWrites(large, plan.seconds) },
  { name: 'start time', run: (_, large) => startTime(large, options.quick ? 3 : 9) },
  { name: 'memory under load', run: (_, large) => memoryUnderLoad(large, 4 * plan.seconds) },
  { name: 'memory of subscriptions', run: (small) => memoryOfSubscriptions(small, options.quick ? 2_000 : 10_000) },
];
const costs = allCosts.filter(({ name }) => `cost: ${name}`.includes(only));
const temporary = mkdtempSync(join(tmpdir(), 'conversation-service-bench-'));
const results: WorkResult[] = [];
const costResults: CostResult[] = [];
try {
  const runAll = async (list: typeof chosen, data: BenchData): Promise<void> => {
    for (const work of list) {
      const result = await work.run(data);
      results.push(result);
      print(result);
    }
  };
  if (chosen.length > 0) await runAll(chosen, await makeData(join(temporary, 'bench.db'), amounts));
  if (chosenOnPostgres.length > 0) {
    await withPostgres(temporary, async (newDatabase) => {
      await runAll(chosenOnPostgres, await makePostgresData(await newDatabase(), amounts));
    });
  }
  if (results.length > 0) console.log(`\n${inWords()}`);
  if (costs.length > 0) {
    console.log(`\nGrowth and cost, with ${sizes.large} conversations (and ${sizes.small} to compare)`);
    const { withMessages } = sizes;
    const small = await makeData(join(temporary, 'small.db'), { conversations: sizes.small, withMessages });
    const large = await makeData(join(temporary, 'large.db'), { conversations: sizes.large, withMessages });
    for (const cost of costs) {
      const measured = [await cost.run(small, large)].flat();
      costResults.push(...measured);
      measured.forEach(printCost);
    }
  }
  if ('cost: growth on postgresql'.includes(only)) {
    console.log(`\nGrowth on PostgreSQL, with ${sizes.large} conversations (and ${sizes.small} to compare)`);
    const { withMessages } = sizes;
    const measured = await withPostgres(temporary, async (newDatabase) => {
      const small = await makePostgresData(await newDatabase(), { conversations: sizes.small, withMessages });
      const large = await makePostgresData(await newDatabase(), { conversations: sizes.large, withMessages });
      return await compareSizes(small, large, options.quick ? quickGrowth : fullGrowth);
    });
    costResults.push(...measured.map((result) => ({ ...result, name: `PostgreSQL: ${result.name}` })));
    measured.forEach(printCost);
  }
  if ('cost: filters'.includes(only)) {
    const conversations = options.quick ? 50_000 : 1_000_000;
    console.log(`\nFilters on lists of ${conversations} conversations and leads`);
    const measured = await filterTimes(join(temporary, 'filters.db'), conversations, options.quick ? 100 : 300);
    costResults.push(...measured);
    measured.forEach(printCost);
  }
  if ('cost: search'.includes(only)) {
    const messages = options.quick ? 50_000 : 1_000_000;
    console.log(`\nSearch among ${messages} messages`);
    const measured = await searchTimes(join(temporary, 'search.db'), messages, options.quick ? 100 : 300);
    costResults.push(...measured);
    measured.forEach(printCost);
  }
} finally {
  rmSync(temporary, { recursive: true, force: true });
}

const machine = {
  node: process.version,
  cpu: cpus()[0]?.model,
  cores: cpus().length,
  memoryGiB: Math.round(totalmem() / 2 ** 30),
};
const out = options.out ?? join(folder, 'results.json');
writeFileSync(
  out,
  `${JSON.stringify({ at: new Date().toISOString(), machine, plan, amounts, sizes, results, costs: costResults }, null, 2)}\n`,
);
console.log(`All values are in ${out}`);
if (options.plot !== undefined) {
  writeFileSync(options.plot, plot(results, `Node ${machine.node}, ${machine.cores} cores (${machine.cpu}).`));
}

function printCost({ name, unit, value, atMost, beside = {} }: CostResult): void {
  const others = Object.entries(beside).map(([other, itsValue]) => `; ${other}: ${itsValue}`);
  console.log(
    `  ${name.padEnd(52)} ${String(value).padStart(8)} ${unit}, at most ${atMost}${value > atMost ? '  ✗' : ''}${others.join('')}`,
  );
}

function print({ name, unit, raw, median: medians, p99Ms, failures = {}, ratios }: WorkResult): void {
  console.log(`\n${name}`);
  for (const [contestant, value] of Object.entries(medians)) {
    const { ratio, aim } = ratios[contestant] ?? {};
    const missed = ratio !== undefined && aim !== undefined && ratio < aim;
    const parts = [
      `  ${contestant.padEnd(10)} ${String(value).padStart(7)} ${unit}`,
      p99Ms === undefined ? '' : `p99 ${median(p99Ms[contestant] ?? [])} ms`.padEnd(13),
      p99Ms !== undefined && isSlower(p99Ms, contestant) ? 'ours is higher' : '',
      ratio === undefined ? '' : `ours is ${ratio.toFixed(2)} of it`,
      aim === undefined ? '' : `(aim ${aim}${missed ? ', missed' : ''})`,
      `[${raw[contestant]?.join(' ')}]`,
      failures[contestant] ? `${failures[contestant]} failed` : '',
    ];
    console.log(parts.filter((part) => part !== '').join('  '));
  }
}

/** Whether our slowest hundredth takes longer than that of a peer. */
function isSlower(p99Ms: Readonly<Record<string, number[]>>, peer: string): boolean {
  return median(p99Ms['ours'] ?? []) > median(p99Ms[peer] ?? []);
}

/** How the table is to be read. */
function inWords(): string {
  return `Medians of ${plan.rounds} round(s) of ${plan.seconds} s in fresh processes on fresh files, the order reversed each round; all values in
brackets. ${plan.connections} connections ask for any of ${amounts.conversations} conversations of ${amounts.accounts} accounts, by chance. Each peer looks the
API key up by its SHA-256 in the database, gives the request an id, says what is left of the limit, logs a JSON line, and
answers with the same body.
What the peers do not do: sync each write to the disk before the response (but on PostgreSQL, which does), share a limit
that is exact among processes and restarts, log events and deliver them to webhooks, count for reports, and check
idempotency keys and versions. \`fastify-same-writes\` does the first, and writes events, words to search for and counts. The
webhook loop signs, claims and logs nothing. The broadcast keeps no log and selects no fields.`;
}
