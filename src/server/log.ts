import pino, { type DestinationStream, type Logger } from 'pino';
import type { Clock } from '../domain/ports.ts';
import { timestamp } from '../domain/time.ts';
import { logOutput } from './log-output.ts';

const folder = new URL('..', import.meta.url).href;

/** The most that a line may have. What is longer is mostly a text that a client has chosen. */
const maxLineBytes = 1_024;

interface LogOptions {
  readonly level: string;
  readonly clock: Pick<Clock, 'now'>;
  /** Where lines are written instead of to standard output. */
  readonly destination?: DestinationStream;
}

/**
 * The log: JSON lines on standard output, of at most 1 KiB each. Every logged field is named explicitly, and an error is reduced to its name,
 * message, code, stack and cause, so that no key and no message content can leak into the log with a request.
 */
export function createLog({ level, clock, destination }: LogOptions): Logger {
  const time = (): string => timestamp(clock.now());
  const options = {
    level,
    base: null,
    timestamp: () => `,"time":"${time()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: describeError },
  };
  const output =
    destination ??
    logOutput(
      process.stdout.fd,
      (count) => `${JSON.stringify({ level: 'error', time: time(), count, msg: 'log lines were lost' })}\n`,
    );
  return pino(options, { write: (line) => output.write(withinBound(line)) });
}

/** Of a list in a line that is too long, so many are kept. */
const mostListed = 8;
/** Fields that are never cut. */
const whole: ReadonlySet<string> = new Set(['level', 'time', 'msg']);

/** Cuts long lists and the longest texts in a line, as far as it takes, and says how long they were. */
function withinBound(line: string): string {
  if (Buffer.byteLength(line) <= maxLineBytes) return line;
  const fields: unknown = JSON.parse(line);
  let bounded = line;
  for (let length = maxLineBytes / 2; Buffer.byteLength(bounded) > maxLineBytes && length >= 1; length /= 2) {
    const cut = (key: string, value: unknown) => (whole.has(key) ? value : shortened(value, length));
    bounded = `${JSON.stringify(fields, cut)}\n`;
  }
  return bounded;
}

/** @param length of texts */
function shortened(value: unknown, length: number): unknown {
  if (Array.isArray(value) && value.length > mostListed) {
    return [...value.slice(0, mostListed), `… (${value.length} in all)`];
  }
  if (typeof value !== 'string') return value;
  const cut = `${value.slice(0, length)}… (${value.length} characters)`;
  return cut.length < value.length ? cut : value;
}

function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) };
  return {
    type: error.name,
    message: error.message,
    code: 'code' in error ? error.code : undefined,
    stack: placesIn(error),
    cause: error.cause === undefined ? undefined : describeError(error.cause),
  };
}

/** Where an error was made, the innermost call first, without the message and without where the program lies. */
function placesIn({ stack = '' }: Error): string {
  const places = stack.split('\n').filter((line) => line.startsWith('    at '));
  return places.map((line) => line.slice('    at '.length).replace(folder, '')).join('\n');
}
