import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished } from 'vitest';
import { longTest as test } from './support/effort.ts';
import { temporaryFolder } from './support/files.ts';
import { startTestServer } from './support/server.ts';

// What a user of TypeScript does with openapi.json: make types of it, write a program against them, and run it.

const root = fileURLToPath(new URL('..', import.meta.url));
const workspace = createRequire(join(root, 'test/clients/typescript-5/package.json'));
const run = promisify(execFile);

/** A file of a package that the workspace has. */
function fileOf(name: string, file: string): string {
  const main = workspace.resolve(name);
  return join(main.slice(0, main.lastIndexOf(`${name}/`)), name, file);
}

const compilerOptions = {
  strict: true,
  target: 'es2023',
  lib: ['es2023', 'dom', 'dom.iterable'],
  module: 'nodenext',
  types: ['node'],
  noEmit: true,
  skipLibCheck: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  allowImportingTsExtensions: true,
};

/** All that tsc says of a program. */
async function typeCheck(folder: string, program: string): Promise<string> {
  const config = join(folder, `tsconfig.${program}.json`);
  writeFileSync(config, JSON.stringify({ compilerOptions, files: [program] }));
  const tsc = run(process.execPath, [fileOf('typescript', 'bin/tsc'), '-p', config], { cwd: folder });
  return await tsc.then(
    ({ stdout }) => stdout,
    ({ stdout, stderr }: { stdout: string; stderr: string }) => stdout + stderr,
  );
}

/** A program that uses the package, with one mistake in a name. */
const consumer = `import { Client } from 'conversation-service/client';
const client = new Client({ url: process.env['BASE_URL'] ?? '', credential: process.env['API_KEY'] ?? '' });
const { id } = await client.call('createConversation', { subject: 'Parcel' });
const subjects: (string | null)[] = [];
for await (const conversation of client.list('listConversations')) subjects.push(conversation.subject);
console.log(JSON.stringify({ id, subjects }));
`;

test('the client of the package type-checks in a program of its user and works, and mistakes do not', {
  timeout: 120_000,
}, async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const { secret } = await server.account();
  await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.client.json'], {
    cwd: root,
  });
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(root, join(folder, 'node_modules/conversation-service'));
  symlinkSync(join(root, 'node_modules/@types'), join(folder, 'node_modules/@types'));
  writeFileSync(join(folder, 'right.mts'), consumer);
  writeFileSync(join(folder, 'wrong.mts'), consumer.replace('subject: ', 'subjekt: '));
  expect(await typeCheck(folder, 'right.mts')).toBe('');
  expect(await typeCheck(folder, 'wrong.mts')).toContain('subjekt');
  const environment = { ...process.env, BASE_URL: server.url, API_KEY: secret };
  const program = await run(process.execPath, ['right.mts'], { cwd: folder, env: environment });
  expect(JSON.parse(program.stdout)).toEqual({ id: expect.stringMatching(/^conv_/), subjects: ['Parcel'] });
});

// The compiler takes longer for it than most files of tests for all of theirs.
test('a client with types made from openapi.json type-checks and works, and mistakes do not', {
  timeout: 120_000,
}, async () => {
  const server = await startTestServer();
  onTestFinished(() => server.close());
  const { secret } = await server.account();
  const folder = temporaryFolder();
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  const generator = fileOf('openapi-typescript', 'bin/cli.js');
  await run(process.execPath, [generator, `${server.url}/openapi.json`, '-o', join(folder, 'schema.ts')]);

  const tour = fileURLToPath(new URL('clients/typescript-5/openapi-fetch.mts', import.meta.url));
  copyFileSync(tour, join(folder, 'tour.mts'));
  expect(await typeCheck(folder, 'tour.mts')).toBe('');

  const program = await run(process.execPath, ['tour.mts'], {
    cwd: folder,
    env: { ...process.env, BASE_URL: server.url, API_KEY: secret },
  });
  expect(JSON.parse(program.stdout)).toEqual({
    visitor: 'Ada',
    sequence: 2,
    listed: ['It will be with you tomorrow.'],
    total: 1,
    closedAt: true,
    senders: ['visitor', 'agent'],
    lead: 'ada@example.com',
    events: ['Where is my parcel?', 'closed', 'ada@example.com'],
    refused: 'Conversation closed',
    missing: 'NOT_FOUND',
    left: true,
  });

  // One wrong name each in what is sent, what is read, what is asked for, and in an error's code; and a lead with neither an
  // email address nor a phone number.
  const mistakes = [
    ["content: 'One more thing.'", "contents: 'One more thing.'"],
    ['created.visitor?.name', 'created.visitor?.nickname'],
    ["status: ['active']", "status: ['open']"],
    ["email: 'ada@example.com'", "name: 'Ada'"],
    ["=== 'CONVERSATION_CLOSED'", "=== 'CONVERSATION_OVER'"],
  ] as const;
  let text = readFileSync(tour, 'utf8');
  const lines = mistakes.map(([right, wrong]) => {
    const [before = '', ...after] = text.split(right);
    expect(after).toHaveLength(1);
    text = before + wrong + after[0];
    return before.split('\n').length;
  });
  writeFileSync(join(folder, 'mistaken.mts'), text);
  const said = await typeCheck(folder, 'mistaken.mts');
  const found = [...said.matchAll(/^mistaken\.mts\((\d+),/gm)].map(([, line]) => Number(line));
  expect([...new Set(found)]).toEqual(lines.toSorted((a, b) => a - b));
});
