import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, gzip } from 'node:zlib';
import { readMigrationFiles } from 'drizzle-orm/migrator';
import { build } from 'esbuild';
import { migrationsFolder, postgresMigrationsFolder } from './src/layout.ts';

// Bundles the program and its libraries into a few files in `dist`: it starts in half the time and takes less memory.

const outdir = 'dist';
const { metafile } = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: [
    'src/main.js',
    'src/storage/sqlite/backup-thread.ts',
    'src/storage/sqlite/checkpoint-thread.ts',
    'src/webhooks/client-thread.ts',
  ],
  outdir,
  outbase: 'src',
  chunkNames: '[name]-[hash]', // beside main.js: see src/layout.ts
  bundle: true,
  splitting: true,
  platform: 'node',
  format: 'esm',
  target: 'node24',
  conditions: ['module-sync'],
  external: ['better-sqlite3'], // it has a native addon
  // Inlined as JSON text: esbuild would put an object into a module of its own that every other one imports.
  define: {
    builtMigrations: JSON.stringify(JSON.stringify(readMigrationFiles({ migrationsFolder }))),
    builtPostgresMigrations: JSON.stringify(
      JSON.stringify(readMigrationFiles({ migrationsFolder: postgresMigrationsFolder })),
    ),
  },
  // CommonJS code in libraries calls `require` for Node's own modules.
  banner: {
    js: "import { createRequire as requireFrom } from 'node:module';\nconst require = requireFrom(import.meta.url);",
  },
  sourcemap: 'linked',
  sourcesContent: false,
  metafile: true,
  logLevel: 'warning',
});

// The client for front-ends and programs, for any bundler and for pages without one.
const client = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: ['src/client/index.ts'],
  outdir: `${outdir}/client`,
  bundle: true,
  format: 'esm',
  target: 'es2022',
  external: ['graphql-ws'],
  metafile: true,
  logLevel: 'warning',
});

// The chat widget, one script that pages load from the service.
const widget = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: { widget: 'src/widget/index.ts' },
  outdir,
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  external: ['graphql-ws'], // only the client's sockets need it
  metafile: true,
  logLevel: 'warning',
});

// The scripts and styles of `/console`, `/docs` and the page at `/graphql`. Their names change with what they hold, so that browsers
// may keep them for ever, and they are compressed here, once. `names.json` says how they are called: see src/http/assets.ts.
const assets = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: {
    console: 'src/console/index.tsx',
    reference: 'src/reference/index.tsx',
    explorer: 'src/explorer/index.tsx',
  },
  entryNames: '[name]-[hash]',
  outdir: `${outdir}/assets`,
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  metafile: true,
  logLevel: 'warning',
});
const assetFiles = await Promise.all(
  Object.keys(assets.metafile.outputs).map(async (file) => {
    const bytes = readFileSync(join(import.meta.dirname, file));
    const made = { br: await promisify(brotliCompress)(bytes), gz: await promisify(gzip)(bytes, { level: 9 }) };
    for (const [ending, zipped] of Object.entries(made)) {
      writeFileSync(join(import.meta.dirname, `${file}.${ending}`), zipped);
    }
    return [file, `${file}.br`, `${file}.gz`];
  }),
);
const namesFile = `${outdir}/assets/names.json`;
const names = assetFiles.map(([file = '']) => [file.replace(/.*\/|-\w+(?=\.)/g, ''), file.replace(/.*\//, '')]);
writeFileSync(join(import.meta.dirname, namesFile), JSON.stringify(Object.fromEntries(names)));

const outputs = [
  ...[metafile, client.metafile, widget.metafile].flatMap((each) => Object.keys(each.outputs)),
  ...assetFiles.flat(),
  namesFile,
];

// Files of earlier builds are removed last, because a server may be running from them.
for (const entry of readdirSync(join(import.meta.dirname, outdir), { recursive: true, withFileTypes: true })) {
  const path = join(entry.parentPath, entry.name);
  const isBuilt = outputs.some((output) => join(import.meta.dirname, output) === path) || isClientType(entry);
  if (entry.isFile() && !isBuilt) rmSync(path);
}

/** Whether a file has types of the client, which `npm run build` adds. */
function isClientType({ name }: { name: string }): boolean {
  return name.endsWith('.d.ts') && existsSync(join(import.meta.dirname, 'src/client', name.replace('.d.ts', '.ts')));
}
