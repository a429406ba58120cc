#!/usr/bin/env node
// The program. It is plain CommonJS, and package.json names no module type, so that a Node that is
// too old to strip types can still read this one file and say what is wrong. All the other files are
// ES modules: the hook below says so, which spares Node the trouble of finding out file by file.

const oldestMajor = 24;

if (Number(process.versions.node.split('.')[0]) < oldestMajor) {
  console.error(
    `This program needs Node.js ${oldestMajor} or later and this is ${process.versions.node}; \`npm start\` and \`npm run cli\` use the right one.`,
  );
  process.exitCode = 1;
} else {
  const { enableCompileCache, registerHooks } = process.getBuiltinModule('node:module');
  const { pathToFileURL } = process.getBuiltinModule('node:url');
  enableCompileCache(); // the next start need not compile again what has not changed
  const here = pathToFileURL(`${__dirname}/`).href;
  registerHooks({
    resolve(specifier, context, nextResolve) {
      // For each file Node would parse the package.json above it once more, and drizzle's is as long as a
      // novel: half of the time of a start. Where a relative import leads needs no looking up.
      const { parentURL = '' } = context;
      const known = parentURL.startsWith(here) || parentURL.includes('/node_modules/drizzle-orm/');
      if (known && /^\.\.?\//.test(specifier)) {
        const url = new URL(specifier, parentURL).href;
        return { url, format: url.endsWith('.ts') ? 'module-typescript' : 'module', shortCircuit: true };
      }
      const resolved = nextResolve(specifier, context);
      if (!resolved.url.startsWith(here)) return resolved;
      return { ...resolved, format: resolved.url.endsWith('.ts') ? 'module-typescript' : 'module' };
    },
  });
  const { isMainThread, workerData } = process.getBuiltinModule('node:worker_threads');
  if (isMainThread) void import('./cli/program.ts').then(({ run }) => run(process.argv));
  else void import(workerData.module); // a thread of the program says what it runs
}
