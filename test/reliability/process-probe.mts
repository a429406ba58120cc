import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';
import type { ProcessState, Stall } from './process-probe.ts';

// Loaded into a process before its program: it looks at the event loop, and tells whoever connects to its socket how
// the process is after a garbage collection.

const everyMs = 10;
/** Lateness below this is nothing that anybody would want to know of. */
const notedMs = 50;
/** Something that always takes the same, unless others have the processor's caches or its other half. */
const yardstick = JSON.stringify(Array.from({ length: 1_000 }, (_, index) => ({ [`key${index % 50}`]: `${index}` })));
const yardstickEveryMs = 100;

const stalls: Stall[] = [];
let dueMs = performance.now() + everyMs;
let waitedMs = waitedForProcessorMs();
let slowness = 1;
let bestMs = Number.POSITIVE_INFINITY;
let measureAtMs = 0;

/** For how long others had the processor when this thread, the process's first, could have used it. */
function waitedForProcessorMs(): number {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[1]) / 1_000_000;
  } catch {
    return 0; // only Linux tells
  }
}

/** How many times as long as at best the same work takes. */
function measureSlowness(): number {
  const { user, system } = process.threadCpuUsage();
  JSON.parse(yardstick);
  const after = process.threadCpuUsage({ user, system });
  const tookMs = (after.user + after.system) / 1_000;
  bestMs = Math.min(bestMs, tookMs);
  return tookMs / bestMs;
}

// The threads of the program are given it, too.
if (isMainThread) {
  const watching = setInterval(() => {
    const nowMs = performance.now();
    const lateMs = nowMs - dueMs;
    const waited = waitedForProcessorMs();
    if (lateMs > notedMs) {
      // What the machine is like now it was like then, too.
      slowness = Math.max(slowness, measureSlowness());
      stalls.push({ atMs: Date.now(), heldMs: (lateMs - (waited - waitedMs)) / slowness, lateMs, slowness });
    }
    if (nowMs > measureAtMs) {
      slowness = measureSlowness();
      measureAtMs = nowMs + yardstickEveryMs;
    }
    waitedMs = waitedForProcessorMs();
    dueMs = performance.now() + everyMs;
  }, everyMs).unref();
  process.once('exit', () => clearInterval(watching));

  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;

  createServer((socket) => {
    collect();
    const { rss, heapUsed } = process.memoryUsage();
    const resources: Record<string, number> = {};
    for (const name of process.getActiveResourcesInfo()) resources[name] = (resources[name] ?? 0) + 1;
    const state: ProcessState = { rssBytes: rss, heapBytes: heapUsed, resources, stalls: stalls.splice(0) };
    socket.on('error', () => {}).end(JSON.stringify(state));
    dueMs = performance.now() + everyMs; // what this took is not the program's
  })
    .listen(process.env['PROBE_SOCKET'])
    .unref();
}
