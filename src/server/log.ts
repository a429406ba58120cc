import pino, { type DestinationStream, type Logger } from 'pino';
import { timestamp } from '../domain/time.ts';
import { LogOutput } from './log-output.ts';

/**
 * The log: JSON lines on standard output. Every logged field is named explicitly, and an error is reduced to its name,
 * message, code, stack and cause, so that no key and no message content can leak into the log with a request.
 */
export function createLog(level: string, destination?: DestinationStream): Logger {
  const options = {
    level,
    base: null,
    timestamp: () => `,"time":"${timestamp(Date.now())}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: describeError },
  };
  return pino(options, destination ?? new LogOutput(process.stdout.fd, lossNotice));
}

function lossNotice(count: number): string {
  return `${JSON.stringify({ level: 'error', time: timestamp(Date.now()), count, msg: 'log lines were lost' })}\n`;
}

function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) };
  return {
    type: error.name,
    message: error.message,
    code: 'code' in error ? error.code : undefined,
    stack: error.stack,
    cause: error.cause === undefined ? undefined : describeError(error.cause),
  };
}
