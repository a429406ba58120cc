/** A line on the terminal that says how far something is. Where nobody watches it says nothing. */
export class ProgressLine {
  readonly #stream: NodeJS.WriteStream;
  #shown = '';

  constructor(stream: NodeJS.WriteStream = process.stderr) {
    this.#stream = stream;
  }

  /** @param share how much of it is done, from 0 to 1, where that is known */
  show(part: string, share?: number): void {
    if (!this.#stream.isTTY) return;
    const text = share === undefined ? `${part} …` : `${part} … ${Math.floor(share * 100)} %`;
    this.#stream.write(`\r${text.padEnd(this.#shown.length)}`);
    this.#shown = text;
  }

  /** Leaves the line empty. */
  end(): void {
    if (this.#shown !== '') this.#stream.write(`\r${' '.repeat(this.#shown.length)}\r`);
    this.#shown = '';
  }
}
