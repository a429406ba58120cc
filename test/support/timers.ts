import { createHook } from 'node:async_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { onTestFinished } from 'vitest';

/**
 * Watches the timers that our sources set from here on.
 * `process.getActiveResourcesInfo` would not do: it leaves out those that let the process end.
 */
export function watchTimers(): { left(): Promise<string[]> } {
  const set = new Map<number, string>();
  const hook = createHook({
    init(id, type) {
      if (type !== 'Timeout') return;
      const lines = new Error('to see who sets it').stack?.split('\n');
      const setter = lines?.find((line) => /\/src\/\w/.test(line) && !line.includes('node_modules'));
      if (setter !== undefined) set.set(id, setter.trim());
    },
    destroy: (id) => void set.delete(id),
  }).enable();
  onTestFinished(() => void hook.disable());
  return {
    /** Where those were set that are neither over nor cleared. */
    async left() {
      // What has ended is reported in a later turn.
      for (let turn = 0; turn < 3; turn++) await nextTurn();
      return [...set.values()];
    },
  };
}
