import type { Config } from '../../src/config.ts';
import { startTestServer, type TestServer } from './server.ts';

/**
 * What happens while the pages are away, so that the log no longer reaches back to what they know when the server is back.
 * @param databasePath where the server has its file, which has to outlive it
 * @param config what the server is told beside its port, when it is back
 */
export async function whilePagesAreAway(
  server: TestServer,
  databasePath: string,
  work: (elsewhere: TestServer) => Promise<unknown>,
  config: Partial<Config> = {},
): Promise<TestServer> {
  const { clock, url } = server;
  await server.close();
  const elsewhere = await startTestServer({ databasePath, clock });
  await work(elsewhere);
  clock.advance(1);
  await elsewhere.app.ports.storage.write(async (tx) => await tx.events.prune(clock.now(), 10_000));
  await elsewhere.close();
  return await startTestServer({ databasePath, clock, config: { ...config, port: Number(new URL(url).port) } });
}
