import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import postgres from 'postgres';
import { type Config, readConfig } from '../../src/config.ts';
import { type Account, createAccount, type Plan } from '../../src/domain/accounts.ts';
import { createApiKey } from '../../src/domain/api-keys.ts';
import { operatorOf, type Scope } from '../../src/domain/caller.ts';
import { openApiDocument } from '../../src/rest/openapi/document.ts';
import { createLog } from '../../src/server/log.ts';
import { type RunningServer, type ServerOptions, startServer } from '../../src/server/server.ts';
import { type Client, clientOf, type Json } from './client.ts';
import { TestClock } from './clock.ts';
import { Conformance } from './conformance.ts';
import type { LoggedEvent } from './log.ts';
import { putMigrated } from './migrated-file.ts';
import { dropShared, sharedDatabase, sharedUrl } from './postgres.ts';

export interface TestServer extends RunningServer {
  readonly clock: TestClock;
  readonly databasePath: string;
  /** The URL of its database of PostgreSQL, or else the path of its file. */
  readonly database: string;
  /** Every line that was logged, parsed. */
  readonly logLines: Record<string, unknown>[];
  /** An account's event log as it is stored, from its beginning. */
  log(accountId: string): Promise<LoggedEvent[]>;
  /**
   * Looks into what is stored, or damages it, by a statement that both storages understand. It is not of the service: no
   * interface shows what a test wants to know, or to happen.
   * @param values those of its `?`
   */
  query(statement: string, ...values: readonly unknown[]): Promise<Record<string, Json>[]>;
  /** Keeps everybody from writing, as another process can, until what it returns is called. */
  holdWrites(): Promise<() => Promise<void>>;
  /** A client with a key that was made before. */
  clientFor(secret: string): Client;
  /** Makes an account, with a limit far above what a test sends unless it names a plan or a limit. */
  account(options?: { plan?: Plan; requestsPerHour?: number }): Promise<TestAccount>;
}

export interface TestAccount extends Client {
  readonly account: Account;
  readonly secret: string;
  /** A client with a key of these scopes only. */
  withScopes(...granted: Scope[]): Promise<Client>;
}

export interface TestServerOptions {
  readonly clock?: TestClock;
  /** An existing file to open; without it the server has one of its own, removed when it closes. */
  readonly databasePath?: string;
  readonly config?: Partial<Config>;
  readonly onStatement?: (sql: string) => void;
  readonly timings?: ServerOptions['timings'];
  readonly tickMs?: ServerOptions['tickMs'];
  readonly connectionLimits?: ServerOptions['connectionLimits'];
  readonly nameServers?: ServerOptions['nameServers'];
  readonly routes?: ServerOptions['routes'];
}

function queryFile(path: string, statement: string, values: readonly unknown[]): Record<string, Json>[] {
  const database = new Database(path);
  try {
    const prepared = database.prepare(statement);
    if (prepared.reader) return prepared.all(...values) as Record<string, Json>[];
    prepared.run(...values);
    return [];
  } finally {
    database.close();
  }
}

async function queryDatabase(url: string, text: string, values: readonly unknown[]): Promise<Record<string, Json>[]> {
  const number = { to: 20, from: [20, 1700], serialize: String, parse: Number };
  const client = postgres(url, { max: 1, fetch_types: false, onnotice: () => {}, types: { number } });
  try {
    let count = 0;
    const numbered = text.replaceAll('?', () => `$${++count}`);
    return [...(await client.unsafe(numbered, values as never[]))];
  } finally {
    await client.end();
  }
}

async function holdFile(path: string): Promise<() => Promise<void>> {
  const database = new Database(path);
  database.exec('BEGIN IMMEDIATE');
  return async () => void database.close();
}

async function holdDatabase(url: string): Promise<() => Promise<void>> {
  const client = postgres(url, { max: 1, fetch_types: false });
  await client.unsafe('BEGIN; LOCK TABLE account_totals IN EXCLUSIVE MODE'); // each change of an account's data counts there
  return () => client.end();
}

/**
 * The whole server on a real socket and a real file, or a real database of PostgreSQL in a run with `--mode postgres`; only
 * the clock is the test's.
 */
export async function startTestServer(options: TestServerOptions = {}): Promise<TestServer> {
  const folder = options.databasePath === undefined ? mkdtempSync(join(tmpdir(), 'conversation-service-')) : undefined;
  const databasePath = options.databasePath ?? join(folder ?? '', 'test.db');
  const clock = options.clock ?? new TestClock();
  const logLines: Record<string, unknown>[] = [];
  const log = createLog({
    level: 'info',
    clock,
    destination: { write: (line: string) => void logLines.push(JSON.parse(line)) },
  });
  const postgresUrl = sharedUrl === undefined ? undefined : await sharedDatabase(databasePath, clock);
  if (postgresUrl === undefined && folder !== undefined) await putMigrated(databasePath);
  const address = postgresUrl === undefined ? undefined : { url: postgresUrl, directUrl: undefined };
  const config = { ...readConfig({}), port: 0, databasePath, postgres: address, ...options.config };
  const server = await startServer({
    config,
    log,
    clock,
    ...(options.onStatement && { onStatement: options.onStatement }),
    ...(options.timings && { timings: options.timings }),
    ...(options.tickMs && { tickMs: options.tickMs }),
    ...(options.connectionLimits && { connectionLimits: options.connectionLimits }),
    ...(options.routes && { routes: options.routes }),
    // No test talks to the world outside: nobody answers at the port for what is to be discarded.
    nameServers: options.nameServers ?? ['127.0.0.1:9'],
  });
  const { ports } = server.app;
  const { routes } = options;
  const other = routes && new Conformance(openApiDocument(routes));
  const conformance = other && (() => other);
  return {
    ...server,
    clock,
    databasePath,
    database: postgresUrl ?? databasePath,
    logLines,
    async log(accountId) {
      const whole = { filter: {}, limit: 1_000_000, span: Number.MAX_SAFE_INTEGER };
      const { events } = await ports.storage.read.events.after(accountId, 0, whole);
      return events.map(({ sequence, type, dataJson }) => ({ sequence, type, data: JSON.parse(dataJson) }));
    },
    query: (statement, ...values) =>
      postgresUrl === undefined
        ? Promise.resolve(queryFile(databasePath, statement, values))
        : queryDatabase(postgresUrl, statement, values),
    holdWrites: () => (postgresUrl === undefined ? holdFile(databasePath) : holdDatabase(postgresUrl)),
    clientFor: (secret) => clientOf(server.url, secret, conformance),
    async account({ plan = 'business', requestsPerHour } = {}) {
      const limit = requestsPerHour ?? (plan === 'business' ? 1_000_000 : null);
      const { account, apiKey } = await createAccount(ports, { name: 'test', plan, requestsPerHour: limit });
      const operator = operatorOf(account);
      return {
        ...clientOf(server.url, apiKey.secret, conformance),
        account,
        secret: apiKey.secret,
        async withScopes(...granted) {
          const made = await createApiKey.execute(ports, operator, { name: 'scoped', scopes: granted });
          return clientOf(server.url, made.apiKey.secret, conformance);
        },
      };
    },
    async close() {
      await server.close();
      if (folder === undefined) return;
      rmSync(folder, { recursive: true, force: true });
      if (postgresUrl !== undefined) await dropShared(postgresUrl);
    },
  };
}
