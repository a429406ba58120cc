import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

/** A time in which the event loop did not turn. */
export interface Stall {
  /** Its end, in epoch milliseconds. */
  readonly atMs: number;
  readonly lateMs: number;
  /** How many times as slow as at best the machine was. */
  readonly slowness: number;
  /** How long the program itself took, had it had the machine for itself. */
  readonly heldMs: number;
}

/** The state of a process after a garbage collection. */
export interface ProcessState {
  readonly rssBytes: number;
  readonly heapBytes: number;
  /** What would keep it from ending, by kind. */
  readonly resources: Readonly<Record<string, number>>;
  /** Since it was asked before. */
  readonly stalls: readonly Stall[];
}

const hook = new URL('process-probe.mts', import.meta.url);

/** Lets a test ask for the state of a process that is started with this environment. */
export function probeOf(folder: string): { environment: Record<string, string>; ask(): Promise<ProcessState> } {
  const path = join(folder, 'probe.sock');
  return {
    environment: {
      PROBE_SOCKET: path,
      NODE_OPTIONS: `--import=${hook.href}`,
    },
    ask: async () => JSON.parse(await text(connect(path))) as ProcessState,
  };
}
