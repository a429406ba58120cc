import type { IncomingMessage } from 'node:http';
import { DomainError } from '../domain/errors.ts';

/**
 * What is wrong with a request as HTTP has it, or undefined: no `Host` (RFC 9112, section 3.2), or an expectation
 * that nobody can meet (RFC 9110, section 10.1.1). Node would refuse it by itself, without a code and a request id.
 */
export function protocolFault({ httpVersion, headers }: IncomingMessage): DomainError | undefined {
  if (httpVersion !== '1.1') return undefined;
  const { host, expect } = headers;
  if (host === undefined) return new DomainError('BAD_REQUEST', 'A request in HTTP/1.1 needs the header `Host`.');
  if (expect === undefined || /(^|\W)100-continue($|\W)/i.test(expect)) return undefined;
  const detail = 'The only expectation that can be met is `100-continue`.';
  return new DomainError('BAD_REQUEST', detail, { status: 417 });
}
