import type { Arrival } from '../access/admission.ts';
import type { EndReason } from '../access/sessions.ts';
import type { Caller } from '../domain/caller.ts';
import { closeCodes, type Wire } from './wire.ts';

/** One socket as the hooks of graphql-ws see it. There may be ten thousand, open for days, so it holds little. */
export interface SocketState {
  readonly wire: Wire;
  /** What admission checks; dropped once it has. */
  arrival?: Arrival | undefined;
  /** The header `X-Request-Id` of the upgrade request. */
  readonly givenRequestId: string | string[] | undefined;
  /** Identifies the socket in errors and logs; most sockets never need one. */
  requestId?: string;
  /** To be called when `connection_init` has arrived. graphql-ws would retain its own timer until the socket closes. */
  greeted?: (() => void) | undefined;
  caller?: Caller;
}

/** Closes a socket whose credential or server has come to its end. */
export function endSession(wire: Wire, reason: EndReason): void {
  if (reason === 'shutdown') wire.close(closeCodes.goingAway, 'Service restart');
  else wire.close(closeCodes.forbidden, 'Forbidden');
}
