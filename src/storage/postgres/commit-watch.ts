import { randomUUID } from 'node:crypto';
import type { Touched } from '../../domain/storage-port.ts';
import { Touches } from '../touches.ts';
import type { Client, Queries } from './connections.ts';

type Listener = (touched?: Touched) => void;

const channel = 'conversation_service';
/** For how long commits are collected before the other nodes are notified of them together. */
const collectMs = 10;
/** PostgreSQL takes less than 8,000 bytes. Who is told of more has to look for everything. */
const maxPayloadBytes = 7_900;
/**
 * How often to look for commits that no notification told of: because the node that made them died, for example. They are to
 * be seen within half a second, and reading them takes time, too.
 */
const pollMs = 400;

/** A notification as it is sent. */
interface Notice {
  readonly node: string;
  /** Undefined if it concerns everybody. */
  readonly accountIds?: readonly string[];
  readonly webhooks?: readonly (readonly [webhookId: string, accountId: string])[];
}

/**
 * Tells listeners of commits: of this node's at once, of others' by NOTIFY. That is a statement of its own, some
 * milliseconds later and for many commits together: within their transactions it would take a lock of the whole server,
 * and they would commit one after the other.
 *
 * Every 400 ms, while somebody listens, it is read which transactions are to be seen. Where that has changed, every listener
 * looks for what is its own: so nothing is missed for longer. Only transactions that write change it, and only when what they
 * wrote is to be seen, which may be long after it is in the write-ahead log. A counter of our own would be a row that every
 * transaction waits for, and those that PostgreSQL keeps of commits count every read.
 */
export class CommitWatch {
  readonly #node = randomUUID();
  readonly #queries: Queries;
  readonly #connectDirectly: () => Client;
  readonly #listeners = new Set<Listener>();
  /** What the other nodes are not notified of yet. */
  #unsent = new Touches();
  #sendTimer: NodeJS.Timeout | undefined;
  #pollTimer: NodeJS.Timeout | undefined;
  #listening: Client | undefined;
  /** Which transactions the last poll saw. */
  #seen: unknown;
  #isPolling = false;
  #isClosed = false;

  /**
   * @param queries for what is asked and sent
   * @param connectDirectly makes another, for a connection that stays: to the database itself, and not to a proxy
   */
  constructor(queries: Queries, connectDirectly: () => Client) {
    this.#queries = queries;
    this.#connectDirectly = connectDirectly;
  }

  watch(listener: Listener): () => void {
    this.#listeners.add(listener);
    if (!this.#isClosed) this.#start();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#stopPolling();
    };
  }

  /** A transaction was committed. */
  readonly committed = (touches: Touches): void => {
    if (touches.isEmpty) return;
    this.#unsent.add(touches.told);
    this.#sendTimer ??= setTimeout(() => void this.#send(), collectMs).unref();
    this.#notify(touches.told);
  };

  /** Sends what is not sent yet, and ends. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopPolling();
    if (this.#sendTimer !== undefined) await this.#send();
    await this.#listening?.finish(0);
  }

  #start(): void {
    this.#pollTimer ??= setInterval(() => void this.#poll(), pollMs).unref();
    if (this.#listening !== undefined) return;
    this.#listening = this.#connectDirectly();
    // Each time that it begins to listen, also after the connection was lost, there may have been others' commits before.
    const listening = this.#listening.listen(
      channel,
      (payload) => this.#receive(payload),
      () => this.#notify(undefined),
    );
    listening.catch(() => {}); // it tries again, and meanwhile the log is polled
  }

  #stopPolling(): void {
    clearInterval(this.#pollTimer);
    this.#pollTimer = undefined;
  }

  /** Never rejects: what cannot be sent, the others find by polling. */
  async #send(): Promise<void> {
    clearTimeout(this.#sendTimer);
    this.#sendTimer = undefined;
    const { told } = this.#unsent;
    this.#unsent = new Touches();
    try {
      await this.#queries.query('SELECT pg_notify($1, $2)', [channel, this.#payloadOf(told)], true);
    } catch {}
  }

  #payloadOf(touched: Touched | undefined): string {
    const all: Notice = { node: this.#node };
    if (touched === undefined) return JSON.stringify(all);
    const notice: Notice = { ...all, accountIds: [...touched.accountIds], webhooks: [...touched.webhooks] };
    const payload = JSON.stringify(notice);
    return payload.length <= maxPayloadBytes ? payload : JSON.stringify(all);
  }

  #receive(payload: string): void {
    const { node, accountIds, webhooks } = JSON.parse(payload) as Notice;
    if (node === this.#node) return;
    this.#notify(accountIds && { accountIds: new Set(accountIds), webhooks: new Map(webhooks) });
  }

  /** Never rejects: the next poll will see what this one could not. */
  async #poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      const [row] = await this.#queries.query('SELECT pg_current_snapshot()::text AS seen', [], true);
      const before = this.#seen;
      this.#seen = row?.['seen'];
      // The first poll says so, too: nobody knows of what was committed before it.
      if (this.#seen !== before) this.#notify(undefined);
    } catch {
      // The database is away. What it did meanwhile shows when it is back.
    } finally {
      this.#isPolling = false;
    }
  }

  #notify(touched: Touched | undefined): void {
    for (const listener of this.#listeners) listener(touched);
  }
}
