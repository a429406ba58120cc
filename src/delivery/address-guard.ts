import dns from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { buildConnector } from 'undici';
import type { WebhookTargets } from '../domain/ports.ts';
import { dnsLookup } from './resolve.ts';

export interface AddressPolicy {
  /** Whether plain `http` may be used. */
  readonly allowHttp: boolean;
  /** Whether addresses that are not on the public internet may be called. */
  readonly allowPrivate: boolean;
}

/** Refuses an address before anything is sent to it. */
export class AddressRefused extends Error {
  override readonly name = 'AddressRefused';
}

const plain = 'must be an `https` address';
const refusal = 'leads to an address that is not on the public internet';

/** Names that never leave the machine or its network (RFC 6761, RFC 6762 and what clouds use). */
const privateName = /(^|\.)(localhost|local|internal|home\.arpa)$/;

/** Public by its form, and yet the host's own in every network of Azure: it serves metadata there. */
const azureHost = '168.63.129.16';

/** Whether an address, in any of its spellings, is reachable by everybody and belongs to nobody's inside. */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  // An IPv4 address inside an IPv6 one is judged as what it is.
  const parsed = ipaddr.process(address);
  if (parsed.range() !== 'unicast') return false;
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString() !== azureHost;
  // All that is assigned for the public use lies in 2000::/3; what else is called unicast is not.
  return (parsed.parts[0] ?? 0) >> 13 === 1;
}

/** What can be said of a target by its form alone: the judgement that counts is made when it is connected to. */
export function webhookTargets({ allowHttp, allowPrivate }: AddressPolicy): WebhookTargets {
  return {
    faultOf({ protocol, hostname }) {
      if (protocol !== 'https:' && !allowHttp) return plain;
      if (allowPrivate) return undefined;
      const host = hostOf(hostname);
      const refused = isIP(host) === 0 ? privateName.test(host) : !isPublic(host);
      return refused ? refusal : undefined;
    },
  };
}

/** A host name of a URL without the brackets of IPv6 and the dot of the root. */
function hostOf(hostname: string): string {
  return hostname
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
    .toLowerCase();
}

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
