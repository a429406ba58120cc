import { createClient as createSseClient } from 'graphql-sse';
import { afterEach, describe, expect, test } from 'vitest';
import type { Json } from '../support/client.ts';
import { temporaryFolder } from '../support/files.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { SseReader } from '../support/sse.ts';
import { eventFields, socketClient } from '../support/subscribe.ts';
import { until } from '../support/wait.ts';

// A subscriber on a bad connection ends up with exactly the events that happened, in order, once each.

let server: TestServer;
afterEach(() => server.close());

/** One event of each kind, five in all. */
async function makeEvents(client: TestAccount): Promise<void> {
  const { body } = await client.rest('POST', '/conversations', {
    body: { message: { content: 'hello', sender: 'visitor' } },
  });
  await client.rest('POST', `/conversations/${body.id}/messages`, { body: { content: 'more', sender: 'visitor' } });
  await client.rest('POST', '/leads', { body: { conversationId: body.id, email: 'ada@example.com' } });
  await client.rest('PATCH', `/conversations/${body.id}`, { body: { status: 'closed' } });
}

async function logged(client: TestAccount): Promise<[number, string][]> {
  return (await server.log(client.account.id)).map(({ sequence, type }) => [sequence, type]);
}

const spelling = (type: string) => type.toUpperCase().replace('.', '_');

const query = `subscription ($after: String) { events(after: $after) { ${eventFields} } }`;

describe('a stock graphql-ws client that is cut off after every event', () => {
  test('has each event once, in order, across a restart of the server', async () => {
    const databasePath = `${temporaryFolder()}/test.db`;
    server = await startTestServer({ databasePath });
    let client = await server.account();
    const { port } = new URL(server.url);
    const { data } = await client.graphql('{ eventCursor }');
    let after: string = data.eventCursor;
    const received: Json[] = [];
    let socket: { terminate(): void } | undefined;
    const subscriber = socketClient(server.url, client.secret, {
      on: {
        connected: (opened) => {
          socket = opened as typeof socket;
        },
      },
    });
    let failure: unknown;
    const stop = subscriber.subscribe(
      {
        query,
        variables: {
          get after() {
            return after;
          },
        },
      },
      {
        next: ({ data: next }: Json) => {
          received.push(next.events);
          after = next.events.cursor;
          socket?.terminate(); // at every single event index
        },
        error: (error) => {
          failure = error;
        },
        complete: () => {},
      },
    );

    for (let round = 0; round < 3; round++) await makeEvents(client);
    await until(() => received.length >= 15 || failure !== undefined);
    await server.close();
    server = await startTestServer({ databasePath, config: { port: Number(port) } });
    client = { ...client, ...server.clientFor(client.secret) };
    for (let round = 0; round < 3; round++) await makeEvents(client);
    await until(() => received.length >= 30 || failure !== undefined);
    expect(failure).toBeUndefined(); // stopped while it connects again, the client would call that one
    stop();
    await Promise.resolve(subscriber.dispose()).catch(() => {}); // so does this, by rejecting
    expect(received.map(({ sequence, type }) => [sequence, type])).toEqual(
      (await logged(client)).map(([sequence, type]) => [sequence, spelling(type)]),
    );
  });
});

describe('a stock graphql-sse client that is cut off after every event', () => {
  test('has each event once, in order, across a restart of the server', async () => {
    const databasePath = `${temporaryFolder()}/test.db`;
    server = await startTestServer({ databasePath });
    let client = await server.account();
    const { port } = new URL(server.url);
    const { data } = await client.graphql('{ eventCursor }');
    let after: string = data.eventCursor;
    const received: Json[] = [];
    let cut = new AbortController();
    let cutting = false;
    const subscriber = createSseClient({
      url: `${server.url}/graphql`,
      headers: { authorization: `Bearer ${client.secret}` },
      retryAttempts: 1_000,
      retry: () => new Promise((resolve) => setTimeout(resolve, 5)),
      fetchFn: (url: string, init: RequestInit) => {
        cut = new AbortController();
        cutting = false;
        return fetch(url, { ...init, signal: AbortSignal.any([init.signal as AbortSignal, cut.signal]) });
      },
    });
    let failure: unknown;
    let completed = false;
    const stop = subscriber.subscribe<Json>(
      {
        query,
        variables: {
          get after() {
            return after;
          },
        },
      },
      {
        next: ({ data: next }) => {
          if (cutting) return; // what had come already when the connection was cut
          received.push(next.events);
          after = next.events.cursor;
          cutting = true; // at every single event index
          const connection = cut;
          setImmediate(() => connection.abort(new Error('cut'))); // once the client waits: else it takes it for its own fault
        },
        error: (error) => {
          failure = error;
        },
        complete: () => {
          completed = true;
        },
      },
    );

    for (let round = 0; round < 3; round++) await makeEvents(client);
    await until(() => received.length >= 15 || failure !== undefined || completed);
    await server.close();
    server = await startTestServer({ databasePath, config: { port: Number(port) } });
    client = { ...client, ...server.clientFor(client.secret) };
    for (let round = 0; round < 3; round++) await makeEvents(client);
    await until(() => received.length >= 30 || failure !== undefined || completed);
    stop();
    subscriber.dispose();

    expect([failure, received.length]).toEqual([undefined, 30]);
    expect(received.map(({ sequence, type }) => [sequence, type])).toEqual(
      (await logged(client)).map(([sequence, type]) => [sequence, spelling(type)]),
    );
  });
});

describe('GET /v1/events/stream', () => {
  test('gives each event once, in order, when resumed with Last-Event-ID after every block', async () => {
    server = await startTestServer();
    const client = await server.account();
    const { data } = await client.graphql('{ eventCursor }');
    let lastEventId: string = data.eventCursor;
    const received: Json[] = [];
    const writing = (async () => {
      for (let round = 0; round < 4; round++) await makeEvents(client);
    })();
    while (received.length < 20) {
      const reader = await SseReader.open(`${server.url}/v1/events/stream`, {
        authorization: `Bearer ${client.secret}`,
        'last-event-id': lastEventId,
      });
      await reader.until(({ events }) => events.length > 0);
      const [first] = reader.events;
      reader.close();
      received.push(first);
      lastEventId = first.cursor;
    }
    await writing;
    expect(received.map(({ sequence, type }) => [sequence, type])).toEqual(await logged(client));
  });

  test('reads the same as GET /v1/events, event for event', async () => {
    server = await startTestServer();
    const client = await server.account();
    const { data } = await client.graphql('{ eventCursor }');
    await makeEvents(client);
    const reader = await SseReader.open(`${server.url}/v1/events/stream?after=${data.eventCursor}`, {
      authorization: `Bearer ${client.secret}`,
    });
    await reader.until(({ events }) => events.length === 5);
    reader.close();
    const { body } = await client.rest('GET', '/events');
    expect(reader.events).toEqual(body.data);
    expect(reader.blocks.filter(({ event }) => event !== undefined).map(({ id, event }) => [id, event])).toEqual(
      body.data.map(({ cursor, type }: Json) => [cursor, type]),
    );
  });
});

test('subscribing with the cursor of a mutation gives exactly the events after it', async () => {
  server = await startTestServer();
  const client = await server.account();
  await makeEvents(client);
  const created = await client.graphql(
    'mutation { createConversation(input: { message: { content: "x", sender: VISITOR } }) { conversation { id } eventCursor } }',
  );
  const { eventCursor, conversation } = created.data.createConversation;
  await client.graphql('mutation ($id: ID!) { closeConversation(input: { id: $id }) { eventCursor } }', {
    id: conversation.id,
  });
  const subscriber = socketClient(server.url, client.secret);
  const events = subscriber.iterate<Json>({ query, variables: { after: eventCursor } });
  const { value } = await events.next();
  expect(value.data.events).toMatchObject({
    type: 'CONVERSATION_CLOSED',
    conversation: { id: conversation.id },
    sequence: 8,
  });
  await subscriber.dispose();
});
