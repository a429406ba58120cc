/**
 * The signals that ask a program to end: from a supervisor, from Ctrl-C, and from a terminal that closes. SIGHUP ends it
 * under `nohup` too: Node.js resets the signals that its parent set to be ignored, so `nohup` cannot be detected.
 */
export const endingSignals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** Signals within this time of the first count as the same request. */
const sameRequestMs = 1_000;

interface StopOptions {
  /** Whether npm has started the program. */
  readonly underNpm: boolean;
  /** Whether a supervisor has. */
  readonly isWorker?: boolean;
}

/**
 * Resolves at the first of the ending signals. A later one ends the program at once, unless it follows within a second:
 * under npm a Ctrl-C arrives twice, once from the terminal and once forwarded by npm.
 */
export function untilAskedToStop({ underNpm, isWorker }: StopOptions): Promise<void> {
  return new Promise((resolve) => {
    let askedAtMs: number | undefined;
    const onSignal = (): void => {
      if (askedAtMs === undefined) {
        askedAtMs = performance.now();
        resolve();
      } else if (performance.now() - askedAtMs > sameRequestMs) {
        process.exit(1);
      }
    };
    for (const signal of endingSignals) process.on(signal, onSignal);
    if (underNpm) whenParentEnds(resolve);
    // A worker whose supervisor has ended, perhaps already.
    if (isWorker && !process.connected) resolve();
    process.once('disconnect', resolve);
  });
}

/**
 * npm runs the program in a shell. A SIGTERM to npm ends the shell but not the program, which would keep holding its
 * port; it can only notice that it has a new parent.
 */
function whenParentEnds(stop: () => void): void {
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent) stop();
  }, 200).unref();
}
