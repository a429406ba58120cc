import type { Written } from './written.ts';

/** Where progress is shown: standard error, or what stands for it in a test. */
export interface ProgressOutput {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** On a terminal the line is drawn again so often at most. */
const redrawMs = 100;
/** Elsewhere there is a new line so often. */
const lineMs = 5_000;
const barWidth = 24;
const number = new Intl.NumberFormat('en');

/** Shows how far it is: on a terminal as one line with a bar, elsewhere as a plain line every few seconds. */
export class Progress {
  readonly #output: ProgressOutput;
  readonly #conversations: number;
  readonly #nowMs: () => number;
  readonly #startedMs: number;
  #shownMs: number;
  #drawn = false;

  /**
   * @param conversations how many there will be
   * @param nowMs a clock that is never set
   */
  constructor(output: ProgressOutput, conversations: number, nowMs: () => number = () => performance.now()) {
    this.#output = output;
    this.#conversations = conversations;
    this.#nowMs = nowMs;
    this.#startedMs = nowMs();
    this.#shownMs = this.#startedMs;
  }

  update(written: Written): void {
    const nowMs = this.#nowMs();
    const terminal = this.#output.isTTY === true;
    if (nowMs - this.#shownMs < (terminal ? redrawMs : lineMs)) return;
    this.#shownMs = nowMs;
    const done = Math.min(1, written.conversations / this.#conversations);
    const seconds = (nowMs - this.#startedMs) / 1_000;
    const facts = [
      `${Math.floor(done * 100)} %`,
      `${number.format(written.conversations)} of ${number.format(this.#conversations)} conversations`,
      `${number.format(Math.round(written.messages / seconds))} messages/s`,
      ...(done > 0 ? [`${timeLeft((seconds * (1 - done)) / done)} left`] : []),
    ].join(', ');
    if (!terminal) {
      this.#output.write(`${facts}\n`);
      return;
    }
    const full = Math.round(done * barWidth);
    const line = `[${'#'.repeat(full)}${'-'.repeat(barWidth - full)}] ${facts}`;
    // The last column stays free: some terminals break the line there.
    this.#output.write(`\r${line.slice(0, (this.#output.columns ?? 80) - 1)}\u001b[K`);
    this.#drawn = true;
  }

  /** Takes the line away again. */
  end(): void {
    if (this.#drawn) this.#output.write('\r\u001b[K');
    this.#drawn = false;
  }
}

function timeLeft(seconds: number): string {
  const rounded = Math.ceil(seconds);
  if (rounded < 60) return `${rounded} s`;
  const minutes = Math.floor(rounded / 60);
  return minutes < 60 ? `${minutes} min ${rounded % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
