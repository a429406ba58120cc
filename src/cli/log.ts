import pino, { type Logger } from 'pino';

/**
 * The log: JSON lines on standard output. What is logged is named field by field, so that no key and
 * no content can slip in; `authorization` is struck out besides, wherever an error carries it.
 */
export function createLog(level: string): Logger {
  return pino({
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: ['*.authorization', '*.headers.authorization', 'err.config', 'err.issues'],
  });
}
