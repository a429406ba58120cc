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
      const resolved = nextResolve(specifier, context);
      if (!resolved.url.startsWith(here)) return resolved;
      return { ...resolved, format: resolved.url.endsWith('.ts') ? 'module-typescript' : 'module' };
    },
  });
  void import('./cli/program.ts').then(({ run }) => run(process.argv));
}
