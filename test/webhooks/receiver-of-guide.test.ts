import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { Webhook, WebhookVerificationError } from 'standardwebhooks';
import { expect, onTestFinished, test } from 'vitest';
import type { Json } from '../support/client.ts';
import { TestClock } from '../support/clock.ts';
import { runGuide } from '../support/guide.ts';
import { startTestServer } from '../support/server.ts';
import { eventually, until } from '../support/wait.ts';
import { anywhere } from '../support/webhook-policy.ts';

test('the receiver that the GUIDE shows keeps each event that the service delivers once, and nothing that is forged', async () => {
  const clock = new TestClock(new Date().toISOString()); // the package looks at the system's clock
  const server = await startTestServer({ clock, config: { webhookPolicy: anywhere } });
  onTestFinished(() => server.close());
  const account = await server.account();

  // It listens before there is a secret, which the webhook gets with its URL.
  const listening = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void listening.close());
  await once(listening, 'listening');
  const url = `http://127.0.0.1:${(listening.address() as AddressInfo).port}/hooks`;
  const { id, secret } = (await account.rest('POST', '/webhooks', { body: { url, events: ['message.received'] } }))
    .body;
  const kept = new Map<string, Json>();
  let isAway = false;
  await runGuide(
    'Webhooks',
    'undefined',
    {
      'node:http': {
        createServer: (listener: RequestListener) => ({ listen: () => listening.on('request', listener) }),
      },
      standardwebhooks: { Webhook, WebhookVerificationError },
    },
    {
      process: { env: { WEBHOOK_SECRET: secret } },
      keep: async (event: Json) => {
        if (isAway) throw new Error('The database is away.');
        kept.set(event.id, event);
      },
    },
  );
  const message = { sender: 'visitor', content: 'Where is my parcel? 📦' };
  await account.rest('POST', '/conversations', { body: { message } });
  await until(() => kept.size === 1);
  const [event] = kept.values();
  expect(event).toMatchObject({ type: 'message.received', data: { message } });
  const lastDelivery = () => account.rest('GET', `/webhooks/${id}/deliveries?limit=1`);
  const delivered = await eventually(lastDelivery, ({ body }) => body.data[0].status === 'succeeded');
  expect(delivered.body.data).toMatchObject([{ eventId: event.id, attemptCount: 1 }]);

  /** Sends an event as the service would, but for what is signed, when, and by what. */
  const send = async (body: string, signed = body, by = new Webhook(secret), at = new Date()): Promise<number> => {
    const headers = {
      'webhook-id': event.id,
      'webhook-timestamp': `${Math.floor(at.getTime() / 1_000)}`,
      'webhook-signature': by.sign(event.id, at, signed),
    };
    return (await fetch(url, { method: 'POST', headers, body })).status;
  };
  const genuine = JSON.stringify(event);
  const forged = genuine.replace('Where is', 'Forget');
  const another = new Webhook(`whsec_${Buffer.from('another secret of somebody else').toString('base64')}`);
  expect(await send(forged, genuine)).toBe(400);
  expect(await send(forged, forged, another)).toBe(400);
  expect(await send(genuine, genuine, undefined, new Date(Date.now() - 3_600_000))).toBe(400);
  expect((await fetch(url, { method: 'POST', body: genuine })).status).toBe(400);
  expect(await send(genuine)).toBe(204); // once more, as after a lost answer
  expect([...kept.values()]).toEqual([event]);

  // What could not be kept is to be sent again, and a client that goes in the midst of a body ends nothing.
  isAway = true;
  expect(await send(genuine)).toBe(500);
  isAway = false;
  const going = connect((listening.address() as AddressInfo).port, '127.0.0.1');
  const left = new Promise((resolve) => listening.once('request', (request) => request.once('close', resolve)));
  going.write('POST /hooks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc', () => going.destroy());
  await left;
  expect(await send(genuine)).toBe(204);
});
