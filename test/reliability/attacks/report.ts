import type { NeighbourReport, Result, Waits } from './trial.ts';

/** The results as a table of plain text. */
export function reportOf(results: readonly Result[]): string {
  const rows = results.map(rowOf);
  const columns = Object.keys(rows[0] ?? {});
  const widths = columns.map((column) => Math.max(column.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, index) => cell.padEnd(widths[index] ?? 0))
      .join('  ')
      .trimEnd();
  return [line(columns), ...rows.map((row) => line(columns.map((column) => row[column] ?? '')))].join('\n');
}

function rowOf({ name, quiet, before, runs, after, logMiB, databaseMiB }: Result): Record<string, string> {
  const longest = (of: (run: NeighbourReport) => Waits | undefined): string =>
    `${ms(of(quiet)?.longestMs)} / ${runs.map(({ neighbour }) => ms(of(neighbour)?.longestMs)).join(' ')} / ${ms(after && of(after)?.longestMs)}`;
  const median = (of: (run: NeighbourReport) => Waits | undefined): string =>
    `${ms(of(quiet)?.medianMs)} / ${ms(Math.max(...runs.map(({ neighbour }) => of(neighbour)?.medianMs ?? 0)))}`;
  return {
    attack: name,
    'read ms: quiet / attacked / after': longest(({ read }) => read),
    median: median(({ read }) => read),
    'write ms': longest(({ write }) => write),
    'median ': median(({ write }) => write),
    'probe ms': quiet.probe === undefined ? '' : longest(({ probe }) => probe),
    'memory MiB: before / peaks / after': `${whole(before.memoryMiB)} / ${runs.map(({ peakMiB }) => whole(peakMiB)).join(' ')} / ${whole(runs.at(-1)?.afterMiB)}`,
    'heap MiB': `${whole(before.heapMiB)} / ${runs.map(({ heapMiB }) => whole(heapMiB)).join(' ')}`,
    'log, database MiB': `${logMiB.toFixed(1)} ${databaseMiB.toFixed(1)}`,
    'late ms': runs.map(({ neighbour }) => ms(neighbour.latestMs)).join(' '),
    slowness: runs.map(({ slowness }) => slowness.toFixed(1)).join(' '),
    took: `${((runs[0]?.tookMs ?? 0) / 1_000).toFixed(1)} s`,
    units: String(runs[0]?.unitsSpent ?? ''),
    outcomes: countsOf(runs.map(({ outcomes }) => outcomes)),
    'neighbour refused': countsOf(
      runs.flatMap(({ neighbour }) =>
        [neighbour.read, neighbour.write, neighbour.probe].map((waits) => waits?.refusals ?? {}),
      ),
    ).slice(0, 200),
  };
}

function countsOf(all: readonly Readonly<Record<string, number>>[]): string {
  const sums: Record<string, number> = {};
  for (const counts of all) {
    for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count;
  }
  return Object.entries(sums)
    .map(([name, count]) => `${count}× ${name}`)
    .join(', ');
}

function ms(value: number | undefined): string {
  return value === undefined ? '–' : value < 10 ? value.toFixed(1) : value.toFixed(0);
}

function whole(value: number | undefined): string {
  return value === undefined ? '–' : value.toFixed(0);
}
