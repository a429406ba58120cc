import * as z from 'zod';
import { DomainError, type Fault, maxFaults, missingField, unknownField, validationFailed } from '../domain/errors.ts';
import { parametersOf } from '../http/query.ts';
import { fieldsInHeaders, headerOf } from './headers.ts';
import type { Route } from './routes.ts';

/**
 * Reads an operation's input from a REST request: combines path, query and body into one input.
 * @param params the parameters of the path
 * @param query the query string
 * @param body the parsed body; undefined if there was none
 * @returns the input, and faults such as unknown or repeated parameters
 * @throws BAD_REQUEST when a required body is missing or the body is not an object
 */
export type InputReader = (
  params: Readonly<Record<string, string>>,
  query: string,
  body: unknown,
) => { input: object; faults: Fault[] };

/** The reader for a route. It takes the fields from the operation's schema, so each rule stays in one place. */
export function inputReader(route: Route): InputReader {
  const known = new Set(fieldsOf(route).keys());
  const inQuery = route.body === 'none' ? fieldsOf(route) : new Map<string, z.ZodType>();
  return (params, query, body) => {
    const input: Record<string, unknown> = {};
    const faults: Fault[] = [];
    if (query !== '') readQuery(query, inQuery, input, faults);
    readBody(body, { route, known, params }, input, faults);
    return { input: Object.assign(input, params), faults };
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
    } else if (value === undefined) {
      faults.push(parameterFault(name, 'is not percent-encoded UTF-8'));
    } else if (isList(field)) {
      const list = (input[name] ?? []) as string[];
      list.push(...value.split(','));
      input[name] = list;
    } else if (seen.has(name)) {
      faults.push(parameterFault(name, 'is given more than once'));
    } else {
      input[name] = typedValue(value, field);
    }
    seen.add(name);
  }
}

/** What a parameter means for its field: a number or a truth value only if it has the form of one. */
function typedValue(text: string, field: z.ZodType): unknown {
  const inner = unwrapped(field);
  if (inner instanceof z.ZodNumber && /^-?(0|[1-9]\d{0,15})$/.test(text)) return Number(text);
  return inner instanceof z.ZodBoolean && /^(true|false)$/.test(text) ? text === 'true' : text;
}

/** A field's schema without what makes it optional. */
function unwrapped(field: z.ZodType): z.ZodType {
  const isOptional = field instanceof z.ZodOptional || field instanceof z.ZodDefault;
  return isOptional ? unwrapped(field.unwrap() as z.ZodType) : field;
}

function parameterFault(name: string, detail: string): Fault {
  return { path: [name], parameter: name, detail };
}

/** Whether a field is a list: its parameter holds several values separated by commas, or is repeated, or both. */
function isList(field: z.ZodType): boolean {
  const inner = unwrapped(field);
  return inner instanceof z.ZodArray || (inner instanceof z.ZodPipe && isList(inner.in as z.ZodType));
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
  // A parameter that is given, and cannot be read, is not missing.
  const isGiven = (name: unknown) => found.some(({ parameter }) => parameter === name);
  const actual = faults.filter(({ path: [name], detail }) => detail !== missingField || !isGiven(name));
  return validationFailed(
    actual.map((fault) => {
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
