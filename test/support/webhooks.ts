import { onTestFinished } from 'vitest';
import type { Json } from './client.ts';
import { TestClock } from './clock.ts';
import { Receiver, type Replies } from './receiver.ts';
import { startTestServer, type TestAccount, type TestServer, type TestServerOptions } from './server.ts';
import { eventually } from './wait.ts';
import { anywhere } from './webhook-policy.ts';

/** A server, an account and a receiver of one test's own. */
export interface Scene {
  readonly server: TestServer;
  readonly clock: TestClock;
  readonly client: TestAccount;
  readonly receiver: Receiver;
  /** Registers a webhook to a path of the receiver, which from then on verifies what comes there. */
  webhook(path?: string, options?: object): Promise<Json>;
  /** Moves the clock, and lets the server look for what is due. */
  advance(ms: number): Promise<void>;
  /** Moves the clock to a time, and lets the server look for what is due. */
  advanceTo(time: string): Promise<void>;
  /** All deliveries to a webhook, newest first. */
  deliveries(webhookId: string): Promise<Json[]>;
  delivery(webhookId: string, id: string): Promise<Json>;
  /** The newest delivery to a webhook, with its attempts, once so many have ended. */
  attempted(webhookId: string, attempts: number): Promise<Json>;
}

export async function openScene(options: TestServerOptions & { replies?: Replies } = {}): Promise<Scene> {
  const { replies, clock = new TestClock(), ...rest } = options;
  const server = await startTestServer({ clock, ...rest, config: { webhookPolicy: anywhere, ...options.config } });
  onTestFinished(() => server.close());
  return await sceneOf(server, await server.account(), replies);
}

/** Another account and receiver on a server that is there already. */
export async function sceneOf(server: TestServer, client: TestAccount, replies?: Replies): Promise<Scene> {
  const { clock } = server;
  const receiver = await Receiver.open(clock, replies);
  const look = () => server.app.webhooks.look();
  const delivery = async (webhookId: string, id: string): Promise<Json> =>
    (await client.rest('GET', `/webhooks/${webhookId}/deliveries/${id}`)).body;
  const deliveries = async (webhookId: string): Promise<Json[]> =>
    (await client.rest('GET', `/webhooks/${webhookId}/deliveries?limit=100`)).body.data;
  return {
    server,
    clock,
    client,
    receiver,
    async webhook(path = '/hooks', body = {}) {
      const made = await client.rest('POST', '/webhooks', { body: { url: `${receiver.url}${path}`, ...body } });
      if (made.status !== 201) throw new Error(JSON.stringify(made.body));
      receiver.trust(path, made.body.secret);
      return made.body;
    },
    async advance(ms) {
      clock.advance(ms);
      await look();
    },
    async advanceTo(time) {
      clock.advanceTo(Date.parse(time));
      await look();
    },
    deliveries,
    delivery,
    async attempted(webhookId, attempts) {
      const list = `/webhooks/${webhookId}/deliveries?limit=1`;
      // Not by many requests, which cost much more.
      await eventually(
        async () => await server.storage.read.deliveries.page(client.account.id, webhookId, { limit: 1, offset: 0 }),
        ({ items: [found] }) => found !== undefined && found.attemptCount >= attempts,
      );
      const newest = await eventually(
        async () => (await client.rest('GET', list)).body.data[0],
        (found) => found?.attemptCount >= attempts,
      );
      return await delivery(webhookId, newest.id);
    },
  };
}

/** Makes one event: a conversation that started. */
export async function startConversation(client: TestAccount, body: object = {}): Promise<Json> {
  return (await client.rest('POST', '/conversations', { body })).body;
}
