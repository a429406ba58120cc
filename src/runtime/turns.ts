/** How long steps of work may occupy the event loop before it yields. */
const sliceMs = 2;
/**
 * A request needs several turns of the event loop, from its arrival to its commit. So that it need not wait for a long
 * step in each of them, the loop turns once for so much time that the last slice took, up to a limit.
 */
const msPerTurn = 10;
const maxTurnsBetween = 10;

/**
 * Admits steps of work of unknown length one at a time, by turns among the accounts that wait: however much one account
 * has waiting, another's next step comes after one step of each. The event loop yields after every few milliseconds.
 *
 * A step begins when `next` resolves, and lasts as long as it can run without waiting for anything but promises that are
 * already settled.
 */
export class Turns {
  /** The steps that wait, by account; the account whose turn it is comes first. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #isAdmitting = false;

  /** Resolves when the account may take a step. */
  next(accountId: string): Promise<void> {
    return new Promise((enter) => {
      const steps = this.#waiting.get(accountId);
      if (steps === undefined) this.#waiting.set(accountId, [enter]);
      else steps.push(enter);
      if (!this.#isAdmitting) this.#admit();
    });
  }

  /** Takes a step without waiting, if nothing else takes one or waits. @returns whether it may be taken */
  takeAtOnce(): boolean {
    if (this.#isAdmitting) return false;
    this.#admit(true);
    return true;
  }

  /** @param isTaken whether a step has been taken already */
  #admit(isTaken = false): void {
    this.#isAdmitting = true;
    const startedMs = performance.now();
    const afterStep = (): void => queueMicrotask(() => process.nextTick(next)); // a tick queued by a microtask runs after all microtasks
    const next = (): void => {
      if (this.#waiting.size === 0) {
        this.#isAdmitting = false;
      } else if (performance.now() - startedMs >= sliceMs) {
        this.#yield(Math.min(maxTurnsBetween, Math.ceil((performance.now() - startedMs) / msPerTurn)));
      } else {
        this.#take()?.();
        afterStep();
      }
    };
    if (isTaken) afterStep();
    else next();
  }

  /** Goes on after so many turns of the event loop, which cost nothing while there is nothing else to do. */
  #yield(turnsLeft: number): void {
    setImmediate(() => {
      if (turnsLeft > 1) this.#yield(turnsLeft - 1);
      else this.#admit();
    });
  }

  #take(): (() => void) | undefined {
    const [first] = this.#waiting;
    if (first === undefined) return undefined;
    const [accountId, steps] = first;
    const step = steps.shift();
    this.#waiting.delete(accountId);
    if (steps.length > 0) this.#waiting.set(accountId, steps);
    return step;
  }
}

/** The turns of this process, which everything shares that may take long: whatever an account does, it has one turn. */
export const turns = new Turns();
