import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { secrets } from '../../src/access/secrets.ts';
import { timestamp } from '../../src/domain/time.ts';
import { createLog } from '../../src/server/log.ts';
import { TestClock } from '../support/clock.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';
import { openWire, requestText, type Wire, type WireResponse } from './wire.ts';

// What clients can do to the log: fill it, and get into it what nobody may read.

let server: TestServer;
let client: TestAccount;

beforeAll(async () => {
  server = await startTestServer();
  client = await server.account();
});
afterAll(() => server.close());

const upgrade = {
  Connection: 'Upgrade',
  Upgrade: 'websocket',
  'Sec-WebSocket-Version': '13',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
};

async function ask(wire: Wire, ...request: Parameters<typeof requestText>): Promise<WireResponse> {
  await wire.send(requestText(...request));
  return await wire.response();
}

describe('a line', () => {
  const long = 'x'.repeat(15_000);

  test('has at most 1 KiB, and says how long a path was that it has only the beginning of', async () => {
    const { body } = await ask(openWire(server.url), 'GET', `/${long}`, { headers: { 'X-Request-Id': 'mine' } });
    expect(JSON.parse(body)).toMatchObject({ code: 'NOT_FOUND', instance: `/${long.slice(0, 499)}` });
    const line = server.logLines.find(({ requestId }) => requestId === 'mine');
    expect(line).toMatchObject({
      msg: 'request',
      status: 404,
      pathLength: 15_001,
    });
    expectShort(server);
  });

  test('of a refused socket has at most 1 KiB, whatever is in its path and its origin', async () => {
    for (const [path, Origin] of [
      ['/graphql', `https://${long}`],
      [`/${'é'.repeat(10)}${long}`, 'https://shop.example'],
    ]) {
      const headers = { ...upgrade, Origin: Origin ?? '' };
      expect((await ask(openWire(server.url), 'GET', encodeURI(path ?? ''), { headers })).status).toBeGreaterThan(400);
    }
    expect(server.logLines.filter(({ msg }) => msg === 'socket refused')).toHaveLength(2);
    expectShort(server);
  });

  test('of a failure has at most 1 KiB, with the places where it came from', async () => {
    const own = await startTestServer();
    onTestFinished(() => own.close());
    const { secret } = await own.account();
    await own.storage.close();
    const { status } = await ask(openWire(own.url), 'GET', '/v1/conversations', {
      headers: { Authorization: `Bearer ${secret}` },
    });
    expect(status).toBe(500);
    const failed = own.logLines.filter(({ level }) => level === 'error');
    expect(failed).toMatchObject([{ msg: 'request failed', err: { stack: expect.stringMatching(/\.ts:\d+:\d+/) } }]);
    expectShort(own);
  });

  test('that names very many things has at most 1 KiB, with its level, its message, the error and the first of them', () => {
    const lines: string[] = [];
    const log = createLog({
      level: 'info',
      clock: new TestClock(),
      destination: { write: (line) => lines.push(line) },
    });
    const ids = Array.from({ length: 64 }, (_, index) => `dlv_01m7z9f005fjrbbpn7ckr0m2${100 + index}`);
    const err = Object.assign(new Error('The database is away.'), { code: 'UNAVAILABLE' });
    log.warn({ deliveryIds: ids, err }, 'could not record attempts');
    const [line = ''] = lines;
    expect(Buffer.byteLength(line)).toBeLessThanOrEqual(1_024);
    expect(JSON.parse(line)).toMatchObject({
      level: 'warn',
      time: timestamp(new TestClock().nowMs),
      msg: 'could not record attempts',
      deliveryIds: [...ids.slice(0, 8), '… (64 in all)'],
      err: { code: 'UNAVAILABLE', message: 'The database is away.' },
    });
  });
});

function expectShort({ logLines }: TestServer): void {
  const lengths = logLines.map((line) => Buffer.byteLength(JSON.stringify(line)));
  expect(Math.max(...lengths)).toBeLessThanOrEqual(1_024);
}

test('beyond a hundred a second, requests that were charged nothing are counted in one line; others have their own', async () => {
  const own = await startTestServer();
  const { secret } = await own.account();
  const key = { Authorization: `Bearer ${secret}` };
  const kinds: [status: number, text: string][] = [
    [404, requestText('GET', '/nowhere')],
    [405, requestText('PUT', '/')],
    [200, requestText('GET', '/')],
  ];
  const wire = openWire(own.url);
  const each = 120;
  const charged = requestText('GET', '/v1/nothing', { headers: key });
  const startedMs = performance.now();
  await wire.send([...kinds.map(([, text]) => text), charged].join('').repeat(each));
  for (let count = 0; count < each; count++) {
    for (const [status] of kinds) expect((await wire.response()).status).toBe(status);
    expect((await wire.response()).status).toBe(404);
  }
  const seconds = (performance.now() - startedMs) / 1_000;
  await own.close();

  const requests = own.logLines.filter(({ msg }) => msg === 'request');
  expect(requests.filter(({ accountId, status }) => accountId !== undefined && status === 404)).toHaveLength(each);
  const more = own.logLines.filter(({ msg }) => msg === 'more requests that were charged nothing');
  expect(more.length).toBeGreaterThan(0);
  for (const [status] of kinds) {
    const lines = requests.filter((line) => line['status'] === status && !(status === 404 && 'accountId' in line));
    const counted = more.map(({ statuses }) => (statuses as Record<number, number>)[status] ?? 0);
    expect(lines.length + counted.reduce((sum, count) => sum + count, 0), String(status)).toBe(each);
  }
  expect(requests.length - each).toBeLessThanOrEqual(100 * (seconds + 1));
});

describe('of a credential', () => {
  const hex = (code: number, upper: boolean): string => {
    const digits = code.toString(16).padStart(2, '0');
    return `%${upper ? digits.toUpperCase() : digits}`;
  };
  /** A text, percent-encoded as often as there are masks: each says which characters are, and how. */
  const encode = (text: string, masks: readonly (readonly boolean[])[]): string =>
    masks.reduce(
      (inner, mask) =>
        Array.from(inner)
          .map((character, index) => {
            const isEncoded = character === '%' || mask[index % mask.length];
            return isEncoded ? hex(character.charCodeAt(0), mask[(index + 1) % mask.length] ?? false) : character;
          })
          .join(''),
      text,
    );
  const masks = fc.array(fc.array(fc.boolean(), { minLength: 3, maxLength: 11 }), { maxLength: 4 });
  const credential = fc.constantFrom(
    () => secrets.generate(),
    () => secrets.generateSigningSecret().replaceAll('/', '-'),
    () => `eyJhbGciOiJFUzI1NiJ9.${secrets.generate().slice(3)}.${secrets.generate().slice(3)}`,
  );
  const places = ['path', 'query', 'request id', 'operation name', 'origin', 'host', 'upgrade', 'trace'] as const;

  /** All texts of twelve characters in the random part of a credential, which is what it is looked up by. */
  const partsOf = (secret: string): string[] => {
    const random = secret.replace(/^(cs_|whsec_|eyJhbGciOiJFUzI1NiJ9\.)/, '');
    return Array.from({ length: random.length - 11 }, (_, index) => random.slice(index, index + 12));
  };
  const decoded = (text: string): string => {
    const plain = text.replace(/%([2-7][0-9a-f])/gi, (_, code: string) =>
      String.fromCharCode(Number.parseInt(code, 16)),
    );
    return plain === text ? text : decoded(plain);
  };

  test('nothing gets into the log, into instance or into a request id, wherever it is sent and however encoded', async () => {
    const key = { Authorization: `Bearer ${client.secret}` };
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...places),
        credential,
        masks,
        fc.boolean(),
        async (place, make, layers, isIn) => {
          const secret = make();
          const sent = encode(isIn ? `a-${secret}-z` : secret, layers).slice(0, 4_000);
          const before = server.logLines.length;
          const answer = await ask(openWire(server.url), ...requestWith(place, sent));
          const shown = [answer.headers['x-request-id'] ?? '', parsed(answer.body)['instance'] ?? ''];
          const lines = server.logLines.slice(before).map((line) => JSON.stringify(line));
          const texts = [...shown, ...lines].map((text) => decoded(String(text)));
          for (const part of partsOf(secret)) {
            for (const text of texts) if (text.includes(part)) expect.fail(`${text} holds ${part} of ${sent}`);
          }
        },
      ),
      { numRuns: 150 },
    );

    function requestWith(place: (typeof places)[number], sent: string): Parameters<typeof requestText> {
      if (place === 'path') return ['GET', `/v1/api-keys/${sent}`, { headers: key }];
      if (place === 'query') return ['GET', `/v1/conversations?subject=${sent}&${sent}=1`, { headers: key }];
      if (place === 'request id') return ['GET', '/v1/account', { headers: { ...key, 'X-Request-Id': sent } }];
      if (place === 'origin') return ['GET', '/graphql', { headers: { ...upgrade, Origin: `https://${sent}` } }];
      if (place === 'host') return ['GET', '/v1/account', { headers: { ...key, Host: sent } }];
      if (place === 'upgrade') return ['GET', `/${sent}`, { headers: upgrade }];
      if (place === 'trace') return ['GET', '/v1/account', { headers: { ...key, traceparent: `00-${sent}-01` } }];
      const body = JSON.stringify({ query: 'query A { account { id } }', operationName: sent });
      return ['POST', '/graphql', { headers: key, body }];
    }
  });

  test('an id that has no more than its beginning in the middle is an ordinary one', async () => {
    for (const id of ['docs_2026', 'a/b?c=%41%20d', '%', 'metrics_7f9c24e8-3f5a-4b5e-9a43-6d4c1f0a9f1e']) {
      const answer = await ask(openWire(server.url), 'GET', '/', { headers: { 'X-Request-Id': id } });
      expect(answer.headers['x-request-id']).toBe(id);
    }
  });

  test('a path that was encoded more often than anybody does is cut where that begins', async () => {
    const inside = secrets.generate().slice(3);
    let encoded = `c%73_${inside}`;
    for (let layer = 0; layer < 7; layer++) encoded = encoded.replace(/%|3/g, (text) => hex(text.charCodeAt(0), false));
    const { body } = await ask(openWire(server.url), 'GET', `/v1x/a/${encoded}`);
    expect(JSON.parse(body).instance).toBe('/v1x/a/c***');
  });
});

function parsed(body: string): Record<string, unknown> {
  try {
    return JSON.parse(body) as Record<string, unknown>;
  } catch {
    return {};
  }
}
