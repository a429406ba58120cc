/** Which servers are there by now, for clients that outlive them. */
export class Whereabouts {
  readonly #urls: string[] = [];
  #waiting: ((url: string) => void)[] = [];
  #turn = 0;

  /** A server that is there: one after the other where there are several. Waits for one where there is none. */
  async url(): Promise<string> {
    const url = this.#urls[this.#turn++ % this.#urls.length];
    return url ?? (await new Promise((resolve) => this.#waiting.push(resolve)));
  }

  isUp(url: string): boolean {
    return this.#urls.includes(url);
  }

  up(url: string): void {
    this.#urls.push(url);
    for (const resolve of this.#waiting.splice(0)) resolve(url);
  }

  /** To be told before a server is killed: from now on it owes nobody an answer. */
  down(url: string): void {
    this.#urls.splice(this.#urls.indexOf(url), 1);
  }
}

/** Whether a request went without an answer because its connection did not hold, and not for what was answered. */
export function isCutOff(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return /^(ECONN|EPIPE$|UND_ERR_)/.test(code);
}
