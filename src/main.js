#!/usr/bin/env node
// @ts-check
// The program. It is plain JavaScript, so that a Node that is too old for all others can read this one file and say
// what is wrong.

import module from 'node:module';

const oldestMajor = 24;

if (Number(process.versions.node.split('.')[0]) < oldestMajor) {
  console.error(
    `This program needs Node.js ${oldestMajor} or later and this is ${process.versions.node}; \`npm start\` and \`npm run cli\` use the right one.`,
  );
  process.exitCode = 1;
} else {
  module.enableCompileCache(); // the next start need not compile again what has not changed
  const { run } = await import('./cli/program.ts');
  await run(process.argv);
}
