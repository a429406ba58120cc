import { DomainError } from '../domain/errors.ts';
import { parseJson } from '../http/json.ts';
import { parametersOf } from '../http/query.ts';
import type { RequestMemory } from '../http/request-memory.ts';

const known: readonly string[] = ['query', 'documentId', 'operationName', 'variables', 'extensions'];

/**
 * The parameters of a GET request. Others than those of GraphQL over HTTP are passed over.
 * @param memory counts what is held of them
 */
export function paramsOfQuery(query: string, memory: RequestMemory): object {
  const params = new Map<string, unknown>();
  let values = 0;
  const parse = (name: string, text: string): unknown =>
    parseParameter(name, text, (more) => {
      values += more;
      memory.growToParsed(query.length, values);
    });
  for (const [name, value] of parametersOf(query)) {
    if (!known.includes(name)) continue;
    if (params.has(name)) throw givenTwice(name);
    if (value === undefined) {
      throw new DomainError('BAD_REQUEST', `The parameter \`${name}\` is not UTF-8 in percent-encoding.`);
    }
    const isJson = name === 'variables' || name === 'extensions';
    params.set(name, value === '' ? undefined : isJson ? parse(name, value) : value);
  }
  return Object.fromEntries(params);
}

/** Its status is 400 for every client, as it is no GraphQL request yet. */
function givenTwice(name: string): DomainError {
  const detail = 'is given more than once';
  return new DomainError('VALIDATION_FAILED', `\`${name}\` ${detail}.`, {
    faults: [{ path: [name], detail }],
    status: 400,
  });
}

function parseParameter(name: string, value: string, onExamined: (values: number) => void): unknown {
  try {
    return parseJson(value, onExamined);
  } catch (error) {
    if (error instanceof DomainError && error.code === 'UNAVAILABLE') throw error;
    throw new DomainError('BAD_REQUEST', `The parameter \`${name}\` is not JSON.`);
  }
}
