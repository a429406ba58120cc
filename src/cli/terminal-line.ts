/** Where progress is shown: standard error, or a stand-in for it in tests. */
export interface ProgressOutput {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** A status line that is redrawn in place. Draws nothing if the output is not a terminal. */
export class TerminalLine {
  readonly #output: ProgressOutput;
  #drawn = false;

  constructor(output: ProgressOutput) {
    this.#output = output;
  }

  /** @param share how much of the step is done, from 0 to 1, if known */
  show(step: string, share?: number): void {
    if (this.#output.isTTY !== true) return;
    const text = share === undefined ? `${step} …` : `${step} … ${Math.floor(share * 100)} %`;
    // The last column stays free: some terminals wrap the line there.
    this.#output.write(`\r${text.slice(0, (this.#output.columns ?? 80) - 1)}\u001b[K`);
    this.#drawn = true;
  }

  /** Removes the line. */
  end(): void {
    if (this.#drawn) this.#output.write('\r\u001b[K');
    this.#drawn = false;
  }
}
