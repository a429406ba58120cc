import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import Database from 'better-sqlite3';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import type { NewEvent } from '../../src/domain/events.ts';
import { eventReads } from '../../src/graphql/loaders.ts';
import type { Json } from '../support/client.ts';
import { effort, longTest } from '../support/effort.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';
import { eventually, until } from '../support/wait.ts';

// A reader that stops reading costs no memory, is ended, and has missed nothing when it comes back. One that finds
// nothing to read costs none either.

let server: TestServer;
afterEach(() => server.close());

const leanQuery = 'subscription ($after: String) { events(after: $after) { cursor id } }';
const fullQuery = `subscription ($after: String) {
  events(after: $after) { cursor id ... on ConversationStartedEvent { conversation { metadata } } }
}`;

function makeEvents(client: TestAccount, count: number, bytes: number): NewEvent[] {
  const { ids } = server.app.ports;
  const now = server.clock.now();
  const at = new Date(now).toISOString();
  return Array.from({ length: count }, () => ({
    id: ids.next('event', now),
    type: 'conversation.started',
    timestamp: at,
    conversationId: null,
    visitorId: null,
    data: {
      conversation: {
        id: client.account.id.replace('acct', 'conv'),
        status: 'active',
        subject: null,
        visitor: null,
        externalId: null,
        assignee: null,
        tags: [],
        metadata: { filling: 'x'.repeat(bytes) },
        messageCount: 0,
        lastMessage: null,
        lastActivityAt: at,
        firstResponseAt: null,
        closedAt: null,
        version: 1,
        createdAt: at,
        updatedAt: at,
      },
    },
  }));
}

/** Writes events past the operations, which would take longer than the reading that this is about. */
async function write(client: TestAccount, count: number, bytes: number): Promise<void> {
  const events = makeEvents(client, count, bytes);
  await server.app.ports.storage.write(async (tx) => {
    await tx.events.append(client.account.id, events);
  });
}

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** What the whole process holds, the clients of the test included. */
function memoryBytes(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const megabyte = 1024 * 1024;

/** A reader of any kind, which can stop and go on. It keeps what tells one event from another. */
interface Reader {
  readonly ids: string[];
  /** GraphQL errors in place of events. */
  readonly errors: Json[];
  readonly cursor: () => string | undefined;
  pause(): void;
  resume(): void;
  /** How the connection ended. */
  readonly ended: Promise<unknown>;
}

interface ReaderKind {
  open(client: TestAccount, after: string, query: string): Promise<Reader>;
}

async function openSocket(client: TestAccount, after: string, query: string): Promise<Reader> {
  const raw = await new RawSocket(server.url).init(client.secret);
  onTestFinished(() => raw.socket.terminate());
  const ids: string[] = [];
  const errors: Json[] = [];
  let cursor: string | undefined;
  raw.socket.removeAllListeners('message'); // it would keep them all
  raw.socket.on('message', (data) => {
    const { type, payload } = JSON.parse(String(data));
    if (type === 'next') {
      ids.push(payload.data.events.id);
      cursor = payload.data.events.cursor;
    } else {
      errors.push(...payload);
    }
  });
  raw.subscribe('all', query, { after });
  return {
    ids,
    errors,
    cursor: () => cursor,
    pause: () => raw.socket.pause(),
    resume: () => raw.socket.resume(),
    ended: raw.closed.then(({ code }) => code),
  };
}

/** Either face's event stream, read as text: each event is a line of data. */
function openStream(path: (after: string, query: string) => string, eventIn: (data: string) => Json) {
  return async (client: TestAccount, after: string, query: string): Promise<Reader> => {
    const request = httpRequest(`${server.url}${path(after, query)}`, {
      headers: { authorization: `Bearer ${client.secret}`, accept: 'text/event-stream' },
    });
    request.end();
    onTestFinished(() => void request.destroy());
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    request.on('error', () => {});
    const ids: string[] = [];
    const errors: Json[] = [];
    let cursor: string | undefined;
    let rest = '';
    response.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        if (!line.startsWith('data: ')) continue;
        const event = eventIn(line);
        if (event.errors !== undefined) {
          errors.push(...event.errors);
        } else {
          ids.push(event.id);
          cursor = event.cursor;
        }
      }
    });
    const ended = new Promise((resolve) => {
      response.on('error', () => {}).on('close', () => resolve(response.complete ? 'complete' : 'cut off'));
    });
    return {
      ids,
      errors,
      cursor: () => cursor,
      pause: () => void response.pause(),
      resume: () => void response.resume(),
      ended,
    };
  };
}

/** The beginning of an event is enough to know it by, and is parsed faster than the whole. */
function headOf(data: string): Json {
  return JSON.parse(`${data.slice('data: '.length, data.indexOf(',"apiVersion"'))}}`);
}

const socket: ReaderKind = { open: openSocket };

const restStream: ReaderKind = { open: openStream((after) => `/v1/events/stream?after=${after}`, headOf) };

const graphqlStream: ReaderKind = {
  open: openStream(
    (after, query) =>
      `/graphql?query=${encodeURIComponent(query)}&variables=${encodeURIComponent(JSON.stringify({ after }))}`,
    (text) => {
      const { data, errors } = JSON.parse(text.slice('data: '.length));
      return data?.events ?? { errors };
    },
  ),
};

const cursorOf = async (client: TestAccount): Promise<string> =>
  (await client.graphql('{ eventCursor }')).data.eventCursor;

async function tookMs(work: () => Promise<void>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

/** The ids of the log, in order, as they lie in the file. */
function loggedIds({ account }: TestAccount): string[] {
  const database = new Database(server.databasePath, { readonly: true });
  try {
    const select = database.prepare('SELECT id FROM events WHERE account_id = ? ORDER BY sequence').pluck();
    return select.all(account.id) as string[];
  } finally {
    database.close();
  }
}

/**
 * Lets readers stop, writes a log beside one that reads on, and lets the stopped ones come back: first for
 * what was on its way to them, then over a new connection for the rest.
 */
async function stopAndResume(
  kinds: readonly ReaderKind[],
  { beside, count, bytes, slowReaderMs }: { beside: ReaderKind; count: number; bytes: number; slowReaderMs: number },
) {
  const step = effort(20, 1_000);
  // Pings do not take the place of the reader's own time, though they come sooner. In the short run none is due twice before
  // the kernels' buffers are full, for which a busy machine takes its time.
  server = await startTestServer({ timings: { slowReaderMs, pingMs: effort(10_000, 2_000) } });
  const client = await server.account();
  const start = await cursorOf(client);
  const slow = await Promise.all(kinds.map(({ open }) => open(client, start, fullQuery)));
  const fast = await beside.open(client, start, leanQuery);
  const firstMs = await tookMs(async () => {
    await write(client, step, bytes);
    await until(() => [...slow, fast].every(({ ids }) => ids.length === step));
  });
  for (const reader of slow) reader.pause();

  // Ended by the service: only the fast one is left, before the others have read again. A socket that has not taken its end
  // within half a minute would be destroyed.
  const resumeEnded = (): void => {
    if (server.app.sessions.size === 1) for (const reader of slow) reader.resume();
  };
  const before = memoryBytes();
  let most = 0;
  let longestMs = 0;
  for (let written = 2 * step; written <= count; written += step) {
    const oneMs = await tookMs(async () => {
      await write(client, step, bytes);
      await until(() => fast.ids.length === written);
    });
    longestMs = Math.max(longestMs, oneMs);
    if (written % (5 * step) === 0) most = Math.max(most, memoryBytes());
    resumeEnded();
  }
  await until(() => server.app.sessions.size === 1);
  resumeEnded();
  const endings = await Promise.all(slow.map(({ ended }) => ended));

  const resumed = await Promise.all(
    kinds.map(({ open }, index) => open(client, (slow[index] as Reader).cursor() as string, leanQuery)),
  );
  const received: string[][] = [];
  for (const [index, reader] of slow.entries()) {
    const rest = (resumed[index] as Reader).ids;
    await until(() => reader.ids.length + rest.length >= count, 45_000);
    received.push([...reader.ids, ...rest]);
  }
  return {
    growthMegabytes: (most - before) / megabyte,
    /** The longest step, by the first one and a second: before anybody stopped reading. */
    slowdown: longestMs / (1_000 + firstMs),
    endings,
    missed: slow.map(({ ids }) => count - ids.length),
    received,
    receivedByFast: fast.ids,
    log: loggedIds(client),
  };
}

/** In the short mode, 21 MB are written, of which the kernels hold about half. */
const growthMegabytes = effort(5, 60);

test('a socket that stops reading while many events are written costs no memory, is closed with 4290, and resumes without a gap', async () => {
  const count = effort(360, 100_000);
  const result = await stopAndResume([socket], {
    beside: restStream,
    count,
    bytes: effort(60_000, 1_000),
    slowReaderMs: effort(12_000, 5_000),
  });

  expect(result.log.length).toBe(count);
  expect(result.growthMegabytes).toBeLessThan(growthMegabytes);
  expect(result.slowdown).toBeLessThan(5);
  expect(result.endings).toEqual([4290]);
  expect(result.missed[0]).toBeGreaterThan(0.3 * count);
  expect(result.received[0]?.join()).toBe(result.log.join());
  expect(result.receivedByFast.join()).toBe(result.log.join());
}, 120_000);

longTest(
  'event streams that stop reading cost no memory, are ended, and resume without a gap',
  async () => {
    const count = effort(360, 10_000);
    const result = await stopAndResume([restStream, graphqlStream], {
      beside: socket,
      count,
      bytes: effort(60_000, 10_000),
      slowReaderMs: 2_000,
    });

    expect(result.growthMegabytes).toBeLessThan(growthMegabytes);
    expect(result.slowdown).toBeLessThan(5);
    expect(result.endings).toEqual(['cut off', 'cut off']);
    for (const [index, received] of result.received.entries()) {
      expect(result.missed[index]).toBeGreaterThan(0.3 * count);
      expect(received.join()).toBe(result.log.join());
    }
    expect(result.receivedByFast.join()).toBe(result.log.join());
  },
  60_000,
);

longTest('long responses cost no memory, whether they were read or not', async () => {
  server = await startTestServer();
  const client = await server.account();
  const start = await cursorOf(client);
  // Nearly as long as the answer to an event may be: 240 kilobytes each.
  const often = Array.from({ length: 30 }, (_, index) => `f${index}: metadata`).join(' ');
  const query = `subscription ($after: String) {
    events(after: $after) { cursor id ... on ConversationStartedEvent { conversation { ${often} } } }
  }`;
  const readers = [await openSocket(client, start, query), await openSocket(client, start, query)];
  await until(() => server.app.liveLog.followers === readers.length);
  let written = 0;
  const tell = async (events: number): Promise<void> => {
    for (const upTo = written + events; written < upTo; ) {
      await write(client, 1, 8_000);
      written++;
      await until(() => readers.every(({ ids }) => ids.length === written));
    }
  };
  const keptMegabytes = 3; // a million characters may be, which is more than one megabyte in memory; all are five
  await tell(5); // what is made once is made by now
  const before = memoryBytes();
  await tell(20);
  expect((memoryBytes() - before) / megabyte).toBeLessThan(keptMegabytes);

  const late = await openSocket(client, start, query);
  late.pause();
  await until(() => server.app.liveLog.followers === readers.length + 1);
  await tell(1); // by now the late one was sent what it does not take
  expect((memoryBytes() - before) / megabyte).toBeLessThan(keptMegabytes);
  late.resume();
  await until(() => late.ids.length === written);
  expect(late.ids).toEqual(loggedIds(client));
});

longTest('idle streams cost no memory, however long they stay open', async () => {
  server = await startTestServer({ timings: { heartbeatMs: 1 } });
  const client = await server.account();
  let heartbeats = 0;
  for (let stream = 0; stream < 20; stream++) {
    const request = httpRequest(`${server.url}/v1/events/stream`, {
      headers: { authorization: `Bearer ${client.secret}` },
    }).end();
    onTestFinished(() => void request.destroy());
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    request.on('error', () => {});
    response
      .on('error', () => {})
      .on('data', (text) => {
        heartbeats += String(text).split('id: ').length - 1;
      });
  }
  await until(() => heartbeats > effort(500, 2_000)); // what is made once is made by now
  const [startBytes, startBeats] = [memoryBytes(), heartbeats];
  const more = effort(1_000, 10_000);
  await until(() => heartbeats > startBeats + more);
  expect((memoryBytes() - startBytes) / more).toBeLessThan(200);
});

longTest('subscriptions that wait for their next event keep nothing of the last response', async () => {
  server = await startTestServer();
  const client = await server.account();
  const { body: conversation } = await client.rest('POST', '/conversations', {
    body: { metadata: { note: 'x'.repeat(8_000) } },
  });
  const raw = await new RawSocket(server.url).init(client.secret);
  onTestFinished(() => raw.socket.terminate());
  raw.socket.removeAllListeners('message'); // it would keep them all
  let received = 0;
  raw.socket.on('message', (data) => {
    received += String(data).startsWith('{"id"') ? (data as Buffer).length : 0;
  });
  const count = effort(25, 100);
  const often = Array.from({ length: 20 }, (_, index) => `f${index}: metadata`).join(' ');
  for (let index = 0; index < count; index++) {
    raw.subscribe(`${index}`, `subscription { n${index}: messageReceived { conversation { current { ${often} } } } }`);
  }
  await until(() => server.app.liveLog.followers === count);
  const before = memoryBytes();
  await client.rest('POST', `/conversations/${conversation.id}/messages`, {
    body: { content: 'Hello?', sender: 'visitor' },
  });
  await until(() => received > count * 160_000);
  await eventually(
    async () => memoryBytes() - before,
    (growth) => growth < effort(2, 4) * megabyte,
  );
});

longTest('responses that are kept for those who subscribed to the same are bounded for an account', async () => {
  server = await startTestServer();
  const client = await server.account();
  let received = 0;
  const [pairs, each, times, bytes] = [4, effort(12, 50), 20, 10_000];
  const often = Array.from({ length: times }, (_, index) => `f${index}: metadata`).join(' ');
  for (let index = 0; index < 2 * pairs; index++) {
    const raw = await new RawSocket(server.url).init(client.secret);
    onTestFinished(() => raw.socket.terminate());
    raw.socket.removeAllListeners('message'); // it would keep them all
    raw.socket.on('message', (data: Buffer) => {
      received += data.length;
    });
    for (let number = 0; number < each; number++) {
      const name = `n${index % pairs}x${number}`;
      raw.subscribe(`${number}`, `subscription { ${name}: conversationStarted { conversation { ${often} } } }`);
    }
  }
  await until(() => server.app.liveLog.followers === 2 * pairs * each);
  const before = memoryBytes();
  await write(client, 1, bytes);
  await until(() => received > 2 * pairs * each * times * bytes);
  await eventually(
    async () => memoryBytes() - before,
    (growth) => growth < 6 * megabyte,
  );
});

longTest.each([
  ['REST', () => '/v1/events/stream', 1, effort(50, 100)],
  [
    'GraphQL',
    (index: number) => {
      const often = Array.from({ length: 10 }, (_, alias) => `f${alias}: metadata`).join(' ');
      const query = `subscription { n${index}: conversationStarted { conversation { ${often} } } }`;
      return `/graphql?query=${encodeURIComponent(query)}`;
    },
    10,
    effort(15, 100),
  ],
] as const)(
  'streams of %s that wait for their next event keep nothing of the last response',
  async (_, path, times, count) => {
    server = await startTestServer();
    const client = await server.account();
    const bytes = 15_000;
    let received = 0;
    for (let index = 0; index < count; index++) {
      const request = httpRequest(`${server.url}${path(index)}`, {
        headers: { authorization: `Bearer ${client.secret}`, accept: 'text/event-stream' },
      });
      request.on('error', () => {}).end();
      onTestFinished(() => void request.destroy());
      const [response] = (await once(request, 'response')) as [IncomingMessage];
      response
        .on('error', () => {})
        .on('data', (chunk: Buffer) => {
          received += chunk.length;
        });
    }
    await until(() => server.app.liveLog.followers === count);
    const before = memoryBytes();
    await write(client, 1, bytes);
    await until(() => received > count * bytes * times);
    await eventually(
      async () => memoryBytes() - before,
      (growth) => growth < megabyte / 2,
    );
  },
);

longTest('subscriptions keep nothing of their request that they do not need', async () => {
  server = await startTestServer();
  const client = await server.account();
  const query = 'subscription ($after: String) { events(after: $after) { id } }';
  const long = 'x'.repeat(50_000);
  const { socket } = await new RawSocket(server.url).init(client.secret);
  onTestFinished(() => socket.terminate());
  const streams: { destroy(): void }[] = [];
  onTestFinished(() => {
    for (const stream of streams) stream.destroy();
  });
  /** Two on a socket and one by Server-Sent Events, of which each says much that nobody asked for. */
  const subscribe = async (): Promise<void> => {
    const { followers } = server.app.liveLog;
    const more = [{ payload: { query, extensions: { long } } }, { payload: { query, long }, long: 'x'.repeat(10_000) }];
    for (const [index, message] of more.entries()) {
      socket.send(JSON.stringify({ type: 'subscribe', id: `${followers + index}`, ...message }));
    }
    const stream = httpRequest(`${server.url}/graphql`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${client.secret}`,
        accept: 'text/event-stream',
        'content-type': 'application/json',
      },
    });
    stream
      .on('error', () => {})
      .end(JSON.stringify({ query, extensions: { long: long.repeat(10) } }).padEnd(1_000_000));
    streams.push(stream);
    await until(() => server.app.liveLog.followers === followers + 3);
  };
  await subscribe(); // what is made once is made by now
  const before = memoryBytes();
  for (let count = 0; count < effort(8, 30); count++) await subscribe();
  // A megabyte came in with each. What is on its way out is let go of later.
  await eventually(
    async () => memoryBytes() - before,
    (growth) => growth < 3 * megabyte,
  );
});

test.each([
  { reader: 'socket', kind: socket },
  { reader: 'stream of REST', kind: restStream },
  { reader: 'stream of GraphQL', kind: graphqlStream },
])(
  'a $reader that lags behind the pruned part of the log gets CURSOR_EXPIRED, and continues from the oldest cursor',
  async ({ kind }) => {
    server = await startTestServer();
    const client = await server.account();
    const start = await cursorOf(client);
    const reader = await kind.open(client, start, fullQuery);
    reader.pause();
    for (let step = 0; step < 20; step++) await write(client, 20, 50_000);
    server.clock.advance(1);
    const { storage } = server.app.ports;
    await storage.write(async (tx) => await tx.events.prune(server.clock.now(), 10_000));
    await write(client, 1, 1);
    reader.resume();
    if (kind === restStream) {
      expect(await reader.ended).toBe('complete');
      const refused = await client.rest('GET', `/events/stream?after=${reader.cursor()}`);
      expect([refused.status, refused.body.code]).toEqual([410, 'CURSOR_EXPIRED']);
    }
    await until(() => kind === restStream || reader.errors.length > 0);
    const expired = await client.rest('GET', `/events?after=${reader.cursor()}`);
    const { oldestCursor } = expired.body;
    if (kind !== restStream) {
      expect(reader.errors).toMatchObject([{ extensions: { code: 'CURSOR_EXPIRED', oldestCursor } }]);
    }
    const resumed = await kind.open(client, oldestCursor, leanQuery);
    await until(() => resumed.ids.length === 1);
    expect(resumed.ids).toEqual(loggedIds(client));
    expect(reader.ids.length).toBeLessThan(20 * 20);
    expect(server.logLines.filter(({ level }) => level !== 'info')).toEqual([]);
  },
);

test('a reader of a GraphQL stream is not taken for slow while the service makes its answer', async () => {
  server = await startTestServer({ timings: { slowReaderMs: 500 } });
  const client = await server.account();
  const start = await cursorOf(client);
  // Other subscriptions of the account read for their answers.
  const leave = await Promise.all(Array.from({ length: 4 }, () => eventReads.enter(client.account.id, 1)));
  const query = `subscription ($after: String) {
    events(after: $after) { cursor id ... on ConversationStartedEvent { conversation { current { id } } } }
  }`;
  const [reader, stalled] = [
    await graphqlStream.open(client, start, query),
    await restStream.open(client, start, fullQuery),
  ];
  stalled.pause();
  await write(client, 1, 1);
  for (let step = 0; step < 20; step++) await write(client, 20, 50_000);
  await until(() => server.app.sessions.size === 1);
  for (const each of leave) each?.();
  let isEnded = false;
  void reader.ended.then(() => {
    isEnded = true;
  });
  await until(() => isEnded || reader.ids.length === 401);
  expect(reader.ids).toEqual(loggedIds(client));
});

test('a client that sends requests but reads no responses is not read from any more, and closed with 4290', async () => {
  // No ping is due before the kernels' buffers are full: a busy machine takes its time over that.
  server = await startTestServer({ timings: { slowReaderMs: 1_000 } });
  const client = await server.account();
  const { socket, closed } = await new RawSocket(server.url).init(client.secret);
  onTestFinished(() => socket.terminate());
  socket.pause();
  // Each is echoed. The kernels hold some megabytes in each direction, and the service one or two.
  const ping = JSON.stringify({ type: 'ping', payload: { filling: 'x'.repeat(60_000) } });
  let sent = 0;
  const flooding = (async () => {
    while (socket.readyState === socket.OPEN && sent < 5_000) {
      await new Promise<void>((resolve) => socket.send(ping, () => resolve()));
      sent++;
    }
  })();
  await until(() => server.app.sessions.size === 0);
  expect((sent * ping.length) / megabyte).toBeLessThan(60);
  socket.resume();
  expect((await closed).code).toBe(4290);
  await flooding;
  expect(sent).toBeLessThan(5_000);
});
