import { Resolver } from 'node:dns';
import type { LookupFunction } from 'node:net';

/** The timeout of each try. */
const tryMs = 2_000;
const tries = 2;

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
