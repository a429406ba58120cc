import type { IncomingMessage } from 'node:http';

/** The forms of a result over HTTP, that of a client which takes any first. */
const forms = ['application/json', 'application/graphql-response+json'] as const;

/** An entry of an `Accept` header. */
interface Range {
  readonly type: string;
  /** As it was sent, but for its weight. */
  readonly text: string;
  /** 0 for what the client will not have, up to 1. */
  readonly weight: number;
}

/** Clients are few kinds, so their headers are few; nobody's own inventions are kept for long. */
const maxKnown = 100;
const maxKnownLength = 256;
const known = new Map<string, string>();

/**
 * An `Accept` header without weights, whose first form of a result is the one that is to be sent: neither Yoga nor the
 * short way looks further than that. Of forms that weigh the same, the first in the list is first, as if no weights
 * were there. (RFC 9110, sections 12.4.2 and 12.5.1)
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
 * Whether a request is for the page of GraphiQL: if that is wanted more than any form of a result, or as much and the
 * form is not named, or named later.
 */
export function wantsPage({ method, headers: { accept } }: IncomingMessage): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false;
  if (accept === undefined || !/text\/html/i.test(accept)) return false;
  const ranges = accept.split(',').map(rangeOf);
  const at = ranges.findIndex(({ type }) => type === 'text/html');
  const page = ranges[at];
  if (page === undefined || page.weight === 0) return false;
  return [...forms, 'text/event-stream'].every((form) => {
    const range = rangeFor(form, ranges);
    if (range === undefined || range.weight < page.weight) return true;
    return range.weight === page.weight && (range.type !== form || range.index > at);
  });
}

function inOrderOfWeight(accept: string): string {
  const ranges = accept.split(',').map(rangeOf);
  const wanted = forms
    .flatMap((form) => rangeFor(form, ranges) ?? [])
    .filter(({ weight }) => weight > 0)
    .sort((one, other) => other.weight - one.weight || one.index - other.index);
  const others = ranges.filter(({ type, weight }) => weight > 0 && !(forms as readonly string[]).includes(type));
  return [...wanted, ...others].map(({ text }) => text).join(', ');
}

function rangeOf(entry: string): Range {
  const [type = '', ...parameters] = entry.split(';').map((part) => part.trim());
  const weights = parameters.flatMap((parameter) => /^q\s*=\s*(0(?:\.\d*)?|1(?:\.0*)?)$/i.exec(parameter)?.[1] ?? []);
  const others = parameters.filter((parameter) => !/^q\s*=/i.test(parameter));
  return { type: type.toLowerCase(), text: [type, ...others].join(';'), weight: Number(weights[0] ?? 1) };
}

/** What the most specific range that a form is in says of it. */
function rangeFor(form: string, ranges: readonly Range[]): (Range & { readonly index: number }) | undefined {
  for (const type of [form, form.replace(/\/.*/, '/*'), '*/*']) {
    const index = ranges.findIndex((range) => range.type === type);
    const range = ranges[index];
    if (range !== undefined) return { ...range, text: type === form ? range.text : form, index };
  }
  return undefined;
}
