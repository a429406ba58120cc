import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Answer, type Cut, HttpConnection, requestBytes } from './connection.ts';
import type { NeighbourOrder, NeighbourReport, Waits } from './trial.ts';

// The neighbour: a customer in a process of its own, who asks for something simple every 10 ms, whether or not what was
// asked before has been answered.

const everyMs = 10;
const probeEveryMs = 100;
/** Its connections are open before anything happens, as those of a client library or a proxy are. */
const warmConnections = 50;
/** So many that a slow answer keeps none from being sent, unless it takes more than a second. */
const maxConnections = 100;

/** One kind of request, sent at fixed times. */
class Asking {
  readonly #url: string;
  readonly #request: () => Buffer;
  readonly #free: HttpConnection[] = [];
  #connections = 0;
  /** When those were due that no connection was free for. */
  #waiting: number[] = [];
  readonly #pending = new Set<number>();
  #waitsMs: number[] = [];
  #refusals: Record<string, number> = {};
  readonly #isOver: (answer: Answer) => Promise<void> | undefined;

  constructor(
    url: string,
    request: () => Buffer,
    isOver: (answer: Answer) => Promise<void> | undefined = () => undefined,
  ) {
    this.#url = url;
    this.#request = request;
    this.#isOver = isOver;
  }

  async warmUp(): Promise<void> {
    const all = Array.from({ length: warmConnections }, () => this.#connect());
    await Promise.all(all.map((connection) => connection?.ask(this.#request())));
    this.#free.push(...all.flatMap((connection) => connection ?? []));
  }

  ask(): void {
    const dueMs = performance.now();
    this.#pending.add(dueMs);
    this.#waiting.push(dueMs);
    this.#sendNext();
  }

  /** Resolves when all that were due by now are answered, or after a while. */
  async settled(patienceMs: number): Promise<void> {
    const nowMs = performance.now();
    const isUnanswered = (): boolean => [...this.#pending].some((dueMs) => dueMs <= nowMs);
    while (isUnanswered() && performance.now() < nowMs + patienceMs) await new Promise((go) => setTimeout(go, 5));
  }

  /** What there was since it was asked before. What is unanswered has waited until now. */
  report(): Waits {
    const nowMs = performance.now();
    const all = [...this.#waitsMs, ...[...this.#pending].map((dueMs) => nowMs - dueMs)].sort((a, b) => a - b);
    const refusals = this.#refusals;
    this.#waitsMs = [];
    this.#refusals = {};
    return { count: all.length, medianMs: all[all.length >> 1] ?? 0, longestMs: all.at(-1) ?? 0, refusals };
  }

  #sendNext(): void {
    const connection = this.#free.shift() ?? this.#connect(); // all in turn: one that is not used for long is closed
    if (connection === undefined) return;
    const dueMs = this.#waiting.shift();
    if (dueMs === undefined) this.#free.push(connection);
    else void this.#send(connection, dueMs);
  }

  #connect(): HttpConnection | undefined {
    if (this.#connections >= maxConnections) return undefined;
    this.#connections++;
    return new HttpConnection(this.#url);
  }

  async #send(connection: HttpConnection, dueMs: number): Promise<void> {
    const answer = await connection.ask(this.#request());
    if (isSuccess(answer)) await this.#isOver(answer);
    else this.#refuse(answer);
    this.#pending.delete(dueMs);
    this.#waitsMs.push(performance.now() - dueMs);
    if (connection.isOpen && typeof answer !== 'string') this.#free.push(connection);
    else this.#connections--;
    if (this.#waiting.length > 0) this.#sendNext();
  }

  #refuse(answer: Answer | Cut): void {
    const text = typeof answer === 'string' ? answer : `${answer.status} ${answer.start.slice(0, 300)}`;
    this.#refusals[text] = (this.#refusals[text] ?? 0) + 1;
  }
}

function isSuccess(answer: Answer | Cut): answer is Answer {
  return typeof answer !== 'string' && answer.status < 300;
}

const askings = new Map<'read' | 'write' | 'probe', Asking>();
/** How late this process itself has been, because others had the processor. */
let latestMs = 0;

let probing: NodeJS.Timeout | undefined;

/** Asks from now on for something simple, and for what the probe asks for besides. */
async function begin({ url, secret, probe }: Extract<NeighbourOrder, { do: 'begin' }>): Promise<void> {
  const make = async (path: string, body: object): Promise<Record<string, string>> => {
    const connection = new HttpConnection(url);
    const answer = await connection.ask(requestBytes('POST', path, { secret, body }));
    connection.close();
    if (!isSuccess(answer)) throw new Error(`${path} was answered with ${JSON.stringify(answer)}`);
    return JSON.parse(answer.start);
  };
  if (askings.size === 0) await beginAsking(url, secret, make);
  clearInterval(probing);
  askings.delete('probe');
  const asking =
    probe === 'report'
      ? new Asking(url, () => requestBytes('GET', '/v1/analytics', { secret }))
      : probe === 'delivery'
        ? await deliveries(url, secret, make)
        : undefined;
  if (asking === undefined) return;
  askings.set('probe', asking);
  probing = setInterval(() => asking.ask(), probeEveryMs);
}

type Make = (path: string, body: object) => Promise<Record<string, string>>;

async function beginAsking(url: string, secret: string, make: Make): Promise<void> {
  const nextConversation = async (): Promise<string> =>
    `/v1/conversations/${(await make('/v1/conversations', { subject: 'Parcel' }))['id']}`;
  const readBytes = requestBytes('GET', await nextConversation(), { secret });
  const read = new Asking(url, () => readBytes);
  const body = { content: 'It is on its way.', sender: 'agent' };
  // As a customer does. Each has room for 10,000 messages, so all are enough for half an hour.
  const writtenTo = await Promise.all(Array.from({ length: 20 }, nextConversation));
  let sent = 0;
  const write = new Asking(url, () =>
    requestBytes('POST', `${writtenTo[sent++ % writtenTo.length]}/messages`, { secret, body }),
  );
  askings.set('read', read).set('write', write);
  await Promise.all([read.warmUp(), write.warmUp()]);
  setInterval(() => read.ask(), everyMs);
  setInterval(() => write.ask(), everyMs);
  let dueMs = performance.now() + everyMs;
  setInterval(() => {
    const nowMs = performance.now();
    latestMs = Math.max(latestMs, nowMs - dueMs);
    dueMs = nowMs + everyMs;
  }, everyMs);
}

/** Asks for a test of a webhook, which is over when it arrives. */
async function deliveries(url: string, secret: string, make: Make): Promise<Asking> {
  const arrivals = new Map<string, () => void>();
  const early = new Set<string>();
  const receiver = createServer((req, res) => {
    const id = String(req.headers['webhook-id']);
    req.resume().once('end', () => res.writeHead(204).end());
    const arrived = arrivals.get(id);
    if (arrived === undefined) early.add(id);
    arrivals.delete(id);
    arrived?.();
  }).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const { port } = receiver.address() as AddressInfo;
  const webhook = await make('/v1/webhooks', { url: `http://127.0.0.1:${port}/`, events: ['conversation.closed'] });
  const test = requestBytes('POST', `/v1/webhooks/${webhook['id']}/test`, { secret, body: {} });
  return new Asking(
    url,
    () => test,
    async ({ start }) => {
      const { eventId } = JSON.parse(start) as { eventId: string };
      if (!early.delete(eventId)) await new Promise<void>((resolve) => arrivals.set(eventId, resolve));
    },
  );
}

async function report(patienceMs: number): Promise<NeighbourReport> {
  await Promise.all([...askings.values()].map((asking) => asking.settled(patienceMs)));
  const waits = Object.fromEntries([...askings].map(([name, asking]) => [name, asking.report()]));
  const seen = { ...waits, latestMs } as unknown as NeighbourReport;
  latestMs = 0;
  return seen;
}

process.on('message', (order: NeighbourOrder) => {
  void (order.do === 'begin' ? begin(order) : report(order.patienceMs)).then((result) => process.send?.(result ?? {}));
});
process.once('disconnect', () => process.exit());
process.send?.('ready');
