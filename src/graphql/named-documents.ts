import { hash as hashOf } from 'node:crypto';
import type { Awaitable } from '../domain/awaitable.ts';
import type { Caller } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { Documents, PreparedDocument } from './documents.ts';
import type { Envelope } from './envelope.ts';

/** A SHA-256. */
const sha256 = /^[0-9a-f]{64}$/i;

/** Finds the document of a request: its text, or one that is called by its hash. */
export class NamedDocuments {
  readonly #documents: Documents;

  constructor(documents: Documents) {
    this.#documents = documents;
  }

  /**
   * The document of a request, prepared: the one with this text, or the one that its owner has sent with this hash before.
   * @param request may ask again
   * @throws PERSISTED_QUERY_NOT_FOUND for an unknown hash: clients then send the text with it
   * @throws BAD_REQUEST for a hash that is not the text's
   * @throws GraphQLError as `Documents.prepare`
   */
  prepare(caller: Caller, { query, hash }: Envelope, request?: object): Awaitable<PreparedDocument> {
    if (hash !== undefined) return this.#byHash(caller, hash, query, request);
    return this.#documents.prepare(caller, query ?? '', request);
  }

  async #byHash(caller: Caller, asked: string, query: string | undefined, request?: object): Promise<PreparedDocument> {
    const hash = sha256.test(asked) ? asked.toLowerCase() : asked;
    const persisted = this.#documents.persisted(caller, hash);
    if (persisted !== undefined && (query ?? persisted) === persisted) {
      return await this.#documents.prepare(caller, persisted, request);
    }
    if (query === undefined) throw new DomainError('PERSISTED_QUERY_NOT_FOUND', 'PersistedQueryNotFound');
    if (hashOf('sha256', query) !== hash) {
      throw new DomainError('BAD_REQUEST', '`sha256Hash` is not the SHA-256 of the `query`.');
    }
    return await this.#documents.persist(caller, hash, query, request);
  }
}
