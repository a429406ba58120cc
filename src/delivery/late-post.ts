import type { LookupFunction } from 'node:net';
import { lazily } from '../domain/lazily.ts';
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
  /** To be called when there is time for it, so that the first letter does not wait for it. */
  readonly load: () => Promise<Post>;
  #loaded: Post | undefined;
  #isGivenUp = false;

  constructor({ policy, connectMs, totalMs, lookup }: PostOptions) {
    this.load = lazily(async () => {
      const [{ guardedConnector }, { Post }] = await Promise.all([import('./connector.ts'), import('./post.ts')]);
      this.#loaded = new Post(guardedConnector(policy, connectMs, lookup), totalMs);
      if (this.#isGivenUp) this.#loaded.giveUp();
      return this.#loaded;
    });
  }

  /** See Post. */
  async send(letter: Letter, nowMs: number): Promise<Outcome> {
    let post: Post;
    try {
      post = this.#loaded ?? (await this.load());
    } catch {
      return { status: null, body: null, error: 'What sends could not be loaded.', isOurs: true };
    }
    return await post.send(letter, nowMs);
  }

  /** See Post. */
  giveUp(): void {
    this.#isGivenUp = true;
    this.#loaded?.giveUp();
  }

  async close(): Promise<void> {
    await this.#loaded?.close();
  }
}
