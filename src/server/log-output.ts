import pino, { type DestinationStream } from 'pino';

/** The most that is buffered while the disk is full or nobody reads the pipe, in bytes. */
const maxBuffered = 1024 * 1024;
/** A pipe takes 4 KiB as a whole or not at all, so that the lines of several workers are not mixed in it. */
const maxAtOnce = 4_096;
const retryMs = 100;
/** How long the program, when it exits, keeps trying to write what is buffered. */
const exitPatienceMs = 1_000;

/**
 * Writes lines to a file descriptor, those of one turn of the event loop in few calls. It never throws: a service
 * must not fail because its log cannot be written. Lines that cannot be written are buffered and retried; once the
 * buffer is full, further lines are dropped and counted.
 *
 * The buffer is pino's. By itself that writes each line in a call of its own or in another thread, tries again only
 * when there is a next line, and when the process exits waits without end for a disk that is full.
 *
 * @param lossNotice the line that reports how many lines were dropped
 */
export function logOutput(fd: number, lossNotice: (lost: number) => string): DestinationStream {
  // Waiting for the reader of a pipe would block the event loop: that it is busy is a failure like others.
  const output = pino.destination({
    fd,
    sync: true,
    maxLength: maxBuffered,
    maxWrite: maxAtOnce,
    retryEAGAIN: () => false,
  });
  let turn: string[] = [];
  let lost = 0;
  let isClosed = false;
  let isFailing = false;
  let isWaiting = false;

  /** Writes lines after what is buffered, or buffers them. */
  const write = (lines: string): void => {
    if (isClosed) return;
    isFailing = false;
    output.write(lines);
    if (isFailing) waitAndTryAgain();
    else if (lost > 0) reportLoss();
  };
  const waitAndTryAgain = (): void => {
    if (isWaiting) return;
    isWaiting = true;
    const tryAgain = (): void => {
      isWaiting = false;
      write('');
    };
    setTimeout(tryAgain, retryMs).unref();
  };
  const reportLoss = (): void => {
    const notice = lossNotice(lost);
    lost = 0;
    write(notice);
  };
  const writeTogether = (lines: readonly string[]): void => {
    // Once one is lost, all later ones are too, so that the gap is in one place.
    if (lost > 0) lost += lines.length;
    else if (lines.length > 0) write(lines.join(''));
  };
  const writeTurn = (): void => {
    const lines = turn;
    turn = [];
    let together: string[] = [];
    let bytes = 0;
    for (const line of lines) {
      const length = Buffer.byteLength(line);
      if (bytes + length > maxAtOnce) {
        writeTogether(together);
        together = [];
        bytes = 0;
      }
      together.push(line);
      bytes += length;
    }
    writeTogether(together);
  };

  output.on('error', (error: NodeJS.ErrnoException) => {
    isFailing = true;
    isClosed ||= error.code === 'EPIPE'; // the reader of the pipe has gone
  });
  output.on('drop', (lines: string) => {
    isFailing = true;
    lost += lines.split('\n').length - 1;
  });
  process.once('exit', () => {
    writeTurn();
    const deadline = performance.now() + exitPatienceMs;
    while (isFailing && !isClosed && performance.now() < deadline) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs);
      write('');
    }
  });
  return {
    write(line) {
      if (turn.length === 0) setImmediate(writeTurn);
      turn.push(line);
    },
  };
}
