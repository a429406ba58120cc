import { connect } from 'node:net';
import { join } from 'node:path';
import { request } from 'undici';
import { expect, onTestFinished } from 'vitest';
import { errorCodes } from '../../src/domain/errors.ts';
import { schema } from '../../src/graphql/schema.ts';
import type { OpenApiDocument } from '../../src/rest/openapi/types.ts';
import { serve } from '../cli/program.ts';
import { clientOf, type Json } from '../support/client.ts';
import { serviceConformance } from '../support/conformance.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { isOnPostgres, PostgresServer } from '../support/postgres.ts';
import { Random } from '../support/random.ts';
import { seed } from '../support/seed.ts';
import { RawSocket } from '../support/subscribe.ts';
import { accountsIn } from './accounts.ts';
import { type EmptyDatabase, fileDatabase, postgresDatabase } from './databases.ts';
import { GraphQLAttacks } from './hostile-graphql.ts';
import { type Hostile, oddHeaders, RestAttacks } from './hostile-rest.ts';
import { type Attack, frameAttack, socketMessage, upgrade, wireAttack } from './hostile-wire.ts';
import { probeOf, type Stall } from './process-probe.ts';

// A real server, and requests that were made of what it says of itself and then spoiled, over both faces, on sockets
// and byte by byte. Each is made of the seed and its number, which the message of a failure names: TEST_SEED sends
// the same again.

const count = isOnPostgres ? 20_000 : 100_000;
const atOnce = 6;
/** For so long no request, however much it asks for, may keep all the others waiting. */
const longestStallMs = 100;
/** What the other account has in each of its texts. */
const marker = 'do-not-tell-7f3a';
const mebibyte = 1024 * 1024;

longTest(
  'whatever is sent: no error of its own, no crash, nobody else’s data, nobody kept waiting, and memory that comes back',
  {
    timeout: 900_000,
  },
  async () => {
    const folder = temporaryFolder();
    const probe = probeOf(folder);
    const database = await newDatabase(folder);
    const [own = '', foreign = ''] = await accountsIn(database, 2);
    const server = await serve('', { ...probe.environment, DATABASE_URL: database.url });
    const names = { own: await fill(server.url, own, 'mine'), foreign: await fill(server.url, foreign, marker) };
    const openApi = (await (await request(`${server.url}/openapi.json`)).body.json()) as OpenApiDocument;
    const attacker = new Attacker(server.url, own, openApi, names);

    const send = async (from: number, to: number): Promise<void> => {
      let next = from;
      const sendNext = async (): Promise<void> => {
        while (next < to && attacker.faults.length < 10) await attacker.send(next++);
      };
      await Promise.all(Array.from({ length: atOnce }, sendNext));
      expect(attacker.faults, `TEST_SEED=${seed}`).toEqual([]);
    };
    // Much is made once: code is compiled, caches are filled. None of that is what a request costs.
    const warm = Math.floor(count / 5);
    await send(0, warm);
    const before = await probe.ask();
    await send(warm, count);
    const after = await probe.ask();

    const held = after.stalls.filter(({ heldMs }) => heldMs > longestStallMs);
    const told = held.map((stall) => ({ ...stall, during: attacker.during(stall).map((text) => text.slice(0, 300)) }));
    expect(told, `the event loop was held for longer than ${longestStallMs} ms; TEST_SEED=${seed}`).toEqual([]);
    expect((after.heapBytes - before.heapBytes) / mebibyte, 'memory comes back').toBeLessThan(24);

    expect((await request(`${server.url}/readyz`)).statusCode).toBe(200);
    expect((await clientOf(server.url, foreign).rest('GET', '/conversations')).body.pagination.total).toBe(3);
    server.signal('SIGTERM');
    const { code, stdout, stderr } = await server.ended;
    expect(code, stderr).toBe(0);
    const errors = stdout.split('\n').filter((line) => /"level":"(error|fatal)"/.test(line));
    expect(errors, `TEST_SEED=${seed}`).toEqual([]);
  },
);

async function newDatabase(folder: string): Promise<EmptyDatabase> {
  if (!isOnPostgres) return fileDatabase(join(folder, 'test.db'));
  const server = await PostgresServer.start();
  onTestFinished(() => server.remove());
  return await postgresDatabase(server);
}

/** Gives an account one of everything. @returns the ids of it all */
async function fill(url: string, secret: string, text: string): Promise<string[]> {
  const client = clientOf(url, secret);
  const make = async (path: string, body: object): Promise<Json> => (await client.rest('POST', path, { body })).body;
  const ids: string[] = [];
  for (let count = 0; count < 3; count++) {
    const conversation = await make('/conversations', {
      subject: text,
      externalId: `${text}-${count}`,
      visitor: { name: text, email: `${text}@example.com` },
      metadata: { text },
      message: { content: text, sender: 'visitor', author: { name: text } },
    });
    const lead = await make('/leads', { conversationId: conversation.id, name: text, email: `${text}@example.com` });
    ids.push(conversation.id, conversation.messages[0].id, lead.id);
  }
  const webhook = await make('/webhooks', { url: `https://hooks.invalid/${text}`, description: text });
  const delivery = await make(`/webhooks/${webhook.id}/test`, {});
  const key = await make('/api-keys', { name: text, scopes: ['events:read'] });
  return [...ids, webhook.id, delivery.id, key.apiKey?.id ?? key.id];
}

interface Sent {
  readonly text: string;
  readonly startMs: number;
  readonly endMs: number;
}

class Attacker {
  /** What was answered as it must not be. */
  readonly faults: string[] = [];
  readonly #url: string;
  readonly #secret: string;
  readonly #rest: RestAttacks;
  readonly #graphql: GraphQLAttacks;
  /** The last that were sent. */
  readonly #sent: Sent[] = [];

  constructor(
    url: string,
    secret: string,
    openApi: OpenApiDocument,
    names: ConstructorParameters<typeof RestAttacks>[1],
  ) {
    this.#url = url;
    this.#secret = secret;
    this.#rest = new RestAttacks(openApi, names);
    this.#graphql = new GraphQLAttacks(schema, names);
  }

  /** What was under way when the loop did not turn. */
  during({ atMs, lateMs }: Stall): string[] {
    return this.#sent.filter(({ startMs, endMs }) => startMs < atMs && endMs > atMs - lateMs).map(({ text }) => text);
  }

  async send(number: number): Promise<void> {
    const random = new Random(seed, number);
    const kind = random.next();
    const startMs = Date.now();
    const text =
      kind < 0.45
        ? await this.#sendRequest(number, this.#rest.next(random))
        : kind < 0.8
          ? await this.#sendRequest(number, this.#graphQLRequest(random))
          : kind < 0.9
            ? await this.#sendBytes(number, wireAttack(random, this.#secret))
            : kind < 0.95
              ? await this.#sendBytes(number, frameAttack(random, this.#secret), true)
              : await this.#sendMessages(number, random);
    this.#sent.push({ text: `#${number} ${text}`, startMs, endMs: Date.now() });
    if (this.#sent.length > 20_000) this.#sent.splice(0, 10_000);
  }

  #graphQLRequest(random: Random): Hostile {
    const body = this.#graphql.body(random);
    const headers = { 'content-type': 'application/json', ...(random.chance(0.1) ? oddHeaders(random) : {}) };
    if (random.chance(0.05)) {
      const query = new URLSearchParams({ query: this.#graphql.document(random).slice(0, 4_000) });
      return {
        method: random.pick(['GET', 'HEAD', 'DELETE']),
        path: `/graphql?${query}`,
        headers: {},
        body: undefined,
      };
    }
    const accept = random.pick([
      {},
      {},
      { accept: 'application/graphql-response+json' },
      { accept: 'text/event-stream' },
    ]);
    return { method: 'POST', path: '/graphql', headers: { ...headers, ...accept }, body };
  }

  async #sendRequest(number: number, { method, path: written, headers, body }: Hostile): Promise<string> {
    const path = written.replace(/\/[^/]*\/\.\.\//, '/'); // as a client sends it
    const text = `${method} ${path} ${JSON.stringify(headers)} ${String(body).slice(0, 1_000)}`;
    const fault = (what: string): void => void this.faults.push(`#${number} ${what}: ${text}`);
    const signal = AbortSignal.timeout(30_000);
    let response: Awaited<ReturnType<typeof request>>;
    try {
      response = await request(this.#url + path, {
        method: method as 'GET',
        headers: { authorization: `Bearer ${this.#secret}`, ...headers },
        body: body ?? null,
        signal,
      });
    } catch (error) {
      const { code, name } = error as NodeJS.ErrnoException;
      // What the client itself would not send was sent as bytes elsewhere. One whose body is too large may be cut off.
      const isOwn = code === 'UND_ERR_INVALID_ARG' || code === 'UND_ERR_NOT_SUPPORTED' || name === 'TypeError';
      if (!isOwn && (body?.length ?? 0) < mebibyte) fault(`no answer (${code ?? error})`);
      return text;
    }
    const { statusCode: status, headers: answered } = response;
    const isStream = String(answered['content-type']).startsWith('text/event-stream');
    if (isStream && status === 200) {
      response.body.on('error', () => {}).destroy();
      return text;
    }
    if (status === 431) return text; // what HTTP itself has no room for is no matter of a face
    const whole = await response.body.text();
    // What is wrong with a subscription is told as an event.
    const answer = isStream ? dataOf(whole) : whole;
    if (answer.includes(marker)) fault('it tells of another account');
    if (status >= 500) fault(`${status} ${answer.slice(0, 300)}`);
    if (path.startsWith('/v1/')) {
      const isJson = String(answered['content-type']).includes('json') && answer !== '';
      const seen = {
        method,
        path,
        sent: parse(body),
        status,
        headers: answered,
        body: isJson ? JSON.parse(answer) : answer,
      };
      for (const what of serviceConformance().faultsOf(seen)) fault(`${status} not as documented, ${what}`);
    } else if (path.startsWith('/graphql') && method !== 'HEAD') {
      for (const what of faultsOfGraphQL(status, answer)) fault(what);
    }
    return text;
  }

  /** On a connection of its own, which is cut in the end. */
  #sendBytes(number: number, { name, pieces, isAnswered }: Attack, isSocket = false): Promise<string> {
    const text = `${name}: ${pieces.map((piece) => JSON.stringify(String(piece).slice(0, 300))).join(' ')}`;
    const fault = (what: string): void => void this.faults.push(`#${number} ${what}: ${text}`);
    const { hostname, port } = new URL(this.#url);
    return new Promise((resolve) => {
      const socket = connect({ host: hostname, port: Number(port), noDelay: true });
      let received = '';
      let done = false;
      const end = (): void => {
        if (done) return;
        done = true;
        clearTimeout(patience);
        socket.destroy();
        for (const [, status] of received.matchAll(/HTTP\/1\.1 (5\d\d) /g)) {
          if (status !== '501' && status !== '505') fault(`answered with ${status}`);
        }
        if (received.includes(marker)) fault('it tells of another account');
        // A frame that closes a socket holds its code, which is sent back to whoever closes it with that.
        const code = ownFault.exec(received)?.[1];
        const isOwnFault =
          code !== undefined && !pieces.some((piece) => Buffer.from(piece).includes(code, 0, 'latin1'));
        if (isSocket && (isOwnFault || received.includes('Internal server error'))) {
          fault('the socket was closed by an error');
        }
        resolve(text);
      };
      const patience = setTimeout(
        () => {
          if (isAnswered && received === '') fault('neither answered nor ended');
          end();
        },
        isAnswered ? 15_000 : 30,
      );
      socket.on('data', (chunk: Buffer) => {
        received += chunk.toString('latin1');
        if (isAnswered && /HTTP\/1\.1 (?!100)\d\d\d .*\r\n\r\n/s.test(received)) setTimeout(end, 5);
      });
      socket.on('end', end).on('error', end).on('close', end);
      const all = isSocket ? [upgrade(), ...pieces] : pieces;
      void (async () => {
        for (const piece of all) {
          if (!socket.destroyed) socket.write(piece);
          await new Promise((next) => setImmediate(next));
        }
      })();
    });
  }

  /** A session of graphql-transport-ws whose messages come in any order. */
  async #sendMessages(number: number, random: Random): Promise<string> {
    const socket = new RawSocket(this.#url, { headers: { authorization: `Bearer ${this.#secret}` } });
    const messages = Array.from({ length: 1 + random.below(6) }, () =>
      socketMessage(random, this.#graphql, this.#secret),
    );
    if (random.chance(0.85)) messages.unshift('{"type":"connection_init"}');
    const text = messages.join(' ').slice(0, 2_000);
    const fault = (what: string): void => void this.faults.push(`#${number} ${what}: ${text}`);
    await socket.opened();
    const open = socket.socket.readyState === 1;
    if (open) for (const message of messages) socket.send(message);
    if (open) socket.send('{"type":"ping"}');
    const isOver = (): boolean => socket.socket.readyState !== 1 || socket.messages.some(({ type }) => type === 'pong');
    for (let turn = 0; turn < 200 && !isOver(); turn++) await new Promise((next) => setTimeout(next, 2));
    socket.socket.close();
    const { code } = await socket.closed;
    if (code === 4500 || code === 1011 || code === 1006) fault(`closed with ${code}`);
    if (JSON.stringify(socket.messages).includes(marker)) fault('it tells of another account');
    for (const { type, payload } of socket.messages) {
      const errors = type === 'error' ? payload : type === 'next' ? (payload.errors ?? []) : [];
      for (const what of errors.flatMap(faultOfError)) fault(what);
    }
    return text;
  }
}

/** The data of the first event in a stream. */
function dataOf(stream: string): string {
  const line = stream.split('\n').find((text) => text.startsWith('data: '));
  return line?.slice('data: '.length) ?? stream;
}

function parse(body: string | Uint8Array | undefined): Json {
  try {
    return body === undefined ? undefined : JSON.parse(Buffer.from(body).toString());
  } catch {
    return undefined;
  }
}

/** A frame that closes a socket with 1011 or 4500, which are the server's own faults. */
const ownFault = new RegExp(`${String.fromCharCode(0x88)}.(${closeCode(1011)}|${closeCode(4500)})`, 's');

function closeCode(code: number): string {
  return String.fromCharCode(code >> 8, code & 0xff);
}

const statusesOfGraphQL = [200, 204, 400, 401, 403, 405, 406, 413, 415, 429];

function faultsOfGraphQL(status: number, answer: string): string[] {
  if (status === 204 || answer.startsWith('<!')) return [];
  const parsed = parse(answer);
  if (parsed === undefined) return [`${status} without JSON: ${answer.slice(0, 300)}`];
  const answers = [parsed].flat();
  return [
    ...(statusesOfGraphQL.includes(status) ? [] : [`the status ${status} is not documented`]),
    ...answers.flatMap(({ data, errors = [] }: Json) => [
      ...(data === undefined && errors.length === 0 ? ['neither data nor errors'] : []),
      ...errors.flatMap(faultOfError),
    ]),
  ];
}

function faultOfError({ message, extensions }: Json): string[] {
  const isKnown = extensions !== undefined && Object.hasOwn(errorCodes, extensions.code);
  const isOurs = extensions?.code === 'INTERNAL' || extensions?.code === 'UNAVAILABLE';
  const isWhole = typeof message === 'string' && typeof extensions?.requestId === 'string';
  return isKnown && isWhole && !isOurs ? [] : [`the error ${JSON.stringify({ message, extensions })}`];
}
