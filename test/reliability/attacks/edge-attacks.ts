import { graphqlBytes, hold, momentMs, send, type Target, times } from './attacker.ts';
import { HttpConnection, requestBytes } from './connection.ts';
import { Outcomes, unfinished } from './outcomes.ts';
import { copiesOf } from './sockets.ts';
import type { Attack } from './table.ts';

const longPath = `/v1/${'x'.repeat(15_000)}`;

/** Requests of which many are on their way on each connection; only how many answers there were is looked at. */
async function pipeline({ url }: Target, connections: number, forMs: number, request: Buffer): Promise<Outcomes> {
  const outcomes = new Outcomes();
  const endMs = performance.now() + forMs;
  const bytes = Buffer.concat(times(Math.max(1, Math.floor(65_536 / request.length)), () => request));
  await Promise.all(
    times(connections, async () => {
      while (performance.now() < endMs) {
        const connection = new HttpConnection(url);
        let statuses = '';
        connection.socket.removeAllListeners('data');
        connection.socket.on('data', (chunk: Buffer) => {
          if (statuses === '') statuses = chunk.toString('latin1', 0, 40_000);
        });
        const leaving = setTimeout(() => connection.close(), endMs - performance.now());
        while (performance.now() < endMs && (await connection.write(bytes)));
        clearTimeout(leaving);
        const [, status] = /^HTTP\/1\.1 (\d\d\d) /.exec(statuses) ?? [];
        const [, code] = /"code":"([A-Z_]+)"/.exec(statuses) ?? [];
        outcomes.add(status === undefined ? unfinished : code === undefined ? status : `${status} ${code}`);
        connection.close();
      }
    }),
  );
  return outcomes;
}

export const edgeAttacks: Attack[] = [
  {
    name: 'paths of 15 KB without a credential',
    limits: 'none',
    isShort: true,
    attack: (target) => pipeline(target, 64, target.isLong ? 5_000 : momentMs, requestBytes('GET', longPath)),
  },
  {
    name: 'heads that are never finished, without a credential',
    limits: 'none',
    attack: (target) =>
      hold(target, { connections: 3_000, forMs: 8_000 }, async (connection) => {
        await connection.write(Buffer.from(`GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ${'x'.repeat(15_000)}`));
      }),
  },
  {
    name: 'thousands of small requests at once on each of a thousand connections, without a credential',
    limits: 'none',
    attack: (target) => {
      const burst = copiesOf(Buffer.from('GET /v1/account HTTP/1.1\r\nHost: a\r\n\r\n'));
      return hold(target, { connections: 1_000, forMs: 8_000 }, async (connection) => {
        await connection.write(burst);
        connection.socket.pause();
      });
    },
  },
  {
    name: 'connections on which bodies are announced that never come',
    limits: 'raised',
    attack: (target) => {
      const headers = { 'Content-Type': 'application/json', 'Content-Length': '10000' };
      const head = requestBytes('POST', '/v1/conversations', { secret: target.secret, headers });
      return hold(target, { connections: 14_000, forMs: 12_000 }, async (connection) => {
        await connection.write(head);
      });
    },
  },
  {
    name: 'connections without anything on them',
    limits: 'none',
    attack: (target) => hold(target, { connections: 5_000, forMs: 8_000 }, async () => {}),
  },
  {
    name: 'requests with keys that do not exist',
    limits: 'none',
    attack: (target) =>
      send(target, { connections: 64, forMs: 5_000 }, (index) =>
        requestBytes('GET', '/v1/conversations', { secret: `cs_${String(index).padStart(43, 'a')}` }),
      ),
  },
  {
    name: 'upgrades to sockets that say no hello, without a credential',
    limits: 'none',
    attack: (target) =>
      hold(target, { connections: 3_000, forMs: 8_000 }, async (connection) => {
        await connection.write(
          requestBytes('GET', '/graphql', {
            headers: {
              Connection: 'Upgrade',
              Upgrade: 'websocket',
              'Sec-WebSocket-Version': '13',
              'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
              'Sec-WebSocket-Protocol': 'graphql-transport-ws',
            },
          }),
        );
      }),
  },
  {
    name: 'requests that are not HTTP, without a credential',
    limits: 'none',
    attack: (target) => send(target, { connections: 64, forMs: 5_000 }, () => Buffer.from('nonsense\r\n\r\n')),
  },
  {
    name: 'requests when no requests are left',
    limits: 'trial',
    attack: (target) =>
      send(target, { connections: 64, forMs: 5_000 }, () =>
        requestBytes('GET', '/v1/conversations', { secret: target.secret }),
      ),
  },
  {
    name: 'a new connection for each request, beside long answers',
    limits: 'raised',
    prepare: async (customer) => ({ conversation: await customer.conversation(100, 'x'.repeat(16_384)) }),
    async attack(target) {
      const endMs = performance.now() + 8_000;
      const request = requestBytes('GET', '/v1/account', { secret: target.secret, headers: { Connection: 'close' } });
      const page = `{ conversation(id: "${target.fixture['conversation']}") { messages(first: 100) { nodes { content } } } }`;
      const outcomes = new Outcomes();
      const answers = send(target, { connections: 8, forMs: 8_000 }, () => graphqlBytes(target, page));
      await Promise.all(
        times(300, async () => {
          while (performance.now() < endMs) {
            const connection = new HttpConnection(target.url);
            outcomes.addAnswer(await connection.ask(request));
            connection.close();
          }
        }),
      );
      outcomes.addAll(await answers);
      return outcomes;
    },
  },
];
