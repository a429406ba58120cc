/** The servers that are running, for clients that go on while servers are killed and started. */
export class RunningServers {
  readonly #urls: string[] = [];
  /** Whether a part of one is being killed, so that it may break connections and still is there for others. */
  mayBreak = false;
  #waiting: ((url: string) => void)[] = [];
  #turn = 0;

  /** The address of a running server, of several by turns. Waits while there is none. */
  async url(): Promise<string> {
    const url = this.#urls[this.#turn++ % this.#urls.length];
    return url ?? (await new Promise((resolve) => this.#waiting.push(resolve)));
  }

  /** Whether it has no reason to break a connection. */
  isUp(url: string): boolean {
    return !this.mayBreak && this.#urls.includes(url);
  }

  up(url: string): void {
    this.#urls.push(url);
    for (const resolve of this.#waiting.splice(0)) resolve(url);
  }

  /** Called before a server is killed: from now on its clients need not be answered. */
  down(url: string): void {
    this.#urls.splice(this.#urls.indexOf(url), 1);
  }
}

/** Whether a request has failed because its connection was broken. */
export function isCutOff(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return /^(ECONN|EPIPE$|UND_ERR_)/.test(code);
}
