import { z } from 'zod';
import { DomainError, type Fault, maxFaults, unknownField, validationFailed } from '../domain/errors.ts';
import { parametersOf } from '../http/query.ts';
import { fieldsInHeaders, headerOf } from './headers.ts';
import type { Route } from './routes.ts';

/** Reads an operation's input from a REST request. */
export interface InputReader {
  /**
   * Combines path, query and body into one input.
   * @param params the parameters of the path
   * @param query the query string
   * @param body the parsed body; undefined if there was none
   * @returns the input, and faults such as unknown or repeated parameters
   * @throws BAD_REQUEST when a required body is missing or the body is not an object
   */
  read(params: Readonly<Record<string, string>>, query: string, body: unknown): { input: object; faults: Fault[] };
}

/** The reader for a route. It takes the fields from the operation's schema, so each rule stays in one place. */
export function inputReader(route: Route): InputReader {
  const known = new Set(fieldsOf(route).keys());
  const inQuery = route.body === 'none' ? fieldsOf(route) : new Map<string, z.ZodType>();
  return {
    read(params, query, body) {
      const input: Record<string, unknown> = {};
      const faults: Fault[] = [];
      if (query !== '') readQuery(query, inQuery, input, faults);
      readBody(body, { route, known, params }, input, faults);
      return { input: Object.assign(input, params), faults };
    },
  };
}

/** The input's fields by name, except those taken from the path or a header. */
function fieldsOf(route: Route): Map<string, z.ZodType> {
  const schema = route.operation.input as unknown as z.ZodObject;
  const elsewhere = new Set([
    ...route.path.split('/').flatMap((part) => (part.startsWith(':') ? [part.slice(1)] : [])),
    ...fieldsInHeaders.keys(),
  ]);
  return new Map(Object.entries(schema.shape as Record<string, z.ZodType>).filter(([name]) => !elsewhere.has(name)));
}

function readQuery(
  query: string,
  fields: Map<string, z.ZodType>,
  input: Record<string, unknown>,
  faults: Fault[],
): void {
  const seen = new Set<string>();
  for (const [name, value] of parametersOf(query)) {
    const field = fields.get(name);
    if (field === undefined) {
      if (!seen.has(name)) faults.push(parameterFault(name, 'is not a parameter of this request'));
    } else if (seen.has(name)) {
      faults.push(parameterFault(name, 'is given more than once'));
    } else if (value === undefined) {
      faults.push(parameterFault(name, 'is not percent-encoded UTF-8'));
    } else {
      input[name] = isList(field)
        ? value.split(',')
        : isNumber(field) && /^-?(0|[1-9]\d{0,15})$/.test(value)
          ? Number(value)
          : value;
    }
    seen.add(name);
  }
}

function parameterFault(name: string, detail: string): Fault {
  return { path: [name], parameter: name, detail };
}

/** Whether a field is a list, which a query parameter holds separated by commas. */
function isList(field: z.ZodType): boolean {
  if (field instanceof z.ZodOptional) return isList(field.unwrap() as z.ZodType);
  return field instanceof z.ZodArray || (field instanceof z.ZodPipe && isList(field.in as z.ZodType));
}

/** Whether a field is a number, optional or with a default: a query parameter in the form of a number is then converted. */
function isNumber(field: z.ZodType): boolean {
  const inner = field instanceof z.ZodOptional || field instanceof z.ZodDefault ? (field.unwrap() as z.ZodType) : field;
  return inner === field ? field instanceof z.ZodNumber : isNumber(inner);
}

function readBody(
  body: unknown,
  { route, known, params }: { route: Route; known: ReadonlySet<string>; params: Readonly<Record<string, string>> },
  input: Record<string, unknown>,
  faults: Fault[],
): void {
  if (body === undefined && route.body === 'required') throw new DomainError('BAD_REQUEST', 'A JSON body is required.');
  if (body === undefined) return;
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new DomainError('BAD_REQUEST', 'The body must be a JSON object.');
  }
  let unknown = 0;
  for (const name of Object.keys(body)) {
    // More faults would not be reported: a body with 100,000 unknown fields must not cost time.
    if (!known.has(name) && ++unknown > maxFaults) continue;
    const value = (body as Record<string, unknown>)[name];
    if (Object.hasOwn(params, name)) {
      faults.push({ path: [name], detail: 'is taken from the path and must not be in the body' });
    } else if (fieldsInHeaders.has(name)) {
      const detail = `is not known in the body; it is the header \`${fieldsInHeaders.get(name)}\``;
      faults.push({ path: [name], detail });
    } else if (route.body === 'none') {
      faults.push({ path: [name], detail: unknownField });
    } else {
      // Defined, not assigned: `__proto__` has to reach the schema and be refused as an unknown key.
      Object.defineProperty(input, name, { value, enumerable: true, configurable: true, writable: true });
    }
  }
}

/**
 * Adds the name of the query parameter or the header to the faults of fields that came from there.
 * @param found faults found while reading, which have these names already
 */
export function namingSources(
  error: DomainError,
  { route, inHeaders, found }: { route: Route; inHeaders: object; found: readonly Fault[] },
): DomainError {
  const { faults } = error.facts;
  if (faults === undefined) return error;
  const inQuery = route.body === 'none' ? fieldsOf(route) : undefined;
  return validationFailed(
    faults.map((fault) => {
      if (found.includes(fault)) return fault;
      const name = String(fault.path[0] ?? ''); // the top-level field
      const header = headerOf(name, inHeaders);
      if (header !== undefined) {
        return {
          ...fault,
          header,
          detail: fault.detail === unknownField ? 'is not a header of this request' : fault.detail,
        };
      }
      return inQuery?.has(name) === true ? { ...fault, parameter: name } : fault;
    }),
  );
}
