import { readdirSync, readFileSync, statfsSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer } from 'vitest/node';

// Vite would pick another copy of graphql than Node does for the libraries: there must be one.
const conditions = ['node', 'module-sync'];

/** Those that take longest come first, so that no core is idle at the end. */
const first = [
  'storage/postgres',
  'events/slow-reader',
  'soak',
  'reliability/nodes',
  'reliability/crash',
  'reliability/hostile',
  'storm',
  'worst-document',
];
/**
 * The attacks come last, because they measure how long others wait. Beside them run those that themselves do little but
 * wait, so that no core is idle for long.
 */
const last = [
  'attacks/attacks',
  'events/socket',
  'storage/sqlite-writer',
  'webhooks/addresses',
  'reliability/faults-silence',
];

/**
 * Where tests make their files: in memory, if there is room. Waiting for a disk takes half of their time. The long ones
 * wait for it.
 */
function temporaryFolder() {
  const folder = '/dev/shm';
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize > 4 * 1024 ** 3 ? { TMPDIR: folder } : {};
  } catch {
    return {}; // this is not Linux
  }
}

/** In a long run, only those that try something harder there, as the storage contract does. */
function testsIn(mode) {
  const folder = join(import.meta.dirname, 'test');
  const triesHarder = (file) => /support\/effort\.ts'|\/contract\.ts'/.test(readFileSync(join(folder, file), 'utf8'));
  const all = readdirSync(folder, { recursive: true }).filter((file) => /^(?!.*node_modules).*\.test\.ts$/.test(file));
  return mode === 'long' ? all.filter(triesHarder).map((file) => `test/${file}`) : ['test/**/*.test.ts'];
}

// Hundreds of threads and of processes load the same modules. This is inherited by all that are started.
process.env.NODE_COMPILE_CACHE ??= join(tmpdir(), 'conversation-service-compile-cache');

class InOrder extends BaseSequencer {
  async sort(files) {
    const placeIn = (names, { moduleId }) => names.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
    const placeOf = (file) => {
      const place = placeIn(first, file);
      return place === -1 ? first.length + placeIn(last, file) + 1 : place;
    };
    return (await super.sort(files)).sort((a, b) => placeOf(a) - placeOf(b));
  }
}

export default defineConfig(({ mode }) => ({
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    include: testsIn(mode),
    alias: [{ find: /^(\.\.?\/)+layout\.ts$/, replacement: join(import.meta.dirname, 'test/support/layout.ts') }],
    globalSetup: 'test/support/build.ts',
    // Each file would load all the sources anew, which takes a quarter of the time. They keep no state of their own.
    isolate: false,
    // The same promises, tried harder: `npm run test:long`.
    env: { TEST_EFFORT: mode === 'test' ? 'short' : mode, ...(mode === 'long' ? {} : temporaryFolder()) },
    sequence: { sequencer: InOrder },
    // Most of what a test makes is garbage soon. Threads that collect it would take the cores from the other files: they
    // made a sixth of the time. The old space begins as large as it gets, and is not made smaller while a test waits.
    execArgv: [
      '--max-semi-space-size=64',
      '--initial-old-space-size=512',
      '--no-memory-reducer',
      '--single-threaded-gc',
    ],
    // What hangs ends at last. A busy machine takes several times as long as usual.
    testTimeout: mode === 'long' ? 600_000 : 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 30_000 } },
    // By default it leaves a core idle, which on a machine of two is half of it. Many tests do little but wait.
    maxWorkers: mode === 'long' ? '100%' : Math.ceil(1.5 * availableParallelism()),
  },
}));
