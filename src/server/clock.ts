import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { hrtime } from 'node:process';
import type { Clock } from '../domain/ports.ts';

export const systemClock: Clock = {
  now: () => Date.now(),
  uptimeMs() {
    const [seconds, nanoseconds] = hrtime(); // all processes of a machine read the same
    return seconds * 1_000 + Math.floor(nanoseconds / 1e6);
  },
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
