import type { Logger } from 'pino';
import { DomainError, internal, isTrouble } from '../domain/errors.ts';
import type { RequestContext } from './request-context.ts';

/** So many lines of each kind are written in a second; the others are counted. */
const maxLines = 100;
const secondMs = 1_000;

/**
 * Bounds the log lines that requests can cause without being charged, and those of failures, of which there is one for
 * each request while the storage fails. The first hundred of a second are written, and all others become one line at
 * its end, which says how many there were.
 */
export class RequestLog {
  readonly #log: Logger;
  #uncharged = 0;
  #failed = 0;
  /** Those that have no line of their own, by the status that they were answered with. */
  readonly #byStatus = new Map<number, number>();
  #second: NodeJS.Timeout | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  /**
   * Whether a request that was charged nothing may have a line of its own. If not, it is counted.
   * @param status what it was answered with
   */
  hasRoom(status: number): boolean {
    this.#begin();
    if (++this.#uncharged <= maxLines) return true;
    this.#byStatus.set(status, (this.#byStatus.get(status) ?? 0) + 1);
    return false;
  }

  /** What a request is answered with whose answer could not be made; what the operator should look into is logged. */
  noted(error: unknown, http: RequestContext): DomainError {
    const known = error instanceof DomainError ? error : internal(error);
    http.code = known.code;
    if (isTrouble(known)) this.failed(http, known.cause ?? known);
    return known;
  }

  /** Logs why a request failed, which the operator should look into. */
  failed({ requestId, traceId }: { requestId: string; traceId?: string | undefined }, error: unknown): void {
    this.#begin();
    if (++this.#failed <= maxLines) this.#log.error({ requestId, traceId, err: error }, 'request failed');
  }

  /** Ends the second early, so that nothing that was counted is lost when the program ends. */
  flush(): void {
    clearTimeout(this.#second);
    this.#second = undefined;
    const uncharged = this.#uncharged - maxLines;
    const failed = this.#failed - maxLines;
    this.#uncharged = 0;
    this.#failed = 0;
    if (uncharged > 0) {
      const statuses = Object.fromEntries(this.#byStatus);
      this.#byStatus.clear();
      this.#log.info({ count: uncharged, statuses }, 'more requests that were charged nothing');
    }
    if (failed > 0) this.#log.error({ count: failed }, 'more requests failed');
  }

  #begin(): void {
    this.#second ??= setTimeout(() => this.flush(), secondMs).unref();
  }
}
