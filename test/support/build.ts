import type { TestProject } from 'vitest/node';

/** Builds what the tests of the program run, before the first of them, and starts a database where they need one. */
export async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  await import('../../esbuild.config.ts');
  if (project.vite.config.mode !== 'postgres') return undefined;
  const { PostgresServer } = await import('./postgres.ts');
  const server = await PostgresServer.start();
  process.env['TEST_POSTGRES_URL'] = server.url;
  // What starts PostgreSQL would end the process with 0, whatever has failed.
  process.prependOnceListener('beforeExit', () => process.exit());
  return () => server.remove();
}
