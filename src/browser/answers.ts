// What a page shows of an answer, or of what has kept it away.

/** JSON for people to read; any other text as it is. */
export function laidOut(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** What `fetch` says of a service that is away differs between browsers. */
export function wordsOf(error: Error): string {
  return error instanceof TypeError ? 'The service cannot be reached.' : error.message;
}
