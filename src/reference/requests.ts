import type { OpenApiDocument, OpenApiOperation, OpenApiParameter } from '../rest/openapi/types.ts';

// What is sent for an operation of `openapi.json`, when somebody has filled in its form.

export interface Described {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly OpenApiParameter[];
  /** An example of the body, if it takes one. */
  readonly body: string | undefined;
  readonly isStream: boolean;
}

/** What the form of one operation holds: texts by the names of its parameters. */
interface Filled {
  readonly parameters: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Chosen by who calls for the sake of its logs: not worth a field in each form. */
const withoutField = 'X-Request-Id';

export function describe(document: OpenApiDocument, operationId: string): Described | undefined {
  for (const [path, item] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(item) as [string, OpenApiOperation][]) {
      if (operation.operationId !== operationId) continue;
      const { parameters, requestBody, responses } = operation;
      const answer = responses['200'];
      return {
        name: operationId,
        method: method.toUpperCase(),
        path,
        parameters: parameters
          .map((each) => ('$ref' in each ? named(document.components.parameters, each.$ref) : each))
          .filter(({ name }) => name !== withoutField),
        body: requestBody && JSON.stringify(requestBody.content['application/json']?.example ?? {}, null, 2),
        isStream: answer !== undefined && 'content' in answer && answer.content?.['text/event-stream'] !== undefined,
      };
    }
  }
  return undefined;
}

/** @param service the address of the service */
export function requestOf(
  { method, path, parameters }: Described,
  filled: Filled,
  service: string,
): [URL, RequestInit] {
  const headers: Record<string, string> = {};
  const query: string[] = [];
  let address = path;
  for (const { name, in: place } of parameters) {
    const value = filled.parameters[name] ?? '';
    if (value === '') continue;
    if (place === 'path') address = address.replace(`{${name}}`, encodeURIComponent(value));
    else if (place === 'query') query.push(`${name}=${encodeURIComponent(value)}`);
    else headers[name] = value;
  }
  const url = new URL(`${service}${address}${query.length > 0 ? `?${query.join('&')}` : ''}`);
  if (filled.body.trim() === '') return [url, { method, headers }];
  return [url, { method, headers: { ...headers, 'Content-Type': 'application/json' }, body: filled.body }];
}

function named<T>(things: Readonly<Record<string, T>>, ref: string): T {
  return things[ref.slice(ref.lastIndexOf('/') + 1)] as T;
}
