/**
 * What asks a program to end: a supervisor, Ctrl-C, a terminal that is gone. Node.js begins by undoing what its parent
 * has it ignore, so nothing can be told of `nohup`, which never kept it from ending.
 */
export const endingSignals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

const oneRequestMs = 1_000;

/**
 * Resolves at the first of the ending signals. A second one ends the program at once, unless it comes right
 * after: Ctrl-C under npm arrives twice, once from the terminal and once passed on by npm.
 */
export function untilAskedToStop({ underNpm }: { readonly underNpm: boolean }): Promise<void> {
  return new Promise((resolve) => {
    let askedAtMs: number | undefined;
    const onSignal = (): void => {
      if (askedAtMs === undefined) {
        askedAtMs = performance.now();
        resolve();
      } else if (performance.now() - askedAtMs > oneRequestMs) {
        process.exit(1);
      }
    };
    for (const signal of endingSignals) process.on(signal, onSignal);
    if (underNpm) whenParentEnds(resolve);
  });
}

/**
 * npm runs the program in a shell, and a SIGTERM to npm ends the shell and not the program, which would
 * go on holding its port. That its parent is another one now tells it.
 */
function whenParentEnds(stop: () => void): void {
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent) stop();
  }, 200).unref();
}
