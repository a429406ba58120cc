import { quarterOf } from '../../domain/happenings.ts';
import { type BulkRows, eventRow, Rows } from '../../storage/sqlite/bulk-rows.ts';
import { type DatedEvent, Draft, type DraftOptions } from './draft.ts';
import { type LifeOptions, lifeOf, type Story } from './life.ts';
import { Tally } from './tally.ts';

export interface HistoryOptions extends DraftOptions, LifeOptions {
  /** How many stories are told at a time. */
  readonly atOnce?: number;
}

/** The most events that wait, some 50 MB. Only where far more goes on than in any shop, the log leaves the order of time. */
const maxWaiting = 50_000;

/**
 * The history of an account, part by part. A conversation comes with all that is ever going to happen in it, so nobody
 * can have meddled. Its events and what it counts as come later, when no story is left that could have earlier ones: so
 * the log is in the order of time, and each quarter hour is counted once. If the program is killed, both end a little
 * earlier than the conversations.
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

  /** Lets no story begin any more. What is left belongs to those that have. */
  end(): void {
    this.#ended = true;
  }

  /** @returns undefined when that was all */
  next(): BulkRows | undefined {
    const draft = new Draft(this.#options, this.#tally);
    let dueMs = Number.NEGATIVE_INFINITY;
    for (let stories = 0; stories < this.#atOnce && !this.#ended; stories++) {
      const { value: story, done } = this.#stories.next();
      if (done === true) {
        this.#ended = true;
        break;
      }
      draft.tell(story.steps);
      dueMs = story.startMs;
    }
    if (this.#ended) dueMs = Number.POSITIVE_INFINITY;
    this.#waiting.push(...draft.events);
    const due = { events: this.#eventsBefore(dueMs), happenings: this.#tally.take(quarterOf(dueMs)) };
    return draft.isEmpty && due.events.count + due.happenings.size === 0 ? undefined : draft.rows(due);
  }

  /** Not too many at once: in the end only these are left. */
  #eventsBefore(dueMs: number): Rows {
    // What happens at the same moment stays in the order of its telling.
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
