import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Copy, DockerfileParser, Env, From, type Instruction, JSONInstruction } from 'dockerfile-ast';
import { validate } from 'dockerfile-utils';
import { expect, onTestFinished, test } from 'vitest';
import manifest from '../package.json' with { type: 'json' };
import { longTest } from './support/effort.ts';
import { temporaryFolder } from './support/files.ts';
import { freshCopy, userEnvironment } from './support/fresh-copy.ts';
import { eventually } from './support/wait.ts';

// The image that the Dockerfile makes. Its commands are run as they stand there, in folders in the place of its stages: the
// tests need no Docker, and do not show what only Docker does (the base image, users, volumes).

const root = fileURLToPath(new URL('..', import.meta.url));
const read = (name: string) => readFileSync(join(root, name), 'utf8');
const text = read('Dockerfile');
const instructions = DockerfileParser.parse(text).getInstructions();
const named = (keyword: string) => instructions.filter((each) => each.getKeyword() === keyword);
const words = (each: Instruction) => each.getArguments().map((argument) => argument.getValue());

/** The last command of a kind, which must be written as a list: a shell in between would swallow signals. */
function listOf(keyword: string): string[] {
  const last = named(keyword).at(-1);
  if (!(last instanceof JSONInstruction)) throw new Error(`There is no ${keyword}.`);
  return JSON.parse(last.getArgumentsContent() ?? '');
}

const [, probe = ''] = /CMD (.*)$/.exec(named('HEALTHCHECK')[0]?.getArgumentsContent() ?? '') ?? [];

test('the Dockerfile is valid, on the Node that is tested, and what it starts gets the signals and is not root', () => {
  expect(validate(text)).toEqual([]);
  const bases = named('FROM').map((each) => (each instanceof From ? each.getImage() : null));
  expect(new Set(bases)).toEqual(new Set([`node:${manifest.devDependencies.node}-slim`]));
  expect(named('USER').map(words)).toEqual([['node']]);
  expect(instructions.indexOf(named('USER')[0] as Instruction)).toBeGreaterThan(
    instructions.indexOf(named('RUN').at(-1) as Instruction),
  );
  const flags = manifest.scripts.start.split('&& node ')[1]?.split(' dist/')[0]?.split(' ');
  expect([...listOf('ENTRYPOINT'), ...listOf('CMD')]).toEqual(['node', ...(flags ?? []), 'dist/main.js', 'serve']);
});

/** The files that the build may see: `.dockerignore` names them after leaving out everything. */
function allowed(): string[] {
  const [everything, ...others] = read('.dockerignore').trim().split('\n');
  expect(everything).toBe('*');
  return others.map((each) => each.slice(1));
}

test('the build sees what it copies, and nothing else', () => {
  const copied = instructions.filter((each) => each instanceof Copy && each.getFromFlag() === null);
  const names = copied.flatMap((each) => words(each).slice(0, -1));
  expect(names.toSorted()).toEqual(allowed().toSorted());
});

interface Stage {
  /** What stands for `/` in it. */
  readonly folder: string;
  workdir: string;
  readonly environment: Record<string, string>;
}

/** Takes the instructions of the Dockerfile one by one, as far as they need no Docker. */
function build(context: string, user: Record<string, string>): Stage {
  const stages = new Map<string, Stage>();
  let stage: Stage = { folder: '', workdir: '/', environment: {} };
  const path = (of: Stage, name: string) => join(of.folder, resolve(of.workdir, name));
  for (const each of instructions) {
    const keyword = each.getKeyword();
    if (each instanceof From) {
      stage = { folder: temporaryFolder(), workdir: '/', environment: {} };
      stages.set(each.getBuildStage() ?? 'last', stage);
    } else if (keyword === 'WORKDIR') {
      stage.workdir = words(each)[0] ?? '';
      mkdirSync(path(stage, '.'), { recursive: true });
    } else if (each instanceof Env) {
      for (const property of each.getProperties()) stage.environment[property.getName()] = property.getValue() ?? '';
    } else if (each instanceof Copy) {
      const from = stages.get(each.getFromFlag()?.getValue() ?? '');
      const given = words(each);
      const to = given.pop() ?? '';
      for (const name of given) {
        const target = path(stage, to.endsWith('/') ? join(to, name.split('/').at(-1) ?? '') : to);
        cpSync(from ? path(from, name) : join(context, name), target, { recursive: true, verbatimSymlinks: true });
      }
    } else if (keyword === 'RUN') {
      const command = each.getArgumentsContent() ?? '';
      if (command === 'install -d -o node -g node -m 700 /data') mkdirSync(path(stage, '/data'), { mode: 0o700 });
      else
        execFileSync('sh', ['-c', command], {
          cwd: path(stage, '.'),
          env: { ...user, ...stage.environment },
          stdio: 'pipe',
        });
    } else expect(['USER', 'VOLUME', 'EXPOSE', 'HEALTHCHECK', 'ENTRYPOINT', 'CMD']).toContain(keyword);
  }
  return stage;
}

longTest('what it makes starts, is healthy, keeps its data in /data alone, and stops when it is told to', async () => {
  const { folder, workdir, environment } = build(freshCopy(), userEnvironment());
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? `${address?.port}` : '';
  server.close();
  const env = {
    PATH: [dirname(process.execPath), process.env['PATH']].join(delimiter),
    ...environment,
    HOST: '127.0.0.1',
    PORT: port,
    DATABASE_URL: `file:${folder}${environment['DATABASE_URL']?.slice('file:'.length)}`,
  };
  expect(environment).toMatchObject({
    NODE_ENV: 'production',
    HOST: '0.0.0.0',
    DATABASE_URL: 'file:/data/conversations.db',
  });
  const cwd = join(folder, workdir);
  const run = ([file = '', ...args]: string[]) => spawn(file, args, { cwd, env, stdio: ['ignore', 'pipe', 'inherit'] });
  const isHealthy = async () => (await once(run(JSON.parse(probe)), 'exit'))[0] === 0;
  const output = (...args: string[]) => {
    const [file = '', ...before] = listOf('ENTRYPOINT');
    return execFileSync(file, [...before, ...args], { cwd, env, encoding: 'utf8' });
  };

  expect(await isHealthy()).toBe(false);
  const service = run([...listOf('ENTRYPOINT'), ...listOf('CMD')]);
  onTestFinished(() => void service.kill('SIGKILL'));
  let printed = '';
  service.stdout?.setEncoding('utf8').on('data', (more: string) => (printed += more));
  await eventually(
    async () => printed,
    (all) => all.includes('"msg":"listening"'),
  );
  expect(await isHealthy()).toBe(true);
  const { apiKey } = JSON.parse(output('account', 'create', '--name', 'Shop', '--plan', 'pro', '--json'));
  const headers = { authorization: `Bearer ${apiKey.secret}` };
  expect((await fetch(`http://127.0.0.1:${port}/v1/conversations`, { headers })).status).toBe(200);
  for (const page of ['/console', '/widget.js', '/docs']) {
    expect((await fetch(`http://127.0.0.1:${port}${page}`)).status, page).toBe(200);
  }
  const written = execFileSync('find', [cwd, '-newer', join(folder, 'data/conversations.db')], { encoding: 'utf8' });
  expect(written).toBe('');
  service.kill('SIGTERM');
  expect(await once(service, 'exit')).toEqual([0, null]);
  expect(await isHealthy()).toBe(false);
});
