import { DomainError } from '../domain/errors.ts';

/** What a client asks for, over whichever transport: the parameters of GraphQL over HTTP, or the payload of `subscribe`. */
export interface Envelope {
  /** The document's text; undefined if it was left out. */
  readonly query: string | undefined;
  /** The id of a registered document. */
  readonly documentId: string | undefined;
  /** The hash or the id that a document is called by: `extensions.persistedQuery.sha256Hash`. */
  readonly hash: string | undefined;
  readonly operationName: string | null;
  readonly variableValues: Readonly<Record<string, unknown>>;
}

/**
 * Reads an envelope. Properties that it does not know are passed over, as GraphQL over HTTP demands.
 * @param params undefined for a request without a body
 * @throws BAD_REQUEST
 */
export function envelopeOf(params: unknown): Envelope {
  if (params === undefined) throw badRequest('Send a JSON body with a `query`.');
  if (!isObject(params)) throw badRequest('A GraphQL request must be a JSON object.');
  const { query, documentId, operationName, variables, extensions } = params;
  const hash = extensions == null ? undefined : hashIn(extensions);
  const isNamed = documentId != null || hash !== undefined;
  if (query == null && !isNamed) throw badRequest('Send a `query`, or the `documentId` of a registered document.');
  if (query != null && typeof query !== 'string') throw badRequest('`query` must be a string.');
  if (documentId != null && typeof documentId !== 'string') throw badRequest('`documentId` must be a string.');
  return {
    // Where a text must be sent, as on sockets, an empty one stands for none. By itself it is a fault of syntax.
    query: query == null || (query === '' && isNamed) ? undefined : query,
    documentId: documentId ?? undefined,
    hash,
    operationName: nameIn(operationName),
    variableValues: variables == null ? noVariables : variablesIn(variables),
  };
}

const noVariables: Envelope['variableValues'] = {};

/** An empty name counts as left out. */
function nameIn(operationName: unknown): string | null {
  if (operationName == null || operationName === '') return null;
  if (typeof operationName !== 'string') throw badRequest('`operationName` must be a string.');
  return operationName;
}

function variablesIn(variables: unknown): Envelope['variableValues'] {
  if (!isObject(variables)) throw badRequest('`variables` must be an object.');
  return variables;
}

/** Of what persisted queries have beside it, as urql's `miss`, nothing is needed. */
function hashIn(extensions: unknown): string | undefined {
  if (!isObject(extensions)) throw badRequest('`extensions` must be an object.');
  const { persistedQuery } = extensions;
  if (persistedQuery == null) return undefined;
  if (!isObject(persistedQuery)) throw badRequest('`extensions.persistedQuery` must be an object.');
  const { version, sha256Hash } = persistedQuery;
  if (version !== 1) throw badRequest('Only version 1 of persisted queries is known.');
  if (typeof sha256Hash !== 'string') throw badRequest('`extensions.persistedQuery.sha256Hash` must be a string.');
  return sha256Hash;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function badRequest(message: string): DomainError {
  return new DomainError('BAD_REQUEST', message);
}
