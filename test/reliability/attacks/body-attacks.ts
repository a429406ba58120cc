import { graphqlBytes, hold, nth, send, type Target, times } from './attacker.ts';
import { requestBytes } from './connection.ts';
import type { Outcomes } from './outcomes.ts';
import type { Attack } from './table.ts';

const mebibyte = 1024 * 1024;

/** The head of a request whose body is still to come. */
function headBytes({ secret }: Target, path: string, framing: Record<string, string>): Buffer {
  return requestBytes('POST', path, { secret, headers: { 'Content-Type': 'application/json', ...framing } });
}

const almostAll = Buffer.alloc(mebibyte - 1, ' ');

/** Chunks of one byte each, which are white space in JSON. */
const byteChunks = Buffer.from('1\r\n \r\n'.repeat(16 * 1024));

const deep = '['.repeat(mebibyte);
const manyKeys = `{${times(80_000, (index) => `"k${index}":0`).join(',')}}`;
const manyItems = `[${'0,'.repeat(500_000)}0]`;
const manyObjects = `[${'{},'.repeat(340_000)}{}]`;

function bodies(target: Target, count: number, connections: number): Promise<Outcomes> {
  const texts = [deep, manyKeys, manyItems, manyObjects];
  const requests = texts.flatMap((body) =>
    ['/v1/conversations', '/graphql'].map((path) => requestBytes('POST', path, { secret: target.secret, body })),
  );
  return send(target, { connections, requests: count }, (index) => nth(requests, index));
}

/** @param afterMs how long after the heads the bodies begin, all at once */
async function inByteChunks(target: Target, count: number, forMs: number, afterMs = 0): Promise<Outcomes> {
  const beginAtMs = performance.now() + afterMs;
  return await hold(target, { connections: count, forMs }, async (connection) => {
    await connection.write(headBytes(target, '/v1/conversations', { 'Transfer-Encoding': 'chunked' }));
    // They go on side by side.
    void (async () => {
      if (afterMs > 0) await new Promise((resolve) => setTimeout(resolve, beginAtMs - performance.now()));
      for (let sent = 0; sent < mebibyte - 16 * 1024; sent += 16 * 1024) {
        if (!(await connection.write(byteChunks))) return;
      }
      await connection.write(Buffer.from('2\r\n{}\r\n0\r\n\r\n'));
    })();
  });
}

async function almostWhole(target: Target, connections: number, forMs: number): Promise<Outcomes> {
  const head = headBytes(target, '/v1/conversations', { 'Content-Length': `${mebibyte}` });
  return await hold(target, { connections, forMs }, async (connection) => {
    void (await connection.write(head));
    void connection.write(almostAll);
  });
}

export const bodyAttacks: Attack[] = [
  {
    name: 'bodies of 1 MiB that lack their last byte',
    limits: 'raised',
    withOtherLimits: true,
    isShort: true,
    attack: (target) => almostWhole(target, target.isLong ? 1_000 : 200, target.isLong ? 10_000 : 700),
  },
  {
    name: 'bodies of 1 MiB in chunks of one byte',
    limits: 'trial',
    withOtherLimits: true,
    isShort: true,
    attack: (target) => {
      const count = target.limits === 'raised' ? 200 : target.isLong ? 40 : 2;
      return inByteChunks(target, count, target.isLong ? 45_000 : 3_000);
    },
  },
  {
    name: 'bodies in chunks of one byte, all of which begin at once, long after their heads',
    limits: 'raised',
    attack: (target) => inByteChunks(target, target.isLong ? 200 : 20, target.isLong ? 20_000 : 4_000, 1_000),
  },
  {
    name: 'bodies of 1 MiB that are deep or have very many parts',
    limits: 'trial',
    isShort: true,
    attack: (target) => bodies(target, target.isLong ? 56 : 16, target.isLong ? 56 : 16),
  },
  {
    name: 'bodies of 1 MiB that are deep or have very many parts, again and again',
    limits: 'raised',
    attack: (target) => bodies(target, 400, 32),
  },
  {
    name: 'large queries with a megabyte of variables that they do not declare',
    limits: 'raised',
    attack: (target) => {
      const query = '{ conversations(first: 100) { nodes { messages(first: 100) { nodes { id } } } } }';
      const request = graphqlBytes(target, query, { padding: 'x'.repeat(mebibyte - 500) });
      return send(target, { connections: 100, forMs: 8_000 }, () => request);
    },
  },
  {
    name: 'queries with many empty objects as variables, each in a text of its own',
    limits: 'raised',
    attack: (target) => {
      const variables = { padding: times(5_000, () => ({})) };
      return send(target, { connections: 300, forMs: 8_000 }, (index) =>
        graphqlBytes(target, `{ conversations(first: 100) { nodes { a${index}: id } } }`, variables),
      );
    },
  },
  {
    name: 'bodies of 1 MiB when no requests are left',
    limits: 'trial',
    async attack(target) {
      const read = requestBytes('GET', '/v1/account', { secret: target.secret });
      await send(target, { connections: 4, requests: 110 }, () => read);
      return await bodies(target, 600, 32);
    },
  },
];
