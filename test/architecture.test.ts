import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

// Which folders may import which, and which library is imported in which folder only.

const source = fileURLToPath(new URL('../src/', import.meta.url));

interface Import {
  readonly file: string;
  readonly from: string;
}

const allFiles = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((file) => /\.tsx?$/.test(file));
// The client, the widget and the scripts of pages are no part of the service: they run in other programs and in browsers.
const files = allFiles.filter((file) => !/^(client|widget|console|browser|reference|explorer)\//.test(file));
const importsOf = (file: string): Import[] => {
  const text = readFileSync(join(source, file), 'utf8');
  return [
    ...text.matchAll(/(?:^|\n)\s*(?:import|export)\b[^;'"]*?from\s*['"]([^'"]+)['"]|import\(?\s*['"]([^'"]+)['"]/g),
  ].map((match) => {
    const specifier = match[1] ?? match[2] ?? '';
    return {
      file,
      from: specifier.startsWith('.') ? relative(source, join(source, dirname(file), specifier)) : specifier,
    };
  });
};
const imports = files.flatMap(importsOf);

/** The top of the path of a file or an import: a folder of src, a file at its top, or a library. */
function topOf(path: string): string {
  return path.split('/')[0] ?? path;
}

const folders = new Set(files.map(topOf));

const mayImport: Readonly<Record<string, readonly string[]>> = {
  domain: ['domain'],
  runtime: ['runtime'],
  access: ['access', 'domain', 'runtime'],
  http: ['http', 'access', 'domain', 'runtime'],
  storage: ['storage', 'domain', 'runtime', 'layout.ts'],
  events: ['events', 'domain', 'runtime'],
  webhooks: ['webhooks', 'domain', 'layout.ts'],
  telemetry: ['telemetry', 'domain'],
  mcp: ['mcp', 'http', 'access', 'domain', 'runtime', 'version.ts'],
  pages: ['pages', 'http', 'access', 'domain', 'runtime'],
  rest: ['rest', 'pages', 'http', 'access', 'domain', 'runtime', 'layout.ts', 'version.ts'],
  graphql: ['graphql', 'http', 'access', 'domain', 'runtime', 'layout.ts'],
  server: ['server', 'app.ts', 'config.ts', 'access', 'domain', 'http', 'runtime', 'storage', 'telemetry'],
  'config.ts': ['config.ts', 'domain'],
  'layout.ts': ['layout.ts'],
  'version.ts': ['version.ts'],
};
const mayImportAll = ['app.ts', 'cli', 'maintenance.ts', 'ports.ts'];

test('the test reads the imports', () => {
  expect(imports.length).toBeGreaterThan(200);
  expect(imports).toContainEqual({ file: 'graphql/schema.ts', from: 'graphql/scalars.ts' });
  expect(imports).toContainEqual({ file: 'app.ts', from: 'graphql-yoga' });
});

test('the imports allowed are listed for each folder', () => {
  expect([...folders].sort()).toEqual([...Object.keys(mayImport), ...mayImportAll].sort());
});

test('a folder imports only from the folders allowed', () => {
  const wrong = imports.filter(({ file, from }) => {
    const allowed = mayImport[topOf(file)];
    return allowed !== undefined && folders.has(topOf(from)) && from.endsWith('.ts') && !allowed.includes(topOf(from));
  });
  expect(wrong).toEqual([]);
});

test.each([
  ['client', /^client\/|^graphql-ws(\/client)?$/],
  ['widget', /^(widget|client)\//],
  ['console', /^(console|client)\/|^(preact|uplot)(\/|$)/],
  ['browser', /^(browser|client)\/|^console\/session\.ts$|^preact(\/|$)/],
  ['reference', /^(reference|browser)\/|^console\/(session\.ts|base\.css)$|^rest\/openapi\/types\.ts$|^preact(\/|$)/],
  [
    'explorer',
    /^(explorer|browser)\/|^console\/(session\.ts|base\.css)$|^(preact|graphql|graphql-ws|@codemirror|@lezer|cm6-graphql)(\/|$)/,
  ],
])('the %s imports nothing of the service', (folder, allowed) => {
  const own = allFiles.filter((file) => topOf(file) === folder).flatMap(importsOf);
  expect(own.length).toBeGreaterThanOrEqual(3);
  expect(own.filter(({ from }) => !allowed.test(from))).toEqual([]);
});

test('the domain imports nothing but itself and zod', () => {
  const wrong = imports.filter(
    ({ file, from }) => topOf(file) === 'domain' && topOf(from) !== 'domain' && from !== 'zod',
  );
  expect(wrong).toEqual([]);
});

test.each([
  { library: /^drizzle-orm(\/|$)/, stays: /^storage\// },
  { library: /^better-sqlite3$/, stays: /^storage\/sqlite\// },
  { library: /^postgres$/, stays: /^storage\/postgres\// },
  { library: /^(graphql|@pothos\/.*)$/, stays: /^graphql\// },
  { library: /^dataloader$/, stays: /^(graphql|storage\/postgres)\// },
  { library: /^zod$/, stays: /^(domain\/|config\.ts$|http\/(json-schema|problem)\.ts$|rest\/)/ },
  { library: /^commander$/, stays: /^cli\// },
  { library: /^prom-client$/, stays: /^telemetry\// },
  { library: /^jose$/, stays: /^access\/tokens\.ts$/ },
  { library: /^@modelcontextprotocol\//, stays: /^mcp\// },
])('$library stays in $stays', ({ library, stays }) => {
  expect(imports.filter(({ file, from }) => library.test(from) && !stays.test(file))).toEqual([]);
});

test('the environment is read in config.ts alone', () => {
  const readers = files.filter((file) => readFileSync(join(source, file), 'utf8').includes('process.env'));
  expect(readers).toEqual(['config.ts']);
});

/** What the clock of the machine shows. A duration is measured with a monotonic clock, `performance.now()`. */
const readsClock =
  /\bDate\.now\b|\bnew Date\(\)|(?<!new )\bDate\(\)|\bTemporal\.Now\b|\bhrtime\b|\bos\.uptime\b|\bprocess\.uptime\b/;

test('the time is injected: the clock is read in server/clock.ts alone', () => {
  const readers = files.filter((file) => readsClock.test(readFileSync(join(source, file), 'utf8')));
  expect(readers).toEqual(['server/clock.ts']);
});

/**
 * Where durations are measured, and for what. What a client can see, such as when a limit, a lease or a credential ends,
 * goes by the injected clock.
 */
const measuring: Readonly<Record<string, readonly string[]>> = {
  'how long work has held the event loop or the disk': [
    'access/sessions.ts',
    'domain/time-budget.ts',
    'graphql/batch-turns.ts',
    'graphql/socket/fan-out.ts',
    'maintenance.ts',
    'runtime/scheduler.ts',
    'storage/sqlite/analytics.ts',
    'storage/sqlite/checkpoint-thread.ts',
    'storage/sqlite/slices.ts',
    'cli/seed.ts',
  ],
  'how long requests, calls and attempts took, for the log and the metrics; and a copy': [
    'cli/copy.ts',
    'graphql/context.ts',
    'graphql/socket/protocol.ts',
    'http/request-context.ts',
    'http/respond.ts',
    'telemetry/metrics.ts',
    'webhooks/client.ts',
  ],
  'how long to try again, and to wait for what is busy or unread': [
    'access/admission.ts',
    'access/load-shedder.ts',
    'http/unsent-responses.ts',
    'server/connections.ts',
    'server/workers.ts',
    'server/log-output.ts',
    'server/stop.ts',
    'storage/postgres/session.ts',
    'storage/postgres/writer.ts',
    'storage/sqlite/compact.ts',
    'storage/sqlite/errors.ts',
    'storage/sqlite/writer.ts',
    'telemetry/status-probes.ts',
    'webhooks/attempt-recorder.ts',
    'webhooks/sender.ts',
  ],
};

test('durations are measured only where the list says for what', () => {
  const found = files.filter((file) => readFileSync(join(source, file), 'utf8').includes('performance.now()'));
  expect(found.sort()).toEqual(Object.values(measuring).flat().sort());
});

test('no imports are circular', () => {
  const next = new Map<string, string[]>();
  for (const file of files) {
    const text = readFileSync(join(source, file), 'utf8');
    // Imports of types are gone before anything runs.
    const kept = [...text.matchAll(/(?:^|\n)import (?!type\b)(?:[^;'"]*?from\s*)?['"](\.[^'"]+)['"]/g)];
    next.set(
      file,
      kept.map((match) => relative(source, join(source, dirname(file), match[1] ?? ''))),
    );
  }
  const circles: string[] = [];
  const visited = new Set<string>();
  const visit = (file: string, path: string[]): void => {
    if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' → '));
    if (visited.has(file)) return;
    visited.add(file);
    for (const other of next.get(file) ?? []) visit(other, [...path, file]);
  };
  for (const file of files) visit(file, []);
  expect(circles).toEqual([]);
});

test('what `npm run test:trials` tries harder, tests do themselves, by which it finds them', () => {
  const folder = fileURLToPath(new URL('./', import.meta.url));
  const all = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => /\.m?ts$/.test(file));
  const harder = all.filter((file) => /from '[^']*support\/effort\.ts'/.test(readFileSync(join(folder, file), 'utf8')));
  expect(harder.length).toBeGreaterThan(20);
  // The storage contract is found by its own name.
  expect(harder.filter((file) => !file.endsWith('.test.ts') && !file.startsWith('storage/contract/'))).toEqual([]);
});
