import { DomainError } from '../domain/errors.ts';

/** What a client asks for, over whichever transport: the parameters of GraphQL over HTTP, or the payload of `subscribe`. */
export interface Envelope {
  readonly query: string;
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
  const { query, operationName, variables, extensions } = params;
  if (query == null) throw badRequest('Send a `query`.');
  if (typeof query !== 'string') throw badRequest('`query` must be a string.');
  if (extensions != null && !isObject(extensions)) throw badRequest('`extensions` must be an object.');
  return {
    query,
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

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function badRequest(message: string): DomainError {
  return new DomainError('BAD_REQUEST', message);
}
