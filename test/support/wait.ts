// A test waits for what it wants to see, and for no fixed time.

const defaultPatienceMs = 30_000;

/**
 * Waits until a condition holds, looking after every turn of the event loop.
 * @param patienceMs must be within the test's timeout, so that the message says what was waited for
 * @throws Error when it has run out of patience
 */
export async function until(holds: () => boolean, patienceMs = defaultPatienceMs): Promise<void> {
  const startedMs = performance.now();
  for (let turn = 0; !holds(); turn++) {
    if (performance.now() - startedMs > patienceMs) throw new Error(`It never came to hold: ${holds}`);
    // After a while it pauses between looks, and leaves the processor to what it waits for.
    const pauseMs = turn < 1_500 ? 1 : 5;
    await new Promise((resolve) => (turn < 1_000 ? setImmediate(resolve) : setTimeout(resolve, pauseMs)));
  }
}

/**
 * Asks again and again until the answer is as expected.
 * @param pauseMs after each answer, which leaves the processor to what it waits for
 * @throws Error when it has run out of patience
 */
export async function eventually<T>(ask: () => Promise<T>, holds: (answer: T) => boolean, pauseMs = 4): Promise<T> {
  const startedMs = performance.now();
  for (;;) {
    const answer = await ask();
    if (holds(answer)) return answer;
    if (performance.now() - startedMs > defaultPatienceMs) {
      throw new Error(`It never came to hold: ${holds} of ${JSON.stringify(answer)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/**
 * Measures until it is below a bound, five times at most: what else the machine does spoils some of them.
 * @returns the least that was measured
 */
export async function leastOf(measure: () => number | Promise<number>, boundary: number): Promise<number> {
  let least = await measure();
  for (let more = 4; more > 0 && least >= boundary; more--) least = Math.min(least, await measure());
  return least;
}

/** A promise that resolves when the test opens it. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}
