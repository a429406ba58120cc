import { isDocumented } from './outcomes.ts';
import type { Attack } from './table.ts';
import type { Result } from './trial.ts';

/** How long the neighbour may wait for something simple, and how long beside other tests. */
const longestWaitMs = 300;
const longestBusyWaitMs = 1_000;
/** What one account can make the process grow by, and many together. */
const growthMiB = 200;
const growthOfManyMiB = 512;
/** How much more the heap may hold afterwards: code that was compiled, caches that were filled. */
export const heapGrowthMiB = 20;
/**
 * How far the peaks of later runs may lie above those of the first two. A peak is also what collector and allocator had
 * not given back at that moment, so two runs of the same differ by 30 MiB, and some by 60; but the middle one of three
 * is above both of the first by as much only if memory grows from run to run.
 */
const repeatedMiB = 32;
/** What log and database may grow by in one run, with what the neighbour writes. */
const usualMiB = 8;
/** How many times as much room PostgreSQL takes: the tests' removes no former versions of rows. */
const postgresFactor = 4;

/**
 * Holds what was seen against what is promised.
 * @param isStrict whether the machine has nothing else to do; otherwise that is allowed for
 * @param isWithDatabase whether a database of PostgreSQL is on it
 * @returns what is not as promised
 */
export function faultsIn(
  attacks: readonly Attack[],
  result: Result,
  { isStrict, isWithDatabase }: { readonly isStrict: boolean; readonly isWithDatabase: boolean },
): string[] {
  const { quiet, before, runs } = result;
  const faults: string[] = [];
  const isOne = attacks.length === 1;
  for (const [index, { neighbour, outcomes, peakMiB, heapMiB, slowness }] of runs.entries()) {
    const run = runs.length === 1 ? '' : `run ${index + 1}: `;
    for (const kind of ['read', 'write', 'probe'] as const) {
      const waits = neighbour[kind];
      if (waits === undefined) continue;
      // Many accounts together may slow what takes many steps: each is followed by one of every other.
      if (kind === 'probe' && !isOne) continue;
      const quietMs = quiet[kind]?.longestMs ?? 0;
      // Beside other tests it may be a second, and what is measured comes on top: how much longer the server took
      // because others had the processor, how late the neighbour itself was, and twice what it waits without an attack,
      // for a disk that others write to.
      const boundMs = isStrict ? longestWaitMs : longestBusyWaitMs * slowness + neighbour.latestMs + 2 * quietMs;
      if (waits.longestMs > boundMs) {
        const waited = `${waits.longestMs.toFixed(0)} ms for a ${kind}, ${quietMs.toFixed(0)} ms without the attack`;
        faults.push(`${run}the neighbour waited ${waited}; ${boundMs.toFixed(0)} ms are allowed`);
      }
      const refusals = Object.keys(waits.refusals);
      if (refusals.length > 0) faults.push(`${run}the neighbour was refused a ${kind}: ${refusals[0]}`);
    }
    for (const outcome of Object.keys(outcomes)) {
      if (!isDocumented(outcome)) faults.push(`${run}an outcome that is not documented: ${outcome}`);
    }
    if (peakMiB - before.memoryMiB > (isOne ? growthMiB : growthOfManyMiB)) {
      faults.push(`${run}memory grew from ${before.memoryMiB.toFixed(0)} to ${peakMiB.toFixed(0)} MiB`);
    }
    if (heapMiB - before.heapMiB > heapGrowthMiB) {
      faults.push(`${run}the heap held ${heapMiB.toFixed(0)} MiB afterwards, ${before.heapMiB.toFixed(0)} before`);
    }
  }
  const peaks = runs.map(({ peakMiB }) => peakMiB);
  const firstMiB = Math.max(...peaks.slice(0, 2));
  const laterMiB = medianOf(peaks.slice(2));
  if (peaks.length >= 5 && laterMiB > firstMiB + repeatedMiB) {
    faults.push(`memory grew to ${firstMiB.toFixed(0)} MiB in the first two runs, then to ${laterMiB.toFixed(0)}`);
  }
  const sum = (of: (attack: Attack) => number): number => attacks.reduce((total, attack) => total + of(attack), 0);
  if (result.logMiB > sum(() => usualMiB) * runs.length) {
    faults.push(`the log grew by ${result.logMiB.toFixed(1)} MiB`);
  }
  const databaseMiB = sum(({ databaseMiB = usualMiB }) => databaseMiB) * (isWithDatabase ? postgresFactor : 1);
  if (result.databaseMiB > databaseMiB * runs.length) {
    faults.push(`the database grew by ${result.databaseMiB.toFixed(1)} MiB`);
  }
  return faults;
}

function medianOf(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}
