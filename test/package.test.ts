import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import manifest from '../package.json' with { type: 'json' };
import { start } from './cli/program.ts';
import { longTest } from './support/effort.ts';
import { temporaryFolder } from './support/files.ts';
import { freshCopy, userEnvironment } from './support/fresh-copy.ts';

// The package, as somebody gets it who has no clone of the repository.

const root = fileURLToPath(new URL('..', import.meta.url));

/** A program that uses the package's client, with its types. */
const program = `import { Client } from 'conversation-service/client';

const { SERVICE = '', KEY = '' } = process.env;
const client = new Client({ url: SERVICE, credential: KEY });
const created = await client.call('createConversation', { subject: 'Tent' });
// @ts-expect-error: it is a text, or null
export const wrong: number = created.subject;
console.log((await client.call('listConversations', {})).data.map(({ subject }) => subject).join());
`;

longTest('the package is installed from its file, serves, and has a client with its types', async () => {
  const copy = freshCopy();
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  const environment = userEnvironment();
  // Its Node must not be that of the machine, which may be too old.
  const env = { ...environment, PATH: [dirname(process.execPath), environment['PATH']].join(delimiter) };
  const folder = temporaryFolder();
  const inFolder = (command: string) =>
    execFileSync('sh', ['-c', command], { cwd: folder, env, encoding: 'utf8', stdio: 'pipe' });
  const packed = execFileSync('npm', ['pack', '--json', '--pack-destination', folder], {
    cwd: copy,
    env,
    encoding: 'utf8',
    stdio: 'pipe',
  });
  rmSync(join(copy, 'node_modules'));
  const name = `${manifest.name}-${manifest.version}.tgz`;
  const [{ filename, size }] = JSON.parse(packed);
  expect(filename).toBe(name);
  console.log(`The package takes ${size} bytes.`);
  expect(size).toBeLessThan(3_000_000);

  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  inFolder(`npm install ./${name}`);
  const installed = join(folder, 'node_modules', manifest.name);
  for (const file of manifest.files.filter((each) => each !== 'dist')) readFileSync(join(installed, file));
  const main = join(folder, 'node_modules/.bin', manifest.name);
  expect(inFolder(`${main} --help`)).toContain('Usage: conversation-service');

  mkdirSync(join(folder, 'data'));
  const database = { DATABASE_URL: `file:${folder}/data/test.db` };
  const service = start(['serve'], { main, environment: { ...database, PORT: '0' } });
  const greeting = await service.printed('"msg":"listening"');
  const url = /"url":"([^"]+)"/.exec(greeting)?.[1] ?? '';
  const [secret = ''] = /cs_[\w-]{43}/.exec(greeting) ?? [];

  writeFileSync(join(folder, 'program.ts'), program);
  const types = '--noEmit --target esnext --module nodenext --strict --pretty false --types node';
  const typeRoots = `--typeRoots ${join(root, 'node_modules/@types')}`;
  expect(inFolder(`${join(root, 'node_modules/.bin/tsc')} ${types} ${typeRoots} program.ts`)).toBe('');
  expect(inFolder(`SERVICE=${url} KEY=${secret} node program.ts`)).toBe('Tent\n');
  for (const page of ['/console', '/widget.js', '/docs']) expect((await fetch(`${url}${page}`)).status, page).toBe(200);
  service.signal('SIGTERM');
  expect((await service.ended).code).toBe(0);
});
