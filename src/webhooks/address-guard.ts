import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { WebhookTargets } from '../domain/ports.ts';

export interface AddressPolicy {
  /** Whether plain `http` is allowed. */
  readonly allowHttp: boolean;
  /** Whether addresses outside the public internet are allowed. */
  readonly allowPrivate: boolean;
}

/** An address that webhooks must not be sent to. Its message completes a sentence that begins with the URL. */
export class AddressRefused extends Error {
  override readonly name = 'AddressRefused';
}

export const notHttps = 'must be an `https` address';
export const notPublic = 'leads to an address that is not on the public internet';

/** Names that resolve only on the machine or in its network (RFC 6761, RFC 6762, and names used by clouds). */
const privateName = /(^|\.)(localhost|local|internal|home\.arpa)$/;

/** In the public range, but in every Azure network it is the host itself, which serves metadata there. */
const azureHost = '168.63.129.16';

/** Whether an address, in any of its spellings, is a unicast address on the public internet. */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  // An IPv4-mapped IPv6 address is treated as the IPv4 address.
  const parsed = ipaddr.process(address);
  if (parsed.range() !== 'unicast') return false;
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString() !== azureHost;
  // ipaddr.js also calls addresses outside of 2000::/3 unicast, but only that block is assigned for public use.
  return (parsed.parts[0] ?? 0) >> 13 === 1;
}

/** Checks targets by their form alone, for early errors. What protects the network is the check at connect time. */
export function webhookTargets({ allowHttp, allowPrivate }: AddressPolicy): WebhookTargets {
  return {
    faultOf({ protocol, hostname }) {
      if (protocol !== 'https:' && !allowHttp) return notHttps;
      if (allowPrivate) return undefined;
      const host = hostOf(hostname);
      const refused = isIP(host) === 0 ? privateName.test(host) : !isPublic(host);
      return refused ? notPublic : undefined;
    },
  };
}

/** The host name of a URL in lower case, without the brackets of IPv6 and the trailing dot of the DNS root. */
export function hostOf(hostname: string): string {
  return hostname
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
    .toLowerCase();
}
