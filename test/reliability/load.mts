import { connect, type Socket } from 'node:net';
import type { Load, LoadResult, Request } from './load.ts';

// A load on a server, from a process of its own, so that what the clients cost is not in what is measured. It speaks
// HTTP by hand: a client library would cost more than the server.

process.on('message', (load: Load) => {
  void run(load).then((result) => process.send?.(result));
});
process.once('disconnect', () => process.exit());
process.send?.('ready');

/** One connection, with one request on it at a time. */
class Connection {
  readonly #socket: Socket;
  readonly opened: Promise<unknown>;
  #received: Buffer = Buffer.alloc(0);
  #answered: ((answer: string | undefined) => void) | undefined;

  constructor(url: URL) {
    this.#socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
    this.opened = new Promise((resolve) => this.#socket.once('connect', resolve).once('close', resolve));
    this.#socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    this.#socket.on('error', () => {}).on('close', () => this.#end(undefined));
  }

  /** @returns the answer, or undefined when there was none */
  ask(text: string): Promise<string | undefined> {
    return new Promise((resolve) => {
      this.#answered = resolve;
      if (this.#socket.destroyed) this.#end(undefined);
      else this.#socket.write(text);
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(chunk: Buffer): void {
    if (this.#answered === undefined) {
      this.close(); // nothing was asked: it says goodbye
      return;
    }
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    const headEnd = this.#received.indexOf('\r\n\r\n');
    if (headEnd === -1) return;
    const head = this.#received.toString('latin1', 0, headEnd);
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
    const end = headEnd + 4 + length;
    if (this.#received.length < end) return;
    const answer = this.#received.toString('utf8', 0, end);
    this.#received = this.#received.subarray(end);
    this.#end(answer);
  }

  #end(answer: string | undefined): void {
    const answered = this.#answered;
    this.#answered = undefined;
    answered?.(answer);
  }
}

/** What came of the requests. */
class Results {
  readonly #servedMs: number[] = [];
  readonly #refusedMs: number[] = [];
  readonly #others = new Map<string, number>();
  #written = 0;
  #undocumented: string | undefined;

  add({ writes, face }: Request, answer: string | undefined, tookMs: number): void {
    const status = answer?.slice(9, 12);
    if (answer !== undefined && (status === '200' || status === '201') && !answer.includes('"errors":')) {
      this.#servedMs.push(tookMs);
      if (writes) this.#written++;
    } else if (answer !== undefined && status === '503') {
      this.#refusedMs.push(tookMs);
      if (!isDocumented(face, answer)) this.#undocumented ??= answer;
    } else {
      const name = answer?.slice(0, 2_000) ?? 'no answer';
      this.#others.set(name, (this.#others.get(name) ?? 0) + 1);
    }
  }

  sum(seconds: number, unsent: number): LoadResult {
    return {
      served: this.#servedMs.length,
      servedPerSecond: this.#servedMs.length / seconds,
      written: this.#written,
      refused: this.#refusedMs.length,
      others: Object.fromEntries(this.#others),
      unsent,
      undocumented: this.#undocumented,
      servedMs: quantiles(this.#servedMs),
      refusedMs: quantiles(this.#refusedMs),
    };
  }
}

/** A refusal in the form that the contract has for it. */
function isDocumented(face: Request['face'], answer: string): boolean {
  const [head = '', body = ''] = answer.split('\r\n\r\n');
  if (!/\r\nretry-after: [1-9]\d*\r\n/i.test(`${head}\r\n`) || !/\r\nx-request-id: \S+\r\n/i.test(head)) return false;
  const told = JSON.parse(body);
  if (face === 'rest') {
    return (
      /\r\ncontent-type: application\/problem\+json\r\n/i.test(head) && told.code === 'UNAVAILABLE' && told.requestId
    );
  }
  return told.errors?.length === 1 && told.errors[0].extensions.code === 'UNAVAILABLE' && told.data === undefined;
}

function quantiles(values: number[]): { p50: number; p99: number; max: number } {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
}

async function run(load: Load): Promise<LoadResult> {
  return await (load.perSecond === undefined ? closedLoop(load) : openLoop(load));
}

/** As many clients as there are connections, each of which asks again when it is answered. */
async function closedLoop({ url, requests, connections = 1, seconds }: Load): Promise<LoadResult> {
  const results = new Results();
  const startedMs = performance.now();
  const endMs = startedMs + seconds * 1_000;
  let next = 0;
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const connection = new Connection(new URL(url));
      for (let atMs = performance.now(); atMs < endMs; ) {
        const request = requests[next++ % requests.length] as Request;
        const answer = await connection.ask(request.text);
        const nowMs = performance.now();
        results.add(request, answer, nowMs - atMs);
        atMs = nowMs;
        if (answer === undefined) break;
      }
      connection.close();
    }),
  );
  return results.sum((performance.now() - startedMs) / 1_000, 0);
}

/** How long clients wait in the end for what is still unanswered. */
const patienceMs = 5_000;

/** Asks at a rate, whatever becomes of what was asked before: as many people do who do not know of each other. */
async function openLoop({ url, requests, connections = 1, perSecond = 1, seconds }: Load): Promise<LoadResult> {
  const results = new Results();
  const all = await open(new URL(url), connections);
  const free = [...all];
  let sent = 0;
  let unsent = 0;
  let unanswered = 0;
  const startedMs = performance.now();

  const send = async (number: number): Promise<void> => {
    const connection = free.shift(); // all in turn: one that is not used for long would be closed
    if (connection === undefined) {
      unsent++;
      return;
    }
    const request = requests[number % requests.length] as Request;
    const dueMs = startedMs + (number * 1_000) / perSecond;
    const answer = await connection.ask(request.text);
    results.add(request, answer, performance.now() - dueMs);
    if (answer !== undefined) free.push(connection);
  };

  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      const sinceMs = performance.now() - startedMs;
      const elapsedMs = Math.min(sinceMs, seconds * 1_000);
      for (const due = Math.floor((elapsedMs * perSecond) / 1_000); sent < due; sent++) {
        unanswered++;
        void send(sent).finally(() => {
          unanswered--;
        });
      }
      const isOver = elapsedMs < sinceMs && (unanswered === 0 || sinceMs > elapsedMs + patienceMs);
      if (!isOver) return;
      clearInterval(timer);
      resolve();
    }, 1);
  });
  for (const connection of all) connection.close();
  await new Promise((resolve) => setImmediate(resolve)); // what was left unanswered is told of
  return results.sum(seconds, unsent);
}

/**
 * Opens connections a few at a time: the server takes one in each turn of its loop. Each is used at once, since one on
 * which nothing comes for ten seconds is closed, and on a busy machine it takes longer until all are open.
 */
async function open(url: URL, count: number): Promise<Connection[]> {
  const all: Connection[] = [];
  const openNext = async (): Promise<void> => {
    while (all.length < count) {
      const connection = new Connection(url);
      all.push(connection);
      await connection.opened;
      await connection.ask(`GET /healthz HTTP/1.1\r\nHost: ${url.host}\r\n\r\n`);
    }
  };
  await Promise.all(Array.from({ length: 64 }, openNext));
  return all;
}
