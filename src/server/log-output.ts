import { writeSync } from 'node:fs';

/** The most that is buffered while the disk is full or nobody reads the pipe, in UTF-16 code units. */
const maxBuffered = 1024 * 1024;
const retryMs = 100;
/** How long the program, when it exits, keeps trying to write what is buffered. */
const exitPatienceMs = 1_000;

/**
 * Writes lines to a file descriptor, all lines of one turn of the event loop in one call. It never throws: a service
 * must not fail because its log cannot be written. Lines that cannot be written are buffered and retried; once the
 * buffer is full, further lines are dropped and counted.
 */
export class LogOutput {
  readonly #fd: number;
  readonly #lossNotice: (lost: number) => string;
  /** The lines of this turn of the event loop. */
  #turn: string[] = [];
  #buffered: string[] = [];
  #bufferedLength = 0;
  /** The unwritten part of a line that was written partially. */
  #rest: Buffer | undefined;
  #lost = 0;
  #isClosed = false;
  #retry: NodeJS.Timeout | undefined;

  /** @param lossNotice the line that reports how many lines were dropped */
  constructor(fd: number, lossNotice: (lost: number) => string) {
    this.#fd = fd;
    this.#lossNotice = lossNotice;
    process.once('exit', () => this.#flush());
  }

  write(line: string): void {
    if (this.#isClosed) return;
    if (this.#retry !== undefined) {
      this.#buffer(line);
      return;
    }
    if (this.#turn.length === 0) setImmediate(this.#writeTurn);
    this.#turn.push(line);
  }

  readonly #writeTurn = (): void => {
    const lines = this.#turn;
    this.#turn = [];
    if (lines.length > 0 && !this.#isClosed && !this.#tryToWrite(lines.join(''))) this.#retryLater();
  };

  #buffer(line: string): void {
    if (this.#lost > 0 || this.#bufferedLength + line.length > maxBuffered) {
      this.#lost++; // once one is lost, all later ones are too, so that the gap is in one place
      return;
    }
    this.#buffered.push(line);
    this.#bufferedLength += line.length;
  }

  #retryLater(): void {
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      if (!this.#isClosed && !this.#writeBuffered()) this.#retryLater();
    }, retryMs).unref();
  }

  /** @returns whether the buffer is empty */
  #writeBuffered(): boolean {
    if (this.#rest !== undefined && !this.#tryToWrite(this.#rest)) return false;
    const lines = this.#buffered.splice(0);
    if (this.#lost > 0) lines.push(this.#lossNotice(this.#lost));
    this.#lost = 0;
    this.#bufferedLength = 0;
    for (const [index, line] of lines.entries()) {
      if (this.#tryToWrite(line)) continue;
      for (const later of lines.slice(index + 1)) this.#buffer(later);
      return false;
    }
    return true;
  }

  /** @returns whether all of it was written; the rest is kept in #rest */
  #tryToWrite(text: string | Buffer): boolean {
    this.#rest = undefined;
    let written = 0;
    try {
      written = typeof text === 'string' ? writeSync(this.#fd, text) : writeSync(this.#fd, text);
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EPIPE') {
        this.#isClosed = true; // the reader of the pipe has gone
        return true;
      }
    }
    if (written === Buffer.byteLength(text)) return true;
    this.#rest = Buffer.from(text).subarray(written);
    return false;
  }

  #flush(): void {
    this.#writeTurn();
    const deadline = performance.now() + exitPatienceMs;
    while (this.#retry !== undefined && !this.#writeBuffered() && performance.now() < deadline) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs);
    }
  }
}
