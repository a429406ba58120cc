import type { IncomingMessage } from 'node:http';
import { DomainError } from '../domain/errors.ts';

/**
 * A violation of HTTP by a request, or undefined: a missing `Host` (RFC 9112, section 3.2), or an unknown expectation
 * (RFC 9110, section 10.1.1). Node's own responses to these would lack the error code and the request id.
 */
export function protocolFault({ httpVersion, headers }: IncomingMessage): DomainError | undefined {
  if (httpVersion !== '1.1') return undefined;
  const { host, expect } = headers;
  if (host === undefined) return new DomainError('BAD_REQUEST', 'A request in HTTP/1.1 needs the header `Host`.');
  if (expect === undefined || /(^|\W)100-continue($|\W)/i.test(expect)) return undefined;
  const detail = 'The only expectation that can be met is `100-continue`.';
  return new DomainError('BAD_REQUEST', detail, { status: 417 });
}
