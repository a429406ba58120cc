import { type ChildProcessByStdio, spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { defaultDeliveryTimings } from '../src/app.ts';
import { variables } from '../src/config.ts';
import { closeCodes } from '../src/graphql/socket/client-socket.ts';
import { defaultTimings } from '../src/http/timings.ts';
import { longTest } from './support/effort.ts';
import { temporaryFolder } from './support/files.ts';
import { freshCopy, userEnvironment } from './support/fresh-copy.ts';

// Follows README, GUIDE and OPERATING as a newcomer with a fresh clone would.

const root = fileURLToPath(new URL('..', import.meta.url));
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const guide = readFileSync(join(root, 'GUIDE.md'), 'utf8');
const operating = readFileSync(join(root, 'OPERATING.md'), 'utf8');

const startCommand = 'npm ci && npm start';
/** Not run here, since this test is part of it; `.ci/run` runs it. */
const testCommand = 'npm ci && npm test';

interface Block {
  readonly language: string;
  readonly text: string;
}

interface Step {
  readonly command: string;
  /** The expected output, if the page shows it right after the command. */
  readonly shown?: Block;
}

/** The commands of a page in order, each with the output shown after it. */
function stepsOf(markdown: string): Step[] {
  const blocks = [...markdown.matchAll(/^```(\w*)\n([\s\S]*?)^```\n/gm)];
  return blocks.flatMap(([whole, language, text = ''], index) => {
    if (language !== 'sh') return [];
    const start = (blocks[index]?.index ?? 0) + whole.length;
    const next = blocks[index + 1];
    const adjacent = next !== undefined && next[1] !== 'sh' && markdown.slice(start, next.index).trim() === '';
    const command = text.trim();
    return [adjacent ? { command, shown: { language: next[1] ?? '', text: next[2] ?? '' } } : { command }];
  });
}

interface Service {
  readonly url: string;
  readonly key: string;
  /** Sends SIGTERM and resolves with everything that was printed, once all its processes have ended. */
  stop(): Promise<string>;
}

/** Runs the README's first command and waits until the service listens. */
async function startService(folder: string, environment: Record<string, string>): Promise<Service> {
  // A separate process group, so that a signal reaches npm, its shell and the program.
  const child: ChildProcessByStdio<null, Readable, Readable> = spawn('sh', ['-c', startCommand], {
    cwd: folder,
    env: { ...environment, PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const signal = (name: NodeJS.Signals): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, name);
    } catch {
      // It has already ended.
    }
  };
  onTestFinished(() => signal('SIGKILL'));
  let printed = '';
  const ended = new Promise<string>((resolve) => child.on('close', () => resolve(printed)));
  const url = await new Promise<string>((resolve, reject) => {
    const onPrint = (text: string): void => {
      printed += text;
      const listening = /"url":"([^"]+)".*"msg":"listening"/.exec(printed)?.[1];
      if (listening !== undefined) resolve(listening);
    };
    child.stdout.setEncoding('utf8').on('data', onPrint);
    child.stderr.setEncoding('utf8').on('data', onPrint);
    child.on('error', reject);
    void ended.then(() => reject(new Error(`\`${startCommand}\` ended:\n${printed}`)));
  });
  const key = /^ +(cs_\S{43})$/m.exec(printed)?.[1] ?? '';
  return {
    url,
    key,
    stop() {
      signal('SIGTERM');
      return ended;
    },
  };
}

const mark = '\u001e';

/** Runs commands in one shell, which stops at the first failure, and returns the output of each. */
async function runInShell(
  commands: readonly string[],
  folder: string,
  environment: Record<string, string>,
): Promise<string[]> {
  const script = join(temporaryFolder(), 'commands.sh');
  writeFileSync(script, commands.map((command) => `printf '${mark}'\n${command}\n`).join(''));
  const child = spawn('sh', ['-eu', script], { cwd: folder, env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  let errors = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  const code = await new Promise((resolve) => child.on('close', resolve));
  const outputs = output.split(mark).slice(1);
  expect(code, `failed at:\n${commands[outputs.length - 1]}\n${outputs.at(-1)}\n${errors}`).toBe(0);
  return outputs;
}

/** Replaces values that differ from run to run (ids, times) by a placeholder of their form. */
function form(text: string): string {
  return text
    .replace(/^([a-z]+)_[0-7][0-9a-hjkmnp-tv-z]{25}$/, '$1_<id>')
    .replace(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, '<time>')
    .replace(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, '<uuid>');
}

/** The differences between a shown response and the real one, which may have more fields. */
function differences(shown: unknown, real: unknown, at = ''): string[] {
  const difference = [`${at}: ${JSON.stringify(real)} is not as shown, ${JSON.stringify(shown)}`];
  if (typeof shown === 'string' && typeof real === 'string') {
    const same = shown.endsWith('…') ? real.startsWith(shown.slice(0, -1)) : form(real) === form(shown);
    return same ? [] : difference;
  }
  if (Array.isArray(shown) && Array.isArray(real)) {
    if (shown.length !== real.length) return difference;
    return shown.flatMap((item, index) => differences(item, real[index], `${at}/${index}`));
  }
  if (typeof shown === 'object' && shown !== null && typeof real === 'object' && real !== null) {
    return Object.entries(shown).flatMap(([key, value]) =>
      key in real
        ? differences(value, (real as Record<string, unknown>)[key], `${at}/${key}`)
        : [`${at}/${key}: missing`],
    );
  }
  return shown === real ? [] : difference;
}

function withoutNumbers(text: string): string {
  return text.replaceAll('\r', '').replaceAll(/\d+/g, 'N').trim();
}

// `npm ci` and a start of npm for each CLI command take a quarter of the time of all other tests together.
longTest(
  'the commands of README, GUIDE and OPERATING, run in this order in a fresh copy, print the output shown',
  async () => {
    const [first, second, ...tour] = [...stepsOf(readme), ...stepsOf(guide), ...stepsOf(operating)];
    for (const page of [readme, guide, operating]) expect(stepsOf(page).length).toBeGreaterThan(1);
    expect([first?.command, second?.command]).toEqual([startCommand, testCommand]);
    expect(tour.length).toBeGreaterThan(10);

    const folder = freshCopy();
    const environment = userEnvironment();
    const service = await startService(folder, environment);
    expect(service.key).toMatch(/^cs_/);

    const commands = tour.map(({ command }) =>
      command.replace(/^BASE=.*$/m, `BASE=${service.url}`).replace(/^KEY=.*$/m, `KEY=${service.key}`),
    );
    expect(commands.join('\n')).toContain(`KEY=${service.key}`);
    const outputs = await runInShell(commands, folder, environment);
    for (const [index, { command, shown }] of tour.entries()) {
      const output = outputs[index] ?? '';
      if (shown?.language === 'json') {
        expect(differences(JSON.parse(shown.text), JSON.parse(output)), command).toEqual([]);
      } else if (shown !== undefined) {
        expect(withoutNumbers(output), command).toBe(withoutNumbers(shown.text));
      }
    }

    const printed = await service.stop();
    expect(printed).toContain('"msg":"stopped"');
  },
);

test('.ci/run runs the README’s test command', () => {
  const lines = readFileSync(join(root, '.ci/run'), 'utf8').split('\n');
  for (const command of testCommand.split(' && ')) {
    expect(lines.filter((line) => line === command || line.startsWith(`${command} -- `))).toHaveLength(1);
  }
});

test('the README lists every configuration variable with its default', () => {
  const rows = [...readme.matchAll(/^\| `([A-Z_]+)` +\| (?:`([^`]*)`|none) +\|/gm)];
  const defaults = variables.parse({});
  expect(Object.fromEntries(rows.map(([, name, value]) => [name, value]))).toEqual(
    Object.fromEntries(
      Object.keys(variables.shape).map((name) => [name, defaults[name as keyof typeof defaults]?.toString()]),
    ),
  );
});

test('each ratio in the README is that of its figures, and one of the bars of the picture', () => {
  const bars = readFileSync(join(root, 'test/bench/results.svg'), 'utf8');
  const [, table = ''] = readme.split(/^\| work .*\n\|[-| :]+\|\n/m);
  const rows = (table.split('\n\n')[0] ?? '').trim().split('\n');
  expect(rows.length).toBeGreaterThan(5);
  for (const row of rows) {
    const [, , own = '', others = '', ratios = ''] = row.split('|');
    const numbers = (text: string) =>
      [...text.matchAll(/\d[\d,.]*/g)].map(([digits]) => Number(digits.replace(',', '')));
    const [ours = 0] = numbers(own);
    expect(
      numbers(others).map((theirs) => (ours / theirs).toFixed(2)),
      row,
    ).toEqual(ratios.trim().split('; '));
    for (const ratio of ratios.trim().split('; ')) expect(bars).toContain(`>${ratio}<`);
  }
});

test('the GUIDE explains every code with which a socket can be closed', () => {
  const explained = [...guide.matchAll(/^\| `(\d{4})` +\|/gm)].map(([, code]) => Number(code));
  // Besides the service's own, those of graphql-transport-ws and of RFC 6455.
  const codes = [...Object.values(closeCodes), 4401, 4406, 4409, 1008, 1009];
  expect(explained.sort()).toEqual(codes.sort());
});

test('GUIDE and OPERATING name the times after which connections are closed and webhooks have failed', () => {
  const seconds = (ms: number): string => `${ms / 1_000} s`;
  const { headMs, requestMs, heartbeatMs, slowReaderMs, pingMs, initMs } = defaultTimings;
  const { webhookConnectMs, webhookTotalMs } = defaultDeliveryTimings;
  // These are the contract's.
  const agreed = [slowReaderMs, heartbeatMs, pingMs, initMs, webhookConnectMs, webhookTotalMs];
  expect(agreed.map(seconds)).toEqual(['30 s', '15 s', '12 s', '3 s', '5 s', '15 s']);
  const named = [
    `must arrive within ${seconds(headMs)} and ${seconds(requestMs)}`,
    `is disconnected after ${seconds(slowReaderMs)}`,
    `event streams carry something at least every ${seconds(heartbeatMs)}, sockets every ${seconds(pingMs)}`,
    `\`connection_init\`, for ${seconds(initMs)}`,
  ];
  for (const text of named) expect(operating).toContain(text);
  expect(guide).toContain(`no \`connection_init\` arrived within ${seconds(initMs)}`);
  const deadline = `connection within ${seconds(webhookConnectMs)}, respond with 2xx within ${seconds(webhookTotalMs)} in all`;
  expect(guide).toContain(deadline);
});

/** The messages that the sources log at the level `warn` or `error`. */
function loggedWarnings(): string[] {
  const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((file) =>
    /\.ts$/.test(file),
  );
  return files.flatMap((file) => {
    const source = readFileSync(join(root, 'src', file), 'utf8');
    const calls = source.matchAll(/\blog\.(?:warn|error)\([^']*'([^']+)',?\s*\)/g);
    const lines = source.matchAll(/level: 'error',[^']*msg: '([^']+)'/g);
    return [...calls, ...lines].map(([, message = '']) => message);
  });
}

test('OPERATING says what to do about every warning and error of the log, and about no other', () => {
  const [, table = ''] = operating.split('| message | what to do |\n');
  const cells = (table.split('\n\n')[0] ?? '').matchAll(/^\| (`[^|]+`) \|/gm);
  const explained = [...cells].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, message]) => message),
  );
  expect(explained.length).toBeGreaterThan(10);
  expect(explained.sort()).toEqual([...new Set(loggedWarnings())].sort());
});

/** The fields of the lines that the service logs, besides what every line has. */
function loggedFields(): string[] {
  const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((file) =>
    /\.ts$/.test(file),
  );
  return files.flatMap((file) => {
    const source = readFileSync(join(root, 'src', file), 'utf8');
    const objects = source.matchAll(/\b(?:log(?:\.\w+|\[[^\]]+\])|child)\(\s*\{([^}]*)\}/g);
    return [...objects].flatMap(([, fields = '']) =>
      [...fields.matchAll(/(?:^|,|(?<!\()\{)\s*(\w+)(?=\s*(?:[:,]|$))/g)].map(([, name = '']) => name),
    );
  });
}

test('OPERATING explains every field of the log', () => {
  const [, table = ''] = operating.split('| field | meaning |\n');
  const explained = [...(table.split('\n\n')[0] ?? '').matchAll(/^\| (`[^|]+`) \|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name),
  );
  const names = new Set(['level', 'time', 'msg', ...loggedFields()]);
  expect(names.size).toBeGreaterThan(20);
  expect([...names].filter((name) => !explained.includes(name))).toEqual([]);
});

test('the script of OPERATING works on the database that the service is configured to use, or on one that is named', () => {
  const folder = temporaryFolder();
  const at = (name: string): string => join(folder, name);
  const [, script = ''] = /^```text\n(#!\/bin\/sh\n[\s\S]*?)^```\n/m.exec(operating) ?? [];
  const here = script
    .replaceAll('/etc/conversation-service.env', at('env'))
    .replace('/opt/conversation-service/node_modules/.bin/node', process.execPath)
    .replace('/opt/conversation-service/', root);
  writeFileSync(at('script'), here, { mode: 0o700 });
  writeFileSync(at('sudo'), '#!/bin/sh\nshift 3\nexec "$@"\n', { mode: 0o700 }); // there may be none, or no other user
  writeFileSync(at('env'), `NODE_ENV=production\nDATABASE_URL=file:${at('served.db')}\n`);
  const run = (environment: Record<string, string> = {}): string => {
    const env = { PATH: `${folder}:${process.env['PATH']}`, ...environment };
    return spawnSync(at('script'), ['account', 'list'], { env, encoding: 'utf8' }).stderr;
  };
  expect(run()).toContain(`There is no database ${at('served.db')}:`);
  expect(run({ DATABASE_URL: `file:${at('trial.db')}` })).toContain(`There is no database ${at('trial.db')}:`);
});

test('OPERATING names every metric of the service, and no other', () => {
  const source = readFileSync(join(root, 'src/telemetry/metrics.ts'), 'utf8');
  const existing = [...source.matchAll(/'conversation_service(_\w+)'/g)].map(([, name = '']) => name);
  expect(existing.filter((name) => !RegExp(`(conversation_service|…)${name}\\b`).test(operating))).toEqual([]);
  const names = [...operating.matchAll(/conversation_service_\w+/g)].map(([name]) => name.replace(/_bucket$/, ''));
  expect(names.length).toBeGreaterThan(10);
  expect(names.filter((name) => !source.includes(`'${name}'`))).toEqual([]);
});

/** The anchors of a page's headings, as code hosts make them. */
function anchorsOf(markdown: string): string[] {
  return [...markdown.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  );
}

test.each(['README.md', 'GUIDE.md', 'OPERATING.md', 'CONTRIBUTING.md', 'DESIGN.md', 'SECURITY.md'])(
  'every file and every heading that %s refers to exists',
  (page) => {
    const text = readFileSync(join(root, page), 'utf8');
    const named = [...text.matchAll(/`((?:src|test)\/[\w./-]+)`/g)].map(([, path = '']) => ({
      path,
      anchor: undefined,
    }));
    const linked = [...text.matchAll(/\]\(([\w./-]*)(?:#([\w-]+))?\)/g)].map(([, path, anchor]) => ({
      path: path === '' || path === undefined ? page : path,
      anchor,
    }));
    const missing = [...named, ...linked].filter(({ path, anchor }) => {
      if (!existsSync(join(root, path))) return true;
      return anchor !== undefined && !anchorsOf(readFileSync(join(root, path), 'utf8')).includes(anchor);
    });
    expect(missing).toEqual([]);
  },
);
