import { expect, onTestFinished } from 'vitest';
import type { Json } from '../support/client.ts';
import { longTest as test } from '../support/effort.ts';
import { postgresServer } from '../support/postgres.ts';
import { startTestServer } from '../support/server.ts';
import { TcpRelay } from '../support/tcp-relay.ts';

const { database } = postgresServer();

const list = 'conversations { nodes { id } }';

test.each([
  ['before a list', `{ eventCursor ${list} }`, 'AS first'],
  ['that is selected behind the list', `{ ${list} eventCursor }`, 'AS first'],
  ['of another name, in a fragment', `{ ${list} ...A } fragment A on Query { start: eventCursor }`, 'AS first'],
  ['of the account', `{ ${list} account { ...A } } fragment A on Account { eventCursor }`, 'event_sequence'],
  ['of a node', `query ($id: ID!) { ${list} node(id: $id) { ... on Account { eventCursor } } }`, 'event_sequence'],
])('what is committed while a cursor %s is read is in the list, or comes after the cursor', async (_, query, text) => {
  const url = await database();
  const other = await startTestServer({ config: { postgres: { url, directUrl: undefined } } });
  onTestFinished(() => other.close());
  const relay = await TcpRelay.open(url);
  const relayed = { url: relay.through(url), directUrl: undefined };
  const server = await startTestServer({ config: { postgres: relayed } });
  onTestFinished(() => server.close());
  const { account, secret, rest } = await other.account();
  const client = server.clientFor(secret);
  expect((await client.graphql(`{ ${list} }`)).data.conversations.nodes).toEqual([]);
  const held = relay.holdAt(text);
  const answering = client.graphql(query, { id: account.id });
  const release = await held;
  const { id } = (await rest('POST', '/conversations', { body: {} })).body;
  release();
  const { data, errors } = await answering;
  expect(errors).toBeUndefined();
  const cursor = data.eventCursor ?? data.start ?? (data.account ?? data.node).eventCursor;
  const later = (await rest('GET', `/events?after=${encodeURIComponent(cursor)}`)).body.data;
  const known = [...data.conversations.nodes, ...later.map((event: Json) => event.data.conversation)].map(
    (each) => each.id,
  );
  expect(known).toContain(id);
});
