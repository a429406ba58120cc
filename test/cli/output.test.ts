import { expect, test } from 'vitest';
import { TerminalLine } from '../../src/cli/output.ts';

function shown(output: { isTTY?: boolean; columns?: number }): string[] {
  const texts: string[] = [];
  const line = new TerminalLine({ ...output, write: (text) => texts.push(text) });
  line.show('Copying');
  line.show('Copying', 0.506);
  line.end();
  return texts;
}

test('progress is one line on a terminal, no wider than it, and taken away at the end', () => {
  expect(shown({ isTTY: true })).toEqual(['\rCopying …\u001b[K', '\rCopying … 50 %\u001b[K', '\r\u001b[K']);
  expect(shown({ isTTY: true, columns: 8 })[1]).toBe('\rCopying\u001b[K');
});

test('nothing of it is written anywhere else', () => {
  expect(shown({})).toEqual([]);
});
