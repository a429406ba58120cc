import { DomainError } from '../domain/errors.ts';
import { parseJson } from '../http/json.ts';
import { parametersOf } from '../http/query.ts';

const known: readonly string[] = ['query', 'documentId', 'operationName', 'variables', 'extensions'];

/** The parameters of a GET request. Others than those of GraphQL over HTTP are passed over. */
export function paramsOfQuery(query: string): object {
  const params = new Map<string, unknown>();
  for (const [name, value] of parametersOf(query)) {
    if (!known.includes(name)) continue;
    if (params.has(name)) throw new DomainError('BAD_REQUEST', `The parameter \`${name}\` is given more than once.`);
    if (value === undefined) {
      throw new DomainError('BAD_REQUEST', `The parameter \`${name}\` is not UTF-8 in percent-encoding.`);
    }
    const isJson = name === 'variables' || name === 'extensions';
    params.set(name, value === '' ? undefined : isJson ? parseParameter(name, value) : value);
  }
  return Object.fromEntries(params);
}

function parseParameter(name: string, value: string): unknown {
  try {
    return parseJson(value);
  } catch {
    throw new DomainError('BAD_REQUEST', `The parameter \`${name}\` is not JSON.`);
  }
}
