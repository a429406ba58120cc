import { defineConfig } from 'vitest/config';

// Vite would pick another copy of graphql than Node does for the libraries: there must be one.
const conditions = ['node', 'module-sync'];

export default defineConfig(({ mode }) => ({
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/support/build.ts',
    // Each file would load all the sources anew, which takes a quarter of the time. They keep no state of their own.
    isolate: false,
    // The same promises, tried harder: `npm run test:long`.
    env: { TEST_EFFORT: mode === 'long' ? 'long' : 'short' },
    testTimeout: mode === 'long' ? 600_000 : 20_000,
    hookTimeout: 20_000,
    // By default it leaves a core idle, which on a machine of two is half of it.
    maxWorkers: '100%',
  },
}));
