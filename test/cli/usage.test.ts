import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { effort, longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { commandLine, run, runHere } from './program.ts';

describe('--help', () => {
  test.each([
    ['', ['serve', 'account', 'key', 'documents', 'migrate', 'seed', 'compact', 'backup', 'restore', 'copy']],
    ['serve', []],
    ['account', ['create', 'list', 'update']],
    ['account create', ['--name <name>', '--plan <plan>', '--requests-per-hour <number>', '--json']],
    ['account list', ['--json']],
    ['account update', ['id', '--name <name>', '--plan <plan>', '--requests-per-hour <number>', '--json']],
    ['key', ['create', 'list', 'revoke']],
    ['key create', ['--account <id>', '--name <name>', '--scopes <scope...>', '--expires-at <time>', '--json']],
    ['key list', ['--account <id>', '--json']],
    ['key revoke', ['id', '--account <id>', '--json']],
    ['documents', ['push']],
    ['documents push', ['file', '--account <id>', '--json']],
    ['migrate', ['--json']],
    [
      'seed',
      [
        '--account <id>',
        '--accounts <number>',
        '--conversations <number>',
        '--months <number>',
        '--random-seed',
        '--json',
      ],
    ],
    ['compact', ['--json']],
    ['backup', ['file', '--force', '--json']],
    ['restore', ['file', '--force', '--json']],
    ['copy', ['--from <url>', '--to <url>', '--json']],
  ])('of `%s` shows what it takes', async (command, parts) => {
    const { code, stdout, stderr } = await runHere([...command.split(' ').filter(Boolean), '--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(new RegExp(`^Usage: conversation-service ${command}`));
    for (const part of parts) expect(stdout).toContain(`  ${part}`);
  });
});

describe('a command line that makes no sense is refused in one line, and does nothing', () => {
  test.each([
    ['serv', "Unknown command 'serv' (did you mean serve?). See --help."],
    ['account make', "Unknown command 'make'. See --help."],
    ['serve --port 1', "Unknown option '--port'. See --help."],
    ['account list --jsn', "Unknown option '--jsn' (did you mean --json?). See --help."],
    ['migrate now', /^Too many arguments for 'migrate'\./],
    ['account create --plan pro', "Required option '--name <name>' not specified. See --help."],
    ['account create --name x --plan gold', /'gold' is invalid\. Allowed choices are trial, pro, business\./],
    ['account update', "Missing required argument 'id'. See --help."],
    ['backup', "Missing required argument 'file'. See --help."],
    ['documents push', "Missing required argument 'file'. See --help."],
    ['copy --from file:a.db', "Required option '--to <url>' not specified. See --help."],
    [
      'copy --from a.db --to file:b.db',
      "Option '--from <url>' argument 'a.db' is invalid. It must be a file, such as file:data/conversations.db, or a PostgreSQL database, such as postgres://USER:PASSWORD@HOST/NAME. See --help.",
    ],
    [
      'copy --from file:a.db --to postgres://host',
      /argument 'postgres:\/\/host' is invalid\. It must be the URL of a PostgreSQL database, such as /,
    ],
    ['restore a b', /^Too many arguments for 'restore'\./],
    ['key create', "Required option '--name <name>' not specified. See --help."],
    ['key create --account a --name x --scopes all', /'all' is invalid\. Allowed choices are conversations:read, /],
    [
      'seed --conversations 0',
      "Option '--conversations <number>' argument '0' is invalid. It must be a whole number from 1 to 1000000. See --help.",
    ],
    [
      'seed --months 1.5',
      "Option '--months <number>' argument '1.5' is invalid. It must be a whole number from 1 to 120. See --help.",
    ],
    [
      'seed --random-seed -1',
      /argument '-1' is invalid\. It must be a whole number from 0 to 4294967295\. See --help\./,
    ],
    [
      'seed --account a --accounts 2',
      "Option '--account <id>' cannot be used with option '--accounts <number>'. See --help.",
    ],
  ])('%s', async (line, expected) => {
    const folder = temporaryFolder();
    const { code, stdout, stderr } = await commandLine(join(folder, 'a.db')).runHere(...line.split(' '));
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^[^\n]+\n$/);
    if (typeof expected === 'string') expect(stderr.trimEnd()).toBe(expected);
    else expect(stderr).toMatch(expected);
    expect(readdirSync(folder)).toEqual([]);
  });
});

/** What can be called, as the help tells. */
async function commandsBelow(...names: string[]): Promise<string[][]> {
  const { stdout } = await runHere([...names, '--help']);
  // Of a command that there is not, it would be the help of all, and this without end.
  expect(stdout).toContain(['Usage: conversation-service', ...names, ''].join(' '));
  const [, listed = ''] = stdout.split('\nCommands:\n');
  const [section = ''] = listed.split('\n\n');
  const found = [...section.matchAll(/^ {2}(\w+)/gm)].flatMap(([, name = '']) => (name === 'help' ? [] : [name]));
  if (found.length === 0) return [names];
  const commands: string[][] = [];
  for (const name of found) commands.push(...(await commandsBelow(...names, name)));
  return commands;
}

longTest(
  'each command that prints data has --json, and examples that are right',
  async () => {
    const commands = (await commandsBelow()).filter(([name]) => name !== 'serve');
    expect(commands.length).toBeGreaterThan(10);
    // A database that cannot be made either: whatever an example would do, it comes no further.
    const file = join(temporaryFolder(), 'file');
    writeFileSync(file, '');
    const cli = commandLine(`${file}/a.db`);
    for (const names of commands) {
      const { stdout } = await runHere([...names, '--help']);
      expect(stdout).toContain('\n  --json');
      const [, examples = ''] = stdout.split('\nExamples:\n');
      const lines = (examples.split('\n\n')[0] ?? '').trim().split('\n');
      for (const line of lines) {
        expect(line).toContain(`conversation-service ${names.join(' ')}`);
        const [, ...words] = line.trim().match(/"[^"]*"|\S+/g) ?? [];
        const { code, stderr } = await cli.runHere(...words.map((word) => word.replaceAll('"', '')));
        expect(code).toBe(1);
        expect(stderr).toMatch(/There is no (database|file|folder) |cannot be opened/);
        expect(stderr).not.toContain('See --help.');
      }
    }
  },
  60_000,
);

test.each(['--help', 'account list', 'account make'])(
  'a process of its own answers `%s` the same, without colours',
  async (line) => {
    const cli = commandLine(join(temporaryFolder(), 'a.db'));
    await cli.runHere('account', 'create', '--name', 'A', '--plan', 'pro');
    const ended = await cli.run(...line.split(' '));
    expect(ended.stdout + ended.stderr).not.toContain('\u001b');
    expect(ended).toEqual(await cli.runHere(...line.split(' ')));
  },
);

test.each(effort(['account list'], ['--help', '--version', 'account list']))(
  'it is no error when nobody reads what `%s` prints',
  async (line) => {
    const cli = commandLine(join(temporaryFolder(), 'a.db'));
    await cli.runHere('account', 'create', '--name', 'A', '--plan', 'pro');
    const { stopReading, ended } = cli.start(...line.split(' '));
    stopReading();
    expect(await ended).toEqual({ code: 0, stdout: '', stderr: '' });
  },
);

test.skipIf(!existsSync('/dev/full')).each(['--version', 'account list', 'account create --name B --plan pro --json'])(
  'but it is one when what `%s` prints cannot be written, such as a key that is shown only once',
  async (line) => {
    const path = join(temporaryFolder(), 'a.db');
    await commandLine(path).runHere('account', 'create', '--name', 'A', '--plan', 'pro');
    const environment = { DATABASE_URL: `file:${path}` };
    expect(await run(line.split(' '), { environment, before: 'exec > /dev/full' })).toEqual({
      code: 1,
      stdout: '',
      stderr: 'What was printed could not be written: ENOSPC: no space left on device, write.\n',
    });
  },
);

test('nor is half of a text taken for the whole of it, as on a disk with little room', async () => {
  const file = join(temporaryFolder(), 'help.txt');
  const { code, stderr } = await run(['--help'], { before: `trap '' XFSZ; ulimit -f 1; exec > ${file}` });
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: 'What was printed could not be written: EFBIG: file too large, write.\n',
  });
  expect(readFileSync(file, 'utf8').length).toBeGreaterThan(0);
});

test('--version prints the version', async () => {
  expect(await run(['--version'])).toEqual({ code: 0, stdout: `${manifest.version}\n`, stderr: '' });
});

/** What a command writes to a terminal. */
function onTerminal(folder: string, command: string, environment: Record<string, string> = {}): string {
  const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
  const env = {
    PATH: process.env['PATH'],
    TERM: 'xterm-256color',
    DATABASE_URL: `file:${join(folder, 'a.db')}`,
    ...environment,
  };
  const line = `${process.execPath} ${main} ${command}`;
  return spawnSync('script', ['-qec', line, '/dev/null'], { env, encoding: 'utf8' }).stdout;
}

test.skipIf(effort(true, spawnSync('script', ['--version']).status !== 0))(
  'there are colours on a terminal, and nowhere else',
  async () => {
    const folder = temporaryFolder();
    const cli = commandLine(join(folder, 'a.db'));
    await cli.runHere('account', 'create', '--name', 'A', '--plan', 'pro');
    const commands = ['--help', 'account list', 'account make'];
    for (const command of commands) {
      const { stdout, stderr } = await cli.runHere(...command.split(' '));
      expect(stdout + stderr).not.toContain('\u001b');
      const onColourTerminal = onTerminal(folder, command);
      expect(onColourTerminal, command).toContain('\u001b[');
      const inWords = (text: string) => text.replace(/\s+/g, ' '); // lines are as wide as the terminal
      expect(inWords(stripVTControlCharacters(onColourTerminal))).toBe(inWords(stdout + stderr));
    }
    for (const command of effort(['account list'], commands)) {
      expect(onTerminal(folder, command, { NO_COLOR: '1' })).not.toContain('\u001b');
    }
    expect(onTerminal(folder, 'account list --json')).not.toContain('\u001b');
  },
);

test('without a command it shows what there is, and fails', async () => {
  const { code, stdout, stderr } = await runHere([]);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^Usage: conversation-service/);
});

describe('migrate', () => {
  test('makes the file and its folder, and says how much it did', async () => {
    const cli = commandLine(join(temporaryFolder(), 'deep/er/a.db'));
    const { applied, total } = await cli.jsonHere<{ applied: number; total: number }>('migrate');
    expect(applied).toBe(total);
    expect(total).toBeGreaterThan(0);
    expect(await cli.runHere('migrate')).toEqual({ code: 0, stdout: 'The database is up to date.\n', stderr: '' });
  });
});

test.each([
  'account list',
  'account update acct_01m7yzcf3tfz1aan3df712nas7 --name x',
  'key list',
  'compact',
  'backup copy.db',
  'listen',
  'seed --account acct_01m7yzcf3tfz1aan3df712nas7',
])('%s makes no database where there is none, and says so', async (line) => {
  const folder = temporaryFolder();
  const path = join(folder, 'a.db');
  expect(await commandLine(path).runHere(...line.split(' '))).toEqual({
    code: 1,
    stdout: '',
    stderr: `There is no database ${path}: DATABASE_URL says where it is, and \`serve\` makes it.\n`,
  });
  expect(readdirSync(folder)).toEqual([]);
});

describe('a database that cannot be opened is told in one sentence', () => {
  test.skipIf(!existsSync('/proc'))('where no folder can be made for it', async () => {
    const environment = { DATABASE_URL: 'file:/proc/none/a.db' };
    expect(await run(['account', 'create', '--name', 'A', '--plan', 'pro'], { environment })).toEqual({
      code: 1,
      stdout: '',
      stderr: "The database /proc/none/a.db cannot be opened: ENOENT: no such file or directory, mkdir '/proc/none'.\n",
    });
  });

  test.each([
    ['a folder', (path: string) => mkdirSync(path), 'PATH is a folder.'],
    ['another kind of file', (path: string) => writeFileSync(path, 'x'.repeat(4_096)), 'file is not a database'],
    ['of a newer version', madeAt(9e12), 'The database was migrated by a newer version of this program; run that'],
    ['of a version before the first release', madeAt(1), 'it was made by a version before 1.0.0, and can be used'],
  ])('%s', async (_, make, reason) => {
    const path = join(temporaryFolder(), 'a.db');
    make(path);
    const { code, stdout, stderr } = await commandLine(path).runHere('account', 'list');
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^[^\n]+\.\n$/);
    expect(stderr).toContain(`The database ${path} cannot be opened: ${reason.replace('PATH', path)}`);
  });
});

test('a folder in the place of a database stays open to those who use it, and gets nothing beside it', async () => {
  const folder = temporaryFolder();
  const path = join(folder, 'shared');
  mkdirSync(path);
  chmodSync(path, 0o777);
  for (const args of [['account', 'list'], ['account', 'create', '--name', 'x', '--plan', 'pro'], ['compact']]) {
    expect((await commandLine(path).runHere(...args)).code).toBe(1);
  }
  expect({ mode: statSync(path).mode & 0o777, names: readdirSync(folder) }).toEqual({ mode: 0o777, names: ['shared'] });
});

test('an address at which something else than PostgreSQL answers is told at once, not asked again and again', async () => {
  let connections = 0;
  const other = createServer((socket) => {
    connections++;
    socket.on('error', () => {});
    socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void other.close());
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  const { code, stderr } = await commandLine(`postgres://a:b@127.0.0.1:${port}/c`).runHere('account', 'list');
  expect({ code, stderr, connections }).toEqual({
    code: 1,
    stderr: `The database 127.0.0.1:${port}/c cannot be opened: The other side has closed the connection.\n`,
    connections: 1,
  });
});

/** Makes a file whose last migration is of this time. */
function madeAt(time: number): (path: string) => void {
  return (path) => {
    const database = new Database(path);
    database.exec('CREATE TABLE __drizzle_migrations (id INTEGER PRIMARY KEY, hash text NOT NULL, created_at numeric)');
    database.prepare(`INSERT INTO __drizzle_migrations (hash, created_at) VALUES ('', ?)`).run(time);
    database.close();
  };
}
