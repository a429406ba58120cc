import dns, { Resolver } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { buildConnector } from 'undici';
import { type AddressPolicy, AddressRefused, hostOf, isPublic, notHttps, notPublic } from './address-guard.ts';

/** The timeout of each try to resolve a name. */
const tryMs = 2_000;
const tries = 2;

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
  // Of several addresses the next is tried after that. Node's default is less than a lost packet takes to be sent again.
  const autoSelectFamilyAttemptTimeout = Math.ceil(connectMs / 4);
  const connect = buildConnector({
    timeout: connectMs,
    lookup: guarded,
    allowH2: false,
    autoSelectFamilyAttemptTimeout,
  });
  return (options, callback) => {
    // The URL parser has already brought every spelling of a literal address into one form.
    const host = hostOf(options.hostname);
    if (options.protocol !== 'https:' && !policy.allowHttp) callback(new AddressRefused(notHttps), null);
    else if (!policy.allowPrivate && isIP(host) !== 0 && !isPublic(host)) callback(new AddressRefused(notPublic), null);
    else connect(options, callback);
  };
}

/**
 * Resolves names in the DNS. `dns.lookup` would occupy one of libuv's four threads until the answer comes: a few names
 * whose servers are dead would block the resolution of all others.
 * @param servers name servers to use instead of the system's
 */
export function dnsLookup(servers?: readonly string[]): LookupFunction {
  return (hostname, _options, callback) => {
    // A new resolver each time, so that changes of the system's name servers take effect.
    const resolver = new Resolver({ timeout: tryMs, tries });
    if (servers !== undefined) resolver.setServers(servers);
    const found: { address: string; family: number }[][] = [[], []];
    const codes: (string | undefined)[] = [];
    const end = (family: 4 | 6) => (error: NodeJS.ErrnoException | null, addresses?: readonly string[]) => {
      // IPv4 addresses come first, whichever answer arrives first.
      found[family === 4 ? 0 : 1] = error === null ? (addresses ?? []).map((address) => ({ address, family })) : [];
      codes.push(error?.code);
      if (codes.length < 2) return;
      const all = found.flat();
      if (all.length > 0) callback(null, all);
      else callback(Object.assign(new Error(`There is no address of ${hostname}`), { code: failureOf(codes) }), '');
    };
    resolver.resolve4(hostname, end(4));
    resolver.resolve6(hostname, end(6));
  };
}

/** The code that `dns.lookup` would give: the name does not exist, or could not be looked up. */
function failureOf(codes: readonly (string | undefined)[]): string {
  const unknown = codes.every((code) => code === undefined || code === 'ENOTFOUND' || code === 'ENODATA');
  return unknown ? 'ENOTFOUND' : 'EAI_AGAIN';
}
