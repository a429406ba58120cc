import type { LookupFunction } from 'node:net';
import type { AddressPolicy } from './address-guard.ts';
import type { Letter, Outcome, Post } from './post.ts';

export interface PostOptions {
  readonly policy: AddressPolicy;
  /** How long a connection may take to be there, TLS included. */
  readonly connectMs: number;
  /** How long an attempt may take, connecting and the answer included. */
  readonly totalMs: number;
  /** Another way to find the addresses of a name than the connector's own. */
  readonly lookup?: LookupFunction | undefined;
}

/** Sends letters by what it loads for the first of them: undici would take a tenth of the time of each start. */
export class LatePost {
  readonly #options: PostOptions;
  #post: Promise<Post> | undefined;

  constructor(options: PostOptions) {
    this.#options = options;
  }

  /** To be called when there is time for it, so that the first letter does not wait for it. */
  load(): Promise<Post> {
    this.#post ??= this.#open();
    return this.#post;
  }

  /** See Post. */
  async send(letter: Letter, nowMs: number, signal: AbortSignal): Promise<Outcome> {
    return await (await this.load()).send(letter, nowMs, signal);
  }

  async close(): Promise<void> {
    await (await this.#post)?.close();
  }

  async #open(): Promise<Post> {
    const { policy, connectMs, totalMs, lookup } = this.#options;
    const [{ guardedConnector }, { Post }] = await Promise.all([import('./connector.ts'), import('./post.ts')]);
    return new Post(guardedConnector(policy, connectMs, lookup), totalMs);
  }
}
