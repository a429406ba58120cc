import type { IncomingMessage } from 'node:http';
import { DomainError } from '../domain/errors.ts';

/** A request with so many headers is refused: each is an object in memory, however short. */
export const maxHeaders = 100;

/** `uri-host [":" port]` (RFC 9110, section 7.2; RFC 3986, section 3.2.2). It may be empty. */
const hostPattern = /^(?:\[[0-9a-f:.]+\]|(?:[a-z0-9._~!$&'()*+,;=-]|%[0-9a-f]{2})*)(?::\d*)?$/i;

/**
 * Brings a request target in absolute form (RFC 9112, section 3.2.2) into the usual form. Its host takes the place of
 * the one in `Host`, as the standard demands. A target whose host is not valid is left as it is.
 */
export function toOriginForm(req: IncomingMessage): void {
  const [, host = '', rest = ''] = /^https?:\/\/([^/?#]*)(.*)$/is.exec(req.url ?? '') ?? [];
  if (host === '' || !hostPattern.test(host)) return;
  req.url = rest.startsWith('/') ? rest : `/${rest}`;
  req.headers.host = host;
}

/**
 * A violation of HTTP by a request, or undefined: there are too many headers, `Host` is missing, repeated or invalid (RFC
 * 9112, section 3.2), the target is of no form that a server knows, a socket is asked for where none can be opened, or an
 * expectation is unknown (RFC 9110, section 10.1.1). Node's own responses to these would lack the error code and the
 * request id.
 * @param isUpgraded whether the connection becomes a socket
 */
export function protocolFault(req: IncomingMessage, isUpgraded = false): DomainError | undefined {
  const { httpVersion, headers, rawHeaders, url = '/' } = req;
  if (rawHeaders.length >= 2 * maxHeaders) return badRequest('The request has too many headers.', 431);
  const [host, second] = hostsOf(req);
  if (host === undefined && httpVersion === '1.1') return badRequest('A request in HTTP/1.1 needs the header `Host`.');
  if (second !== undefined) return badRequest('A request has one header `Host`.');
  if (host !== undefined && !hostPattern.test(host)) return badRequest('The header `Host` is not a host and port.');
  if (!url.startsWith('/') && url !== '*') return badRequest('The request target is neither a path nor a URL.');
  if (!isUpgraded && asksForSocket(req)) {
    return badRequest('A socket is opened by a request without a body, when those before it have been answered.');
  }
  const { expect } = headers;
  if (httpVersion !== '1.1' || expect === undefined || /(^|\W)100-continue($|\W)/i.test(expect)) return undefined;
  return badRequest('The only expectation that can be met is `100-continue`.', 417);
}

/** Whether a request asks for its connection to become a WebSocket. */
export function asksForSocket({ headers: { upgrade, connection } }: IncomingMessage): boolean {
  return upgrade?.toLowerCase() === 'websocket' && /(^|[\s,])upgrade($|[\s,])/i.test(connection ?? '');
}

/** All `Host` headers, of which Node keeps the first only. */
function hostsOf({ rawHeaders }: IncomingMessage): string[] {
  const hosts: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const [name = '', value = ''] = [rawHeaders[index], rawHeaders[index + 1]];
    if (name.length === 4 && name.toLowerCase() === 'host') hosts.push(value);
  }
  return hosts;
}

function badRequest(detail: string, status = 400): DomainError {
  return new DomainError('BAD_REQUEST', detail, { status });
}
