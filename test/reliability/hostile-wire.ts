import { randomBytes } from 'node:crypto';
import { requestText } from '../http/wire.ts';
import type { Random } from '../support/random.ts';
import type { GraphQLAttacks } from './hostile-graphql.ts';
import { oddBytes, oddJson, oddTexts } from './odd-values.ts';

/** Bytes for a connection of their own, in the pieces in which they are sent. */
export interface Attack {
  readonly name: string;
  readonly pieces: readonly (string | Uint8Array)[];
  /** Whether the server has to say something, or to hang up, without waiting for more. */
  readonly isAnswered: boolean;
}

const json = '{"subject":"Parcel"}';

/** HTTP as no library would speak it. */
export function wireAttack(random: Random, secret: string): Attack {
  const authorization = `Bearer ${secret}`;
  const target = random.pick(['/v1/conversations', '/graphql', '/v1/account', '/', '/healthz', '/v1/events/stream']);
  const start = (rest: string, method = 'POST', version = 'HTTP/1.1'): string =>
    `${method} ${target} ${version}\r\nHost: localhost\r\nAuthorization: ${authorization}\r\nContent-Type: application/json\r\n${rest}`;
  const head = (name: string, rest: string, isAnswered = true): Attack => ({ name, pieces: [start(rest)], isAnswered });
  const whole = requestText('POST', '/v1/conversations', { headers: { authorization }, body: json });
  return random.pick<() => Attack>([
    () =>
      head(
        'a length and chunks',
        `Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/account HTTP/1.1\r\n\r\n`,
      ),
    () => head('chunks and a length', `Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nX`),
    () => head('two lengths', `Content-Length: 2\r\nContent-Length: 20\r\n\r\n{}`),
    () => head('a list of lengths', `Content-Length: 2, 2\r\n\r\n{}`),
    () =>
      head(
        'an odd length',
        `Content-Length: ${random.pick(['-1', '+2', '0x2', '2 ', '', '1e1', '99999999999999999999'])}\r\n\r\n{}`,
      ),
    () =>
      head(
        'an odd encoding',
        `Transfer-Encoding: ${random.pick(['chunked, identity', 'xchunked', ' chunked', 'gzip', 'chunked\r\nTransfer-Encoding: x', '\u000bchunked'])}\r\n\r\n0\r\n\r\n`,
      ),
    () =>
      head(
        'a bad chunk size',
        `Transfer-Encoding: chunked\r\n\r\n${random.pick(['zz', '-1', 'fffffffffffffffff', '0x5', ' 5', '5;', '5 ;a=b', ''])}\r\n${json}\r\n0\r\n\r\n`,
        false,
      ),
    () =>
      head(
        'chunk extensions',
        `Transfer-Encoding: chunked\r\n\r\n2;${'a'.repeat(random.pick([10, 20_000]))}\r\n{}\r\n0\r\n\r\n`,
      ),
    () =>
      head(
        'trailers',
        `Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n${'A: b\r\n'.repeat(random.pick([1, 3_000]))}\r\n`,
      ),
    () => head('a folded header', `X-A: b\r\n folded\r\n\tagain\r\nContent-Length: 2\r\n\r\n{}`),
    () => head('a space before the colon', `Content-Length : 2\r\n\r\n{}`),
    () => head('bare line feeds', `X-A: b\nContent-Length: 2\n\n{}`, false),
    () => head('a bare carriage return', `X-A: b\rX-B: c\r\nContent-Length: 2\r\n\r\n{}`),
    () =>
      head(
        'many headers',
        `${Array.from({ length: random.pick([50, 3_000]) }, (_, index) => `X-${index}: y\r\n`).join('')}Content-Length: 2\r\n\r\n{}`,
      ),
    () => head('a long header', `X-A: ${'a'.repeat(random.pick([8_000, 20_000]))}\r\nContent-Length: 2\r\n\r\n{}`),
    () =>
      head(
        'a header twice',
        `${random.pick(['Authorization: Bearer x', 'Host: other', 'Content-Type: text/plain', 'Idempotency-Key: a\r\nIdempotency-Key: b', 'Origin: a\r\nOrigin: b', 'If-Match: "1"\r\nIf-Match: "2"'])}\r\nContent-Length: 2\r\n\r\n{}`,
      ),
    () =>
      head(
        'bytes in a header',
        `X-Request-Id: ${random.pick(['\u00ff', '\u0001', '\0', '\u007f'])}\r\nContent-Length: 2\r\n\r\n{}`,
      ),
    () => head('an expectation', `Expect: ${random.pick(['100-continue', 'miracle'])}\r\nContent-Length: 2\r\n\r\n{}`),
    () =>
      head(
        'an upgrade',
        `Connection: Upgrade\r\nUpgrade: ${random.pick(['h2c', 'websocket', 'TLS/1.0', 'websocket, h2c'])}\r\nContent-Length: 2\r\n\r\n{}`,
      ),
    () => ({ name: 'HTTP/1.0', pieces: [start('Content-Length: 2\r\n\r\n{}', 'POST', 'HTTP/1.0')], isAnswered: true }),
    () => ({ name: 'HTTP/1.0 without a Host', pieces: ['GET /v1/account HTTP/1.0\r\n\r\n'], isAnswered: true }),
    () => ({
      name: 'another version',
      pieces: [start('\r\n', 'GET', random.pick(['HTTP/2.0', 'HTTP/0.9', 'HTTP/1.2', 'http/1.1', 'HTTP/1.1.1']))],
      isAnswered: true,
    }),
    () => ({ name: 'HTTP/2', pieces: ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'], isAnswered: true }),
    () => ({
      name: 'TLS',
      pieces: [Buffer.from('16030100a5010000a10303', 'hex'), randomBytes(160)],
      isAnswered: false,
    }),
    () => ({
      name: 'an odd method',
      pieces: [
        `${random.pick(['TRACE', 'CONNECT', 'M-SEARCH', 'PROPFIND', 'get', 'QUERY', 'X'.repeat(9_000), 'G\0T', 'LINK'])} ${target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${authorization}\r\n\r\n`,
      ],
      isAnswered: true,
    }),
    () => ({
      name: 'an odd target',
      pieces: [
        `GET ${random.pick(['*', '//', '///v1/account', 'http://', 'http://[', 'http://x/v1/account', 'HTTPS://x:99999/graphql', '/v1/%', '/v1/%00', '/v1/..%2faccount', '/graphql?query=%ff', '/graphql?query={', '/graphql#x', '?', 'v1/account', `/${'a'.repeat(15_000)}`, '/v1/conversations?limit=1#', '/graphql?query=%7Baccount%7Bid%7D%7D&variables=%5B', '\\v1\\account', '/v1/conversations/%E0%A4%A'])} HTTP/1.1\r\nHost: ${random.pick(['localhost', 'a b', '[', '', 'x:y:z', '%'])}\r\nAuthorization: ${authorization}\r\n\r\n`,
      ],
      isAnswered: true,
    }),
    () => ({
      name: 'pipelined requests',
      pieces: [whole.repeat(1 + random.below(10)) + requestText('GET', '/v1/account', { headers: { authorization } })],
      isAnswered: true,
    }),
    () => ({
      name: 'rubbish after a request',
      pieces: [whole, random.pick(oddBytes), random.pick(oddTexts)],
      isAnswered: true,
    }),
    () => ({ name: 'a request in pieces', pieces: cut(random, whole, 12), isAnswered: true }),
    () => ({
      name: 'a request that ends early',
      pieces: [whole.slice(0, random.below(whole.length))],
      isAnswered: false,
    }),
    () => ({
      name: 'a body that ends early',
      pieces: [start(`Content-Length: 1000\r\n\r\n${json}`)],
      isAnswered: false,
    }),
    () => ({ name: 'rubbish', pieces: [randomBytes(1 + random.below(300))], isAnswered: false }),
    () => ({ name: 'a spoiled request', pieces: [spoilt(random, whole)], isAnswered: false }),
  ])();
}

function cut(random: Random, text: string, pieces: number): string[] {
  const cuts = Array.from({ length: pieces }, () => random.below(text.length)).toSorted((a, b) => a - b);
  return [...cuts, text.length].map((at, index) => text.slice(cuts[index - 1] ?? 0, at));
}

/** With some of its bytes changed. */
function spoilt(random: Random, text: string): Buffer {
  const bytes = Buffer.from(text);
  for (let count = 1 + random.below(4); count > 0; count--) bytes[random.below(bytes.length)] = random.below(256);
  return bytes;
}

export const upgrade = (headers = ''): string =>
  `GET /graphql HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n${headers}\r\n`;

/** What a frame says of itself, which need not be so. */
interface Frame {
  readonly opcode: number;
  readonly isFinal?: boolean;
  readonly isMasked?: boolean;
  readonly reserved?: number;
  /** The length that it claims to have. */
  readonly length?: number;
}

function frame(
  payload: string | Uint8Array,
  { opcode, isFinal = true, isMasked = true, reserved = 0, length }: Frame,
): Buffer {
  const bytes = Buffer.from(payload);
  const claimed = length ?? bytes.length;
  const header = Buffer.alloc(claimed > 65_535 ? 10 : claimed > 125 ? 4 : 2);
  header[0] = (isFinal ? 0x80 : 0) | (reserved << 4) | opcode;
  header[1] = (isMasked ? 0x80 : 0) | (claimed > 65_535 ? 127 : claimed > 125 ? 126 : claimed);
  if (claimed > 65_535) header.writeBigUInt64BE(BigInt(claimed), 2);
  else if (claimed > 125) header.writeUInt16BE(claimed, 2);
  return Buffer.concat(isMasked ? [header, Buffer.alloc(4), bytes] : [header, bytes]);
}

/** Frames on a WebSocket, after its upgrade. */
export function frameAttack(random: Random, secret: string): Attack {
  const hello = frame(JSON.stringify({ type: 'connection_init', payload: { authorization: `Bearer ${secret}` } }), {
    opcode: 1,
  });
  const ask = JSON.stringify({ id: '1', type: 'subscribe', payload: { query: '{ account { id } }' } });
  const frames = random.pick<() => Buffer[]>([
    () => [frame(ask, { opcode: 1, isMasked: false })],
    () => [frame(ask, { opcode: random.pick([3, 4, 7, 11, 15]) })],
    () => [frame(ask, { opcode: 1, reserved: 1 + random.below(7) })],
    () => [frame('', { opcode: 1, length: random.pick([65_537, 2 ** 31, 2 ** 53 - 1]) })],
    () => [frame('x'.repeat(70_000), { opcode: 1 })],
    () => [frame('x'.repeat(126), { opcode: 9 })],
    () => [frame('a', { opcode: 9, isFinal: false })],
    () => Array.from({ length: 50 }, () => frame('ping', { opcode: 9 })),
    () => Array.from({ length: 50 }, () => frame('pong', { opcode: 10 })),
    () => [frame('x', { opcode: 0 })],
    () => [frame(ask.slice(0, 9), { opcode: 1, isFinal: false }), frame(ask, { opcode: 1 })],
    () => [
      frame(ask.slice(0, 9), { opcode: 1, isFinal: false }),
      frame('between', { opcode: 9 }),
      ...[...ask.slice(9)].map((letter) => frame(letter, { opcode: 0, isFinal: false })),
      frame('', { opcode: 0 }),
    ],
    () =>
      Array.from({ length: 70 }, (_, index) =>
        frame('x'.repeat(1_000), { opcode: index === 0 ? 1 : 0, isFinal: false }),
      ),
    () => [frame(random.pick(oddBytes), { opcode: random.pick([1, 2]) })],
    () => [frame(Uint8Array.of(random.below(256), random.below(256)), { opcode: 8 })],
    () => [frame('x', { opcode: 8 })],
    () => [frame(Buffer.concat([Uint8Array.of(3, 232), random.pick(oddBytes)]), { opcode: 8 })],
    () => [randomBytes(1 + random.below(200))],
  ])();
  return { name: 'frames', pieces: [...(random.chance(0.7) ? [hello] : []), ...frames], isAnswered: false };
}

/** A message of graphql-transport-ws, in whatever order. */
export function socketMessage(random: Random, attacks: GraphQLAttacks, secret: string): string {
  const id = JSON.stringify(random.pick(['1', '2', '3', '', '__proto__', 'é'.repeat(50)]));
  const kind = random.next();
  if (kind < 0.6) {
    const query = JSON.stringify(random.chance(0.9) ? attacks.document(random) : random.pick(oddTexts));
    const variables = random.chance(0.2) ? `,"variables":${random.pick(oddJson)}` : '';
    return `{"id":${id},"type":"subscribe","payload":{"query":${query}${variables}}}`;
  }
  if (kind < 0.8) return `{"id":${id},"type":"complete"}`;
  if (kind < 0.9) return `{"type":"${random.pick(['ping', 'pong'])}"}`;
  return random.pick([
    JSON.stringify({ type: 'connection_init', payload: { authorization: `Bearer ${secret}` } }),
    `{"id":${id},"type":"next","payload":{}}`,
    `{"id":${id},"type":"error","payload":[]}`,
    `{"id":${id},"type":"subscribe"}`,
    `{"id":7,"type":"subscribe","payload":{"query":"{ eventCursor }"}}`,
    `{"type":"${random.pick(['start', 'connection_ack', '__proto__', ''])}"}`,
    ...oddJson,
  ]);
}
