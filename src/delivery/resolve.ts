import { Resolver } from 'node:dns';
import type { LookupFunction } from 'node:net';

/** Each of a few tries at a name server may take this long. */
const tryMs = 2_000;
const tries = 2;

/**
 * Finds the addresses of a name in the DNS. `dns.lookup` asks the system, and holds one of its four threads for as
 * long as an answer takes: a few names whose servers are dead would keep all others from being found.
 * @param servers other name servers than the system's
 */
export function dnsLookup(servers?: readonly string[]): LookupFunction {
  return (hostname, _options, callback) => {
    // A new one each time, so that it knows of it when the system's name servers change.
    const resolver = new Resolver({ timeout: tryMs, tries });
    if (servers !== undefined) resolver.setServers(servers);
    const found: { address: string; family: number }[][] = [[], []];
    const codes: (string | undefined)[] = [];
    const end = (family: 4 | 6) => (error: NodeJS.ErrnoException | null, addresses?: readonly string[]) => {
      // IPv4 goes first, whichever answer comes first.
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

/** In the words of `dns.lookup`: the name is not known, or could not be asked for. */
function failureOf(codes: readonly (string | undefined)[]): string {
  const unknown = codes.every((code) => code === undefined || code === 'ENOTFOUND' || code === 'ENODATA');
  return unknown ? 'ENOTFOUND' : 'EAI_AGAIN';
}
