import { hash as hashOf } from 'node:crypto';
import type { Awaitable } from '../domain/awaitable.ts';
import { type Caller, refuseTrustedOnly } from '../domain/caller.ts';
import { registeredText } from '../domain/documents.ts';
import { DomainError } from '../domain/errors.ts';
import type { Ports } from '../domain/ports.ts';
import type { Asking, Documents, PreparedDocument } from './documents.ts';
import type { Envelope } from './envelope.ts';

const sha256 = /^[0-9a-f]{64}$/i;

/** Finds the document of a request: its text, or one that is called by its id or its hash. */
export class NamedDocuments {
  readonly #storage: Ports['storage'];
  readonly #documents: Documents;

  constructor({ storage }: Pick<Ports, 'storage'>, documents: Documents) {
    this.#storage = storage;
    this.#documents = documents;
  }

  /**
   * The document of a request, prepared. Registered ones are called by `documentId` or as a hash; another hash is that of
   * a text that its owner has sent with it before.
   * @param request may ask again
   * @throws PERSISTED_QUERY_NOT_FOUND for an unknown id or hash: clients then send the text with the hash
   * @throws BAD_REQUEST for a text that is not the document's, or not the hash's
   * @throws FORBIDDEN for anything but a registered document, if the caller may run no other
   * @throws GraphQLError as `Documents.prepare`
   */
  prepare(caller: Caller, envelope: Envelope, request?: Asking): Awaitable<PreparedDocument> {
    const { query, documentId, hash } = envelope;
    if (query !== undefined && documentId === undefined && hash === undefined) {
      refuseTrustedOnly(caller, 'This token may run registered documents only: send a `documentId`.');
      return this.#documents.prepare(caller, query, request);
    }
    return this.#named(caller, envelope, request);
  }

  async #named(caller: Caller, envelope: Envelope, request?: Asking): Promise<PreparedDocument> {
    const { query } = envelope;
    const documentId = normal(envelope.documentId);
    const hash = documentId === undefined ? normal(envelope.hash) : undefined;
    // A registered document with this hash has the same text. So there is no need to look for one.
    const mayPersist = hash !== undefined && caller.trustedDocumentsOnly !== true;
    const persisted = mayPersist ? this.#documents.persisted(caller, hash) : undefined;
    // It is read for every call, so that one that any process has deleted is gone at once.
    const id = documentId ?? hash ?? '';
    const text = persisted ?? (await registeredText(this.#storage.read, caller.account.id, id));
    if (text !== undefined) {
      if (query !== undefined && query !== text) throw otherText();
      return await this.#documents.prepare(caller, text, request);
    }
    refuseTrustedOnly(caller, 'This token may run registered documents only, and none is called by this id.');
    if (query === undefined || hash === undefined) {
      throw new DomainError('PERSISTED_QUERY_NOT_FOUND', 'PersistedQueryNotFound');
    }
    if (hashOf('sha256', query) !== hash) throw otherText();
    return await this.#documents.persist(caller, hash, query, request);
  }
}

/** An id or a hash; SHA-256 in lower case, in which it is also that of a registered document. */
function normal(name: string | undefined): string | undefined {
  return name !== undefined && sha256.test(name) ? name.toLowerCase() : name;
}

function otherText(): DomainError {
  return new DomainError(
    'BAD_REQUEST',
    'The `query` is not the text of the document that is called by this id or hash.',
  );
}
