import { hash } from 'node:crypto';
import { isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { DomainError } from '../domain/errors.ts';
import type { Clock } from '../domain/ports.ts';

const maxFailuresPerMinute = 20;
const maxAddresses = 10_000;
const minuteMs = 60_000;

interface Failures {
  count: number;
  /** The SHA-256 of the credential that failed last. */
  last: Buffer;
  /** On the monotonic clock, so that setting the time of day does not matter. */
  readonly untilMs: number;
}

/**
 * Counts failed authentications per client address, in a bounded table. It is for clients that go on with a credential
 * that has ended: past the limit they are told how long to wait, and until then the same credential is not looked up
 * again. (Nobody guesses one: they hold 256 random bits.) Any other is, so a valid one always passes: one bad client
 * must not lock out its neighbours.
 */
export class FailedAttempts {
  readonly #clock: Clock;
  /** Oldest first. */
  readonly #byAddress = new Map<string, Failures>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * The error for a credential that has just failed, if there were too many failures; otherwise undefined, and the
   * credential has to be looked up.
   */
  refusalOf(address: string, credential: string): DomainError | undefined {
    if (this.#byAddress.size === 0) return undefined;
    const failures = this.#byAddress.get(network(address));
    if (failures === undefined || failures.count < maxFailuresPerMinute) return undefined;
    if (failures.untilMs <= this.#clock.uptimeMs()) return undefined;
    return failures.last.equals(hashOf(credential)) ? this.record(address, credential) : undefined;
  }

  /**
   * Records a failure.
   * @returns the error to return instead of UNAUTHENTICATED after too many failures, otherwise undefined
   */
  record(address: string, credential: string): DomainError | undefined {
    const now = this.#clock.uptimeMs();
    const key = network(address);
    let failures = this.#byAddress.get(key);
    if (failures === undefined || failures.untilMs <= now) {
      this.#byAddress.delete(key);
      failures = { count: 0, last: hashOf(credential), untilMs: now + minuteMs };
      this.#byAddress.set(key, failures);
      this.#forgetOldest();
    }
    failures.count++;
    failures.last = hashOf(credential);
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

function hashOf(credential: string): Buffer {
  return hash('sha256', credential, 'buffer');
}

/** The part of an address that a client cannot freely choose: all of IPv4, the /64 of IPv6. */
export function network(address: string): string {
  if (isIPv4(address)) return address; // as most are: no need to parse it
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
