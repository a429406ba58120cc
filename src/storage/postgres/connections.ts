import { connect as netConnect, Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import postgres from 'postgres';
import { afterMicrotasks } from '../../runtime/after-microtasks.ts';
import { type Encryption, encrypted, encryptionOf } from './encryption.ts';
import { isDisconnection, isUseless } from './errors.ts';

// Connections to the database.

export type Client = postgres.Sql<{ bigint: number }> & {
  /** What it has been asked, and is not answered yet. */
  readonly asked: Set<Promise<unknown>>;
  /** To be called when it is asked the first of some statements, and with each answer: they come in order. */
  heard(): void;
  /**
   * Ends it with all its connections. The driver’s own `end` would leave those open that are being made at that moment.
   * @param graceMs how long what it has been asked may take
   */
  finish(graceMs: number): Promise<void>;
};

/** The rows of an answer, and how many rows the statement read or changed. */
export interface Answer extends ReadonlyArray<Readonly<Record<string, unknown>>> {
  readonly count: number;
  readonly command: string;
}

/** A value in a row that the program gives. */
export type RowValue = string | number | null;

/** A statement that writes any number of rows. */
export interface RowsText {
  /** Of two that have rows, the one with the lower number is sent first. */
  readonly order: number;
  /** What is sent for these rows, with the values of `$1`, `$2` … */
  on(rows: readonly (readonly RowValue[])[]): { readonly text: string; readonly values: readonly RowValue[] };
  /** Makes another error of one of PostgreSQL. */
  readonly explain: ((error: unknown) => never) | undefined;
}

/** What statements are run on. */
export interface Queries {
  /**
   * @param values those of `$1`, `$2` …
   * @param isKept whether the connection should keep it prepared
   * @param accountId whose rows it reads, if they are of one account
   */
  query(text: string, values: readonly unknown[], isKept: boolean, accountId?: string): Promise<Answer>;
  /** The same for a statement that changes something. */
  change(text: string, values: readonly unknown[]): Promise<Answer>;
  /** A change whose answer nothing depends on: it need not be waited for. What goes wrong shows at the commit at the latest. */
  send(text: string, values: readonly unknown[]): Promise<unknown> | undefined;
  /**
   * The same for one of the rows that a statement writes: it is sent before the next other statement, with all rows for it
   * that were given until then. So rows must not depend on what a statement for rows writes that comes later in their order,
   * nor be given twice: that fails, and the works are repeated alone.
   */
  sendRow(statement: RowsText, row: readonly RowValue[]): Promise<unknown> | undefined;
  /**
   * A change that is sent right before the commit, once however often it is given: of a row that the transactions of all
   * accounts change, so that none has it locked for longer, nor waits for anything else meanwhile.
   */
  sendLast(text: string): void;
  /**
   * Takes the next numbers of the log of the account that is locked, which is known since then.
   * @returns the last of them; undefined where they have to be asked for
   */
  advanceLog(accountId: string, count: number): Promise<number> | undefined;
  /** Grows when a connection was lost: then the database may be another one. Undefined where that does not show. */
  readonly losses: number | undefined;
}

export interface ConnectionOptions {
  /** Whether statements may be prepared; by default they are. */
  readonly prepares?: boolean | undefined;
  /** Whether a proxy stands before the database that may give each transaction another connection. */
  readonly isProxied?: boolean | undefined;
  /** Whether a statement may be sent before the one before it is answered; by default it may. */
  readonly pipelines?: boolean | undefined;
  /** How long a statement waits for a lock. */
  readonly lockTimeoutMs?: number | undefined;
  readonly statementTimeoutMs?: number | undefined;
  /** How long a transaction may do nothing: what a node that hangs has locked is free after that. */
  readonly idleTimeoutMs?: number | undefined;
  /** Called with every statement, for tests and diagnosis. */
  readonly onStatement?: ((text: string) => void) | undefined;
}

/** What a statement may take, to which the answer's way is added: after so long without an answer, a connection is given up. */
const defaultStatementTimeoutMs = 10_000;
const answerGraceMs = 3_000;

/** What is under way may take this long when a connection is closed. */
export const closeMs = 5_000;

/** Seconds after which the network is asked whether the other side is still there. */
const keepAliveSeconds = 10;
const connectTimeoutSeconds = 5;

/**
 * A client with one connection, and one more while it listens. They are made when they are needed, and made again when they
 * were lost.
 * @param onClose called when a connection is lost, before anything learns of it, or does not answer
 */
export function connect(url: string, options: ConnectionOptions = {}, onClose?: () => void): Client {
  const { prepares = true, isProxied = false, pipelines = true } = options;
  const silentMs = (options.statementTimeoutMs ?? defaultStatementTimeoutMs) + answerGraceMs;
  const encryption = encryptionOf(url);
  const { hostname, port, pathname } = new URL(url);
  let isFinished = false;
  let sockets: Socket[] = [];
  const asked: Client['asked'] = new Set();
  let silence: NodeJS.Timeout | undefined;
  const socketFor = async (address: SocketAddress): Promise<Socket> => {
    if (isFinished) throw new Lost('The client was ended');
    const socket = socketOf(address);
    sockets = [...sockets.filter(({ destroyed }) => !destroyed), socket];
    return await (encryption === undefined ? begun(socket) : encryptedSocket(socket, encryption));
  };
  const client = postgres(url, {
    max: 1,
    database: decodeURIComponent(pathname.slice(1)),
    // The driver would cut an IPv6 address at its first colon; that it takes lists, its types leave out.
    ...(hostname.startsWith('[') && ({ host: [hostname.slice(1, -1)], port: [Number(port || 5432)] } as object)),
    prepare: prepares,
    // A connection in use is never replaced just for its age: a transaction would be lost.
    max_lifetime: null,
    idle_timeout: 0,
    connect_timeout: connectTimeoutSeconds,
    keep_alive: keepAliveSeconds,
    backoff: (failures: number) => Math.min(0.5, 0.01 * 2 ** failures),
    fetch_types: false,
    onnotice: () => {},
    ...(onClose && { onclose: onClose }),
    ssl: false, // that is done before the driver has the socket
    connection: {
      application_name: 'conversation-service',
      // A proxy would refuse others: behind it, each transaction sets them.
      ...(!isProxied && (timeoutsOf(options) as object)),
    },
    ...({ socket: socketFor, ...(!pipelines && { max_pipeline: 0 }) } as object), // which its types leave out
    transform: { column: { from: postgres.toCamel } },
    types: {
      // All are below 2^53: times, sequences, counts.
      bigint: { to: 20, from: [20], serialize: String, parse: Number },
      // The program has its own JSON: what is read is often sent as it is.
      json: { to: 114, from: [114], serialize: (text: string) => text, parse: (text: string) => text },
    } as Record<string, postgres.PostgresType>,
  });
  return Object.assign(client, {
    asked,
    heard() {
      // Where the network swallows everything, nobody would say so for minutes.
      silence ??= setTimeout(() => void (asked.size > 0 && onClose?.()), silentMs).unref();
      silence.refresh();
    },
    async finish(graceMs: number) {
      clearTimeout(silence); // which no answer restarts then
      await client.end({ timeout: graceMs / 1_000 });
      isFinished = true;
      for (const socket of sockets) socket.destroy();
      // What the driver has not sent when the rest is answered, it forgets.
      for (const query of asked) (query as unknown as Rejectable).reject(new Lost('The client was ended'));
    },
  }) as unknown as Client;
}

/** What the types of the driver leave out of its queries. */
interface Rejectable {
  reject(error: Error): void;
}

interface SocketAddress {
  readonly host: readonly string[];
  readonly port: readonly number[];
  readonly path: string | false | undefined;
}

/**
 * Begins to connect, as the driver would, but for Nagle's algorithm: with it, statements that are sent while an answer is
 * awaited wait for that answer.
 */
function socketOf({ host: [host = 'localhost'], port: [port = 5432], path }: SocketAddress): Socket {
  const address = path ? { path } : { host, port, noDelay: true };
  const options = { ...address, writableHighWaterMark: turnBytes }; // which its types leave out
  // Where nobody answers, the driver says who it was.
  const socket = Object.assign(netConnect(options), { host, port });
  sendTogether(socket);
  failWhenEnded(socket);
  return socket;
}

/**
 * Makes an error of the end of a connection. A proxy whose database is away ends all at once, and so does what is no
 * PostgreSQL: the driver would connect again, without a pause, for as long as that lasts.
 */
function failWhenEnded(socket: Socket): void {
  socket.on('error', () => {}); // the driver listens no more to one that it has ended itself
  socket.once('end', () => socket.destroy(new Lost('The other side has closed the connection')));
}

/**
 * Waits until the system may have refused to connect, as it does at once where there is no network: the driver would never
 * learn of it, since it does not listen yet.
 * @returns the socket to go on with: if it has closed, one that closes with the reason
 */
async function begun(socket: Socket): Promise<Socket> {
  await setImmediate();
  return socket.destroyed ? new Socket().destroy(socket.errored ?? undefined) : socket;
}

async function encryptedSocket(socket: Socket, encryption: Encryption): Promise<Socket> {
  const secured = await encrypted(socket, encryption, connectTimeoutSeconds * 1_000);
  if (secured !== socket) {
    sendTogether(secured);
    failWhenEnded(secured);
  }
  return secured;
}

/** What is written in a turn may be so much before the driver waits for all answers: a transaction's rows are less. */
const turnBytes = 1024 * 1024;

/**
 * Sends what is written to a socket at the same time together: the driver would send each long statement by itself.
 */
function sendTogether(socket: Socket): void {
  const write = socket.write.bind(socket);
  let isCorked = false;
  socket.write = ((...args: Parameters<Socket['write']>) => {
    if (!isCorked) {
      isCorked = true;
      socket.cork();
      afterMicrotasks(() => {
        isCorked = false;
        socket.uncork();
      });
    }
    return write(...args);
  }) as Socket['write'];
}

class Lost extends Error {
  readonly code = 'ECONNRESET';
}

/** The settings that keep others from waiting for long. */
export function timeoutsOf(options: ConnectionOptions) {
  const { lockTimeoutMs = 5_000, statementTimeoutMs = defaultStatementTimeoutMs, idleTimeoutMs = 5_000 } = options;
  // As texts: the driver leaves out a 0, and what the server or the user has by default would hold.
  return {
    lock_timeout: `${lockTimeoutMs}`,
    statement_timeout: `${statementTimeoutMs}`,
    idle_in_transaction_session_timeout: `${idleTimeoutMs}`,
  };
}

/** A value as SQL has it. In this form of a literal, only its end and the backslash have to be escaped, whatever is set. */
function literalOf(value: unknown): string {
  if (value === null) return 'NULL';
  if (typeof value === 'number' || typeof value === 'boolean') return `'${value}'`;
  const text = value instanceof Uint8Array ? `\\x${Buffer.from(value).toString('hex')}` : value;
  if (typeof text !== 'string' || text.includes('\0')) throw new Error('A value is missing, or nothing that SQL has');
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}

/**
 * Runs a statement of the program's own.
 *
 * One that is not prepared is sent with its values in its text: the driver would first ask of which types they are, and wait.
 *
 * The driver would prepare a statement anew that has become useless, and meanwhile take the answer of whatever is sent
 * next for its own: somebody would read what another one has asked for. So it is not to know that it was prepared, once
 * it is sent. `isUseless` says what to do then.
 */
async function ask(client: Client, text: string, values: readonly unknown[], prepares = true): Promise<Answer> {
  const onexecute = (): boolean => {
    (query as unknown as { prepared: boolean }).prepared = false;
    return true;
  };
  const options = { prepare: prepares, simple: false, onexecute } as postgres.UnsafeQueryOptions;
  const query = prepares
    ? client.unsafe(text, values as never[], options)
    : client.unsafe(
        text.replaceAll(/\$(\d+)/g, (_, number: string) => literalOf(values[Number(number) - 1])),
        [],
        options,
      );
  if (client.asked.size === 0) client.heard();
  client.asked.add(query);
  try {
    return await query;
  } finally {
    client.asked.delete(query);
    client.heard();
  }
}

/**
 * A connection that is made again when it is lost, by another client: what one that has lost its connection was about to send
 * would keep it from sending anything on the next.
 */
export class Connection {
  readonly #options: ConnectionOptions;
  readonly #onLoss: (cause: unknown) => void;
  readonly #connect: () => Client;
  #client: Client;
  #isClosing = false;

  /**
   * @param onLoss called when it is given up, before anything learns of it, with what a statement has failed with, if that is
   *   why: see `isUseless`
   */
  constructor(url: string, options: ConnectionOptions, onLoss: (cause: unknown) => void) {
    this.#options = options;
    this.#onLoss = onLoss;
    this.#connect = () => {
      const client = connect(url, options, () => this.#giveUp(client));
      return client;
    };
    this.#client = this.#connect();
  }

  async ask(text: string, values: readonly unknown[], isKept: boolean): Promise<Answer> {
    const { onStatement, prepares = true } = this.#options;
    onStatement?.(text);
    const client = this.#client;
    try {
      return await ask(client, text, values, prepares && isKept);
    } catch (error) {
      if (isUseless(error)) this.#giveUp(client, error);
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#client.finish(closeMs);
  }

  /**
   * Makes a new connection, and ends the former one: at once, which rejects what still waits for it, or when all of that is
   * answered, if only what it has prepared is useless.
   */
  #giveUp(client: Client, cause?: unknown): void {
    if (client === this.#client) {
      if (this.#isClosing) return;
      this.#onLoss(cause);
      this.#client = this.#connect();
    } else if (cause !== undefined) {
      return; // its end waits for this answer already, among others
    }
    void Promise.allSettled(cause === undefined ? [] : client.asked).then(() => client.finish(0));
  }
}

/** A connection of the pool, and how many statements wait for their answers on it. */
interface Slot {
  readonly connection: Connection;
  waiting: number;
  readonly waitingOf: Map<string, number>;
}

/**
 * Runs each statement by itself, on the connection where the fewest wait: for reads. One that was lost meanwhile is asked
 * again. An account waits on half of the connections at most, so that others need not wait behind statements of it that take
 * long; on those, any number of its statements can be on their way.
 */
export class Pool implements Queries {
  readonly change = refuseChange;
  readonly send = refuseChange;
  readonly sendRow = refuseChange;
  readonly sendLast = refuseChange;
  readonly advanceLog = refuseChange;
  readonly #slots: readonly Slot[];
  readonly #mostOfAccount: number;
  readonly #isProxied: boolean;
  #losses = 0;

  constructor(url: string, max: number, given: ConnectionOptions) {
    this.#isProxied = given.isProxied === true;
    this.#mostOfAccount = Math.ceil(max / 2);
    // Outside transactions, a proxy passes on a connection as soon as a statement is answered. What was sent behind it, and
    // is not complete yet, would be answered to somebody else.
    const options = { ...given, pipelines: !this.#isProxied };
    const onLoss = (): void => void this.#losses++;
    this.#slots = Array.from({ length: max }, () => ({
      connection: new Connection(url, options, onLoss),
      waiting: 0,
      waitingOf: new Map(),
    }));
  }

  get losses(): number | undefined {
    return this.#isProxied ? undefined : this.#losses; // a proxy keeps its own connections
  }

  async query(text: string, values: readonly unknown[], isKept = true, accountId?: string): Promise<Answer> {
    try {
      return await this.#ask(text, values, isKept, accountId);
    } catch (error) {
      if (!isDisconnection(error) && !isUseless(error)) throw error;
      return await this.#ask(text, values, isKept, accountId);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#slots.map(({ connection }) => connection.close()));
  }

  async #ask(text: string, values: readonly unknown[], isKept: boolean, accountId = ''): Promise<Answer> {
    const slot = this.#slotFor(accountId);
    count(slot, accountId, 1);
    try {
      return await slot.connection.ask(text, values, isKept);
    } finally {
      count(slot, accountId, -1);
    }
  }

  /** @param accountId empty for statements of nobody */
  #slotFor(accountId: string): Slot {
    const own = this.#slots.filter(({ waitingOf }) => waitingOf.has(accountId));
    const open = accountId !== '' && own.length >= this.#mostOfAccount ? own : this.#slots;
    return open.reduce((least, slot) => (slot.waiting < least.waiting ? slot : least));
  }
}

function refuseChange(): never {
  throw new Error('Nothing is changed outside a transaction');
}

function count(slot: Slot, accountId: string, change: 1 | -1): void {
  slot.waiting += change;
  const ofAccount = (slot.waitingOf.get(accountId) ?? 0) + change;
  if (ofAccount > 0) slot.waitingOf.set(accountId, ofAccount);
  else slot.waitingOf.delete(accountId);
}
