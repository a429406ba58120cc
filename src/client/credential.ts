import { within } from './waiting.ts';

/** A token as createToken answers it. */
export interface Token {
  readonly token: string;
  /** When it expires (RFC 3339); it is renewed a little earlier. */
  readonly expiresAt?: string;
}

/**
 * An API key, for a program, or what gets a token, for a page: its own server's endpoint, say. It is called again whenever
 * a new token is needed, and when it has not answered for 30 s.
 */
export type CredentialSource = string | (() => Promise<string | Token>);

/** A token is renewed so long before it expires. */
const aheadMs = 10_000;
/** After so long without an answer the source is asked again: its request may be lost. */
const silentMs = 30_000;

interface Present {
  readonly token: string;
  readonly renewAtMs: number;
}

/** The present credential of a client, renewed when it is about to expire or was refused. */
export class Credential {
  readonly #source: CredentialSource;
  #present: Promise<Present> | undefined;
  /** None while it is being asked for. */
  #token = '';

  constructor(source: CredentialSource) {
    this.#source = source;
  }

  /** Whether a new one can be had when one was refused. */
  get isRenewable(): boolean {
    return typeof this.#source === 'function';
  }

  /** The `Authorization` header. Calls at the same time share one renewal. */
  async authorization(): Promise<string> {
    const asked = this.#ask();
    const { token, renewAtMs } = await asked;
    if (Date.now() < renewAtMs) return `Bearer ${token}`;
    if (this.#present === asked) this.#present = undefined;
    return `Bearer ${(await this.#ask()).token}`;
  }

  /** Forgets the present one if it is what was refused, and not a newer one: calls at the same time are refused together. */
  renew(authorization: string): void {
    if (authorization === `Bearer ${this.#token}`) this.#present = undefined;
  }

  #ask(): Promise<Present> {
    this.#present ??= this.#get();
    return this.#present;
  }

  async #get(): Promise<Present> {
    const source = this.#source;
    // One that is missing, as where an environment has no key, is refused as any that is wrong.
    if (typeof source !== 'function') return { token: source, renewAtMs: Number.POSITIVE_INFINITY };
    this.#token = '';
    try {
      const given = await within(silentMs, undefined, source);
      const { token, expiresAt } = typeof given === 'string' ? { token: given } : given;
      const renewAtMs = Date.parse(expiresAt ?? '') - aheadMs;
      this.#token = token;
      // One that seems to have expired already comes from a clock that differs: it is renewed when it is refused.
      return { token, renewAtMs: renewAtMs > Date.now() ? renewAtMs : Number.POSITIVE_INFINITY };
    } catch (error) {
      this.#present = undefined;
      throw error;
    }
  }
}
