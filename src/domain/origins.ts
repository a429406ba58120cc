import * as z from 'zod';
import { refusing } from './text.ts';

/** What is wrong with an origin of a page, which has to be one as browsers send it; undefined if nothing is. */
export function originFault(origin: string): string | undefined {
  const url = URL.canParse(origin) ? new URL(origin) : undefined;
  // Browsers send one concrete origin: a wildcard would never match.
  const isWeb = (url?.protocol === 'https:' || url?.protocol === 'http:') && !url.host.includes('*');
  if (isWeb && url.origin === origin) return undefined;
  return `must list origins such as https://shop.example, and "${origin}" is not one${isWeb ? `; write ${url.origin}` : ''}`;
}

export const maxOrigins = 20;

/** The origins of the pages that may call with tokens. */
export const originsInput = z
  .array(z.string().check(refusing(originFault)))
  .max(maxOrigins, { error: `must be at most ${maxOrigins}` })
  .transform((origins) => [...new Set(origins)]);
