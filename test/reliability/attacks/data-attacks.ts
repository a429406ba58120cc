import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Customer, graphqlBytes, send, sleep, type Target, times } from './attacker.ts';
import { HttpConnection, requestBytes } from './connection.ts';
import { Outcomes, unfinished } from './outcomes.ts';
import type { Attack } from './table.ts';

// Attacks by what the service keeps, computes and sends: reports, messages, keys, webhooks.

function reports(count: number): (index: number) => string {
  return (index) =>
    `{ ${times(count, (each) => `r${index}x${each}: analytics(interval: HOUR, timezone: "Asia/Kathmandu", from: "2026-11-0${1 + (each % 9)}T00:00:00Z") { totals { leads } }`).join(' ')} }`;
}

/** A receiver that takes what it is sent, and answers or does not. */
async function receiver(answers: boolean): Promise<{ url: string; close(): void }> {
  const server = createServer((req, res) => {
    req.resume();
    if (answers) req.once('end', () => res.writeHead(204).end());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function mutationOf(count: number, field: (index: number) => string): string {
  return `mutation { ${times(count, (index) => `m${index}: ${field(index)}`).join(' ')} }`;
}

async function sendTo(
  target: Target,
  outcomes: Outcomes,
  query: string,
  variables: object = {},
): Promise<Record<string, Record<string, { id: string }> | null>> {
  const response = await fetch(`${target.url}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${target.secret}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query, variables }),
  });
  const text = await response.text();
  const code = /"code":"([A-Z_]+)"/.exec(text)?.[1];
  outcomes.add(code === undefined ? `${response.status}` : `${response.status} ${code}`);
  return JSON.parse(text).data ?? {};
}

async function noWebhooks(customer: Customer): Promise<void> {
  const { data } = await customer.rest('GET', '/v1/webhooks?limit=100');
  for (const { id } of data) await customer.rest('DELETE', `/v1/webhooks/${id}`);
}

async function emptyConversation(customer: Customer): Promise<Record<string, string>> {
  return { conversation: (await customer.rest('POST', '/v1/conversations', {})).id };
}

/** One input for all, because a document may not have many tokens. */
async function sendMessages(target: Target, outcomes: Outcomes, count: number): Promise<void> {
  const i = { conversationId: target.fixture['conversation'], content: 'x', sender: 'VISITOR' };
  const field = mutationOf(count, () => 'sendMessage(input: $i) { eventCursor }');
  await sendTo(target, outcomes, field.replace('mutation', 'mutation ($i: SendMessageInput!)'), { i });
}

function webhooksAt(url: string): string {
  return mutationOf(20, (index) => `createWebhook(input: {url: "${url}/${index}"}) { webhook { id } }`);
}

/** Webhooks at a receiver that hangs, deleted and made anew while attempts are under way. */
async function hangingWebhooks(target: Target): Promise<Outcomes> {
  const outcomes = new Outcomes();
  const hanging = await receiver(false);
  let ids: string[] = [];
  for (let round = 0; round < (target.isLong ? 4 : 2); round++) {
    if (ids.length > 0) {
      await sendTo(
        target,
        outcomes,
        mutationOf(ids.length, (index) => `deleteWebhook(input: {id: "${ids[index]}"}) { eventCursor }`),
      );
    }
    const made = await sendTo(target, outcomes, webhooksAt(hanging.url));
    ids = Object.values(made).flatMap((payload) => payload?.['webhook']?.id ?? []);
    await sendMessages(target, outcomes, target.limits === 'trial' ? 10 : 40);
    await sleep(200);
  }
  await sleep(target.isLong ? 8_000 : 200);
  await noWebhooks(new Customer(target)); // those of the next repetition need their places
  hanging.close();
  return outcomes;
}

async function manyDeliveries(target: Target, rounds: number, messages: number, answers: boolean): Promise<Outcomes> {
  const outcomes = new Outcomes();
  const each = await receiver(answers);
  await sendTo(target, outcomes, webhooksAt(each.url));
  for (let round = 0; round < rounds; round++) await sendMessages(target, outcomes, messages);
  await sleep(5_000);
  each.close();
  return outcomes;
}

async function longConversation(customer: Customer): Promise<Record<string, string>> {
  return { conversation: await customer.conversation(10_000, 'x'.repeat(600)) };
}

async function readWhole(target: Target, sending: { requests?: number; forMs?: number }): Promise<Outcomes> {
  const path = `/v1/conversations/${target.fixture['conversation']}`;
  const etag = await fetch(`${target.url}${path}?messages=none`, {
    headers: { authorization: `Bearer ${target.secret}` },
  })
    .then((response) => response.headers.get('etag'))
    .catch(() => null);
  const whole = requestBytes('GET', path, { secret: target.secret });
  const same = requestBytes('GET', path, { secret: target.secret, headers: { 'If-None-Match': etag ?? '"10001"' } });
  return await send(target, { connections: 8, ...sending }, (index) => (index % 2 === 0 ? whole : same));
}

export const dataAttacks: Attack[] = [
  {
    name: 'requests of thirty-three reports',
    limits: 'trial',
    probe: 'report',
    attack: (target) =>
      send(target, { connections: 30, requests: 30 }, (index) => graphqlBytes(target, reports(33)(index))),
  },
  {
    name: 'reports, as many in a request as allowed',
    limits: 'raised',
    isShort: true,
    probe: 'report',
    attack: (target) =>
      send(target, { connections: 30, requests: target.isLong ? 300 : 10 }, (index) =>
        graphqlBytes(target, reports(5)(index)),
      ),
  },
  {
    name: 'a hundred and sixty messages a request, to twenty webhooks',
    limits: 'trial',
    probe: 'delivery',
    databaseMiB: 100,
    prepare: emptyConversation,
    attack: (target) => manyDeliveries(target, 12, 160, true),
  },
  {
    name: 'a hundred messages a request, to twenty webhooks',
    limits: 'raised',
    probe: 'delivery',
    databaseMiB: 22,
    prepare: async (customer) => {
      await noWebhooks(customer);
      return await emptyConversation(customer);
    },
    attack: (target) => manyDeliveries(target, 12, 100, false),
  },
  {
    name: 'webhooks deleted and made anew at a receiver that hangs',
    limits: 'raised',
    withOtherLimits: true,
    isShort: true,
    probe: 'delivery',
    prepare: emptyConversation,
    attack: hangingWebhooks,
  },
  {
    name: 'keys that expire in a moment',
    limits: 'raised',
    withOtherLimits: true,
    databaseMiB: 20,
    attack: (target) => {
      const field = mutationOf(100, () => 'createApiKey(input: $i) { eventCursor }');
      const query = field.replace('mutation', 'mutation ($i: CreateApiKeyInput!)');
      return send(target, { connections: 8, forMs: 8_000 }, () => {
        const i = { name: 'x', expiresAt: new Date(Date.now() + 300).toISOString() };
        return graphqlBytes(target, query, { i });
      });
    },
  },
  {
    name: 'reads of a conversation of ten thousand messages',
    limits: 'raised',
    withOtherLimits: true,
    prepare: longConversation,
    attack: (target) => readWhole(target, target.limits === 'trial' ? { requests: 99 } : { forMs: 8_000 }),
  },
  {
    name: 'pages of a hundred messages as long as allowed',
    limits: 'raised',
    prepare: async (customer) => ({ conversation: await customer.conversation(100, '€'.repeat(16_384)) }),
    attack: (target) => {
      const path = `/v1/conversations/${target.fixture['conversation']}/messages?limit=100`;
      const page = requestBytes('GET', path, { secret: target.secret });
      return send(target, { connections: 200, requests: target.isLong ? 600 : 200 }, () => page);
    },
  },
  {
    name: 'requests whose clients have gone',
    limits: 'raised',
    withOtherLimits: true,
    async attack(target) {
      const outcomes = new Outcomes();
      const endMs = performance.now() + 5_000;
      const request = requestBytes('GET', '/v1/conversations?limit=100', { secret: target.secret });
      await Promise.all(
        times(200, async () => {
          while (performance.now() < endMs) {
            const connection = new HttpConnection(target.url);
            await new Promise((resolve) => connection.socket.once('connect', resolve).once('close', resolve));
            connection.socket.write(request);
            await sleep(2);
            connection.close();
            outcomes.add(unfinished);
          }
        }),
      );
      return outcomes;
    },
  },
  {
    name: 'conversations made and deleted',
    limits: 'raised',
    databaseMiB: 32,
    async attack(target) {
      const outcomes = new Outcomes();
      const customer = new Customer(target);
      const endMs = performance.now() + 8_000;
      await Promise.all(
        times(4, async () => {
          while (performance.now() < endMs) {
            const id = await customer.conversation(100, 'x'.repeat(4_000));
            await customer.rest('DELETE', `/v1/conversations/${id}`);
            outcomes.add('204');
          }
        }),
      );
      return outcomes;
    },
  },
];
