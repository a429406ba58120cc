import { fstatSync, writeFileSync } from 'node:fs';
import { styleText } from 'node:util';
import type { Command } from 'commander';

/** Prints data as JSON with `--json`, otherwise as text for a person. */
export function print(data: unknown, { json }: { json?: boolean }, forPeople: () => string): void {
  printText(json === true ? JSON.stringify(data) : forPeople());
}

/**
 * Prints a text. Nobody has to read it, as with `head`; but if it cannot be written, to a full disk for one, the command has
 * failed: it may be a key that is shown only once.
 */
export function printText(text: string): void {
  if (!process.stdout.listeners('error').includes(onUnwritten)) process.stdout.on('error', onUnwritten);
  try {
    if (!printToFile(`${text}\n`)) console.log(text);
  } catch (error) {
    onUnwritten(error as NodeJS.ErrnoException);
  }
}

/**
 * Writes a text to the standard output if that is a file: on a disk with little room, Node would write its beginning, and say
 * nothing of the rest.
 * @returns false if it is none
 * @throws the error of the system
 */
export function printToFile(text: string): boolean {
  const { fd } = process.stdout as { readonly fd?: number }; // a thread has none
  if (fd === undefined || !fstatSync(fd).isFile()) return false;
  writeFileSync(fd, text);
  return true;
}

let isTold = false;

function onUnwritten({ code, message }: NodeJS.ErrnoException): void {
  if (code === 'EPIPE' || isTold) return;
  isTold = true;
  console.error(inRed(`What was printed could not be written: ${message}.`));
  process.exitCode = 1;
}

/** The secret of a new API key, indented so that it is easy to copy. */
export function keyNotice(secret: string): string {
  return `API key (shown only once):\n\n  ${secret}\n`;
}

/** An error as a line of standard error, which is red on a terminal. */
export function inRed(text: string): string {
  return styleText('red', text, { stream: process.stderr });
}

/** A text that begins with a capital and ends with a stop. */
export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.$/, '')}.`;
}

/** Shows at the end of a command's help how it is called. */
export function addExamples(command: Command, ...lines: readonly string[]): Command {
  const shown = lines.map((line) => `\n  conversation-service ${line}`).join('');
  return command.addHelpText('after', `\nExamples:${shown}`);
}

/** A size in decimal units, as disks are sold: kilobytes below a megabyte. */
export function formatBytes(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} KB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Rows in aligned columns, under a header of the columns' names, which is bold on a terminal. */
export function table(rows: readonly Record<string, unknown>[], columns: readonly string[]): string {
  const cells = [columns, ...rows.map((row) => columns.map((column) => cell(row[column])))];
  const widths = columns.map((_, index) => Math.max(...cells.map((row) => row[index]?.length ?? 0)));
  return cells
    .map((row) =>
      row
        .map((text, index) => text.padEnd(widths[index] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .map((line, index) => (index === 0 ? styleText('bold', line) : line))
    .join('\n');
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '-';
  return Array.isArray(value) ? value.join(' ') : String(value);
}

/** Where progress is shown: standard error, or a stand-in for it in tests. */
interface ProgressOutput {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** A status line that is redrawn in place. Draws nothing if the output is not a terminal. */
export class TerminalLine {
  readonly #output: ProgressOutput;
  #drawn = false;

  constructor(output: ProgressOutput) {
    this.#output = output;
  }

  /** @param share how much of the step is done, from 0 to 1, if known */
  show(step: string, share?: number): void {
    if (this.#output.isTTY !== true) return;
    const text = share === undefined ? `${step} …` : `${step} … ${Math.floor(share * 100)} %`;
    // The last column stays free: some terminals wrap the line there.
    this.#output.write(`\r${text.slice(0, (this.#output.columns ?? 80) - 1)}\u001b[K`);
    this.#drawn = true;
  }

  /** Removes the line. */
  end(): void {
    if (this.#drawn) this.#output.write('\r\u001b[K');
    this.#drawn = false;
  }
}
