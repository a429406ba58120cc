import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { WebhookTargets } from '../domain/ports.ts';

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

export const plain = 'must be an `https` address';
export const refusal = 'leads to an address that is not on the public internet';

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
export function hostOf(hostname: string): string {
  return hostname
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
    .toLowerCase();
}
