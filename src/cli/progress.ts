import { TerminalLine } from './terminal-line.ts';

/** Says on the terminal how far something is. */
export class ProgressLine {
  readonly #line = new TerminalLine(process.stderr);

  /** @param share how much of it is done, from 0 to 1, where that is known */
  show(part: string, share?: number): void {
    this.#line.draw(share === undefined ? `${part} …` : `${part} … ${Math.floor(share * 100)} %`);
  }

  end(): void {
    this.#line.end();
  }
}
