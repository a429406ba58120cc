/** What a token says of itself; undefined if it says nothing. Whether that is true only the service can tell. */
export function claimsOf(token: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const claims: unknown = JSON.parse(atob((token.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/')));
    return typeof claims === 'object' && claims !== null ? (claims as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
