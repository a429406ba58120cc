import postgres from 'postgres';
import { expect } from 'vitest';
import { longTest } from '../support/effort.ts';
import { postgresServer } from '../support/postgres.ts';
import { startTestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';
import { sceneOf, startConversation } from '../support/webhooks.ts';

const { database } = postgresServer();

longTest(
  'a delivery whose row another node has locked is claimed a few times a second, and sent once it is free',
  async () => {
    const url = await database();
    let claims = 0;
    const server = await startTestServer({
      config: { postgres: { url, directUrl: undefined, poolSize: 4 }, webhookPolicy: anywhere },
      onStatement: (sql) => {
        if (sql.includes('SKIP LOCKED) AS deliveries')) claims++;
      },
    });
    const scene = await sceneOf(server, await server.account(), ({ number }) => ({ status: number === 1 ? 500 : 200 }));
    const { id } = await scene.webhook();
    await startConversation(scene.client);
    const { nextAttemptAt } = await scene.attempted(id, 1);
    const node = postgres(url, { max: 1, fetch_types: false });
    await node.begin(async (sql) => {
      await sql`SELECT 1 FROM deliveries FOR UPDATE`;
      await scene.advanceTo(nextAttemptAt);
      await until(() => claims > 0);
      for (let turn = 0; turn < 5; turn++) {
        const startedMs = performance.now();
        await until(() => performance.now() - startedMs > 100);
        scene.clock.advance(100);
      }
      expect(claims).toBeLessThan(10);
    });
    await node.end();
    await scene.advance(100);
    await scene.attempted(id, 2);
    await server.close();
  },
);
