import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished, type TestContext } from 'vitest';
import { freePort } from './postgres.ts';
import { eventually } from './wait.ts';

/** Where Debian's package puts it. */
const executablePath = '/usr/sbin/pgbouncer';

/** Without it the test is skipped, and says so. */
export function needPgbouncer({ skip }: Pick<TestContext, 'skip'>): void {
  if (existsSync(executablePath)) return;
  const advice = `There is no ${executablePath}, which this test needs: apt-get install pgbouncer`;
  console.log(advice);
  skip(advice);
}

/** Whether it can hand on prepared statements in transaction mode, as it does since 1.21. */
export function canPrepare(): boolean {
  const [, major, minor] = /PgBouncer (\d+)\.(\d+)/.exec(execFileSync(executablePath, ['--version']).toString()) ?? [];
  return Number(major) > 1 || Number(minor) >= 21;
}

/** A pgbouncer in transaction mode before a database. It ends with the test. */
export class Pgbouncer {
  readonly url: string;
  readonly #file: string;
  #process: ChildProcess | undefined;

  /** @param poolSize how many connections it has to the database */
  static async start(databaseUrl: string, poolSize: number): Promise<Pgbouncer> {
    const folder = mkdtempSync(join(tmpdir(), 'conversation-service-pgbouncer-'));
    chmodSync(folder, 0o755); // it does not run as root
    const { hostname, port, pathname, username, password } = new URL(databaseUrl);
    const name = pathname.slice(1);
    const listenPort = await freePort();
    const settings = {
      listen_addr: '127.0.0.1',
      listen_port: listenPort,
      unix_socket_dir: '',
      auth_type: 'any',
      pool_mode: 'transaction',
      default_pool_size: poolSize,
      max_client_conn: 200,
      ...(canPrepare() && { max_prepared_statements: 200 }),
    };
    const lines = Object.entries(settings).map(([setting, value]) => `${setting} = ${value}`);
    const database = `${name} = host=${hostname} port=${port} user=${username} password=${password}`;
    const file = join(folder, 'pgbouncer.ini');
    writeFileSync(file, ['[databases]', database, '[pgbouncer]', ...lines, ''].join('\n'), { mode: 0o644 });
    const bouncer = new Pgbouncer(`postgres://${username}:${password}@127.0.0.1:${listenPort}/${name}`, file);
    onTestFinished(async () => {
      await bouncer.stop();
      rmSync(folder, { recursive: true });
    });
    await bouncer.run();
    return bouncer;
  }

  private constructor(url: string, file: string) {
    this.url = url;
    this.#file = file;
  }

  async run(): Promise<void> {
    const asRoot = process.getuid?.() === 0 ? ['--user', 'postgres'] : [];
    this.#process = spawn(executablePath, [...asRoot, this.#file], { stdio: 'ignore' });
    await eventually(
      () => this.#isListening(),
      (isListening) => isListening,
    );
  }

  async stop(): Promise<void> {
    const running = this.#process;
    if (running === undefined || running.exitCode !== null || running.signalCode !== null) return;
    const ended = once(running, 'exit');
    running.kill('SIGQUIT'); // at once
    await ended;
  }

  #isListening(): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connect(Number(new URL(this.url).port), '127.0.0.1', () => {
        socket.destroy();
        resolve(true);
      });
      socket.on('error', () => resolve(false));
    });
  }
}
