import { expect } from 'vitest';
import { defaultEventTypes, eventTypes } from '../../src/domain/event-types.ts';
import type { Json } from '../support/client.ts';
import * as select from '../support/selections.ts';
import type { TestAccount } from '../support/server.ts';
import { type Case, listArguments, unknownConversation } from './case.ts';

const webhookUrl = 'https://example.com/hooks';

async function hook(client: TestAccount, body: object = {}): Promise<Json> {
  return (await client.rest('POST', '/webhooks', { body: { url: webhookUrl, ...body } })).body;
}

/** A webhook, and a delivery of a sample to it. */
async function tried(client: TestAccount): Promise<Json> {
  const { id } = await hook(client);
  return (await client.rest('POST', `/webhooks/${id}/test`)).body;
}

/** A webhook without a secret on either face. */
const webhookFields = `webhook { ${select.webhook} }`;

const typesInCapitals = ({ events, eventType, ...input }: Json): Json => ({
  ...input,
  ...(events === undefined
    ? {}
    : { events: events?.map((type: string) => type.toUpperCase().replace('.', '_')) ?? null }),
  ...(eventType === undefined ? {} : { eventType: eventType?.toUpperCase().replace('.', '_') ?? null }),
});

/** An operation on one webhook, which the case makes, as a POST to a path under it. */
function onWebhook(
  [operation, path]: [operation: string, path: string],
  name: string,
  body: object | undefined,
  selection: string,
  rest: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  const type = `${operation.charAt(0).toUpperCase()}${operation.slice(1)}Input`;
  return {
    name: `${operation}, ${name}`,
    given: hook,
    rest: ({ id }) => ['POST', `/webhooks/${id}/${path}`, body],
    graphql: ({ id }) => [
      `mutation ($input: ${type}!) { result: ${operation}(input: $input) { ${selection} } }`,
      { input: typesInCapitals({ ...body, id }) },
    ],
    ...rest,
  };
}

function creatingWebhook(name: string, body: object, rest: Partial<Case> & Pick<Case, 'expected'>): Case {
  return {
    name: `creating a webhook ${name}`,
    rest: () => ['POST', '/webhooks', body],
    graphql: () => [
      `mutation ($input: CreateWebhookInput!) { result: createWebhook(input: $input) { ${webhookFields} } }`,
      { input: typesInCapitals(body) },
    ],
    ...rest,
  };
}

function updatingWebhook(name: string, body: object, rest: Partial<Case> & Pick<Case, 'expected'>): Case {
  return {
    name: `updating a webhook ${name}`,
    given: (client) => hook(client, { description: 'old', events: ['lead.captured'] }),
    rest: ({ id }) => ['PATCH', `/webhooks/${id}`, body],
    graphql: ({ id }) => [
      `mutation ($input: UpdateWebhookInput!) { result: updateWebhook(input: $input) { ${webhookFields} } }`,
      { input: typesInCapitals({ ...body, id }) },
    ],
    ...rest,
  };
}

async function threeWebhooks(client: TestAccount): Promise<Json> {
  const made: Json[] = [];
  for (const description of ['1', '2', '3']) made.push(await hook(client, { description }));
  const [{ id }] = made;
  for (const eventType of eventTypes) await client.rest('POST', `/webhooks/${id}/test`, { body: { eventType } });
  return { id };
}

function listingOf(
  what: 'webhooks' | 'deliveries',
  name: string,
  query: Record<string, unknown>,
  rest: Partial<Case> & Pick<Case, 'expected'>,
): Case {
  const spelt = Object.entries(query).map(([key, value]) => `${listArguments[key] ?? key}: ${JSON.stringify(value)}`);
  const fields = what === 'webhooks' ? select.webhook : select.delivery;
  const list = `result: ${what}${spelt.length === 0 ? '' : `(${spelt.join(', ')})`}
    { data: nodes { ${fields} } totalCount pageInfo { hasNextPage endCursor } }`;
  const search = new URLSearchParams(query as Record<string, string>);
  return {
    name: `listing ${what} ${name}`,
    given: threeWebhooks,
    isReading: true,
    rest: ({ id }) => ['GET', what === 'webhooks' ? `/webhooks?${search}` : `/webhooks/${id}/deliveries?${search}`],
    graphql: ({ id }) =>
      what === 'webhooks' ? [`{ ${list} }`] : [`query ($id: ID!) { webhook(id: $id) { ${list} } }`, { id }],
    ...rest,
  };
}

const refusedUrls: Record<string, unknown> = {
  'that is no URL': 'example.com/hooks',
  'that is empty': '',
  'of another kind': 'ftp://example.com/hooks',
  'of a script': 'javascript:alert(1)',
  'with a user name': 'https://user@example.com/hooks',
  'with a password': 'https://user:secret@example.com/hooks',
  'with a fragment': 'https://example.com/hooks#part',
  'with a space': 'https://example.com/a hook',
  'with a space before it': ' https://example.com/hooks',
  'with a line break': 'https://example.com/\nhooks',
  'that is too long': `https://example.com/${'x'.repeat(2_048)}`,
  'without a host': 'https:///',
  'of plain http': 'http://example.com/hooks',
  'of a private network': 'https://10.0.0.1/hooks',
  'of the machine itself, by name': 'https://localhost/hooks',
  'of the machine itself, by a name below it': 'https://hooks.localhost:8443/',
  'of the machine itself, with the dot of the root': 'https://localhost./hooks',
  'of a local network, by name': 'https://printer.local/hooks',
  'of a cloud’s metadata': 'https://169.254.169.254/latest',
  'of a cloud’s metadata, by IPv6': 'https://[fd00:ec2::254]/latest',
  'of a cloud’s metadata, by name': 'https://metadata.google.internal/',
  ...Object.fromEntries(
    [
      '127.0.0.1',
      '127.1',
      '2130706433',
      '0x7f.1',
      '0177.0.0.1',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '0',
      '１２７.0.0.1',
    ].map((host) => [`of the machine itself, as ${host}`, `https://${host}/hooks`]),
  ),
};

const unknownWebhooks = ['whk_01m7yzcf3tfz1aan3df712nas7', 'whk_nonsense', unknownConversation].flatMap(
  (id): Case[] => {
    const at = (name: string, rest: ReturnType<Case['rest']>, graphql: string): Case => ({
      name: `${name} ${id}, which is unknown`,
      rest: () => rest,
      graphql: () => [graphql, { id }],
      expected: 'NOT_FOUND',
    });
    const mutation = (field: string, input = '', selection = 'eventCursor') =>
      `mutation ($id: ID!) { result: ${field}(input: { id: $id${input} }) { ${selection} } }`;
    return [
      at('getting the webhook', ['GET', `/webhooks/${id}`], 'query ($id: ID!) { result: webhook(id: $id) { id } }'),
      at(
        'updating the webhook',
        ['PATCH', `/webhooks/${id}`, { enabled: false }],
        mutation('updateWebhook', ', enabled: false'),
      ),
      at('deleting the webhook', ['DELETE', `/webhooks/${id}`], mutation('deleteWebhook')),
      at('rotating the secret of', ['POST', `/webhooks/${id}/rotate-secret`], mutation('rotateWebhookSecret')),
      at('testing the webhook', ['POST', `/webhooks/${id}/test`], mutation('testWebhook')),
      at(
        'recovering the webhook',
        ['POST', `/webhooks/${id}/recover`, { since: '2026-01-01T00:00:00Z' }],
        mutation('recoverWebhook', ', since: "2026-01-01T00:00:00Z"'),
      ),
      at(
        'listing the deliveries of',
        ['GET', `/webhooks/${id}/deliveries`],
        'query ($id: ID!) { webhook(id: $id) { result: deliveries { totalCount } } }',
      ),
    ];
  },
);

export const webhooksCases: readonly Case[] = [
  creatingWebhook(
    'with its address alone',
    { url: webhookUrl },
    {
      expected: 201,
      check: ({ url, events, description, enabled, disabledReason }) => {
        expect({ url, events, description, enabled, disabledReason }).toEqual({
          url: webhookUrl,
          events: defaultEventTypes,
          description: null,
          enabled: true,
          disabledReason: null,
        });
      },
    },
  ),
  creatingWebhook(
    'with everything',
    {
      url: 'https://Example.com:8443/a%20b?c=d',
      events: ['lead.captured', 'conversation.started'],
      description: 'CRM 📦',
    },
    {
      expected: 201,
      check: ({ url, events }) => {
        expect(url).toBe('https://Example.com:8443/a%20b?c=d');
        expect(events).toEqual(['conversation.started', 'lead.captured']);
      },
    },
  ),
  creatingWebhook(
    'with nulls for what can be left out',
    { url: webhookUrl, events: null, description: null },
    { expected: 201, check: ({ events }) => expect(events).toEqual(defaultEventTypes) },
  ),
  creatingWebhook(
    'that names a type twice counts it once',
    { url: webhookUrl, events: ['lead.captured', 'lead.captured'] },
    { expected: 201, check: ({ events }) => expect(events).toEqual(['lead.captured']) },
  ),
  ...Object.entries(refusedUrls).map(([name, url]) =>
    creatingWebhook(`at an address ${name} is refused`, { url }, { expected: 'VALIDATION_FAILED', pointers: ['/url'] }),
  ),
  creatingWebhook(
    'for no type is refused',
    { url: webhookUrl, events: [] },
    { expected: 'VALIDATION_FAILED', pointers: ['/events'] },
  ),
  creatingWebhook(
    'with many faults tells all of them',
    { url: 'ftp://example.com', events: [], description: 'x'.repeat(201) },
    { expected: 'VALIDATION_FAILED', pointers: ['/description', '/events', '/url'] },
  ),
  ...['https://10.0.0.1/hooks', 'http://example.com/hooks'].map((url) =>
    creatingWebhook(
      `with many faults tells all of them, of ${url} as well`,
      { url, events: [], description: 'x'.repeat(201) },
      { expected: 'VALIDATION_FAILED', pointers: ['/description', '/events', '/url'] },
    ),
  ),
  {
    ...creatingWebhook('beyond the twentieth is refused', { url: webhookUrl }, { expected: 'QUOTA_EXCEEDED' }),
    given: async (client) => {
      for (let count = 0; count < 20; count++) await hook(client);
    },
  },
  {
    ...creatingWebhook('in the place of one that was deleted', { url: webhookUrl }, { expected: 201 }),
    given: async (client) => {
      for (let count = 0; count < 19; count++) await hook(client);
      const { id } = await hook(client);
      await client.rest('DELETE', `/webhooks/${id}`);
    },
  },
  {
    name: 'getting a webhook',
    given: hook,
    rest: ({ id }) => ['GET', `/webhooks/${id}`],
    graphql: ({ id }) => [`query ($id: ID!) { result: webhook(id: $id) { ${select.webhook} } }`, { id }],
    expected: 200,
  },
  listingOf(
    'webhooks',
    'without parameters: newest first',
    {},
    {
      expected: 200,
      check: ({ data, total }) => {
        expect(data.map(({ description }: Json) => description)).toEqual(['3', '2', '1']);
        expect(total).toBe(3);
      },
    },
  ),
  listingOf('webhooks', 'a page', { limit: 2 }, { expected: 200, check: ({ hasMore }) => expect(hasMore).toBe(true) }),
  listingOf(
    'webhooks',
    'the last page',
    { limit: 2, offset: 2 },
    {
      expected: 200,
      check: ({ data, hasMore }) => expect([data.length, hasMore]).toEqual([1, false]),
    },
  ),
  listingOf(
    'webhooks',
    'no page at all is refused',
    { limit: 0 },
    { expected: 'VALIDATION_FAILED', pointers: ['/limit'] },
  ),
  listingOf(
    'webhooks',
    'from a cursor that is none is refused',
    { after: 'nonsense' },
    {
      expected: 'VALIDATION_FAILED',
      pointers: ['/after'],
    },
  ),
  updatingWebhook(
    'to nothing new changes nothing',
    {},
    {
      expected: 200,
      check: ({ createdAt, updatedAt }) => expect(updatedAt).toBe(createdAt),
    },
  ),
  updatingWebhook(
    'in each field',
    { url: 'https://example.org', events: ['message.received'], description: 'new', enabled: false },
    {
      expected: 200,
      check: ({ url, events, description, enabled, disabledReason }) =>
        expect([url, events, description, enabled, disabledReason]).toEqual([
          'https://example.org',
          ['message.received'],
          'new',
          false,
          'requested',
        ]),
    },
  ),
  updatingWebhook(
    'to no description',
    { description: null },
    {
      expected: 200,
      check: ({ description }) => expect(description).toBeNull(),
    },
  ),
  ...['url', 'events', 'enabled'].map((field) =>
    updatingWebhook(
      `to null in ${field}, which it needs, is refused`,
      { [field]: null },
      {
        expected: 'VALIDATION_FAILED',
        pointers: [`/${field}`],
      },
    ),
  ),
  updatingWebhook(
    'with many faults tells all of them',
    { url: 'https://example.com/#part', events: [], description: 'x'.repeat(201), enabled: null },
    { expected: 'VALIDATION_FAILED', pointers: ['/description', '/enabled', '/events', '/url'] },
  ),
  updatingWebhook(
    'to an address of a private network is refused',
    { url: 'https://192.168.1.1', events: [] },
    { expected: 'VALIDATION_FAILED', pointers: ['/events', '/url'] },
  ),
  {
    name: 'deleting a webhook',
    given: hook,
    rest: ({ id }) => ['DELETE', `/webhooks/${id}`],
    graphql: ({ id }) => [
      'mutation ($id: ID!) { result: deleteWebhook(input: { id: $id }) { deletedWebhookId } }',
      { id },
    ],
    expected: 204,
  },
  onWebhook(['rotateWebhookSecret', 'rotate-secret'], 'once', undefined, webhookFields, { expected: 200 }),
  onWebhook(
    ['rotateWebhookSecret', 'rotate-secret'],
    'for the tenth time in a day, is refused',
    undefined,
    webhookFields,
    {
      given: async (client) => {
        const made = await hook(client);
        for (let count = 0; count < 9; count++) await client.rest('POST', `/webhooks/${made.id}/rotate-secret`);
        return made;
      },
      expected: 'QUOTA_EXCEEDED',
    },
  ),
  onWebhook(
    ['testWebhook', 'test'],
    'with the first type that it wants',
    {},
    `delivery { ${select.deliveryWithAttempts} }`,
    {
      expected: 202,
      check: ({ eventType, test: isTest, status, attempts }) =>
        expect([eventType, isTest, status, attempts]).toEqual(['conversation.started', true, 'pending', []]),
    },
  ),
  ...[null, 'lead.captured'].map((eventType) =>
    onWebhook(
      ['testWebhook', 'test'],
      `with the type ${eventType}`,
      { eventType },
      `delivery { ${select.deliveryWithAttempts} }`,
      { expected: 202, check: (made) => expect(made.eventType).toBe(eventType ?? 'conversation.started') },
    ),
  ),
  onWebhook(
    ['testWebhook', 'test'],
    'of one that is disabled: paused',
    {},
    `delivery { ${select.deliveryWithAttempts} }`,
    {
      given: async (client) => {
        const made = await hook(client);
        await client.rest('PATCH', `/webhooks/${made.id}`, { body: { enabled: false } });
        return made;
      },
      expected: 202,
      check: ({ status, nextAttemptAt }) => expect([status, nextAttemptAt]).toEqual(['paused', null]),
    },
  ),
  ...['2026-01-01T00:00:00Z', '2026-01-01T01:00:00.5+01:00', '1970-01-01T00:00:00Z', '9999-12-31T23:59:59Z'].map(
    (since) =>
      onWebhook(['recoverWebhook', 'recover'], `since ${since}`, { since }, 'count', {
        expected: 202,
        check: ({ count }) => expect(count).toBe(0),
      }),
  ),
  ...['', 'nonsense', 'yesterday', '2026-01-01', '2026-13-01T00:00:00Z', '1764000000'].map((since) =>
    onWebhook(['recoverWebhook', 'recover'], `since ${JSON.stringify(since)}, is refused`, { since }, 'count', {
      expected: 'VALIDATION_FAILED',
      pointers: ['/since'],
    }),
  ),
  onWebhook(
    ['recoverWebhook', 'recover'],
    'since a cursor of another log, is refused',
    { since: Buffer.from('0123456789abcdef.1').toString('base64url') },
    'count',
    { expected: 'CURSOR_EXPIRED' },
  ),
  listingOf(
    'deliveries',
    'without parameters: newest first',
    {},
    {
      expected: 200,
      check: ({ data, total }) => {
        expect(data.map(({ eventType }: Json) => eventType)).toEqual([...eventTypes].reverse());
        expect(total).toBe(eventTypes.length);
      },
    },
  ),
  listingOf(
    'deliveries',
    'a page',
    { limit: 3 },
    {
      expected: 200,
      check: ({ data, hasMore }) => expect([data.length, hasMore]).toEqual([3, true]),
    },
  ),
  listingOf(
    'deliveries',
    'beyond the end',
    { offset: eventTypes.length },
    { expected: 200, check: ({ data }) => expect(data).toEqual([]) },
  ),
  listingOf(
    'deliveries',
    'too large a page is refused',
    { limit: 101 },
    {
      expected: 'VALIDATION_FAILED',
      pointers: ['/limit'],
    },
  ),
  listingOf(
    'deliveries',
    'from a cursor that is none is refused',
    { after: 'nonsense' },
    {
      expected: 'VALIDATION_FAILED',
      pointers: ['/after'],
    },
  ),
  listingOf(
    'deliveries',
    'from what is no cursor, beside other faults, tells all of them',
    { after: 'nonsense', limit: 101 },
    { expected: 'VALIDATION_FAILED', pointers: ['/after', '/limit'] },
  ),
  {
    name: 'getting a delivery',
    given: tried,
    rest: ({ id, webhookId }) => ['GET', `/webhooks/${webhookId}/deliveries/${id}`],
    graphql: ({ id }) => [`query ($id: ID!) { result: delivery(id: $id) { ${select.deliveryWithAttempts} } }`, { id }],
    expected: 200,
  },
  {
    name: 'repeating a delivery',
    given: tried,
    rest: ({ id, webhookId }) => ['POST', `/webhooks/${webhookId}/deliveries/${id}/redeliver`],
    graphql: ({ id }) => [
      `mutation ($id: ID!) { result: redeliver(input: { id: $id }) { delivery { ${select.deliveryWithAttempts} } } }`,
      { id },
    ],
    expected: 202,
  },
  {
    name: 'repeating a delivery to another webhook is refused',
    given: async (client) => ({ delivery: await tried(client), other: await hook(client) }),
    rest: ({ delivery, other }) => ['POST', `/webhooks/${other.id}/deliveries/${delivery.id}/redeliver`],
    graphql: ({ delivery, other }) => [
      'mutation ($id: ID!, $to: ID!) { result: redeliver(input: { id: $id, webhookId: $to }) { eventCursor } }',
      { id: delivery.id, to: other.id },
    ],
    expected: 'NOT_FOUND',
  },
  ...['dlv_01m7yzcf3tfz1aan3df712nas7', 'dlv_nonsense', unknownConversation].flatMap((id): Case[] => [
    {
      name: `getting the delivery ${id}, which is unknown`,
      given: hook,
      rest: (webhook) => ['GET', `/webhooks/${webhook.id}/deliveries/${id}`],
      graphql: () => ['query ($id: ID!) { result: delivery(id: $id) { id } }', { id }],
      expected: 'NOT_FOUND',
    },
    {
      name: `repeating the delivery ${id}, which is unknown`,
      given: hook,
      rest: (webhook) => ['POST', `/webhooks/${webhook.id}/deliveries/${id}/redeliver`],
      graphql: () => ['mutation ($id: ID!) { result: redeliver(input: { id: $id }) { eventCursor } }', { id }],
      expected: 'NOT_FOUND',
    },
  ]),
  ...unknownWebhooks,
];
