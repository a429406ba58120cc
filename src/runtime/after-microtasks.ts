/**
 * Calls back when no microtask is left, so when what runs now waits for something: a tick that is queued by a microtask runs
 * after all of them, and before any timer or I/O.
 */
export function afterMicrotasks(callback: () => void): void {
  queueMicrotask(() => process.nextTick(callback));
}
