import ipaddr from 'ipaddr.js';
import { DomainError } from '../domain/errors.ts';
import type { Clock } from '../domain/ports.ts';

const maxFailuresPerMinute = 20;
const maxAddresses = 10_000;
const minuteMs = 60_000;

interface Failures {
  count: number;
  /** On the monotonic clock, so that setting the time of day does not matter. */
  readonly untilMs: number;
}

/**
 * Counts failed authentications per client address, in a bounded table. Valid credentials are never affected: one bad
 * client must not lock out its neighbours.
 */
export class FailedAttempts {
  readonly #clock: Clock;
  /** Oldest first. */
  readonly #byAddress = new Map<string, Failures>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Records a failure.
   * @returns the error to return instead of UNAUTHENTICATED after too many failures, otherwise undefined
   */
  record(address: string): DomainError | undefined {
    const now = this.#clock.uptimeMs();
    const key = network(address);
    let failures = this.#byAddress.get(key);
    if (failures === undefined || failures.untilMs <= now) {
      this.#byAddress.delete(key);
      failures = { count: 0, untilMs: now + minuteMs };
      this.#byAddress.set(key, failures);
      this.#forgetOldest();
    }
    failures.count++;
    if (failures.count <= maxFailuresPerMinute) return undefined;
    return new DomainError('RATE_LIMITED', 'Too many failed authentications from this address.', {
      retryAfterSeconds: Math.ceil((failures.untilMs - now) / 1_000),
    });
  }

  #forgetOldest(): void {
    if (this.#byAddress.size <= maxAddresses) return;
    const [oldest] = this.#byAddress.keys();
    if (oldest !== undefined) this.#byAddress.delete(oldest);
  }
}

/** The part of an address that a client cannot freely choose: all of IPv4, the /64 of IPv6. */
function network(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed.kind() === 'ipv4') return parsed.toString();
  return parsed.toByteArray().slice(0, 8).join('.');
}

/**
 * The trustworthy address of the client.
 * @param forwardedFor the `X-Forwarded-For` header, to which each proxy appends the address of its peer
 * @param proxies number of trusted proxies in front of the server
 */
export function clientAddress(peer: string | undefined, forwardedFor: string | undefined, proxies: number): string {
  const hops = proxies > 0 && forwardedFor !== undefined ? forwardedFor.split(',') : [];
  const hop = hops.at(-proxies) ?? hops[0];
  // Anything but an address is useless as a key, and could be of any length.
  return (hop === undefined ? undefined : addressOf(hop.trim())) ?? peer ?? 'unknown';
}

/** The address in a hop: some proxies append the port, with IPv6 addresses in brackets. */
function addressOf(hop: string): string | undefined {
  const address = /^\[([^\]]*)\](?::\d+)?$/.exec(hop)?.[1] ?? /^([\d.]+):\d+$/.exec(hop)?.[1] ?? hop;
  return ipaddr.isValid(address) ? address : undefined;
}
