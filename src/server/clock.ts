import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { hrtime } from 'node:process';
import type { Clock } from '../domain/ports.ts';

export const systemClock: Clock = {
  now: () => Date.now(),
  uptimeMs() {
    const [seconds, nanoseconds] = hrtime(); // the same in all processes of a machine
    return seconds * 1_000 + Math.floor(nanoseconds / 1e6);
  },
  boot: bootOf(),
};

/** Linux has an id for each boot. Elsewhere the host name has to do: a reboot then shows only in an uptime that restarts. */
function bootOf(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return hostname();
  }
}
