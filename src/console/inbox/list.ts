import { inbox } from '../documents.ts';
import type { InboxPage, Row } from '../records.ts';
import { ask, type Context } from './context.ts';
import { type Filter, firstFilter, matches, variablesOf } from './filter.ts';
import { inOrder, type Place, readUpTo, together } from './rows.ts';

const pageSize = 50;
/** So many conversations are shown at most: who looks for others narrows the filter. */
const mostRows = 500;
/** So many are kept, for when those are gone. What events add beyond that has the list begin anew. */
const mostKept = 2 * mostRows;

/** The conversations that a filter shows, down to the end of the last page that was read, kept up to date by events. */
export class ConversationList {
  readonly #context: Context;
  #rows = new Map<string, Row>();
  /** What was told while an answer is awaited, which may be older: null for what was deleted. */
  #told: Map<string, Row | null> | undefined;
  #asking: AbortController | undefined;
  #cursor: string | null = null;
  /** The last place of the pages that were read, if there are more. */
  #end: Place | undefined;
  #sorted: readonly Row[] | undefined;
  filter = firstFilter;
  error: unknown;

  constructor(context: Context) {
    this.#context = context;
  }

  get rows(): readonly Row[] {
    this.#sorted ??= [...this.#rows.values()].sort(inOrder).slice(0, mostRows);
    return this.#sorted;
  }

  find(id: string): Row | undefined {
    return this.#rows.get(id);
  }

  get isLoading(): boolean {
    return this.#asking !== undefined;
  }

  get hasMore(): boolean {
    return this.#end !== undefined && this.#rows.size < mostRows;
  }

  /** Whether there are more than are ever shown. */
  get isFull(): boolean {
    return this.#rows.size > mostRows || (this.#end !== undefined && !this.hasMore);
  }

  /** Shows others. */
  async show(filter: Filter): Promise<void> {
    this.filter = filter;
    this.#rows.clear();
    this.#sorted = undefined;
    this.#end = undefined;
    await this.load();
  }

  /** Reads the first page anew. What is shown stays until then. */
  async load(): Promise<void> {
    await this.#read(null);
  }

  async loadMore(): Promise<void> {
    if (this.hasMore && !this.isLoading) await this.#read(this.#cursor);
  }

  /** What an event, or the answer to a change, tells of a conversation. */
  put(row: Row): void {
    this.#told?.set(row.id, together(this.#told.get(row.id) ?? undefined, row));
    this.#keep(row);
    if (this.#rows.size > mostKept && !this.isLoading && this.error === undefined) void this.load();
  }

  remove(id: string): void {
    this.#told?.set(id, null);
    if (this.#rows.delete(id)) this.#sorted = undefined;
  }

  /** The agent has read a conversation that is shown. */
  read(id: string, sequence: number): void {
    const told = this.#told?.get(id);
    if (told) this.#told?.set(id, readUpTo(told, sequence));
    const row = this.#rows.get(id);
    if (row !== undefined) this.put(readUpTo(row, sequence));
  }

  async #read(after: string | null): Promise<void> {
    this.#asking?.abort();
    const asking = new AbortController();
    this.#asking = asking;
    this.#told ??= new Map();
    this.error = undefined;
    const { changed, live, session } = this.#context;
    changed();
    try {
      await live.ready;
      const variables = { ...variablesOf(this.filter, session.agent.id), first: pageSize, after };
      const { conversations } = await ask<InboxPage>(this.#context, inbox, variables, { signal: asking.signal });
      if (!asking.signal.aborted) this.#take(conversations, after === null);
    } catch (error) {
      if (!asking.signal.aborted) this.error = error;
    } finally {
      if (this.#asking === asking) {
        this.#asking = undefined;
        this.#told = undefined;
      }
      changed();
    }
  }

  #take({ nodes, pageInfo }: InboxPage['conversations'], isFirst: boolean): void {
    if (isFirst) this.#rows.clear();
    this.#cursor = pageInfo.endCursor;
    this.#end = pageInfo.hasNextPage ? nodes.at(-1) : undefined;
    const told = this.#told;
    for (const node of nodes) if (told?.get(node.id) !== null) this.#keep(node);
    for (const row of told?.values() ?? []) if (row !== null) this.#keep(row);
    this.#sorted = undefined;
  }

  #keep(given: Row): void {
    const row = together(this.#rows.get(given.id), given);
    this.#sorted = undefined;
    const isShown = matches(this.filter, row, this.#context.session.agent.id) && !this.#isBeyond(row);
    if (isShown) this.#rows.set(row.id, row);
    else this.#rows.delete(row.id);
  }

  /** Whether a conversation comes after those that were read: it is shown when they are. */
  #isBeyond(row: Row): boolean {
    return this.#end !== undefined && inOrder(row, this.#end) > 0;
  }
}
