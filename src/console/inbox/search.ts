import { search } from '../documents.ts';
import type { ExcerptPart, Row, SearchPage } from '../records.ts';
import { ask, type Context } from './context.ts';
import { type Filter, matches, variablesOf } from './filter.ts';
import { readUpTo, together } from './rows.ts';

/** So many results are shown at most. */
const mostResults = 300;

interface Result {
  readonly key: string;
  readonly row: Row;
  readonly excerpt: readonly ExcerptPart[];
}

/** What was told of a conversation: it as it is then; undefined if it is deleted. */
interface Told {
  readonly id: string;
  readonly change: (row: Row) => Row | undefined;
}

/** What an agent has searched for. What is new is found by the next search; what is shown is kept up to date. */
export class Search {
  readonly #context: Context;
  #found: readonly Result[] = [];
  #filter: Filter;
  /** With what was told while the answer is awaited, which may be older. */
  #asking: { readonly over: AbortController; readonly told: Told[] } | undefined;
  #cursor: string | null = null;
  words = '';
  error: unknown;

  constructor(context: Context, filter: Filter) {
    this.#context = context;
    this.#filter = filter;
  }

  /** Those that the filter shows, as they are now. */
  get results(): readonly Result[] {
    const { id } = this.#context.session.agent;
    return this.#found.filter(({ row }) => matches(this.#filter, row, id));
  }

  get isLoading(): boolean {
    return this.#asking !== undefined;
  }

  get hasMore(): boolean {
    return this.#cursor !== null && this.#found.length < mostResults;
  }

  /** Searches; without words, it ends. */
  async find(words: string, filter: Filter): Promise<void> {
    this.words = words.trim();
    this.#filter = filter;
    this.#asking?.over.abort();
    this.#asking = undefined;
    if (this.words === '') {
      this.#found = [];
      this.#cursor = null;
      this.error = undefined;
      this.#context.changed();
    } else await this.#read(null);
  }

  async loadMore(): Promise<void> {
    if (this.hasMore && !this.isLoading) await this.#read(this.#cursor);
  }

  put(row: Row): void {
    this.#tell({ id: row.id, change: (known) => together(known, row) });
  }

  remove(id: string): void {
    this.#tell({ id, change: () => undefined });
  }

  read(id: string, sequence: number): void {
    this.#tell({ id, change: (row) => readUpTo(row, sequence) });
  }

  #tell(told: Told): void {
    this.#asking?.told.push(told);
    this.#found = withTold(this.#found, told);
  }

  async #read(after: string | null): Promise<void> {
    const over = new AbortController();
    const told: Told[] = [];
    const asking = { over, told };
    this.#asking = asking;
    this.error = undefined;
    const { changed, session } = this.#context;
    changed();
    const { agent, statuses, assigneeId, tags } = variablesOf(this.#filter, session.agent.id);
    const variables = { q: this.words, after, agent, statuses, assigneeId, tags };
    try {
      const answer = await ask<SearchPage>(this.#context, search, variables, { signal: over.signal });
      if (over.signal.aborted) return;
      const { nodes, pageInfo } = answer.search;
      const results = nodes.map(({ conversation: row, message, excerpt }) => ({
        key: message?.id ?? row.id,
        row,
        excerpt,
      }));
      const shown = after === null ? [] : this.#found;
      const keys = new Set(shown.map(({ key }) => key));
      const found = [...shown, ...results.filter(({ key }) => !keys.has(key))];
      this.#found = told.reduce(withTold, found);
      this.#cursor = pageInfo.hasNextPage ? pageInfo.endCursor : null;
    } catch (error) {
      if (!over.signal.aborted) this.error = error;
    } finally {
      if (this.#asking === asking) this.#asking = undefined;
      changed();
    }
  }
}

function withTold(found: readonly Result[], { id, change }: Told): readonly Result[] {
  return found.flatMap((each) => {
    if (each.row.id !== id) return [each];
    const row = change(each.row);
    return row === undefined ? [] : [{ ...each, row }];
  });
}
