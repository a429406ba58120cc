/** Where progress is shown: standard error, or what stands for it in a test. */
export interface ProgressOutput {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** One line on a terminal, which is drawn anew as things go on. Where nobody watches nothing is drawn. */
export class TerminalLine {
  readonly #output: ProgressOutput;
  #drawn = false;

  constructor(output: ProgressOutput) {
    this.#output = output;
  }

  get isWatched(): boolean {
    return this.#output.isTTY === true;
  }

  draw(text: string): void {
    if (!this.isWatched) return;
    // The last column stays free: some terminals break the line there.
    this.#output.write(`\r${text.slice(0, (this.#output.columns ?? 80) - 1)}\u001b[K`);
    this.#drawn = true;
  }

  /** Takes the line away again. */
  end(): void {
    if (this.#drawn) this.#output.write('\r\u001b[K');
    this.#drawn = false;
  }
}
