import type { Scope } from '../../src/domain/caller.ts';
import type { Client, Json } from './client.ts';
import * as select from './selections.ts';
import { until } from './wait.ts';

/** One request, as each face has it. */
export interface Asked {
  /** POST unless it says otherwise. */
  readonly method?: 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: Json;
  readonly field: string;
  readonly input: Json;
  readonly selection: string;
}

/** An operation that can be sent again under a key. */
export interface Repeatable {
  readonly scope: Scope;
  /** Makes what the request needs. */
  given(client: Client, receiverUrl: string): Promise<Json>;
  ask(made: Json): Asked;
  /** The same operation, asked for something else. */
  askElse(made: Json): Asked;
  /** The same body under another path, where there is an id in it. */
  askElsewhere?(made: Json): Asked;
}

const create = async (client: Client, body: object = {}): Promise<Json> =>
  (await client.rest('POST', '/conversations', { body })).body;

const register = async (client: Client, url: string): Promise<Json> =>
  (await client.rest('POST', '/webhooks', { body: { url } })).body;

/** A webhook with one delivery that has succeeded, and two that nobody has sent yet. */
async function delivered(client: Client, url: string): Promise<Json> {
  const [webhook, other] = [await register(client, url), await register(client, url)];
  for (const { id } of [webhook, other]) await client.rest('POST', `/webhooks/${id}/test`);
  const list = async (id: string): Promise<Json[]> =>
    (await client.rest('GET', `/webhooks/${id}/deliveries`)).body.data;
  let deliveries: Json[] = [];
  let looking = false;
  await until(() => {
    if (!looking) {
      looking = true;
      void Promise.all([list(webhook.id), list(other.id)]).then((lists) => {
        deliveries = lists.flat();
        looking = false;
      });
    }
    return deliveries.length === 2 && deliveries.every(({ completedAt }) => completedAt !== null);
  });
  return { webhookId: webhook.id, otherId: other.id, id: deliveries[0].id, otherDelivery: deliveries[1].id };
}

export const createConversation = (body: Json): Asked => ({
  path: '/conversations',
  body,
  field: 'createConversation',
  input: { ...body, ...(body.message && { message: { ...body.message, sender: body.message.sender.toUpperCase() } }) },
  selection: `conversation { ${select.conversationWithMessages} }`,
});

export const sendMessage = (conversationId: string, body: Json): Asked => ({
  path: `/conversations/${conversationId}/messages`,
  body,
  field: 'sendMessage',
  input: { ...body, conversationId, sender: body.sender.toUpperCase() },
  selection: `message { ${select.message} }`,
});

export const captureLead = (body: Json): Asked => ({
  path: '/leads',
  body,
  field: 'captureLead',
  input: body,
  selection: `lead { ${select.lead} }`,
});

const createWebhook = (body: Json): Asked => ({
  path: '/webhooks',
  body,
  field: 'createWebhook',
  input: { ...body, events: body.events.map((type: string) => type.toUpperCase().replace('.', '_')) },
  selection: 'webhook { id url description secret }',
});

const delivery = 'delivery { id webhookId eventId status attemptCount createdAt }';

const testWebhook = (id: string, eventType: string): Asked => ({
  path: `/webhooks/${id}/test`,
  body: { eventType },
  field: 'testWebhook',
  input: { id, eventType: eventType.toUpperCase().replace('.', '_') },
  selection: delivery,
});

const recoverWebhook = (id: string, since: string): Asked => ({
  path: `/webhooks/${id}/recover`,
  body: { since },
  field: 'recoverWebhook',
  input: { id, since },
  selection: 'count eventCursor',
});

const redeliver = (webhookId: string, id: string): Asked => ({
  path: `/webhooks/${webhookId}/deliveries/${id}/redeliver`,
  field: 'redeliver',
  input: { id },
  selection: delivery,
});

const written = { content: 'Hello', sender: 'visitor', metadata: { a: 1, b: 'two', c: true } };

export const repeatables: Readonly<Record<string, Repeatable>> = {
  createConversation: {
    scope: 'conversations:write',
    given: async () => ({}),
    ask: () => createConversation({ subject: 'Parcel', metadata: { b: 1, a: 'x', 7: true }, message: written }),
    askElse: () => createConversation({ subject: 'Another parcel', message: written }),
  },
  sendMessage: {
    scope: 'conversations:write',
    given: async (client) => ({ id: (await create(client)).id, otherId: (await create(client)).id }),
    ask: ({ id }) => sendMessage(id, written),
    askElse: ({ id }) => sendMessage(id, { ...written, metadata: { a: 1 } }),
    askElsewhere: ({ otherId }) => sendMessage(otherId, written),
  },
  captureLead: {
    scope: 'leads:write',
    given: async (client) => create(client),
    ask: ({ id }) => captureLead({ conversationId: id, email: 'ada@example.com', metadata: { x: 1, y: 2 } }),
    askElse: ({ id }) => captureLead({ conversationId: id, email: 'eva@example.com', metadata: { x: 1, y: 2 } }),
  },
  createWebhook: {
    scope: 'webhooks:manage',
    given: async (_, url) => ({ url }),
    ask: ({ url }) => createWebhook({ url, events: ['lead.captured'], description: 'mine' }),
    askElse: ({ url }) => createWebhook({ url, events: ['lead.captured'], description: 'theirs' }),
  },
  testWebhook: {
    scope: 'webhooks:manage',
    given: async (client, url) => ({
      id: (await register(client, url)).id,
      otherId: (await register(client, url)).id,
    }),
    ask: ({ id }) => testWebhook(id, 'message.received'),
    askElse: ({ id }) => testWebhook(id, 'lead.captured'),
    askElsewhere: ({ otherId }) => testWebhook(otherId, 'message.received'),
  },
  recoverWebhook: {
    scope: 'webhooks:manage',
    given: async (client, url) => ({
      id: (await register(client, url)).id,
      otherId: (await register(client, url)).id,
    }),
    ask: ({ id }) => recoverWebhook(id, '2026-11-01T00:00:00Z'),
    askElse: ({ id }) => recoverWebhook(id, '2026-11-02T00:00:00Z'),
    askElsewhere: ({ otherId }) => recoverWebhook(otherId, '2026-11-01T00:00:00Z'),
  },
  redeliver: {
    scope: 'webhooks:manage',
    given: delivered,
    ask: ({ webhookId, id }) => redeliver(webhookId, id),
    askElse: ({ otherId, otherDelivery }) => redeliver(otherId, otherDelivery),
    askElsewhere: ({ otherId, id }) => redeliver(otherId, id),
  },
};

/** What a face has answered. */
export interface Answered {
  readonly status: number;
  readonly headers: Record<string, string>;
  /** The code of the error, if there is one. */
  readonly code: string | undefined;
  readonly faults: string[];
  /** What REST answers with, or the payload of GraphQL. */
  readonly result: Json;
  /** The id of what was made, or else what there is to compare, whichever face it came through. */
  readonly essence: Json;
}

export async function viaRest(client: Client, asked: Asked, key?: string): Promise<Answered> {
  const { status, headers, body } = await client.rest(asked.method ?? 'POST', asked.path, {
    ...(asked.body === undefined ? {} : { body: asked.body }),
    headers: key === undefined ? {} : { 'idempotency-key': key },
  });
  return {
    status,
    headers,
    code: body.code,
    faults: (body.errors ?? []).map((fault: Json) => fault.pointer ?? fault.parameter),
    result: body,
    essence: body.id ?? { count: body.count },
  };
}

export async function viaGraphql(client: Client, asked: Asked, key?: string | null): Promise<Answered> {
  const type = `${asked.field[0]?.toUpperCase()}${asked.field.slice(1)}Input`;
  const { status, headers, data, errors } = await client.graphql(
    `mutation ($input: ${type}!) { result: ${asked.field}(input: $input) { ${asked.selection} } }`,
    { input: { ...asked.input, ...(key === undefined ? {} : { idempotencyKey: key }) } },
  );
  const result = data?.result;
  const made = result && (result.conversation ?? result.message ?? result.lead ?? result.webhook ?? result.delivery);
  return {
    status,
    headers,
    code: errors?.[0]?.extensions.code,
    faults: (errors?.[0]?.extensions.errors ?? []).map((fault: Json) => fault.pointer),
    result,
    essence: made?.id ?? { count: result?.count },
  };
}

export const faces = { REST: viaRest, GraphQL: viaGraphql } as const;
