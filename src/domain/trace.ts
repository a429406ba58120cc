// W3C Trace Context, level 1 (www.w3.org/TR/trace-context-1). The service makes no spans of its own: it names the
// trace of its caller in its log, and hands it on with the webhooks that a request has caused.

const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const sampled = 1;

/**
 * Reads a `traceparent` header.
 * @returns it in the form of version 00 with the flags that level 1 knows; undefined for one that is not valid, which
 * is to be overlooked
 */
export function parseTraceparent(header: unknown): string | undefined {
  if (typeof header !== 'string') return undefined;
  const [, version = 'ff', traceId = '', parentId = '', flags = '', rest] = form.exec(header) ?? [];
  // Later versions may add something at the end, and only there.
  if (version === 'ff' || (version === '00' && rest !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(parentId)) return undefined;
  return `00-${traceId}-${parentId}-0${Number.parseInt(flags, 16) & sampled}`;
}

export function traceIdOf(traceparent: string): string {
  return traceparent.slice(3, 35);
}

/** The header for what is called on behalf of a request: the same trace, with a caller of its own. */
export function childTraceparent(traceparent: string, spanId: string): string {
  return `00-${traceIdOf(traceparent)}-${spanId}-${traceparent.slice(-2)}`;
}
