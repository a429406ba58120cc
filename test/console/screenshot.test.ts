import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { needBrowser } from '../support/browser.ts';
import { longTest } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';

const folder = fileURLToPath(new URL('.', import.meta.url));

/** The width and the height in pixels of a PNG, from its first chunk. */
function sizeOf(file: string): [number, number] {
  const bytes = readFileSync(file);
  expect(bytes.subarray(1, 4).toString()).toBe('PNG');
  expect(bytes.length).toBeLessThan(150_000);
  return [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
}

const committed = join(folder, 'screenshot.png');

test('the README’s picture of the console is wide enough to be read, and takes less than 150 kB', () => {
  expect(sizeOf(committed)).toEqual([1120, 640]);
});

longTest('its program takes another of the same size', (context) => {
  needBrowser(context);
  const file = join(temporaryFolder(), 'picture.png');
  execFileSync(process.execPath, [join(folder, 'screenshot.ts'), file]);
  expect(sizeOf(file)).toEqual(sizeOf(committed));
});
