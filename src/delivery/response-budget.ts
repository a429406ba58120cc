const hourMs = 3_600_000;
/** How much of the responses to an account's attempts is kept in full within an hour, in UTF-16 code units. */
const fullLength = 8 * 1024 * 1024;
/** How much of each further one. */
const shortLength = 256;

/**
 * Bounds what the responses of receivers take on the disk: an account's own receivers may answer each of ten attempts
 * at each of twenty deliveries of an event with 16 KiB.
 */
export class ResponseBudget {
  #hour = 0;
  /** What was kept within this hour, by account. */
  readonly #kept = new Map<string, number>();

  /** @returns as much of a response as is to be kept */
  cut(accountId: string, body: string | null, nowMs: number): string | null {
    const hour = Math.floor(nowMs / hourMs);
    if (hour !== this.#hour) this.#kept.clear();
    this.#hour = hour;
    const before = this.#kept.get(accountId) ?? 0;
    if (body === null || body.length <= shortLength) return body;
    if (before + body.length > fullLength) return body.slice(0, shortLength).toWellFormed();
    this.#kept.set(accountId, before + body.length);
    return body;
  }
}
