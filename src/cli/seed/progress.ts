import { type ProgressOutput, TerminalLine } from '../terminal-line.ts';
import type { Written } from './written.ts';

/** The shortest time between two redraws on a terminal. */
const redrawMs = 100;
/** The time between two lines elsewhere. */
const lineMs = 5_000;
const barWidth = 24;
const number = new Intl.NumberFormat('en');

/** Shows progress: on a terminal as one line with a bar, elsewhere as a plain line every few seconds. */
export class Progress {
  readonly #output: ProgressOutput;
  readonly #line: TerminalLine;
  readonly #conversations: number;
  readonly #nowMs: () => number;
  readonly #startedMs: number;
  #shownMs: number;

  /**
   * @param conversations how many there will be in total
   * @param nowMs a monotonic clock
   */
  constructor(output: ProgressOutput, conversations: number, nowMs: () => number = () => performance.now()) {
    this.#output = output;
    this.#line = new TerminalLine(output);
    this.#conversations = conversations;
    this.#nowMs = nowMs;
    this.#startedMs = nowMs();
    this.#shownMs = this.#startedMs;
  }

  update(written: Written): void {
    const nowMs = this.#nowMs();
    const { isTerminal } = this.#line;
    if (nowMs - this.#shownMs < (isTerminal ? redrawMs : lineMs)) return;
    this.#shownMs = nowMs;
    const done = Math.min(1, written.conversations / this.#conversations);
    const seconds = (nowMs - this.#startedMs) / 1_000;
    const facts = [
      `${Math.floor(done * 100)} %`,
      `${number.format(written.conversations)} of ${number.format(this.#conversations)} conversations`,
      `${number.format(Math.round(written.messages / seconds))} messages/s`,
      ...(done > 0 ? [`${timeLeft((seconds * (1 - done)) / done)} left`] : []),
    ].join(', ');
    const full = Math.round(done * barWidth);
    if (isTerminal) this.#line.draw(`[${'#'.repeat(full)}${'-'.repeat(barWidth - full)}] ${facts}`);
    else this.#output.write(`${facts}\n`);
  }

  /** Removes the line. */
  end(): void {
    this.#line.end();
  }
}

function timeLeft(seconds: number): string {
  const rounded = Math.ceil(seconds);
  if (rounded < 60) return `${rounded} s`;
  const minutes = Math.floor(rounded / 60);
  return minutes < 60 ? `${minutes} min ${rounded % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
