/** The value is undefined if it is not valid percent-encoded UTF-8. */
type Parameter = readonly [name: string, value: string | undefined];

/**
 * The parameters of a query string, in order. URLSearchParams would silently replace invalid UTF-8, which has to be
 * reported.
 */
export function parametersOf(query: string): Parameter[] {
  const parameters: Parameter[] = [];
  for (const pair of query.split('&')) {
    if (pair === '') continue;
    const mark = pair.indexOf('=');
    const name = mark === -1 ? pair : pair.slice(0, mark);
    parameters.push([decode(name) ?? name, decode(pair.slice(name.length + 1))]);
  }
  return parameters;
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
