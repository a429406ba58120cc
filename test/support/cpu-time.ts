// How long this thread computes. Other processes of the machine do not count.

/** The milliseconds that some work takes, the least of some attempts: one may meet a collection of garbage. */
export function cpuMsOf(work: () => void, attempts = 3): number {
  let least = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < attempts; attempt++) {
    const before = process.threadCpuUsage();
    work();
    const { user, system } = process.threadCpuUsage(before);
    least = Math.min(least, (user + system) / 1_000);
  }
  return least;
}

/**
 * The most time that this thread takes in one turn of the event loop while some work is done: so long nobody else is
 * served.
 */
export async function longestTurnMs(work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let isOver = false;
  let before = process.threadCpuUsage();
  const turn = (): void => {
    const { user, system } = process.threadCpuUsage(before);
    longest = Math.max(longest, (user + system) / 1_000);
    before = process.threadCpuUsage();
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  await work();
  // The turn in which it ended counts, too.
  await new Promise((resolve) => setImmediate(resolve));
  isOver = true;
  return longest;
}
