import dns from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { buildConnector } from 'undici';
import { type AddressPolicy, AddressRefused, hostOf, isPublic, plain, refusal } from './address-guard.ts';
import { dnsLookup } from './resolve.ts';

/**
 * Connects only where webhooks may go. A name is resolved once, its addresses are checked, and it is one of
 * these that is connected to: a name server that answers otherwise the next time changes nothing. A literal
 * is never looked up, so it is checked by itself.
 * @param connectMs how long a connection may take to be there, TLS included
 * @param lookup finds the addresses of a name; by default in the DNS, or as the system does where private ones are allowed
 */
export function guardedConnector(
  policy: AddressPolicy,
  connectMs: number,
  // What is private may have its name from elsewhere than the DNS.
  lookup: LookupFunction = policy.allowPrivate ? (dns.lookup as LookupFunction) : dnsLookup(),
): buildConnector.connector {
  const guarded: LookupFunction = (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      const addresses = (Array.isArray(found) ? found : []).filter(
        ({ address }) => policy.allowPrivate || isPublic(address),
      );
      const [first] = addresses;
      if (error !== null) callback(error, '', 0);
      else if (first === undefined) callback(new AddressRefused(refusal), '', 0);
      else if (options.all === true) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
  const connect = buildConnector({ timeout: connectMs, lookup: guarded, allowH2: false });
  return (options, callback) => {
    // A URL has brought every spelling of a literal into one form.
    const host = hostOf(options.hostname);
    if (options.protocol !== 'https:' && !policy.allowHttp) callback(new AddressRefused(plain), null);
    else if (!policy.allowPrivate && isIP(host) !== 0 && !isPublic(host)) callback(new AddressRefused(refusal), null);
    else connect(options, callback);
  };
}
