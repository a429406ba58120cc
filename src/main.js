#!/usr/bin/env node
// @ts-check
// The program. It is plain CommonJS, and package.json names no module type, so that a Node that is too old to
// strip types can read this one file and say what is wrong; and so that Node need not load what strips types for
// it, before the cache is there that spares it that for all others. They are ES modules: the hook below says so,
// which spares Node the trouble of finding out file by file.

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
  const esModules = new Set();
  registerHooks({
    resolve(specifier, context, nextResolve) {
      // For each file Node would look it up and read the package.json above it once more, which is most of the time
      // of a start. Where a relative import leads needs no looking up, and one ES module leads to another
      // with the same ending.
      const { parentURL = '', conditions } = context;
      const [, extension] = /^\.\.?\/.*(\.[a-z]+)$/.exec(specifier) ?? [];
      const known =
        extension !== undefined &&
        conditions.includes('import') &&
        esModules.has(parentURL) &&
        parentURL.endsWith(extension);
      const resolved = known ? { url: new URL(specifier, parentURL).href } : nextResolve(specifier, context);
      const isOurs = resolved.url.startsWith(here);
      if (!known && !isOurs) {
        if (resolved.format === 'module') esModules.add(resolved.url);
        return resolved;
      }
      esModules.add(resolved.url);
      return { ...resolved, format: resolved.url.endsWith('.ts') ? 'module-typescript' : 'module', shortCircuit: true };
    },
  });
  const { isMainThread, workerData } = process.getBuiltinModule('node:worker_threads');
  if (isMainThread) void import('./cli/program.ts').then(({ run }) => run(process.argv));
  else void import(workerData.module); // a thread of the program says what it runs
}
