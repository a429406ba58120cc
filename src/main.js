#!/usr/bin/env node
// @ts-check
// The program's entry point. It is plain JavaScript, so that a Node.js too old for the other files can still load this
// one and report its version.

import module from 'node:module';

const oldestMajor = 24;

if (Number(process.versions.node.split('.')[0]) < oldestMajor) {
  console.error(
    `This program needs Node.js ${oldestMajor} or later and this is ${process.versions.node}; \`npm start\` and \`npm run cli\` use the right one.`,
  );
  process.exitCode = 1;
} else {
  module.enableCompileCache(); // later starts reuse the compiled code
  const { run } = await import('./cli/program.ts');
  await run(process.argv);
}
