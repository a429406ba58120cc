import { type Client, ServiceError } from '../client/index.ts';
import { eventFields } from './documents.ts';
import type { LoggedEvent } from './records.ts';

/** How long to wait after an error that the client does not wait for itself. */
const pauseMs = 2_000;

export type Connection = 'connecting' | 'live';

/**
 * The account's events as they happen, for all views: one subscription, across restarts and renewed tokens, without a gap
 * or a repetition.
 */
export class Live {
  readonly #client: Client;
  readonly #listeners = new Set<(event: LoggedEvent) => void>();
  readonly #reloads = new Set<() => void>();
  readonly #end = new AbortController();
  readonly #onChange: () => void;
  readonly #known = Promise.withResolvers<void>();
  connection: Connection = 'connecting';

  /** @param onChange called when `connection` changes */
  constructor(client: Client, onChange: () => void) {
    this.#client = client;
    this.#onChange = onChange;
  }

  /** Resolves when no event can be missed any more: what is read from then on is followed by what is told. */
  get ready(): Promise<void> {
    return this.#known.promise;
  }

  /** Begins to follow. A view reads what it shows when it opens, and folds into it what it is told from then on. */
  async start(): Promise<void> {
    const { signal } = this.#end;
    for (let after: string | undefined; !signal.aborted; ) {
      try {
        after ??= (await this.#client.graphql<{ eventCursor: string }>('{ eventCursor }', {}, { signal })).eventCursor;
        this.#known.resolve();
        this.#become('live');
        const events = this.#client.follow<LoggedEvent>({ over: 'socket', after, select: eventFields, signal });
        for await (const event of events) {
          after = event.cursor;
          this.#become('live');
          for (const tell of this.#listeners) tell(event);
        }
      } catch (error) {
        if (signal.aborted) return;
        this.#become('connecting');
        if (error instanceof ServiceError && error.code === 'CURSOR_EXPIRED') {
          after = undefined; // the log no longer reaches back to what is shown
          for (const reload of this.#reloads) reload();
        }
        await new Promise((go) => setTimeout(go, pauseMs));
      }
    }
  }

  stop(): void {
    this.#end.abort();
  }

  /**
   * @param tell called with each event
   * @param reload called when events are missing, so that what is shown has to be read anew
   * @returns a function that ends it
   */
  listen(tell: (event: LoggedEvent) => void, reload: () => void): () => void {
    this.#listeners.add(tell);
    this.#reloads.add(reload);
    return () => {
      this.#listeners.delete(tell);
      this.#reloads.delete(reload);
    };
  }

  #become(connection: Connection): void {
    if (this.connection === connection) return;
    this.connection = connection;
    this.#onChange();
  }
}
