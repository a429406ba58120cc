import type { OpenApiHeader, Reference } from './types.ts';

/** Sent with every response to an authenticated request. */
export const limitHeaders = [
  'RateLimit-Policy',
  'RateLimit',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset',
];

/** Response headers beyond the general ones of HTTP. `required` means always present. */
export const responseHeaders: Readonly<Record<string, OpenApiHeader>> = {
  'X-Request-Id': {
    description: 'The id of the request: the client’s own or a generated one.',
    required: true,
    schema: { type: 'string' },
    example: '0b7f2c1e-6f0a-4a53-9d6b-2a1f6f3c9e10',
  },
  'RateLimit-Policy': {
    description:
      'The account’s plan, its quota of requests, and the window in seconds. With a bound token it is `share`, and all of these headers are of its share.',
    required: true,
    schema: { type: 'string', pattern: String.raw`^"\w+";q=\d+;w=3600$` },
    example: '"pro";q=1000;w=3600',
  },
  RateLimit: {
    description: 'The remaining requests, and the seconds until there are more.',
    required: true,
    schema: { type: 'string', pattern: String.raw`^"\w+";r=\d+;t=\d+$` },
    example: '"pro";r=998;t=3540',
  },
  'X-RateLimit-Limit': {
    description: 'The quota of requests in any 60 minutes.',
    required: true,
    schema: { type: 'integer', minimum: 1 },
    example: 1000,
  },
  'X-RateLimit-Remaining': {
    description: 'The remaining requests.',
    required: true,
    schema: { type: 'integer', minimum: 0 },
    example: 998,
  },
  'X-RateLimit-Reset': {
    description: 'When there are more requests, in Unix seconds.',
    required: true,
    schema: { type: 'integer' },
    example: 1795245060,
  },
  'Retry-After': {
    description: 'The seconds after which a retry can succeed.',
    required: true,
    schema: { type: 'integer', minimum: 0 },
    example: 17,
  },
  'WWW-Authenticate': {
    description: 'The authentication scheme.',
    required: true,
    schema: { type: 'string', const: 'Bearer' },
    example: 'Bearer',
  },
  Location: {
    description: 'The path of the created resource.',
    required: true,
    schema: { type: 'string' },
    example: '/v1/conversations/conv_01m7z12aypfmvv4snqnjfg9r62',
  },
  ETag: {
    description:
      'The version of the resource and, after a point, how often its read positions have moved; for `If-None-Match` and `If-Match`, for which the version alone counts.',
    required: true,
    schema: { type: 'string', pattern: String.raw`^"\d+\.\d+"$` },
    example: '"3.1"',
  },
  'Idempotent-Replayed': {
    description: '`true` if this is the result of an earlier request with the same `Idempotency-Key`.',
    required: true,
    schema: { type: 'string', const: 'true' },
    example: 'true',
  },
  Link: {
    description: 'The URL of the next page, if there is one, with `rel="next"`.',
    schema: { type: 'string' },
    example: '</v1/conversations?after=WyItY3JlYXRlZEF0Il0>; rel="next"',
  },
  Deprecation: {
    description: 'The date of the deprecation (RFC 9745): `@` and Unix seconds.',
    required: true,
    schema: { type: 'string', pattern: String.raw`^@\d+$` },
    example: '@1795219200',
  },
  Sunset: {
    description: 'The date from which it may be removed (RFC 8594).',
    required: true,
    schema: { type: 'string' },
    example: 'Sun, 21 Nov 2027 00:00:00 GMT',
  },
};

/** References to headers. Those not always present are written out, without `required`. */
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
