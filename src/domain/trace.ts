// W3C Trace Context, level 1 (www.w3.org/TR/trace-context-1). The service records no spans: it logs the caller's trace
// id, and propagates the trace to the webhooks that a request causes.

const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const sampled = 1;

/**
 * Parses a `traceparent` header.
 * @returns it in the format of version 00 with the flags of level 1; undefined for an invalid one, which the standard
 * says to ignore
 */
export function parseTraceparent(header: unknown): string | undefined {
  if (typeof header !== 'string') return undefined;
  const [, version = 'ff', traceId = '', parentId = '', flags = '', rest] = form.exec(header) ?? [];
  // Later versions may append fields, and only at the end.
  if (version === 'ff' || (version === '00' && rest !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(parentId)) return undefined;
  return `00-${traceId}-${parentId}-0${Number.parseInt(flags, 16) & sampled}`;
}

export function traceIdOf(traceparent: string): string {
  return traceparent.slice(3, 35);
}

/** The header for an outgoing request: the same trace with a new parent. */
export function childTraceparent(traceparent: string, spanId: string): string {
  return `00-${traceIdOf(traceparent)}-${spanId}-${traceparent.slice(-2)}`;
}
