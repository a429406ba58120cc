import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';
import { expect, test } from 'vitest';
import { run } from './program.ts';

/** A Node on this machine that is too old for the program, if there is one: not npm's pinned one. */
function findOldNode(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'));
  return [...folders, '/usr/local/bin', '/usr/bin']
    .map((folder) => join(folder, 'node'))
    .find((node) => existsSync(node) && majorOf(node) < 24);
}

function majorOf(node: string): number {
  return Number(/^v(\d+)\./.exec(execFileSync(node, ['--version'], { encoding: 'utf8' }))?.[1]);
}

const oldNode = findOldNode();

// Skipped where the machine has no Node that is too old; the next test looks at the same promise.
test.skipIf(oldNode === undefined)('a Node that is too old is told so in one sentence', async () => {
  const { code, stdout, stderr } = await run(['serve'], { node: oldNode ?? '' });
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^This program needs Node\.js 24 or later and this is \d+\.\d+\.\d+; [^\n]+\n$/);
});

test('the file that tells it is plain JavaScript, with nothing in it that came after 2022', async () => {
  const source = readFileSync(fileURLToPath(new URL('../../dist/main.js', import.meta.url)), 'utf8');
  const [asItIs, lowered] = await Promise.all(['esnext', 'es2022'].map((target) => transform(source, { target })));
  expect(lowered?.code).toBe(asItIs?.code);
});
