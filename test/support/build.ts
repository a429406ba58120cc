import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';

/** Builds what the tests of the program run, before the first of them, and starts a database where they need one. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  await import('../../esbuild.config.ts');
  const folder = mkdtempSync(join(tmpdir(), 'conversation-service-prepared-'));
  chmodSync(folder, 0o755); // the server, which does not run as root, reads the clocks there
  process.env['TEST_POSTGRES_DATA'] = join(folder, 'data'); // the first file that needs it puts it there
  const remove = (): void => rmSync(folder, { recursive: true });
  if (project.vite.config.mode !== 'postgres') return async () => remove();
  const { PostgresServer } = await import('./postgres.ts');
  const server = await PostgresServer.start();
  process.env['TEST_POSTGRES_URL'] = server.url;
  // What starts PostgreSQL would end the process with 0, whatever has failed.
  process.prependOnceListener('beforeExit', () => process.exit());
  return async () => {
    await server.remove();
    remove();
  };
}
