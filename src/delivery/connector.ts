import dns from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { buildConnector } from 'undici';
import { type AddressPolicy, AddressRefused, hostOf, isPublic, notHttps, notPublic } from './address-guard.ts';
import { dnsLookup } from './resolve.ts';

/**
 * Connects only to addresses that webhooks may be sent to. A name is resolved once, and the connection is made to one
 * of the addresses that were checked, which rules out DNS rebinding. A literal address is never looked up, so it is
 * checked separately.
 * @param connectMs timeout of establishing a connection, TLS included
 * @param lookup resolves a name; by default in the DNS, or as the system does where private addresses are allowed
 */
export function guardedConnector(
  policy: AddressPolicy,
  connectMs: number,
  // Names of private hosts may come from other sources than the DNS, such as /etc/hosts.
  lookup: LookupFunction = policy.allowPrivate ? (dns.lookup as LookupFunction) : dnsLookup(),
): buildConnector.connector {
  const guarded: LookupFunction = (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      const addresses = (Array.isArray(found) ? found : []).filter(
        ({ address }) => policy.allowPrivate || isPublic(address),
      );
      const [first] = addresses;
      if (error !== null) callback(error, '', 0);
      else if (first === undefined) callback(new AddressRefused(notPublic), '', 0);
      else if (options.all === true) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
  const connect = buildConnector({ timeout: connectMs, lookup: guarded, allowH2: false });
  return (options, callback) => {
    // The URL parser has already brought every spelling of a literal address into one form.
    const host = hostOf(options.hostname);
    if (options.protocol !== 'https:' && !policy.allowHttp) callback(new AddressRefused(notHttps), null);
    else if (!policy.allowPrivate && isIP(host) !== 0 && !isPublic(host)) callback(new AddressRefused(notPublic), null);
    else connect(options, callback);
  };
}
