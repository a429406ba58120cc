import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { logOutput } from '../../src/server/log-output.ts';
import { eventually } from '../support/wait.ts';

// The log on what cannot be written: a pipe that nobody reads, or whose reader has gone, and a disk that is full.

const lossNotice = (lost: number): string => `${lost} lost\n`;
const line = (number: number): string => `${number} ${'x'.repeat(1_000)}\n`;

/** A pipe with both its ends in this process. */
function openPipe(): { reader: number; writer: number } {
  const folder = mkdtempSync(join(tmpdir(), 'conversation-service-log-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'pipe');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return { reader, writer: openSync(path, constants.O_WRONLY | constants.O_NONBLOCK) };
}

/** @returns what is there, which may be nothing */
function read(fd: number, maxBytes = 65_536): string {
  const buffer = Buffer.alloc(maxBytes);
  try {
    return buffer.toString('utf8', 0, readSync(fd, buffer));
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EAGAIN')) throw error;
    return '';
  }
}

test('lines that nobody reads are kept up to a megabyte; what is lost beyond that is one gap, which a line counts', async () => {
  const { reader, writer } = openPipe();
  const output = logOutput(writer, lossNotice);
  const written = 1_300;
  for (let number = 0; number < written; number++) {
    output.write(line(number));
    if (number % 10 === 9) await setImmediate();
  }
  let text = '';
  const untilRead = (end: string): Promise<string> =>
    eventually(
      async () => (text += read(reader)),
      (all) => all.endsWith(end),
    );
  await untilRead(' lost\n');
  output.write(line(written));
  await untilRead(line(written));

  const numbers = text.split('\n').slice(0, -1);
  const kept = numbers.findIndex((each) => each.endsWith(' lost'));
  expect(numbers.map((each) => Number(each.split(' ')[0]))).toEqual([
    ...Array.from({ length: kept }, (_, number) => number),
    written - kept,
    written,
  ]);
  expect(kept).toBeGreaterThan(1_000);
  expect(kept).toBeLessThan(1_200);
});

test('the lines of several workers are not mixed in one pipe, however slowly it is read', async () => {
  const { reader, writer } = openPipe();
  const workers = [logOutput(writer, lossNotice), logOutput(writer, lossNotice)];
  let text = '';
  const readOn = async (): Promise<string> => (text += read(reader, 3_000));
  for (let turn = 0; turn < 20; turn++) {
    for (const worker of workers) for (let number = 0; number < 10; number++) worker.write(line(number));
    await setImmediate();
    await readOn();
  }
  await eventually(readOn, ({ length }) => length === 400 * line(0).length);
  expect(text.split('\n').filter((each) => !/^\d x{1000}$/.test(each))).toEqual(['']);
});

test('nothing is thrown when the reader of the pipe has gone', async () => {
  const { reader, writer } = openPipe();
  const output = logOutput(writer, lossNotice);
  closeSync(reader);
  for (let number = 0; number < 3; number++) {
    output.write(line(number));
    await setImmediate();
  }
});

test('a process whose log is on a full disk ends all the same, a second later at most', () => {
  const module = join(import.meta.dirname, '../../src/server/log-output.ts');
  const program = `
    import { logOutput } from ${JSON.stringify(module)};
    logOutput(1, String).write('a line\\n');
    setImmediate(() => process.exit(3));
  `;
  const startedMs = performance.now();
  const command = `exec > /dev/full; exec "$@"`;
  const args = ['-c', command, 'sh', process.execPath, '--input-type=module', '--eval', program];
  expect(() => execFileSync('sh', args, { stdio: 'pipe' })).toThrow(
    expect.objectContaining({ status: 3, stderr: Buffer.alloc(0) }),
  );
  expect(performance.now() - startedMs).toBeGreaterThan(900);
});
