import type { GraphQLParams } from 'graphql-yoga';
import { DomainError } from '../domain/errors.ts';
import { parseJson } from '../http/json.ts';
import { parametersOf } from '../http/query.ts';

/** The parameters of a GET request. */
export function paramsOfQuery(query: string): GraphQLParams {
  const params = new Map<string, unknown>();
  for (const [name, value] of parametersOf(query)) {
    if (!['query', 'operationName', 'variables', 'extensions'].includes(name)) {
      throw new DomainError('BAD_REQUEST', `Unexpected parameter \`${name}\`.`);
    }
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
