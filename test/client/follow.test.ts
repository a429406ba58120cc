import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import * as own from '../../src/client/index.ts';
import { commandLine, serve } from '../cli/program.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { sampleConversation, sampleEvent } from '../support/samples.ts';
import { startTestServer, type TestAccount } from '../support/server.ts';
import { until } from '../support/wait.ts';
import { followThroughKills } from './kills.ts';
import { follow } from './tour.ts';

const { Client } = own;

// Whoever follows the events with the client gets each of them once, in order, whatever happens to the connection.

longTest.each(['stream', 'socket'] as const)(
  'over a %s, a follower misses nothing and gets nothing twice when the server is killed and its token revoked',
  { timeout: 60_000 }, // it starts four servers
  (over) =>
    followThroughKills({
      over,
      kills: 3,
      begin: async (following, _, heard) => onTestFinished(follow(own, following, heard)),
    }),
);

/** What sockets have brought to the process, whether anybody has asked for it or not. */
function watchSockets() {
  const watched = { events: [] as string[], closed: 0 };
  const webSocketImpl = class extends globalThis.WebSocket {
    constructor(...args: ConstructorParameters<typeof globalThis.WebSocket>) {
      super(...args);
      this.addEventListener('close', () => watched.closed++);
      this.addEventListener('message', ({ data }) => {
        const id = JSON.parse(data).payload?.data?.events?.id;
        if (id !== undefined) watched.events.push(id);
      });
    }
  };
  return { watched, webSocketImpl };
}

describe('a follower over a socket that takes its time', () => {
  const takeAll = async (events: AsyncGenerator<{ id: string }>, ids: string[], count: number): Promise<void> => {
    while (ids.length < count) ids.push((await events.next()).value.id);
  };

  test('gets each event once, also those that came before the server was killed and were taken after', {
    timeout: 60_000, // it starts two servers
  }, async () => {
    const databasePath = `${temporaryFolder()}/test.db`;
    const { apiKey } = await commandLine(databasePath).jsonHere<{ apiKey: { secret: string } }>(
      ...['account', 'create', '--name', 'A', '--plan', 'business'],
    );
    const { watched: sockets, webSocketImpl } = watchSockets();
    const server = await serve(databasePath);
    const client = new Client({ url: server.url, credential: apiKey.secret });
    const { eventCursor: after } = await client.call('getAccount');
    const events = client.follow({ after, over: 'socket', webSocketImpl });
    const ids: string[] = [];
    for (let written = 0; written < 7; written++) await client.call('createConversation', {});
    await takeAll(events, ids, 2);
    await until(() => sockets.events.length === 7);
    server.signal('SIGKILL');
    await server.ended;
    await serve(databasePath, { PORT: new URL(server.url).port });
    await client.call('createConversation', {});
    const log = (await client.call('listEvents', { after })).data.map(({ id }) => id);
    await until(() => sockets.events.at(-1) === log.at(-1));
    await takeAll(events, ids, 8);
    expect(ids).toEqual(log);
    await events.return();
  });

  longTest(
    'keeps no more than some hundreds waiting, and gets the others when it has taken those',
    {
      timeout: 60_000, // for hundreds of events
    },
    async () => {
      const server = await startTestServer();
      onTestFinished(() => server.close());
      const { account, secret } = await server.account();
      const client = new Client({ url: server.url, credential: secret });
      const { watched: sockets, webSocketImpl } = watchSockets();
      const { eventCursor: after } = await client.call('getAccount');
      const events = client.follow({ after, over: 'socket', webSocketImpl });
      const write = (count: number) =>
        server.app.ports.storage.write(async (tx) => {
          const written = Array.from({ length: count }, () => sampleEvent(sampleConversation()));
          await tx.events.append(account.id, written);
        });
      const ids: string[] = [];
      await write(2);
      await takeAll(events, ids, 1);
      for (let written = 0; written < 900; written += 20) await write(20);
      await until(() => sockets.closed === 1);
      expect(sockets.events.length).toBeLessThan(800);
      const log: string[] = [];
      for await (const { id } of client.list('listEvents', { after, limit: 100 })) log.push(id);
      await takeAll(events, ids, log.length);
      expect(ids).toEqual(log);
      expect(log).toHaveLength(902);
      await events.return();
    },
  );
});

test('a follower of some types gets those, by the same names over both, and one that is too late is told from where it can follow', async () => {
  const server = await startTestServer({ config: { eventRetentionMs: 3_600_000 } });
  onTestFinished(() => server.close());
  const account = await server.account();
  const client = new Client({ url: server.url, credential: account.secret });
  const start = (await client.call('getAccount')).eventCursor;
  const { id } = await client.call('createConversation', { message: { sender: 'visitor', content: 'Hello' } });
  await client.call('updateConversation', { id, status: 'closed' });
  const types = ['message.received', 'conversation.closed'] as const;
  for (const over of [undefined, 'socket'] as const) {
    const found: own.EventType[] = [];
    const events =
      over === undefined
        ? client.follow({ after: start, types })
        : client.follow({ after: start, types, over, select: '... on MessageReceivedEvent { message { content } }' });
    for await (const event of events) {
      found.push(event.type);
      if (found.length === 2) break;
    }
    expect(found).toEqual(types);
  }
  server.clock.advance(2 * 3_600_000);
  await server.app.tick();
  for (const over of [undefined, 'socket'] as const) {
    const events = over === undefined ? client.follow({ after: start }) : client.follow({ after: start, over });
    await expect(events.next()).rejects.toMatchObject({ code: 'CURSOR_EXPIRED', oldestCursor: expect.any(String) });
  }
});

test('what a follower asks wrongly is thrown as an error of the service, whatever it follows over', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const { secret } = await server.account();
  const client = new Client({ url: server.url, credential: secret });
  const { eventCursor: after } = await client.call('getAccount');
  await client.call('createConversation');
  for (const options of [{ after: 'no cursor' }, { after, types: [] }]) {
    for (const over of [undefined, 'socket'] as const) {
      const events = over === undefined ? client.follow(options) : client.follow({ ...options, over });
      const error: unknown = await events.next().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(own.ServiceError);
      expect(error).toMatchObject({ code: 'VALIDATION_FAILED' });
    }
  }
});

describe.each([['stream'], ['socket']] as const)('a follower over a %s', (over) => {
  type Credential = own.ClientOptions['credential'];
  const followWith = async (credentialOf: (account: TestAccount) => Credential | Promise<Credential>) => {
    const server = await startTestServer();
    onTestFinished(() => server.close());
    const account = await server.account();
    const { eventCursor: after } = (await account.rest('GET', '/account')).body;
    const client = new Client({ url: server.url, credential: await credentialOf(account) });
    const stop = new AbortController();
    onTestFinished(() => stop.abort());
    const options = { after, signal: stop.signal };
    const events = over === 'stream' ? client.follow(options) : client.follow({ ...options, over });
    const write = () => account.rest('POST', '/conversations', { body: {} });
    return { events, account, write };
  };

  test('is told when its key is revoked', async () => {
    let key = { id: '', secret: '' };
    const { events, account, write } = await followWith(async (owner) => {
      key = (await owner.rest('POST', '/api-keys', { body: { name: 'a key', scopes: ['events:read'] } })).body;
      return key.secret;
    });
    await write();
    await events.next();
    const next = expect(events.next()).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
    expect((await account.rest('DELETE', `/api-keys/${key.id}`)).status).toBe(204);
    await next;
  });

  test('is told when each token that it gets is refused', async () => {
    let asked = 0;
    const { events } = await followWith(() => async () => `no token ${++asked}`);
    await expect(events.next()).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
    expect(asked).toBe(2);
  });

  test('is told when it may have no token', async () => {
    const { events } = await followWith(() => () => {
      throw new own.ServiceError('Not for you.', { code: 'FORBIDDEN' });
    });
    await expect(events.next()).rejects.toMatchObject({ code: 'FORBIDDEN', message: 'Not for you.' });
  });

  test('goes on when it gets a token that it did not get at first', async () => {
    const failures = [
      new TypeError('The connection was lost.'),
      new own.ServiceError('Not now.', { code: 'UNAVAILABLE' }),
    ];
    const { events, write } = await followWith((account) => async () => {
      const failure = failures.shift();
      if (failure) throw failure;
      return account.secret;
    });
    await write();
    expect(await events.next()).toMatchObject({ value: { type: 'conversation.started' } });
    expect(failures).toHaveLength(0);
  });
});

test('a follower over a socket waits as long as it is told to when it is refused for now, and goes on', async () => {
  const answers = [
    (socket: WebSocket, id: string) =>
      say(socket, id, 'error', [{ message: 'Too many.', extensions: { code: 'RATE_LIMITED', retryAfterSeconds: 1 } }]),
    (socket: WebSocket, id: string) =>
      say(socket, id, 'error', [{ message: 'No place.', extensions: { code: 'QUOTA_EXCEEDED' } }]),
    (socket: WebSocket, id: string) =>
      say(socket, id, 'next', { data: { events: { type: 'MESSAGE_SENT', cursor: 'the next cursor' } } }),
  ];
  const asked: number[] = [];
  const client = await clientOfSockets((socket, id) => {
    asked.push(performance.now());
    answers.shift()?.(socket, id);
  });
  const events = client.follow({ after: 'a cursor', over: 'socket' });
  expect(await events.next()).toMatchObject({
    done: false,
    value: { type: 'message.sent', cursor: 'the next cursor' },
  });
  expect(asked).toHaveLength(3);
  expect((asked[1] ?? 0) - (asked[0] ?? 0)).toBeGreaterThan(990);
  await events.return();
});

test.each([['stream'], ['socket']] as const)(
  'a follower over a %s waits until there is a place for it',
  async (over) => {
    const server = await startTestServer();
    onTestFinished(() => server.close());
    const account = await server.account();
    const body = { scopes: ['conversations:read', 'events:read'], visitor: { id: 'customer-7' } };
    const credential: string = (await account.rest('POST', '/tokens', { body })).body.token;
    const others = new AbortController();
    const options = { headers: { authorization: `Bearer ${credential}` }, signal: others.signal };
    const places = Array.from({ length: 20 }, () => fetch(`${server.url}/v1/events/stream`, options));
    for (const { status } of await Promise.all(places)) expect(status).toBe(200);
    let refusals = 0;
    const client = new Client({
      url: server.url,
      credential,
      fetch: async (...given) => {
        const response = await fetch(...given);
        if (response.status === 409) refusals++;
        return response;
      },
    });
    const webSocketImpl = class extends globalThis.WebSocket {
      constructor(...args: ConstructorParameters<typeof globalThis.WebSocket>) {
        super(...args);
        this.addEventListener('close', ({ code }) => code === 4429 && refusals++);
      }
    };
    const { eventCursor: after } = await client.graphql<{ eventCursor: string }>('{ eventCursor }');
    await account.rest('POST', '/conversations', { body: { visitor: { id: 'customer-7' } } });
    const events = over === 'stream' ? client.follow({ after }) : client.follow({ after, over, webSocketImpl });
    const next = events.next();
    await Promise.race([next, until(() => refusals >= 2)]);
    others.abort();
    expect(await next).toMatchObject({ value: { type: 'conversation.started' } });
    await events.return();
  },
);

test('a follower over a socket names a scheme of sockets, also of an address in capitals: older browsers take no other', async () => {
  const addresses: string[] = [];
  const webSocketImpl = class extends globalThis.WebSocket {
    constructor(...args: ConstructorParameters<typeof globalThis.WebSocket>) {
      super(...args);
      addresses.push(String(args[0]));
    }
  };
  const stop = new AbortController();
  const client = new Client({ url: 'HTTP://127.0.0.1:1', credential: 'a token' });
  const next = client.follow({ over: 'socket', after: 'a cursor', signal: stop.signal, webSocketImpl }).next();
  await until(() => addresses.length > 0);
  stop.abort(new Error('It is enough.'));
  await expect(next).rejects.toThrow('It is enough.');
  expect(addresses[0]).toBe('ws://127.0.0.1:1/graphql');
});

test('a follower whose socket cannot be made at all, as where the policy of its page forbids it, is told why', async () => {
  const forbidden = new DOMException('The page may not connect there.', 'SecurityError');
  const webSocketImpl = class extends globalThis.WebSocket {
    constructor(url: string) {
      super(url);
      throw forbidden;
    }
  };
  const client = new Client({ url: 'http://127.0.0.1:1', credential: 'a token' });
  await expect(client.follow({ over: 'socket', after: 'a cursor', webSocketImpl }).next()).rejects.toBe(forbidden);
  const nowhere = new Client({ url: 'http://[', credential: 'a token' });
  await expect(nowhere.follow({ over: 'socket', after: 'a cursor' }).next()).rejects.toThrow('URL');
});

test.each([
  ['a page of a proxy', '<h1>Web server is down</h1>'],
  ['JSON that is not the service’s', '{"message":"Web server is down"}'],
])('a follower over a stream goes on after a failure that %s tells of', async (_, body) => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const { secret } = await server.account();
  const statuses = [521, 500];
  const through: typeof fetch = async (url, init) => {
    const status = statuses.shift();
    return status ? new Response(body, { status }) : await fetch(url, init);
  };
  const { eventCursor: after } = await new Client({ url: server.url, credential: secret }).call('getAccount');
  await new Client({ url: server.url, credential: secret }).call('createConversation', {});
  const events = new Client({ url: server.url, credential: secret, fetch: through }).follow({ after });
  expect(await events.next()).toMatchObject({ value: { type: 'conversation.started' } });
  expect(statuses).toHaveLength(0);
  await events.return();
});

test('a follower over a stream waits longer and longer while something else answers in place of the service', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const { secret } = await server.account();
  const asked: number[] = [];
  const through: typeof fetch = async (url, init) => {
    asked.push(performance.now());
    const page = new Response('<h1>Sign in to this network</h1>\n\n<form>\n\n', {
      headers: { 'Content-Type': 'text/html' },
    });
    return asked.length <= 3 ? page : await fetch(url, init);
  };
  const { eventCursor: after } = await new Client({ url: server.url, credential: secret }).call('getAccount');
  await new Client({ url: server.url, credential: secret }).call('createConversation', {});
  const events = new Client({ url: server.url, credential: secret, fetch: through }).follow({ after });
  expect(await events.next()).toMatchObject({ value: { type: 'conversation.started' } });
  expect((asked[3] ?? 0) - (asked[2] ?? 0)).toBeGreaterThan(490); // a second, at random half of it
  await events.return();
});

test('a follower over a stream waits for 61 minutes at most, whatever it is told', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
  onTestFinished(() => void vi.useRealTimers());
  let sent = 0;
  const answer = async () => {
    sent++;
    return new Response('', { status: 429, headers: { 'Retry-After': '9999999' } });
  };
  const stop = new AbortController();
  const client = new Client({ url: 'http://127.0.0.1', credential: 'a token', fetch: answer });
  const next = client.follow({ signal: stop.signal }).next();
  await vi.advanceTimersByTimeAsync(3_500_000);
  expect(sent).toBe(1);
  await vi.advanceTimersByTimeAsync(200_000);
  expect(sent).toBe(2);
  stop.abort(new Error('It is enough.'));
  await expect(next).rejects.toThrow('It is enough.');
});

test('a follower over a socket that asks too much of an event is told where it can go on after it', async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const { secret } = await server.account();
  const client = new Client({ url: server.url, credential: secret });
  const { eventCursor } = await client.call('getAccount');
  const message = { sender: 'visitor', content: 'x'.repeat(10_000) } as const;
  const { id: conversationId } = await client.call('createConversation', { message });
  await client.call('updateConversation', { id: conversationId, status: 'closed' });
  const aliases = Array.from({ length: 30 }, (_, index) => `a${index}: content`);
  const select = `... on MessageReceivedEvent { message { ${aliases.join(' ')} } }`;
  const found: string[] = [];
  for (let after = eventCursor; found.at(-1) !== 'conversation.closed'; ) {
    try {
      for await (const event of client.follow({ over: 'socket', after, select })) {
        found.push(event.type);
        after = event.cursor;
        if (event.type === 'conversation.closed') break;
      }
    } catch (error) {
      const { code, cursor } = error as own.ServiceError;
      found.push(code);
      if (cursor === undefined) break;
      after = cursor;
    }
  }
  expect(found).toEqual(['conversation.started', 'QUERY_TOO_COMPLEX', 'conversation.closed']);
});

/** Lets time pass for the client, until it has connected so often. */
async function passTime(connections: () => number, count: number, mostSeconds = 300): Promise<void> {
  for (let seconds = 0; ; seconds++) {
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    if (connections() >= count) return;
    if (seconds === mostSeconds) throw new Error('It has not connected again.');
    await vi.advanceTimersByTimeAsync(1_000);
  }
}

describe('a follower connects again when the service does not say anything any more', () => {
  const followsOn = async (client: own.Client, over: 'socket' | undefined, connections: () => number) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const stop = new AbortController();
    const options = { after: 'a cursor', signal: stop.signal };
    const events = over === undefined ? client.follow(options) : client.follow({ ...options, over });
    const next = expect(events.next()).rejects.toThrow('It is enough.');
    await passTime(connections, 1);
    await passTime(connections, 2);
    vi.useRealTimers();
    stop.abort(new Error('It is enough.'));
    await next;
  };
  const head = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n';

  test.each([
    ['on a stream', head],
    ['before it answers', ''],
  ])('%s', async (_, answer) => {
    let connections = 0;
    const server = createServer((socket) => {
      connections++;
      socket.on('error', () => {});
      socket.once('data', () => socket.write(answer));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    await followsOn(new Client({ url: urlOf(server), credential: 'a token' }), undefined, () => connections);
  });

  test('on a socket, not even an answer to the request for it', async () => {
    let connections = 0;
    const server = createServer((socket) => {
      connections++;
      socket.on('error', () => {});
      socket.resume();
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    await followsOn(new Client({ url: urlOf(server), credential: 'a token' }), 'socket', () => connections);
  });

  test('on a socket, not even an answer to a ping', async () => {
    let connections = 0;
    const client = await clientOfSockets(() => connections++);
    await followsOn(client, 'socket', () => connections);
  });
});

describe('when a browser says that its network is there again', () => {
  const browserOf = (): { say(): void } => {
    const browser = new EventTarget();
    vi.stubGlobal('addEventListener', browser.addEventListener.bind(browser));
    onTestFinished(() => void vi.unstubAllGlobals());
    return { say: () => browser.dispatchEvent(new Event('online')) };
  };
  const startFollowing = (client: own.Client, over: 'stream' | 'socket', webSocketImpl?: unknown): void => {
    const stop = new AbortController();
    const options = { after: 'a cursor', signal: stop.signal, webSocketImpl };
    const events = over === 'stream' ? client.follow(options) : client.follow({ ...options, over });
    const ended = events.next().catch(() => {});
    onTestFinished(async () => {
      stop.abort();
      await ended;
    });
  };

  test('a follower over a stream connects again', async () => {
    const browser = browserOf();
    let connections = 0;
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => {
        connections++;
        socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n');
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    startFollowing(new Client({ url: urlOf(server), credential: 'a token' }), 'stream');
    await until(() => connections === 1);
    browser.say();
    await until(() => connections === 2);
  });

  test('a follower over a socket connects again', async () => {
    const browser = browserOf();
    let subscriptions = 0;
    startFollowing(await clientOfSockets(() => subscriptions++), 'socket');
    await until(() => subscriptions === 1);
    browser.say();
    await until(() => subscriptions === 2);
  });

  test.each([['stream'], ['socket']] as const)(
    'a follower over a %s that tried for long tries soon again, should it come a moment too early',
    async (over) => {
      const browser = browserOf();
      let tried = 0;
      const unreachable = async () => {
        tried++;
        throw new TypeError('no network');
      };
      const webSocketImpl = class extends globalThis.WebSocket {
        constructor(...args: ConstructorParameters<typeof globalThis.WebSocket>) {
          super(...args);
          tried++;
        }
      };
      const client = new Client({ url: 'http://127.0.0.1:1', credential: 'a token', fetch: unreachable });
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
      onTestFinished(() => void vi.useRealTimers());
      startFollowing(client, over, webSocketImpl);
      await passTime(() => tried, 12); // by now it waits for 15 s at least
      browser.say();
      await passTime(() => tried, 13, 0);
      await passTime(() => tried, 15, 10);
    },
  );

  test('what waits to try again does so at once', async () => {
    const browser = browserOf();
    let sent = 0;
    const answer = async () => {
      sent++;
      return new Response('', { status: 503, headers: { 'Retry-After': '600' } });
    };
    startFollowing(new Client({ url: 'http://127.0.0.1', credential: 'a token', fetch: answer }), 'stream');
    await until(() => sent === 1);
    await until(() => {
      browser.say(); // it may not wait yet
      return sent > 1;
    });
  });
});

/** A client of a server that acknowledges each connection, and answers what is subscribed to as it is told. */
async function clientOfSockets(
  answer: (socket: WebSocket, id: string) => void,
  credential: own.ClientOptions['credential'] = 'a token',
): Promise<own.Client> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', handleProtocols: () => 'graphql-transport-ws' });
  onTestFinished(() => void server.close());
  server.on('connection', (socket) => {
    socket.on('message', (text) => {
      const { type, id } = JSON.parse(String(text));
      if (type === 'connection_init') socket.send('{"type":"connection_ack"}');
      if (type === 'subscribe') answer(socket, id);
    });
  });
  await once(server, 'listening');
  return new Client({ url: urlOf(server), credential });
}

function urlOf(server: { address(): unknown }): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function say(socket: WebSocket, id: string, type: 'next' | 'error', payload: unknown): void {
  socket.send(JSON.stringify({ id, type, payload }));
}

describe.each([['stream'], ['socket']] as const)('a follower over a %s that is stopped', (over) => {
  const begin = async (answer: (socket: Socket) => void) => {
    let connections = 0;
    const server = createServer((socket) => {
      connections++;
      socket.on('error', () => {});
      answer(socket);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const client = new Client({ url: urlOf(server), credential: 'a token' });
    const stop = new AbortController();
    const options = { after: 'a cursor', signal: stop.signal };
    const events = over === 'stream' ? client.follow(options) : client.follow({ ...options, over });
    const next = expect(events.next()).rejects.toThrow('It is enough.');
    await until(() => connections > 0);
    stop.abort(new Error('It is enough.'));
    await next;
  };

  test('while it waits to connect again ends at once', () => begin((socket) => socket.destroy()));

  test('while nobody answers it ends at once', () => begin(() => {}));

  test('while there is no word of its token it ends at once', async () => {
    let asked = 0;
    const client = await clientOfSockets(
      () => {},
      () => {
        asked++;
        return new Promise<never>(() => {});
      },
    );
    const stop = new AbortController();
    const options = { after: 'a cursor', signal: stop.signal };
    const events = over === 'stream' ? client.follow(options) : client.follow({ ...options, over });
    const next = expect(events.next()).rejects.toThrow('It is enough.');
    await until(() => asked > 0);
    stop.abort(new Error('It is enough.'));
    await next;
  });
});

test('a follower over a socket of ws that is stopped before it is open ends, and nothing is thrown past it', async () => {
  let connections = 0;
  const server = createServer((socket) => {
    connections++;
    socket.on('error', () => {});
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  let closed = 0;
  const webSocketImpl = class extends WebSocket {
    constructor(...args: ConstructorParameters<typeof WebSocket>) {
      super(...args);
      this.on('close', () => closed++);
    }
  };
  const client = new Client({ url: urlOf(server), credential: 'a token' });
  const stop = new AbortController();
  const next = client.follow({ over: 'socket', after: 'a cursor', signal: stop.signal, webSocketImpl }).next();
  await until(() => connections > 0);
  stop.abort(new Error('It is enough.'));
  await expect(next).rejects.toThrow('It is enough.');
  await until(() => closed > 0); // vitest fails where an error has been thrown to nobody
});
