import { search } from '../documents.ts';
import type { ExcerptPart, Row, SearchPage } from '../records.ts';
import { ask, type Context } from './context.ts';
import { type Filter, matches, variablesOf } from './filter.ts';
import { readUpTo, together } from './rows.ts';

/** So many results are shown at most. */
const mostResults = 300;

export interface Result {
  readonly key: string;
  readonly row: Row;
  readonly excerpt: readonly ExcerptPart[];
}

/** What an agent has searched for. What is new is found by the next search; what is shown is kept up to date. */
export class Search {
  readonly #context: Context;
  #found: readonly Result[] = [];
  #filter: Filter;
  #asking: AbortController | undefined;
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
    this.#asking?.abort();
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
    this.#change(row.id, (known) => together(known, row));
  }

  remove(id: string): void {
    this.#found = this.#found.filter(({ row }) => row.id !== id);
  }

  read(id: string, sequence: number): void {
    this.#change(id, (row) => readUpTo(row, sequence));
  }

  #change(id: string, change: (row: Row) => Row): void {
    this.#found = this.#found.map((each) => (each.row.id === id ? { ...each, row: change(each.row) } : each));
  }

  async #read(after: string | null): Promise<void> {
    const asking = new AbortController();
    this.#asking = asking;
    this.error = undefined;
    const { changed, session } = this.#context;
    changed();
    const { agent, statuses, assigneeId, tags } = variablesOf(this.#filter, session.agent.id);
    const variables = { q: this.words, after, agent, statuses, assigneeId, tags };
    try {
      const answer = await ask<SearchPage>(this.#context, search, variables, { signal: asking.signal });
      if (asking.signal.aborted) return;
      const { nodes, pageInfo } = answer.search;
      const results = nodes.map(({ conversation: row, message, excerpt }) => ({
        key: message?.id ?? row.id,
        row,
        excerpt,
      }));
      const shown = after === null ? [] : this.#found;
      const keys = new Set(shown.map(({ key }) => key));
      this.#found = [...shown, ...results.filter(({ key }) => !keys.has(key))];
      this.#cursor = pageInfo.hasNextPage ? pageInfo.endCursor : null;
    } catch (error) {
      if (!asking.signal.aborted) this.error = error;
    } finally {
      if (this.#asking === asking) this.#asking = undefined;
      changed();
    }
  }
}
