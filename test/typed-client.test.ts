import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, onTestFinished } from 'vitest';
import { type ClientFolder, clientFolder, lastLine } from './support/client-programs.ts';
import { longTest as test } from './support/effort.ts';
import { temporaryFolder } from './support/files.ts';
import { codeUnder } from './support/guide.ts';
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

/** Puts the types of the client into `dist`, as `npm run build` does. */
async function makeTypes(): Promise<void> {
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  await run(process.execPath, [tsc, '-p', 'tsconfig.client.json'], { cwd: root });
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
  await makeTypes();
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(root, join(folder, 'node_modules/conversation-service'));
  symlinkSync(join(root, 'node_modules/@types'), join(folder, 'node_modules/@types'));
  writeFileSync(join(folder, 'right.mts'), consumer);
  writeFileSync(join(folder, 'wrong.mts'), consumer.replace('subject: ', 'subjekt: '));
  expect(await typeCheck(folder, 'right.mts')).toBe('');
  expect(await typeCheck(folder, 'wrong.mts')).toContain('subjekt');
  writeFileSync(
    join(folder, 'guide.mts'),
    `${codeUnder('A client for TypeScript')}\ndeclare const show: (...all: unknown[]) => void;`,
  );
  expect(await typeCheck(folder, 'guide.mts')).toBe('');
  const environment = { ...process.env, BASE_URL: server.url, API_KEY: secret };
  const program = await run(process.execPath, ['right.mts'], { cwd: folder, env: environment });
  expect(JSON.parse(program.stdout)).toEqual({ id: expect.stringMatching(/^conv_/), subjects: ['Parcel'] });
});

/** A program that calls documents whose types a tool has made. */
const caller = (graphql: string): string => `${graphql}
import { Client } from 'conversation-service/client';
const create = graphql(\`
  mutation Create($input: CreateConversationInput!) {
    createConversation(input: $input) {
      conversation {
        subject
      }
    }
  }
\`);
const start = graphql(\`
  query Start {
    eventCursor
  }
\`);
const client = new Client({ url: process.env['BASE_URL'] ?? '', credential: process.env['CREDENTIAL'] ?? '' });
const { createConversation } = await client.graphql(create, { input: { subject: 'Refund' } });
const { eventCursor } = await client.graphql(start);
console.log(JSON.stringify([createConversation?.conversation.subject?.toUpperCase(), typeof eventCursor?.length]));
`;
const ofTada = `import { initGraphQLTada } from 'gql.tada';
import type { introspection } from './generated/graphql-env.d.ts';
const graphql = initGraphQLTada<{ introspection: introspection }>();`;
const ofCodegen = "import { graphql } from './generated';";

const generate = {
  tada: (folder: ClientFolder) => folder.tool('gql-tada', 'generate-output'),
  texts: async (folder: ClientFolder) => {
    const config = join(folder.path, 'codegen.config.mjs');
    const text = readFileSync(config, 'utf8').replace('persistedDocuments: true, ', '');
    writeFileSync(config, text.replace('config: {', "config: { documentMode: 'string',"));
    await folder.tool('graphql-codegen', '--config', 'codegen.config.mjs');
  },
  ids: (folder: ClientFolder) => folder.tool('graphql-codegen', '--config', 'codegen.config.mjs'),
};

test.each([
  ['gql.tada', 'tada', 'typescript-5', ofTada],
  ['GraphQL Code Generator as texts', 'texts', 'codegen', ofCodegen],
  ['GraphQL Code Generator by their ids', 'ids', 'codegen', ofCodegen],
] as const)(
  'the client of the package calls the documents of %s, and knows their types',
  {
    timeout: 120_000,
  },
  async (_, mode, name, graphql) => {
    const server = await startTestServer();
    onTestFinished(() => server.close());
    const account = await server.account();
    await makeTypes();
    const folder = clientFolder(name);
    for (const file of readdirSync(folder.path)) if (/\.m?ts$/.test(file)) rmSync(join(folder.path, file));
    writeFileSync(join(folder.path, 'page.ts'), caller(graphql));
    await generate[mode](folder);
    expect(await folder.typeCheck()).toBe('');

    let credential = account.secret;
    if (mode === 'ids') {
      const manifest = readFileSync(join(folder.path, 'generated/persisted-documents.json'), 'utf8');
      const documents = Object.entries(JSON.parse(manifest)).map(([id, text]) => ({ id, text }));
      await account.rest('POST', '/documents', { body: { documents } });
      const body = { scopes: ['conversations:write', 'events:read'], trustedDocumentsOnly: true };
      credential = (await account.rest('POST', '/tokens', { body })).body.token;
    }
    const page = await folder.start('page.ts', { BASE_URL: server.url, CREDENTIAL: credential });
    expect(await lastLine(page)).toEqual(['REFUND', 'number']);

    const { made, found } = await folder.mistaken({
      'page.ts': {
        "subject: 'Refund'": "subjekt: 'Refund'",
        'eventCursor?.length': 'eventCursor?.size',
      },
    });
    expect(found).toEqual(made);
  },
);

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
