import type { IncomingMessage } from 'node:http';

/** The media types of a result over HTTP, the default first. */
const resultTypes = ['application/json', 'application/graphql-response+json'] as const;

/** An entry of an `Accept` header. */
interface Range {
  readonly type: string;
  /** The entry as sent, without its weight. */
  readonly text: string;
  /** The `q` parameter: from 0, not acceptable, to 1. */
  readonly weight: number;
}

/** Clients send few different headers. The limits keep unusual ones from filling the cache. */
const maxKnown = 100;
const maxKnownLength = 256;
const known = new Map<string, string>();

/**
 * Rewrites an `Accept` header without weights, the preferred media type of results first: Yoga and `single-operation.ts` use
 * the first one that they know. Types of equal weight stay in their order. (RFC 9110, sections 12.4.2 and 12.5.1)
 */
export function withoutWeights(accept: string): string {
  if (!/;\s*q\s*=/i.test(accept)) return accept;
  const before = known.get(accept);
  if (before !== undefined) return before;
  const without = inOrderOfWeight(accept);
  if (known.size >= maxKnown) known.clear();
  if (accept.length <= maxKnownLength) known.set(accept, without);
  return without;
}

/**
 * Whether a request prefers the page for people to every media type of results: HTML has the greater weight, or the same
 * weight and the other type is listed later, or only as part of a wildcard.
 */
export function wantsPage({ method, headers: { accept } }: IncomingMessage): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false;
  if (accept === undefined || !/text\/html/i.test(accept)) return false;
  const ranges = accept.split(',').map(rangeOf);
  const at = ranges.findIndex(({ type }) => type === 'text/html');
  const page = ranges[at];
  if (page === undefined || page.weight === 0) return false;
  return [...resultTypes, 'text/event-stream'].every((type) => {
    const range = rangeFor(type, ranges);
    if (range === undefined || range.weight < page.weight) return true;
    return range.weight === page.weight && (range.type !== type || range.index > at);
  });
}

/** Whether Yoga can send a stream for an `Accept` header without weights; it would answer 406 without a body. */
export function acceptsStream(accept = ''): boolean {
  return accept
    .split(',')
    .map(rangeOf)
    .some(({ type, text }) => type === 'text/event-stream' && !/charset=(?!utf-8(;|$))/i.test(text));
}

function inOrderOfWeight(accept: string): string {
  const ranges = accept.split(',').map(rangeOf);
  const wanted = resultTypes
    .flatMap((type) => rangeFor(type, ranges) ?? [])
    .filter(({ weight }) => weight > 0)
    .sort((one, other) => other.weight - one.weight || one.index - other.index);
  const others = ranges.filter(({ type, weight }) => weight > 0 && !(resultTypes as readonly string[]).includes(type));
  return [...wanted, ...others].map(({ text }) => text).join(', ');
}

function rangeOf(entry: string): Range {
  const [type = '', ...parameters] = entry.split(';').map((part) => part.trim());
  const weights = parameters.flatMap((parameter) => /^q\s*=\s*(0(?:\.\d*)?|1(?:\.0*)?)$/i.exec(parameter)?.[1] ?? []);
  const others = parameters.filter((parameter) => !/^q\s*=/i.test(parameter));
  return { type: type.toLowerCase(), text: [type, ...others].join(';'), weight: Number(weights[0] ?? 1) };
}

/** The most specific range that includes a media type. */
function rangeFor(mediaType: string, ranges: readonly Range[]): (Range & { readonly index: number }) | undefined {
  for (const type of [mediaType, mediaType.replace(/\/.*/, '/*'), '*/*']) {
    const index = ranges.findIndex((range) => range.type === type);
    const range = ranges[index];
    if (range !== undefined) return { ...range, text: type === mediaType ? range.text : mediaType, index };
  }
  return undefined;
}
