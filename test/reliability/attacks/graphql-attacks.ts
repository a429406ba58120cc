import { createHash } from 'node:crypto';
import { aliases, type Customer, graphqlBytes, send, times } from './attacker.ts';
import { requestBytes } from './connection.ts';
import { Outcomes, unfinished } from './outcomes.ts';
import { conditions, hundredEvents, manyConversations, oneConversation } from './preparations.ts';
import { followAndWrite, replay, settled, subscribe } from './subscriptions.ts';
import type { Attack } from './table.ts';

const wide = { messages: 100, aliases: 90 };
/** What the contract allows for each event. */
const allowed = { messages: 90, aliases: 18 };

function nested({ messages, aliases: count }: typeof wide, isTwice: boolean): string {
  const inner = `messages(first: ${messages}) { nodes { ${aliases(count, 'id')} } }`;
  const twice = `messages(first: ${messages}) { nodes { conversation { ${inner} } } }`;
  return `messageReceived(AFTER) { conversation { current { ${isTwice ? twice : inner} } } }`;
}

/** As many objects and values as the limits allow, in a text that was not sent before. */
function largest(index: number): string {
  return `{ conversations(first: 100) { nodes { messages(first: 100) { nodes { ${aliases(8, 'id', `q${index}x`)} } } } } }`;
}

async function longEmails(customer: Customer): Promise<Record<string, string>> {
  const visitor = { email: '😀'.repeat(320) };
  await Promise.all(
    times(10, async () => {
      for (let index = 0; index < 10; index++) await customer.conversation(10, 'x', { visitor });
    }),
  );
  return {};
}

function longTexts(count: number): string {
  const visitor = `conversation { visitor { ${aliases(count, 'email')} } }`;
  return `{ conversations(first: 100) { nodes { messages(first: 10) { nodes { ${visitor} } } } } }`;
}

/** A token for the page of a visitor, with the largest share. */
async function pageToken(customer: Customer): Promise<Record<string, string>> {
  const { token } = await customer.rest('POST', '/v1/tokens', {
    scopes: ['conversations:read'],
    visitor: { id: 'customer-7' },
    requestsPerHour: 1_000_000_000,
    expiresInSeconds: 3_600,
  });
  return { token };
}

/** As many documents as there can be of the largest; they take long to validate, too. */
async function largeDocuments(customer: Customer): Promise<Record<string, string>> {
  const text = `{ ${aliases(600, '__typename')} } #`.padEnd(16_384, 'x');
  for (let from = 0; from < 1_020; from += 60) {
    const documents = times(60, (index) => ({ id: `d${from + index}`, text }));
    await customer.rest('POST', '/v1/documents', { documents });
  }
  return {};
}

/** A hundred leads, and a key that may read these, and not their conversations. */
async function hundredLeads(customer: Customer): Promise<Record<string, string>> {
  const { id } = await customer.rest('POST', '/v1/conversations', {});
  const lead = `captureLead(input: {conversationId: "${id}", email: "ada@example.com"}) { eventCursor }`;
  await customer.repeat(100, () => lead);
  const { secret } = await customer.rest('POST', '/v1/api-keys', { name: 'leads only', scopes: ['leads:read'] });
  return { secret };
}

export const graphqlAttacks: Attack[] = [
  {
    name: 'subscriptions that differ by a variable, to large answers',
    limits: 'trial',
    prepare: oneConversation,
    attack: (target) =>
      followAndWrite(target, { sockets: 1, each: 40, field: nested(wide, true), by: 'variable', messages: 1 }),
  },
  {
    name: 'subscriptions that differ by an alias, to large answers',
    limits: 'trial',
    prepare: oneConversation,
    attack: (target) =>
      followAndWrite(target, { sockets: 1, each: 90, field: nested(wide, true), by: 'alias', messages: 1 }),
  },
  {
    name: 'subscriptions to answers as large as allowed',
    limits: 'raised',
    isShort: true,
    prepare: oneConversation,
    attack: (target) =>
      followAndWrite(target, {
        sockets: target.isLong ? 20 : 2,
        each: 100,
        field: nested(allowed, false),
        by: 'alias',
        messages: target.isLong ? 20 : 3,
      }),
  },
  {
    name: 'subscriptions to every change, with the conversation as it is now',
    limits: 'raised',
    prepare: oneConversation,
    attack: (target) => {
      const page = `messages(first: ${allowed.messages}) { nodes { ${aliases(allowed.aliases, 'id')} } }`;
      const current = `... on MessageReceivedEvent { conversation { current { ${page} } } }`;
      return followAndWrite(target, {
        sockets: target.isLong ? 20 : 1,
        each: 100,
        field: `conversationChanged(AFTER) { ${current} }`,
        by: 'alias',
        messages: target.isLong ? 20 : 3,
      });
    },
  },
  {
    name: 'a subscription that replays a hundred events to large answers',
    limits: 'trial',
    prepare: hundredEvents,
    attack: (target) => replay(target, { sockets: 1, each: 1, field: nested(wide, true) }),
  },
  {
    name: 'replays of a hundred events to answers as large as allowed',
    limits: 'raised',
    prepare: hundredEvents,
    attack: (target) => replay(target, { sockets: 10, each: 100, field: nested(allowed, false) }),
  },
  {
    name: 'queries with very many errors',
    limits: 'trial',
    withOtherLimits: true,
    prepare: hundredLeads,
    attack: (target) => {
      const pages = times(5, (index) => `l${index}: leads(first: 100) { ...p }`).join(' ');
      const query = `{ ${pages} } fragment p on LeadConnection { nodes { ${aliases(195, 'conversation{id}')} } }`;
      const own = { ...target, secret: target.fixture['secret'] ?? '' };
      const requests = target.limits === 'trial' ? 8 : 400;
      return send(target, { connections: 4, requests }, () => graphqlBytes(own, query));
    },
  },
  {
    name: 'queries that may run, and have ten thousand errors',
    limits: 'trial',
    withOtherLimits: true,
    prepare: hundredLeads,
    attack: (target) => {
      const query = `{ leads(first: 100) { nodes { ${aliases(100, 'conversation { id }')} } } }`;
      const own = { ...target, secret: target.fixture['secret'] ?? '' };
      const requests = target.limits === 'trial' ? 90 : 400;
      return send(target, { connections: 8, requests }, () => graphqlBytes(own, query));
    },
  },
  {
    name: 'queries with a cursor of a megabyte, given to very many fields',
    limits: 'trial',
    withOtherLimits: true,
    async prepare(customer) {
      for (let index = 0; index < 10; index++) await customer.conversation(1);
      return {};
    },
    attack(target) {
      const pages = times(110, (index) => `m${index}: messages(first: 1, after: $c) { __typename }`).join(' ');
      const query = `query($c: String) { conversations(first: 10) { nodes { ${pages} } } }`;
      const request = graphqlBytes(target, query, { c: 'a'.repeat(1_000_000) });
      return send(target, { connections: 4, requests: target.isLong ? 40 : 4 }, () => request);
    },
  },
  {
    name: 'a mutation of a hundred messages, each of a megabyte that is refused',
    limits: 'trial',
    withOtherLimits: true,
    prepare: oneConversation,
    attack(target) {
      const fields = times(100, (index) => `m${index}: sendMessage(input: $i) { eventCursor }`).join(' ');
      const input = {
        conversationId: target.fixture['conversation'],
        sender: 'VISITOR',
        content: '\n'.repeat(500_000),
      };
      const request = graphqlBytes(target, `mutation($i: SendMessageInput!) { ${fields} }`, { i: input });
      const requests = target.limits === 'trial' ? 1 : 20;
      return send(target, { connections: 2, requests }, () => request);
    },
  },
  {
    name: 'a query for long texts that count as short',
    limits: 'trial',
    prepare: longEmails,
    attack: (target) => send(target, { connections: 1, requests: 2 }, () => graphqlBytes(target, longTexts(320))),
  },
  {
    name: 'queries for long texts, within the limit on values',
    limits: 'raised',
    prepare: longEmails,
    attack: (target) => send(target, { connections: 33, requests: 100 }, () => graphqlBytes(target, longTexts(30))),
  },
  {
    name: 'queries that are as large as allowed, side by side',
    limits: 'trial',
    isShort: true,
    prepare: manyConversations,
    attack: (target) =>
      send(target, { connections: target.isLong ? 33 : 10, requests: target.isLong ? 99 : 20 }, (index) =>
        graphqlBytes(target, largest(index)),
      ),
  },
  {
    name: 'queries that are as large as allowed, again and again',
    limits: 'raised',
    prepare: manyConversations,
    attack: (target) =>
      send(target, { connections: 64, forMs: 10_000 }, (index) => graphqlBytes(target, largest(index))),
  },
  {
    name: 'queries for a million values, side by side',
    limits: 'trial',
    prepare: manyConversations,
    attack: (target) =>
      send(target, { connections: 33, requests: 33 }, () =>
        graphqlBytes(
          target,
          `{ conversations(first: 100) { nodes { messages(first: 100) { nodes { ${aliases(95, 'id')} } } } } }`,
        ),
      ),
  },
  {
    name: 'batches of documents that take long to validate',
    limits: 'trial',
    withOtherLimits: true,
    isShort: true,
    attack: (target) =>
      send(target, { connections: 9, requests: target.limits === 'raised' ? 300 : target.isLong ? 9 : 4 }, (index) =>
        requestBytes('POST', '/graphql', {
          secret: target.secret,
          body: times(10, (each) => ({
            query: `{ ${times(490, () => 'account{id}').join(' ')} b${index}x${each}: __typename }`,
          })),
        }),
      ),
  },
  {
    name: 'documents of one field, in many forms',
    limits: 'raised',
    attack: (target) =>
      send(target, { connections: 16, forMs: 8_000 }, (index) => {
        const parts = [
          `{ ${times(20, () => 'account{id}').join(' ')} }`,
          `{ account { ${aliases(600, 'id', `n${index}x`)} } }`,
          `{ ${aliases(380, `account{id}`, `n${index}x`)} }`,
          `query q${index} { ...f0 } ${times(180, (at) => `fragment f${at} on Query { ...f${at + 1} account { id } }`).join(' ')} fragment f180 on Query { eventCursor }`,
          `{ ${times(180, () => '... on Query { account { id } }').join(' ')} q${index}: eventCursor }`,
        ];
        return graphqlBytes(target, parts[index % parts.length] ?? '');
      }),
  },
  {
    name: 'thousands of different invalid documents',
    limits: 'raised',
    withOtherLimits: true,
    isShort: true,
    attack: (target) =>
      send(target, { connections: 8, requests: target.isLong ? 2_500 : 200 }, (index) =>
        graphqlBytes(target, `{ ${'x '.repeat(48)}z${index} }`),
      ),
  },
  {
    name: 'documents with two hundred operations, all called',
    limits: 'raised',
    withOtherLimits: true,
    attack: (target) => {
      const documentOf = (number: number): string =>
        times(200, (at) => `query o${at} { a${number}: account { id } }`).join(' ');
      return send(target, { connections: 8, requests: 14 * 200 }, (index) =>
        requestBytes('POST', '/graphql', {
          secret: target.secret,
          body: { query: documentOf(Math.floor(index / 200)), operationName: `o${index % 200}` },
        }),
      );
    },
  },
  {
    name: 'batches of large queries in all forms that their conditions give them',
    limits: 'trial',
    withOtherLimits: true,
    attack: (target) => {
      const { declared, fields, variables } = conditions;
      const operations = times(4, (at) => `query q${at}(${declared}) { ${fields} ...f }`).join(' ');
      const query = `${operations} fragment f on Query { ${aliases(350, '__typename')} }`;
      return send(target, { connections: 4, requests: target.limits === 'trial' ? 9 : 400 }, (index) =>
        requestBytes('POST', '/graphql', {
          secret: target.secret,
          body: times(10, (each) => ({
            query: `${query} #${index % 4}`,
            operationName: `q${each % 4}`,
            variables: variables(index * 10 + each),
          })),
        }),
      );
    },
  },
  {
    name: 'thousands of different documents, all persisted, by a page',
    limits: 'raised',
    prepare: pageToken,
    attack: (target) =>
      send(
        { ...target, secret: target.fixture['token'] ?? '' },
        { connections: 8, requests: target.isLong ? 2_500 : 50 },
        (index) => {
          const query = `query p${index} { ${aliases(380, '__typename', `n${index}x`)} }`;
          const persistedQuery = { version: 1, sha256Hash: createHash('sha256').update(query).digest('hex') };
          return requestBytes('POST', '/graphql', {
            secret: target.fixture['token'] ?? '',
            body: { query, extensions: { persistedQuery } },
          });
        },
      ),
  },
  {
    name: 'registered documents of 16 MiB, listed and called',
    limits: 'raised',
    databaseMiB: 40,
    prepare: largeDocuments,
    attack: (target) =>
      send(target, { connections: 16, requests: target.isLong ? 1_000 : 100 }, (index) => {
        const lists = `{ ${aliases(5, 'documents(first: 100) { nodes { id } }', `n${index}x`)} }`;
        const bodies: object[] = [
          { query: lists },
          { documentId: `d${index}` },
          times(10, (each) => ({ query: lists.replace('{', `query q${each} {`) })),
          { query: lists.replaceAll('id', 'text') },
        ];
        return requestBytes('POST', '/graphql', { secret: target.secret, body: bodies[index % bodies.length] });
      }),
  },
  {
    name: 'subscribe messages when no requests are left',
    limits: 'trial',
    async attack(target) {
      const outcomes = new Outcomes();
      const sockets = await Promise.all(
        times(20, () => subscribe(target, 1_000, '__typename', { by: 'alias', outcomes })),
      );
      await settled(outcomes, 1_000, 10_000);
      for (const socket of sockets) socket.terminate();
      if (Object.keys(outcomes.counts).length === 0) outcomes.add(unfinished);
      return outcomes;
    },
  },
];
