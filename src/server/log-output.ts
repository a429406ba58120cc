import { writeSync } from 'node:fs';

/** What waits for a disk that is full, or a pipe that nobody reads, is kept up to here, in UTF-16 code units. */
const maxWaiting = 1024 * 1024;
const retryMs = 100;
/** For how long what waits is tried again when the program ends. */
const lastTriesMs = 1_000;

/**
 * Writes lines to a file descriptor, those of a turn of the loop together, and never throws: a service must not end
 * because its log cannot be written. What cannot be written is kept, and what becomes too much is left out and counted,
 * until it can.
 */
export class LogOutput {
  readonly #fd: number;
  readonly #lineAbout: (lost: number) => string;
  /** The lines of this turn. */
  #now: string[] = [];
  #waiting: string[] = [];
  #waitingLength = 0;
  /** What of a line was written only in part. */
  #rest: Buffer | undefined;
  #lost = 0;
  #isGone = false;
  #retry: NodeJS.Timeout | undefined;

  /** @param lineAbout makes the line that tells of lines that were left out */
  constructor(fd: number, lineAbout: (lost: number) => string) {
    this.#fd = fd;
    this.#lineAbout = lineAbout;
    process.once('exit', () => this.#end());
  }

  write(line: string): void {
    if (this.#isGone) return;
    if (this.#retry !== undefined) {
      this.#wait(line);
      return;
    }
    if (this.#now.length === 0) setImmediate(this.#writeTurn);
    this.#now.push(line);
  }

  readonly #writeTurn = (): void => {
    const lines = this.#now;
    this.#now = [];
    if (lines.length > 0 && !this.#isGone && !this.#tryToWrite(lines.join(''))) this.#retryLater();
  };

  #wait(line: string): void {
    if (this.#lost > 0 || this.#waitingLength + line.length > maxWaiting) {
      this.#lost++; // from here on all are, so that the gap is in one place
      return;
    }
    this.#waiting.push(line);
    this.#waitingLength += line.length;
  }

  #retryLater(): void {
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      if (!this.#isGone && !this.#writeWaiting()) this.#retryLater();
    }, retryMs).unref();
  }

  /** @returns whether nothing waits any more */
  #writeWaiting(): boolean {
    if (this.#rest !== undefined && !this.#tryToWrite(this.#rest)) return false;
    const waiting = this.#waiting.splice(0);
    if (this.#lost > 0) waiting.push(this.#lineAbout(this.#lost));
    this.#lost = 0;
    this.#waitingLength = 0;
    for (const [index, line] of waiting.entries()) {
      if (this.#tryToWrite(line)) continue;
      for (const later of waiting.slice(index + 1)) this.#wait(later);
      return false;
    }
    return true;
  }

  /** @returns whether all of it was written; what was not is kept */
  #tryToWrite(text: string | Buffer): boolean {
    this.#rest = undefined;
    let written = 0;
    try {
      written = typeof text === 'string' ? writeSync(this.#fd, text) : writeSync(this.#fd, text);
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EPIPE') {
        this.#isGone = true; // whoever has read it has ended
        return true;
      }
    }
    if (written === Buffer.byteLength(text)) return true;
    this.#rest = Buffer.from(text).subarray(written);
    return false;
  }

  #end(): void {
    this.#writeTurn();
    const deadline = performance.now() + lastTriesMs;
    while (this.#retry !== undefined && !this.#writeWaiting() && performance.now() < deadline) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs);
    }
  }
}
