import { startTestServer, type TestServer } from './server.ts';

/**
 * What happens while the pages are away, so that the log no longer reaches back to what they know when the server is back.
 * @param databasePath where the server has its file, which has to outlive it
 */
export async function whilePagesAreAway(
  server: TestServer,
  databasePath: string,
  work: (elsewhere: TestServer) => Promise<unknown>,
): Promise<TestServer> {
  const { clock, url } = server;
  await server.close();
  const elsewhere = await startTestServer({ databasePath, clock });
  await work(elsewhere);
  clock.advance(1);
  await elsewhere.app.ports.storage.write(async (tx) => await tx.events.prune(clock.now(), 10_000));
  await elsewhere.close();
  return await startTestServer({ databasePath, clock, config: { port: Number(new URL(url).port) } });
}
