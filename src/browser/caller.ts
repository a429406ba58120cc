import { Credential } from '../client/credential.ts';
import { newToken, signedInItem, tokensFrom } from '../console/session.ts';
import { kept } from './kept.ts';

// As whom a page calls. What is typed is in memory alone: it is gone with the page. Who has signed in to the console need
// not type anything, since its cookie gives out short-lived tokens.

/** `given` is an API key or a token that somebody has typed, `console` the session of the console. */
export type CallerKind = 'nobody' | 'given' | 'console';

export class Caller {
  #credential: Credential | undefined;
  readonly #listeners = new Set<() => void>();
  /** Counts what was chosen: the latest choice holds, whichever answer comes last. */
  #choices = 0;
  kind: CallerKind = 'nobody';

  /** Calls with an API key or a token from now on. */
  use(typed: string): void {
    this.#become('given', new Credential(typed));
  }

  /**
   * Calls with the console's session from now on, unless something else is chosen meanwhile.
   * @throws Error if nobody has signed in there, or no longer
   */
  async useConsole(): Promise<void> {
    const choice = ++this.#choices;
    const credential = new Credential(tokensFrom(await newToken()));
    await credential.authorization(); // from now on it knows when to renew
    if (choice === this.#choices) this.#become('console', credential);
  }

  /** Whether this browser remembers that somebody has signed in to the console. */
  get mayBeSignedIn(): boolean {
    return kept('localStorage', signedInItem) !== null;
  }

  forget(): void {
    this.#become('nobody', undefined);
  }

  /**
   * The header of a request.
   * @throws Error while there is no credential, with what to tell the person
   */
  async authorization(): Promise<string> {
    if (this.#credential === undefined) throw new Error('Give an API key or a token first.');
    return await this.#credential.authorization();
  }

  /** @returns a function that ends it */
  listen(tell: () => void): () => void {
    this.#listeners.add(tell);
    return () => this.#listeners.delete(tell);
  }

  #become(kind: CallerKind, credential: Credential | undefined): void {
    this.#choices++;
    this.kind = kind;
    this.#credential = credential;
    for (const tell of this.#listeners) tell();
  }
}
