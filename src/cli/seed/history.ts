import { quarterOf } from '../../domain/happenings.ts';
import { type BulkRows, eventRow, Rows } from '../../storage/sqlite/bulk-rows.ts';
import { type DatedEvent, Draft, type DraftOptions } from './draft.ts';
import { type LifeOptions, lifeOf, type Story } from './life.ts';
import { Tally } from './tally.ts';

export interface HistoryOptions extends DraftOptions, LifeOptions {
  /** How many stories go into one part. */
  readonly atOnce?: number;
}

/**
 * The most events that are held back, about 50 MB. Only a shop far busier than any real one exceeds it; its log is then
 * not quite in the order of time.
 */
const maxWaiting = 50_000;

/**
 * The history of an account, part by part. A conversation is written in its final state, so nobody can change it halfway
 * through. Its events and counts are written later, once no remaining story can have earlier ones: so the log is in the
 * order of time, and each quarter hour is counted once. If the program is killed, both end a little before the
 * conversations do.
 */
export class History {
  readonly #options: DraftOptions;
  readonly #atOnce: number;
  readonly #stories: Iterator<Story, void>;
  readonly #tally = new Tally();
  #waiting: DatedEvent[] = [];
  #ended = false;

  constructor({ atOnce = 600, ...options }: HistoryOptions) {
    this.#options = options;
    this.#atOnce = atOnce;
    this.#stories = lifeOf(options);
  }

  /** Starts no further stories. Only the outstanding events and counts of earlier ones follow. */
  end(): void {
    this.#ended = true;
  }

  /** @returns undefined at the end of the history */
  next(): BulkRows | undefined {
    const draft = new Draft(this.#options, this.#tally);
    let dueMs = Number.NEGATIVE_INFINITY;
    for (let stories = 0; stories < this.#atOnce && !this.#ended; stories++) {
      const { value: story, done } = this.#stories.next();
      if (done === true) {
        this.#ended = true;
        break;
      }
      draft.addStory(story.steps);
      dueMs = story.startMs;
    }
    if (this.#ended) dueMs = Number.POSITIVE_INFINITY;
    this.#waiting.push(...draft.events);
    const due = { events: this.#eventsBefore(dueMs), happenings: this.#tally.take(quarterOf(dueMs)) };
    return draft.isEmpty && due.events.count + due.happenings.size === 0 ? undefined : draft.rows(due);
  }

  /** Takes a bounded number, since in the end only events are left. */
  #eventsBefore(dueMs: number): Rows {
    // The sort is stable: events of the same millisecond keep the order in which they were added.
    this.#waiting.sort((one, other) => one.atMs - other.atMs);
    const later = this.#waiting.findIndex(({ atMs }) => atMs >= dueMs);
    const ready = Math.max(later === -1 ? this.#waiting.length : later, this.#waiting.length - maxWaiting);
    const rows = new Rows();
    for (const { event } of this.#waiting.splice(0, Math.min(ready, 10 * this.#atOnce))) {
      rows.add(eventRow(this.#options.accountId, event, rows.count));
    }
    return rows;
  }
}
