import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { commandLine, type Running } from './cli/program.ts';
import type { Client, Json } from './support/client.ts';
import { type ClientFolder, clientFolder, lastLine } from './support/client-programs.ts';
import { longTest } from './support/effort.ts';
import { temporaryFolder } from './support/files.ts';
import { runGuide } from './support/guide.ts';
import { fetchOfPage } from './support/inbox.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';
import { eventually, until } from './support/wait.ts';

// Clients that others have made, as their users would use them: each a program of test/clients, which prints what it has
// seen. The GUIDE lists them.

interface Service {
  readonly server: TestServer;
  readonly account: TestAccount;
  /** Where the program finds the service, and what with. */
  readonly environment: Readonly<Record<string, string>>;
  /** A client of the account, after the service was restarted on the same port. */
  restart(): Promise<Client>;
}

/** A service with three conversations, of which the last is `Three`. */
async function startService(): Promise<Service> {
  const databasePath = join(temporaryFolder(), 'test.db');
  let server = await startTestServer({ databasePath });
  onTestFinished(() => server.close());
  const { clock } = server;
  const account = await server.account();
  for (const subject of ['One', 'Two', 'Three']) await account.rest('POST', '/conversations', { body: { subject } });
  const { eventCursor } = (await account.rest('GET', '/account')).body;
  const spent = await server.account({ requestsPerHour: 1 });
  await spent.rest('GET', '/account');
  return {
    server,
    account,
    environment: {
      BASE_URL: server.url,
      API_KEY: account.secret,
      SPENT_KEY: spent.secret,
      CURSOR: eventCursor,
    },
    async restart() {
      const { port } = new URL(server.url);
      await server.close();
      server = await startTestServer({ databasePath, clock, config: { port: Number(port) } });
      return server.clientFor(account.secret);
    },
  };
}

/** The token of a page that may run what is in the manifest, and nothing else. */
async function tokenForDocuments(
  { server, account }: Service,
  folder: ClientFolder,
  manifest: string,
): Promise<string> {
  const pushed = await commandLine(server.databasePath).json<Json>(
    ...['documents', 'push', join(folder.path, manifest), '--account', account.account.id],
  );
  expect(pushed.documents).toBeGreaterThan(0);
  const scopes = ['conversations:read', 'conversations:write', 'events:read'];
  return (await account.rest('POST', '/tokens', { body: { scopes, trustedDocumentsOnly: true } })).body.token;
}

/** The conversation that a program has made, once it listens to what others do in it. */
async function opened(program: Running): Promise<string> {
  return /^opened (.*)$/m.exec(await program.printed('opened '))?.[1] ?? '';
}

/** Writes to the program, restarts the service, writes again, and closes the conversation. */
async function interrupt({ account, restart }: Service, program: Running): Promise<void> {
  await program.printed('opened');
  const { id } = (await account.rest('POST', '/conversations', { body: { subject: 'Interrupted' } })).body;
  await write(account, id, 'Before');
  await program.printed('received Before');
  const again = await restart();
  await write(again, id, 'After');
  await program.printed('received After');
  await close(again, id);
}

const write = (client: Client, conversationId: string, content: string) =>
  client.rest('POST', `/conversations/${conversationId}/messages`, { body: { sender: 'visitor', content } });
const close = (client: Client, id: string) =>
  client.rest('PATCH', `/conversations/${id}`, { body: { status: 'closed' } });

longTest(
  'Relay keeps lists by pages, mutations and events across a restart, with the documents that its compiler has persisted',
  async () => {
    const service = await startService();
    const relay = clientFolder('relay');
    expect(await relay.typeCheck()).toBe('');
    const manifest = '__generated__/persisted.json';
    const persisted = JSON.parse(readFileSync(join(relay.path, manifest), 'utf8')) as Record<string, string>;
    for (const [id, text] of Object.entries(persisted)) expect(createHash('md5').update(text).digest('hex')).toBe(id);
    const token = await tokenForDocuments(service, relay, manifest);
    await relay.tool('node', 'build.mjs');
    const page = relay.startBundle('page.mjs', { ...service.environment, TOKEN: token });
    const id = await opened(page);
    await write(service.account, id, 'Ten.');
    await page.printed('event 2');
    const again = await service.restart();
    await write(again, id, 'Eleven.');
    await close(again, id);
    const limited = {
      code: 'RATE_LIMITED',
      limit: 'account',
      retryAfterSeconds: expect.any(Number),
      requestId: expect.any(String),
    };
    // Nothing on standard error: Relay's Babel plugin would say there that a document is not the one that was compiled.
    expect(await lastLine(page)).toEqual({
      firstPage: ['Three', 'Two'],
      bothPages: ['Three', 'Two', 'One'],
      withCreated: ['Refund', 'Three', 'Two', 'One'],
      withSent: ['How much was it?'],
      events: ['MESSAGE_SENT', 'MESSAGE_RECEIVED', 'MESSAGE_RECEIVED', 'CONVERSATION_CLOSED'],
      inTheEnd: { messages: ['How much was it?', 'Ten.', 'Eleven.'], status: 'CLOSED' },
      refused: ['CONVERSATION_CLOSED'],
      limited: [limited, limited],
    });
  },
);

/** Writes the description of the REST API where the generators expect it. */
async function withOpenApi(folder: ClientFolder, { server }: Service): Promise<void> {
  const response = await fetch(`${server.url}/openapi.json`);
  writeFileSync(join(folder.path, 'openapi.json'), await response.text());
}
const heyApi = ['openapi-ts', '--input', 'openapi.json', '--output', 'generated/hey-api'] as const;

longTest(
  'the documents of gql.tada and the clients of hey-api and Orval have types, in which mistakes are found',
  async () => {
    const service = await startService();
    const folder = clientFolder('typescript-5');
    await withOpenApi(folder, service);
    await folder.tool('gql-tada', 'generate-output');
    await folder.tool(...heyApi);
    await folder.tool('orval');
    expect(await folder.typeCheck()).toBe('');
    const { made, found } = await folder.mistaken({
      'gql-tada.ts': {
        'pageInfo.hasNextPage ?': 'pageInfo.hasMore ?',
        "sender: 'AGENT', content: 'Hello?'": "sender: 'AGENTS', content: 'Hello?'",
        'sendMessage?.message.sequence': 'sendMessage?.message.content',
      },
      'hey-api.ts': {
        "sort: 'createdAt'": "sort: 'created'",
        "subject: 'Refund'": "subjekt: 'Refund'",
        'push(data.message.content)': 'push(data.message.contents)',
        "'CONVERSATION_CLOSED'": "'CONVERSATION_OVER'",
      },
      'orval.ts': {
        "sort: 'createdAt'": "sort: 'created'",
        "subject: 'Refund'": "subjekt: 'Refund'",
        'sent.data.sequence': 'sent.data.number',
        'late.status === 409': 'late.status === 418',
      },
    });
    expect(found).toEqual(made);
  },
);

longTest('gql.tada finds a field that the schema does not have in a document', async () => {
  const folder = clientFolder('typescript-5');
  await folder.tool('gql-tada', 'generate-output');
  await folder.mistaken({ 'gql-tada.ts': { '            hasNextPage\n': '            hasMore\n' } });
  const said = await folder.tool('gql-tada', 'check').catch(({ stdout }: Json) => ({ stdout }));
  expect(said.stdout).toContain('Cannot query field "hasMore" on type "PageInfo".');
});

longTest('urql calls the documents that gql.tada has persisted by their ids', async () => {
  const service = await startService();
  const folder = clientFolder('typescript-5');
  await folder.tool('gql-tada', 'generate-output');
  await folder.tool('gql-tada', 'generate-persisted');
  const token = await tokenForDocuments(service, folder, 'generated/persisted.json');
  const page = await folder.start('gql-tada.ts', { ...service.environment, TOKEN: token });
  const id = await opened(page);
  await write(service.account, id, 'Ten.');
  await close(service.account, id);
  expect(await lastLine(page)).toEqual({
    subjects: [['One', 'Two'], ['Three']],
    status: 'ACTIVE',
    sequence: 1,
    received: ['Ten.'],
    refused: ['CONVERSATION_CLOSED'],
    limited: [429, ['RATE_LIMITED'], true],
  });
});

longTest('hey-api calls what is in openapi.json, and follows events across a restart', async () => {
  const service = await startService();
  const folder = clientFolder('typescript-5');
  await withOpenApi(folder, service);
  await folder.tool(...heyApi);
  const { server, environment } = service;
  const refused = await server.clientFor(environment['SPENT_KEY'] ?? '').rest('GET', '/account');
  server.clock.advance(1_000 * (Number(refused.headers['retry-after']) - 1)); // it will wait for a second
  const program = await folder.start('hey-api.ts', environment);
  await interrupt(service, program);
  await program.printed('limited');
  server.clock.advance(1_000);
  expect(await lastLine(program)).toEqual({
    subjects: [['One', 'Two'], ['Three']],
    sequences: [1, 1],
    replayed: 'true',
    received: ['Before', 'After'],
    refused: 'Conversation closed',
    transition: 'INVALID_TRANSITION',
    limited: ['RATE_LIMITED', 429, true],
    patient: 0,
    failures: ['Error: SSE failed: 429 Too Many Requests'],
  });
});

longTest('Orval calls what is in openapi.json', async () => {
  const service = await startService();
  const folder = clientFolder('typescript-5');
  await withOpenApi(folder, service);
  await folder.tool('orval');
  expect(await lastLine(await folder.start('orval.ts', service.environment))).toEqual({
    subjects: [['One', 'Two'], ['Three']],
    sequence: 1,
    refused: 'CONVERSATION_CLOSED',
    limited: ['RATE_LIMITED', true],
  });
});

longTest(
  'GraphQL Code Generator gives the documents of graphql-request types and the ids by which it calls them',
  async () => {
    const service = await startService();
    const folder = clientFolder('codegen');
    await folder.tool('graphql-codegen', '--config', 'codegen.config.mjs');
    expect(await folder.typeCheck()).toBe('');
    const token = await tokenForDocuments(service, folder, 'generated/persisted-documents.json');
    const program = await folder.start('page.ts', { ...service.environment, TOKEN: token });
    await write(service.account, await opened(program), 'Ten.');
    await close(service.account, await opened(program));
    expect(await lastLine(program)).toEqual({
      subjects: [['One', 'Two'], ['Three']],
      status: 'ACTIVE',
      sequence: 1,
      received: 'Ten.',
      refused: { status: 200, codes: ['CONVERSATION_CLOSED'], retryAfter: false },
      limited: { status: 429, codes: ['RATE_LIMITED'], retryAfter: true },
    });
    const { made, found } = await folder.mistaken({
      'page.ts': {
        "subject: 'Refund'": "subjekt: 'Refund'",
        'sendMessage?.message.sequence': 'sendMessage?.message.number',
      },
    });
    expect(found).toEqual(made);
  },
);

longTest('genql makes a client of the schema, which asks for what objects say, with types', async () => {
  const service = await startService();
  const folder = clientFolder('genql');
  await folder.tool('genql', '--schema', './schema.graphql', '--output', './generated');
  expect(await folder.typeCheck()).toBe('');
  expect(await lastLine(await folder.start('genql.ts', service.environment))).toEqual({
    subjects: [['One', 'Two'], ['Three']],
    status: 'ACTIVE',
    metadata: {},
    sequence: 1,
    messageCount: 1,
    refused: ['CONVERSATION_CLOSED'],
    limited: true,
  });
  const { made, found } = await folder.mistaken({
    'genql.ts': {
      "sort: 'CREATED_AT_ASC'": "sort: 'CREATED'",
      "subject: 'Refund'": "subjekt: 'Refund'",
      'sendMessage?.message.sequence': 'sendMessage?.message.content',
    },
  });
  // What is made of a wrong result is found, too.
  expect(found).toEqual(expect.arrayContaining(made));
});

longTest('the package eventsource follows events across a restart, and gives up at 429', async () => {
  const service = await startService();
  const program = await clientFolder('event-source').start('event-source.ts', service.environment);
  await interrupt(service, program);
  expect(await lastLine(program)).toEqual({ received: ['Before', 'After'], resumed: true, limited: [429, true] });
});

longTest('a page follows events with fetch alone across a restart', async () => {
  const service = await startService();
  const folder = clientFolder('event-source');
  expect(await folder.typeCheck()).toBe('');
  const program = await folder.start('fetch-only.ts', service.environment);
  await interrupt(service, program);
  expect(await lastLine(program)).toEqual({
    received: ['Before', 'After'],
    limited: [429, 'RATE_LIMITED', true],
  });
});

longTest('the command line of the MCP inspector lists the tools, finds no error in them, and calls them', async () => {
  const { server, account, environment } = await startService();
  const folder = clientFolder('mcp-inspector');
  const inspect = async (credential: string | undefined, ...args: string[]) => {
    const where = ['--server-url', `${server.url}/mcp`, '--header', `Authorization: Bearer ${credential}`];
    const options = [...where, '--format', 'json', ...args];
    const { stdout, stderr } = await folder.tool('mcp-inspector', '--cli', ...options).catch((error: Json) => error);
    return { answer: JSON.parse(stdout || stderr), stderr };
  };
  const listed = await inspect(account.secret, '--method', 'tools/list', '--strict');
  expect(listed.answer.result.tools.map(({ name }: Json) => name)).toContain('sendMessage');
  expect(listed.stderr).toMatch(/^0 errors/m);
  const call = (tool: string, ...args: string[]) =>
    inspect(
      account.secret,
      '--method',
      'tools/call',
      '--tool-name',
      tool,
      ...args.flatMap((arg) => ['--tool-arg', arg]),
    );
  const created = JSON.parse((await call('createConversation', 'subject=Refund')).answer.result.content[0].text);
  expect((await account.rest('GET', `/conversations/${created.id}`)).body.subject).toBe('Refund');
  const missing = await call('sendMessage', 'conversationId=conv_none', 'sender=agent', 'content=Hello?');
  expect([missing.answer.result.isError, JSON.parse(missing.answer.result.content[0].text).code]).toEqual([
    true,
    'NOT_FOUND',
  ]);
  const limited = await inspect(environment['SPENT_KEY'], '--method', 'tools/list');
  expect(limited.answer.error).toMatchObject({ status: 429, message: expect.stringContaining('retry after') });
});

const pathOf = (file: string) => fileURLToPath(new URL(`../${file}`, import.meta.url));

test('the GUIDE lists the clients with the versions that are installed', () => {
  const readPackage = (folder: string): Json => JSON.parse(readFileSync(pathOf(`${folder}package.json`), 'utf8'));
  const root = readPackage('');
  const packages = [root, ...root.workspaces.map((folder: string) => readPackage(`${folder}/`))];
  const [, section = ''] = readFileSync(pathOf('GUIDE.md'), 'utf8').split('\n## Clients that were tried\n');
  const [table = ''] = section.split('\n### ');
  const listed = [...table.matchAll(/^\| [^|]*`([^`|]+)` *\| (\d\S*) *\|/gm)].map(([, name = '', version = '']) => [
    name,
    version,
  ]);
  expect(listed.length).toBeGreaterThan(10);
  for (const [name = '', version] of listed) {
    const declared = packages.map(
      ({ dependencies, devDependencies }) => ({ ...devDependencies, ...dependencies })[name],
    );
    expect([...new Set(declared.filter((one) => one !== undefined))], name).toEqual([version]);
  }
});

test('an installation without development packages has none of what these programs need', () => {
  const { packages }: Json = JSON.parse(readFileSync(pathOf('package-lock.json'), 'utf8'));
  const { workspaces, dependencies, peerDependencies } = packages[''];
  const own = Object.keys({ ...dependencies, ...peerDependencies });
  const needed = workspaces.flatMap((folder: string) => {
    const { dependencies: always, devDependencies } = packages[folder];
    return Object.keys({ ...always, ...devDependencies }).flatMap((name) => {
      const path = [`${folder}/node_modules/${name}`, `node_modules/${name}`].find((each) => each in packages) ?? '';
      return path === `node_modules/${name}` && own.includes(name) ? [] : [path];
    });
  });
  expect(needed.length).toBeGreaterThan(10);
  expect(needed.filter((path: string) => packages[path]?.dev !== true)).toEqual([]);
});

/** The page that the GUIDE builds with an EventSource, and what it has noticed. */
async function eventSourcePage(
  server: TestServer,
  account: TestAccount,
  { first, failedLoads = 0, ...token }: { first?: string; failedLoads?: number; [setting: string]: unknown } = {},
) {
  const { EventSource } = createRequire(pathOf('test/clients/event-source/package.json'))('eventsource') as {
    EventSource: new (url: string, options: object) => { close(): void };
  };
  class Closing extends EventSource {
    constructor(url: string, options: object) {
      super(url, options);
      onTestFinished(() => this.close());
    }
  }
  const page = { shown: [] as Json[], loads: 0, stopped: [] as number[], waitsMs: [] as number[] };
  await runGuide(
    'Event streams in a page',
    'undefined',
    { eventsource: { EventSource: Closing } },
    {
      load: async () => {
        page.loads++;
        if (page.loads > 1 && page.loads <= 1 + failedLoads) throw new TypeError('fetch failed');
        const { eventCursor } = (await account.rest('GET', '/account')).body;
        return page.loads === 1 ? (first ?? eventCursor) : eventCursor;
      },
      stop: (code: number) => page.stopped.push(code),
      fetch: fetchOfPage(server.url, account.secret, '/agent-token', { scopes: ['events:read'], ...token }),
      show: (event: Json) => page.shown.push(event),
      // The page's time is the server's.
      setTimeout: (go: () => void, ms: number) => {
        page.waitsMs.push(ms);
        server.clock.advance(ms);
        setImmediate(go);
      },
    },
    (code) => code.replace('http://127.0.0.1:4000', server.url),
  );
  return page;
}

describe('the EventSource that the GUIDE shows', () => {
  const startServer = async () => {
    const server = await startTestServer();
    onTestFinished(() => server.close());
    return { server, account: await server.account() };
  };
  /** Writes until the page shows it, which may not be connected yet. */
  const isFollowing = async ({ shown }: { shown: readonly Json[] }, account: Client, body: object = {}) => {
    const { id } = (await account.rest('POST', '/conversations', { body })).body;
    await eventually(
      () => write(account, id, 'Where is my parcel?'),
      () => shown.length > 0,
    );
    const message = { content: 'Where is my parcel?' };
    expect(shown[0]).toMatchObject({ type: 'message.received', data: { message } });
  };

  test('is given events', async () => {
    const { server, account } = await startServer();
    await isFollowing(await eventSourcePage(server, account), account);
  });

  test('reads anew, until it can, and goes on where the log no longer reaches back', async () => {
    const { server, account } = await startServer();
    const first = (await account.rest('GET', '/account')).body.eventCursor;
    await account.rest('POST', '/conversations', { body: {} });
    server.clock.advance(1);
    await server.app.ports.storage.write(async (tx) => await tx.events.prune(server.clock.now(), 10_000));
    const page = await eventSourcePage(server, account, { first, failedLoads: 2 });
    await until(() => page.loads === 4);
    await isFollowing(page, account);
    expect(page).toMatchObject({ stopped: [], waitsMs: [5_000, 5_000, 5_000] });
  });

  test('waits as it is told where no request is left, and goes on', async () => {
    const { server, account } = await startServer();
    const visitor = { id: 'customer-7' };
    const token = { visitor, requestsPerHour: 10 };
    const made = await account.rest('POST', '/tokens', { body: { scopes: ['events:read'], ...token } });
    const asVisitor = server.clientFor(made.body.token);
    const first = (await asVisitor.rest('GET', '/events')).body.pagination.nextCursor;
    while ((await asVisitor.rest('GET', '/events')).status === 200);
    const page = await eventSourcePage(server, account, { first, ...token });
    await isFollowing(page, account, { visitor });
    expect(page.waitsMs.length).toBeGreaterThan(0);
    expect(page.waitsMs[0]).toBeGreaterThan(60_000);
    expect(page.stopped).toEqual([]);
  });

  test('stops where it is not allowed, with no further request', async () => {
    const { server, account } = await startServer();
    const page = await eventSourcePage(server, account, { scopes: ['conversations:read'] });
    await until(() => page.stopped.length > 0);
    expect(page).toMatchObject({ stopped: [403], loads: 1, waitsMs: [] });
  });
});
