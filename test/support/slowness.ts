import { readFileSync } from 'node:fs';

/**
 * Begins to watch how much others keep a thread from the processor.
 * @param thread the first one of a process, by its id, or this one
 * @returns what says how many times as slow it has been because of that: 1 where nobody has, or where no system tells
 */
export function slownessOf(thread: number | 'thread-self'): () => number {
  const before = scheduled(thread);
  return () => {
    const { ranNs, waitedNs } = scheduled(thread);
    const slowness = 1 + (waitedNs - before.waitedNs) / (ranNs - before.ranNs);
    return Number.isFinite(slowness) ? slowness : 1;
  };
}

/** For how long a thread ran, and for how long it was ready to. */
function scheduled(thread: number | 'thread-self'): { ranNs: number; waitedNs: number } {
  try {
    const [ranNs, waitedNs] = readFileSync(`/proc/${thread}/schedstat`, 'utf8').split(' ').map(Number);
    return { ranNs: ranNs ?? Number.NaN, waitedNs: waitedNs ?? Number.NaN };
  } catch {
    return { ranNs: Number.NaN, waitedNs: Number.NaN }; // it has ended, or this is not Linux
  }
}
