import { once } from 'node:events';
import { connect } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { SilentSockets } from '../../src/graphql/socket/server.ts';
import { secondMs } from '../support/clock.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';
import { until } from '../support/wait.ts';

// What a client can make a socket do without paying for it is bounded.

let server: TestServer;
let client: TestAccount;
beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
});
afterAll(() => server.close());

const opened: RawSocket[] = [];
afterEach(async () => {
  for (const { socket } of opened.splice(0)) socket.terminate();
  await until(() => server.app.sessions.size === 0);
  expect(server.logLines.splice(0).filter(({ level }) => level !== 'info')).toEqual([]);
});

async function open(account = client): Promise<RawSocket> {
  const socket = await new RawSocket(server.url).init(account.secret);
  opened.push(socket);
  return socket;
}

const query = '{ account { id } }';

describe('more than a thousand messages in ten seconds that cost no unit close a socket with 4429:', () => {
  test.each<{ messages: string; send: (socket: RawSocket, index: number) => void }>([
    { messages: 'pings', send: (socket) => socket.send({ type: 'ping' }) },
    { messages: 'pongs', send: (socket) => socket.send({ type: 'pong' }) },
    {
      messages: 'the end of unknown operations',
      send: (socket, index) => socket.send({ type: 'complete', id: `${index}` }),
    },
    { messages: 'pings of WebSockets', send: ({ socket }) => socket.ping() },
    { messages: 'pongs of WebSockets', send: ({ socket }) => socket.pong() },
  ])('$messages', async ({ send }) => {
    const socket = await open();
    const count = (from: number, to: number): void => {
      for (let index = from; index < to; index++) send(socket, index);
    };
    for (let part = 0; part < 9; part++) {
      count(part * 100, part * 100 + 100);
      socket.subscribe(`q${part}`, query);
      await socket.first(`q${part}`, 'complete'); // so that no more wait at once than may
    }
    server.clock.advance(10 * secondMs);
    count(900, 1_800);
    socket.subscribe('last', query);
    await socket.first('last', 'complete');
    count(1_800, 2_000);
    expect((await socket.closed).code).toBe(4429);
  });

  test('operations that are refused for the rate limit', async () => {
    const poor = await server.account({ requestsPerHour: 1 });
    const socket = await open(poor);
    for (let index = 0; index <= 1_001; index++) {
      socket.subscribe(`q${index}`, query);
      if (index % 25 === 0) await until(() => socket.socket.readyState !== 1 || socket.of(`q${index}`).length > 0);
    }
    expect((await socket.closed).code).toBe(4429);
  });
});

test('messages that cost a unit are as many as the account may send', async () => {
  const socket = await open();
  const count = 1_100;
  for (let index = 0; index < count; index += 50) {
    for (let next = index; next < index + 50; next++) socket.subscribe(`q${next}`, '{ __typename }');
    await socket.first(`q${index + 49}`, 'complete');
  }
  await until(() => socket.messages.filter(({ type }) => type === 'complete').length === count);
});

test('what the messages of a visitor hold leaves room for those of the agents, and of other visitors', async () => {
  const pageOf = async (id: string): Promise<RawSocket> => {
    const asked = { scopes: ['conversations:write'], visitor: { id } };
    return await open({ ...client, secret: (await client.rest('POST', '/tokens', { body: asked })).body.token });
  };
  const pages = await Promise.all(Array.from({ length: 8 }, () => pageOf('one')));
  const [other, agent] = [await pageOf('other'), await open()];
  agent.subscribe('first', query);
  await agent.first('first', 'complete'); // it reserves a block of the budget
  const mutation = 'mutation { createConversation(input: { subject: "Parcel" }) { eventCursor } }';
  const release = await server.holdWrites();
  onTestFinished(release);
  for (const page of pages) {
    for (let index = 0; index < 31; index++) page.subscribe(`m${index}`, mutation, { values: Array(980).fill(0) });
    page.send({ type: 'ping' });
  }
  const isOver = ({ socket, messages }: RawSocket): boolean =>
    socket.readyState !== WebSocket.OPEN || messages.some(({ type }) => type === 'pong');
  await until(() => pages.every(isOver));
  const ids = Array.from({ length: 12 }, (_, index) => `m${index}`);
  for (const socket of [agent, other])
    for (const id of ids) socket.subscribe(id, mutation, { text: 'x'.repeat(60_000) });
  for (const socket of [agent, other]) {
    socket.subscribe('last', query);
    await until(() => socket.socket.readyState !== WebSocket.OPEN || socket.of('last').length > 0);
    expect(socket.socket.readyState).toBe(WebSocket.OPEN);
  }
  await release();
  for (const socket of [agent, other]) for (const id of ids) await socket.first(id, 'complete');
});

describe('a message', () => {
  const fragmented = (socket: RawSocket, fragments: number): void => {
    const text = JSON.stringify({ id: '1', type: 'subscribe', payload: { query } }).padEnd(fragments);
    for (let at = 0; at < fragments; at++) {
      const isLast = at === fragments - 1;
      socket.socket.send(isLast ? text.slice(at) : text.slice(at, at + 1), { fin: isLast });
    }
  };

  test('may come in 64 fragments', async () => {
    const socket = await open();
    fragmented(socket, 64);
    await socket.first('1', 'complete');
  });

  test('in more closes its socket with 1008', async () => {
    const socket = await open();
    fragmented(socket, 65);
    expect((await socket.closed).code).toBe(1008);
  });

  test('that arrives byte by byte takes no more memory than 256 pieces', async () => {
    const { hostname, port } = new URL(server.url);
    const connection = connect({ host: hostname, port: Number(port), noDelay: true });
    onTestFinished(() => void connection.destroy());
    const head = ['GET /graphql HTTP/1.1', `Host: ${hostname}`, 'Connection: Upgrade', 'Upgrade: websocket'];
    const key = ['Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==', 'Sec-WebSocket-Version: 13'];
    connection.write([...head, ...key, 'Sec-WebSocket-Protocol: graphql-transport-ws', '', ''].join('\r\n'));
    await once(connection, 'data');
    connection.write(Uint8Array.of(0x81, 0xfe, 0x80, 0x00, 0, 0, 0, 0)); // a text of 32 KiB
    let isClosed = false;
    const reply = once(connection, 'data').finally(() => {
      isClosed = true;
    });
    let pieces = 0;
    for (; pieces < 2_000 && !isClosed; pieces++) {
      connection.write(' ');
      for (let turn = 0; turn < 3; turn++) await nextTurn();
    }
    const [frame] = (await reply) as [Buffer];
    expect([frame[0], frame.readUInt16BE(2)]).toEqual([0x88, 1008]);
    expect(pieces).toBeGreaterThan(200);
  });
});

describe('of sockets that do not say connection_init', () => {
  const silent = (address: string) => {
    const closed: number[] = [];
    return { address, closed, close: (code: number) => void closed.push(code) };
  };

  test('there are a thousand at most: the oldest of the address that has most of them is closed with 1013', () => {
    const sockets = new SilentSockets(10_000);
    const heard: (() => void)[] = [];
    onTestFinished(() => {
      for (const one of heard) one();
    });
    const add = (address: string) => {
      const socket = silent(address);
      heard.push(sockets.add(socket));
      return socket;
    };
    const quiet = add('quiet');
    const flood = Array.from({ length: 999 }, () => add('flood'));
    expect(flood.flatMap(({ closed }) => closed)).toEqual([]);
    add('other');
    expect([flood[0]?.closed, flood[1]?.closed, quiet.closed]).toEqual([[1013], [], []]);
    heard[1]?.(); // it has ended
    heard[0]?.(); // the quiet one has said it
    add('other');
    expect([flood[1]?.closed, quiet.closed]).toEqual([[], []]);
    add('other');
    expect([flood[1]?.closed, quiet.closed]).toEqual([[1013], []]);
  });
});
