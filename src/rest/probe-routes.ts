import type { Reply } from '../http/respond.ts';

/** Whether requests should be routed here: `draining` during shutdown, `unavailable` when the storage cannot be read. */
type Readiness = 'ready' | 'draining' | 'unavailable';

/** What the probe routes report. */
export interface Probes {
  /** Checks the storage. Answers within a bounded time and never rejects. */
  readiness(): Promise<Readiness>;
  /** All metrics, in the Prometheus text format. */
  metrics(): Promise<{ readonly type: string; readonly text: string }>;
}

/** The probe routes by path. They need no credential, do not count against rate limits, and are logged at `debug` only. */
export function probeRoutes(probes: Probes): ReadonlyMap<string, () => Promise<Reply>> {
  return new Map([
    // Liveness: that the process answers is enough.
    ['/healthz', async () => statusReply(200, 'ok')],
    [
      '/readyz',
      async () => {
        const readiness = await probes.readiness();
        return statusReply(readiness === 'ready' ? 200 : 503, readiness);
      },
    ],
    [
      '/metrics',
      async () => {
        const { type, text } = await probes.metrics();
        return reply(200, type, text);
      },
    ],
  ]);
}

function statusReply(status: number, word: string): Reply {
  return reply(status, 'application/json; charset=utf-8', JSON.stringify({ status: word }));
}

function reply(status: number, type: string, body: string): Reply {
  return { status, headers: { 'Content-Type': type, 'Cache-Control': 'no-store' }, body };
}
