import { type Client, ServiceError } from '../client/index.ts';
import { wait } from '../client/waiting.ts';
import { eventFields } from './documents.ts';
import type { LoggedEvent } from './records.ts';
import { watched } from './sockets.ts';

const firstPauseMs = 250;
const longestPauseMs = 4_000;
/** The service may ask for the rest of an hour, when the budget is spent: but somebody waits, and it may be raised. */
const longestAskedMs = 30_000;

/** How long to wait before another try: each next time is about twice as long, but never long, since somebody waits. */
export function pauseMs(failures: number): number {
  return Math.min(longestPauseMs, firstPauseMs * 2 ** failures) * (0.5 + Math.random() / 2);
}

/** With which code the service closes a socket whose token has expired: the client comes back with a new one. */
const renewed = 4403;
/** With which code a socket is closed that nothing uses any more. */
const unused = 1000;

/** `off`: the key does not allow to follow the events. */
export type Connection = 'connecting' | 'live' | 'off';

/** What following needs of a session. */
interface Follower {
  readonly client: Client;
  readonly agent: { readonly id: string };
  readonly scopes: readonly string[];
}

/**
 * The account's events as they happen, for all views: one subscription, across restarts and renewed tokens, without a gap
 * or a repetition.
 */
export class Live {
  readonly #follower: Follower;
  readonly #listeners = new Set<(event: LoggedEvent) => void>();
  readonly #reloads = new Set<() => void>();
  readonly #end = new AbortController();
  readonly #onChange: () => void;
  #known = undecided();
  #round = new AbortController();
  #failures = 0;
  connection: Connection = 'connecting';

  /** @param onChange called when `connection` changes */
  constructor(follower: Follower, onChange: () => void) {
    this.#follower = follower;
    this.#onChange = onChange;
  }

  /**
   * Resolves when no event can be missed any more: what is read from then on is followed by what is told. Rejects with the
   * reason why that cannot be said, until there is another try.
   */
  get ready(): Promise<void> {
    return this.#known.promise;
  }

  /** Begins to follow. A view reads what it shows when it opens, and folds into it what it is told from then on. */
  async start(): Promise<void> {
    const { signal: ended } = this.#end;
    const { client, agent, scopes } = this.#follower;
    const select = eventFields(agent.id, scopes);
    const webSocketImpl = watched({
      answered: () => {
        this.#failures = 0;
        this.#become('live');
      },
      closed: (code) => this.#lost(code),
    });
    let isGap = false;
    let leastMs = 0;
    for (let after: string | undefined; !ended.aborted; ) {
      this.#round = new AbortController();
      const signal = AbortSignal.any([ended, this.#round.signal]);
      leastMs = 0;
      try {
        after ??= (await client.graphql<{ eventCursor: string }>('{ eventCursor }', {}, { signal })).eventCursor;
        this.#known.resolve();
        if (isGap) for (const reload of this.#reloads) reload();
        isGap = false;
        for await (const event of client.follow<LoggedEvent>({
          over: 'socket',
          after,
          select,
          signal,
          webSocketImpl,
        })) {
          after = event.cursor;
          // On its own: a view's fault is no reason to connect again.
          for (const tell of this.#listeners) queueMicrotask(() => tell(event));
        }
      } catch (error) {
        const { code, retryAfterSeconds = 0 } = error instanceof ServiceError ? error : {};
        leastMs = retryAfterSeconds * 1_000;
        if (code === 'FORBIDDEN') {
          this.#become('off');
          this.#known.resolve();
          return;
        }
        this.#known.reject(error);
        if (!signal.aborted) this.#become('connecting');
        if (code === 'CURSOR_EXPIRED') {
          after = undefined; // the log no longer reaches back to what is shown
          isGap = true;
        }
      }
      if (!ended.aborted) await this.#pause(leastMs);
      if (after === undefined && !isGap) this.#known = undecided();
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

  /**
   * A socket is closed. The client itself would wait for up to half a minute before it tries again, which is good where
   * many do: here somebody is looking at the page.
   */
  #lost(code: number): void {
    if (code === renewed || this.#end.signal.aborted) return;
    this.#become('connecting');
    if (code === unused) return; // the client waits as the service has asked it to
    const round = this.#round;
    setTimeout(() => round.abort()); // once the client knows, too
  }

  /** @param leastMs what the service asks for */
  async #pause(leastMs: number): Promise<void> {
    const ms = Math.max(Math.min(leastMs, longestAskedMs), pauseMs(this.#failures++));
    await wait(ms, this.#end.signal).catch(() => {}); // aborted, the loop ends
  }

  #become(connection: Connection): void {
    if (this.connection === connection || this.#end.signal.aborted) return;
    this.connection = connection;
    this.#onChange();
  }
}

function undecided(): PromiseWithResolvers<void> {
  const resolvers = Promise.withResolvers<void>();
  resolvers.promise.catch(() => {}); // nobody may be waiting
  return resolvers;
}
