import { isDocumented } from './outcomes.ts';
import type { Attack } from './table.ts';
import type { NeighbourReport, Result, Waits } from './trial.ts';

/** How long the neighbour may wait for something simple. */
const longestWaitMs = 1_000;
/** What one account can make the process grow by, and many together. */
const growthMiB = 200;
const growthOfManyMiB = 512;
/** How much more the heap may hold afterwards: code that was compiled, caches that were filled. */
const heapMiB = 20;
/** What the same attack may take more the fifth time than the second, since no two runs are the same. */
const repeatedMiB = 16;

export interface Verdict {
  /** What is not as promised. */
  readonly faults: string[];
  /** Waits that are too long, in attacks that bounds alone can't keep from it. */
  readonly waitsForScheduling: string[];
}

/**
 * Holds what was seen against what is promised.
 * @param isStrict whether the machine has nothing else to do; otherwise that is allowed for
 */
export function verdictOf(attacks: readonly Attack[], result: Result, isStrict: boolean): Verdict {
  const { quiet, before, runs } = result;
  const faults: string[] = [];
  const waitsForScheduling: string[] = [];
  const isOne = attacks.length === 1;
  const needsScheduling = !isOne || attacks.some(({ needsFairScheduling }) => needsFairScheduling);
  for (const [index, { neighbour, outcomes, peakMiB, heapMiB: heapAfterMiB, slowness }] of runs.entries()) {
    const run = runs.length === 1 ? '' : `run ${index + 1}: `;
    for (const kind of ['read', 'write', 'probe'] as const) {
      const waits = neighbour[kind];
      if (waits === undefined) continue;
      const quietMs = quiet[kind]?.longestMs ?? 0;
      const text = `${run}the neighbour waited ${waits.longestMs.toFixed(0)} ms for a ${kind}, ${quietMs.toFixed(0)} ms without the attack`;
      const boundMs = isStrict ? longestWaitMs : longestWaitMs * slowness + 2 * longestOf(quiet);
      if (waits.longestMs > boundMs) (needsScheduling ? waitsForScheduling : faults).push(text);
      const refusals = Object.keys(waits.refusals);
      if (refusals.length > 0) faults.push(`${run}the neighbour was refused a ${kind}: ${refusals[0]}`);
    }
    for (const outcome of Object.keys(outcomes)) {
      const isCut = outcome.startsWith('connection ') && attacks.some(({ mayBeCutOff }) => mayBeCutOff !== undefined);
      if (!isCut && !isDocumented(outcome)) faults.push(`${run}an outcome that is not documented: ${outcome}`);
    }
    if (peakMiB - before.memoryMiB > (isOne ? growthMiB : growthOfManyMiB)) {
      faults.push(`${run}memory grew from ${before.memoryMiB.toFixed(0)} to ${peakMiB.toFixed(0)} MiB`);
    }
    if (heapAfterMiB - before.heapMiB > heapMiB) {
      faults.push(`${run}the heap held ${heapAfterMiB.toFixed(0)} MiB afterwards, ${before.heapMiB.toFixed(0)} before`);
    }
  }
  const [, second] = runs;
  const fifth = runs[4];
  if (second !== undefined && fifth !== undefined && fifth.peakMiB > second.peakMiB + repeatedMiB) {
    faults.push(
      `memory grew to ${second.peakMiB.toFixed(0)} MiB the second time, ${fifth.peakMiB.toFixed(0)} the fifth`,
    );
  }
  const most = (of: (attack: Attack) => number | undefined): number =>
    attacks.reduce((sum, attack) => sum + (of(attack) ?? Number.POSITIVE_INFINITY), 0) * runs.length;
  if (result.logMiB > most(({ logMiB }) => logMiB)) faults.push(`the log grew by ${result.logMiB.toFixed(1)} MiB`);
  if (result.databaseMiB > most(({ databaseMiB }) => databaseMiB)) {
    faults.push(`the database grew by ${result.databaseMiB.toFixed(1)} MiB`);
  }
  return { faults, waitsForScheduling };
}

function longestOf({ read, write, probe }: NeighbourReport): number {
  return Math.max(...[read, write, probe].flatMap((waits: Waits | undefined) => waits?.longestMs ?? []));
}
