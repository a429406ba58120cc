/** Whether requests should be sent here: `draining` at a shutdown, `unavailable` when the storage cannot be read. */
export type Readiness = 'ready' | 'draining' | 'unavailable';

/** What those ask who watch over the service. */
export interface Probes {
  /** Asks the storage. It answers within a bounded time and never rejects. */
  readiness(): Promise<Readiness>;
  /** All numbers, in the text format of Prometheus. */
  metrics(): Promise<{ readonly type: string; readonly text: string }>;
}

interface Found {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

/** What is answered at the paths for probes. They need no credential, cost nobody anything and do not fill the log. */
export function answersTo(probes: Probes): ReadonlyMap<string, () => Promise<Found>> {
  return new Map([
    // That it answers at all is what it says: nothing else is looked at.
    ['/healthz', async () => status(200, 'ok')],
    [
      '/readyz',
      async () => {
        const readiness = await probes.readiness();
        return status(readiness === 'ready' ? 200 : 503, readiness);
      },
    ],
    [
      '/metrics',
      async () => {
        const { type, text } = await probes.metrics();
        return found(200, type, text);
      },
    ],
  ]);
}

function status(code: number, word: string): Found {
  return found(code, 'application/json; charset=utf-8', JSON.stringify({ status: word }));
}

function found(status: number, type: string, body: string): Found {
  return { status, headers: { 'Content-Type': type, 'Cache-Control': 'no-store' }, body };
}
