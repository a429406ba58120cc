import { randomFillSync } from 'node:crypto';
import { cursorSealOf } from './access/cursor-seal.ts';
import { RateLimiter } from './access/rate-limit.ts';
import { secrets } from './access/secrets.ts';
import { Tokens } from './access/tokens.ts';
import { createIds } from './domain/ids.ts';
import type { Clock, Ports } from './domain/ports.ts';
import type { Storage } from './domain/storage-port.ts';
import type { LiveLog } from './events/live-log.ts';
import { scheduler } from './runtime/scheduler.ts';
import { type AddressPolicy, webhookTargets } from './webhooks/address-guard.ts';

interface PortsOptions {
  readonly storage: Storage;
  readonly clock: Clock;
  /** Where webhooks may be sent. */
  readonly webhookPolicy: AddressPolicy;
  readonly liveLog: LiveLog;
}

/** The implementations of the domain's ports, for the server and for a command alike. */
export function createPorts({ storage, clock, webhookPolicy, liveLog }: PortsOptions) {
  return {
    storage,
    clock,
    ids: createIds((target) => randomFillSync(target)),
    secrets,
    tokens: new Tokens({ storage, clock }),
    cursorSeal: cursorSealOf(storage),
    limiter: new RateLimiter({ storage, clock }),
    liveEvents: liveLog,
    webhookTargets: webhookTargets(webhookPolicy),
    turns: scheduler,
  } satisfies Ports;
}
