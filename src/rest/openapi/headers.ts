import { deprecatedFields } from '../../domain/deprecation.ts';
import type { Operation } from '../../domain/operation.ts';
import type { OpenApiHeader, Reference } from './types.ts';

/** On every answer to a known account. */
export const limitHeaders = [
  'RateLimit-Policy',
  'RateLimit',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
];

/** The headers that answers bring beside those that all of HTTP has. `required` is what is always there. */
export const responseHeaders: Readonly<Record<string, OpenApiHeader>> = {
  'X-Request-Id': {
    description: 'The request’s id: the caller’s own, or a new one.',
    required: true,
    schema: { type: 'string' },
    example: '0b7f2c1e-6f0a-4a53-9d6b-2a1f6f3c9e10',
  },
  'RateLimit-Policy': {
    description: 'The account’s plan, its requests, and the seconds that they are for.',
    required: true,
    schema: { type: 'string', pattern: String.raw`^"\w+";q=\d+;w=3600$` },
    example: '"pro";q=1000;w=3600',
  },
  RateLimit: {
    description: 'The requests that are left, and in how many seconds there are more.',
    required: true,
    schema: { type: 'string', pattern: String.raw`^"\w+";r=\d+;t=\d+$` },
    example: '"pro";r=998;t=3540',
  },
  'X-RateLimit-Limit': {
    description: 'Requests in any 60 minutes.',
    required: true,
    schema: { type: 'integer', minimum: 1 },
    example: 1000,
  },
  'X-RateLimit-Remaining': {
    description: 'How many of them are left.',
    required: true,
    schema: { type: 'integer', minimum: 0 },
    example: 998,
  },
  'X-RateLimit-Reset': {
    description: 'When there are more, in seconds since 1970.',
    required: true,
    schema: { type: 'integer' },
    example: 1795245060,
  },
  'Retry-After': {
    description: 'In how many seconds a repeat can succeed.',
    required: true,
    schema: { type: 'integer', minimum: 0 },
    example: 17,
  },
  'WWW-Authenticate': {
    description: 'How to authenticate.',
    required: true,
    schema: { type: 'string', const: 'Bearer' },
    example: 'Bearer',
  },
  Location: {
    description: 'The path of what was made.',
    required: true,
    schema: { type: 'string' },
    example: '/v1/conversations/conv_01m7z12aypfmvv4snqnjfg9r62',
  },
  ETag: {
    description: 'The version that it has, for `If-None-Match` and `If-Match`.',
    required: true,
    schema: { type: 'string', pattern: String.raw`^"\d+"$` },
    example: '"3"',
  },
  'Idempotent-Replayed': {
    description: 'Is `true` when the answer is that of the same request before.',
    required: true,
    schema: { type: 'string', const: 'true' },
    example: 'true',
  },
  Link: {
    description:
      'The address of the next page, with `rel="next"`, if there is one; with `rel="deprecation"`, where that is explained.',
    schema: { type: 'string' },
    example: '</v1/conversations?after=WyItY3JlYXRlZEF0Il0>; rel="next"',
  },
  Deprecation: {
    description: 'Since when it is deprecated (RFC 9745): `@` and seconds since 1970.',
    required: true,
    schema: { type: 'string', pattern: String.raw`^@\d+$` },
    example: '@1795219200',
  },
  Sunset: {
    description: 'From when on it may be gone (RFC 8594).',
    required: true,
    schema: { type: 'string' },
    example: 'Sun, 21 Nov 2027 00:00:00 GMT',
  },
};

/** What the answers of an operation bring that is deprecated, or takes what is. */
export function deprecationHeaders(
  { deprecated, input }: Operation,
  { always }: { always: boolean },
): Record<string, OpenApiHeader | Reference> {
  if (deprecated === undefined && deprecatedFields(input).size === 0) return {};
  return {
    ...headersNamed(['Deprecation', 'Sunset'], { always }),
    ...headersNamed(['Link']),
  };
}

/** References to headers. Those that are not there always are written out, to say so. */
export function headersNamed(
  names: readonly string[],
  { always = true } = {},
): Record<string, OpenApiHeader | Reference> {
  return Object.fromEntries(
    names.map((name) => {
      const { required, ...header } = responseHeaders[name] as OpenApiHeader;
      return [name, always ? { $ref: `#/components/headers/${name}` } : header];
    }),
  );
}
