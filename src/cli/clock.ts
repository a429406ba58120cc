import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { hrtime } from 'node:process';
import type { Clock } from '../domain/ports.ts';

/** What the monotonic clock, which all processes of a machine read, has at the time origin of this process. */
const originMs = Number(hrtime.bigint()) / 1e6 - performance.now();

export const systemClock: Clock = {
  now: () => Date.now(),
  uptimeMs: () => Math.floor(originMs + performance.now()),
  boot: bootOf(),
};

/** Linux has a name for each start of a machine. Elsewhere the machine's has to do, and the clock that began anew. */
function bootOf(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return hostname();
  }
}
