import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { type Running, start } from '../cli/program.ts';
import { temporaryFolder } from './files.ts';

// The programs of test/clients, each in the hands of its own tools.

const root = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);

/** What is right in programs, each time with what is wrong. */
export type Mistakes = Readonly<Record<string, Readonly<Record<string, string>>>>;

export interface ClientFolder {
  readonly path: string;
  /** Runs a tool that the client's package has. */
  tool(name: string, ...args: string[]): Promise<{ stdout: string; stderr: string }>;
  /** All that the type checker says, of the programs that `tsconfig.json` names. */
  typeCheck(): Promise<string>;
  /** Replaces texts of programs by wrong ones: in which lines that was, and in which ones the type checker finds faults. */
  mistaken(replacements: Mistakes): Promise<{ made: string[]; found: string[] }>;
  /** Bundles a program as a page would be, and starts it. */
  start(program: string, environment: Readonly<Record<string, string>>): Promise<Running>;
  /** Starts what is bundled already. */
  startBundle(program: string, environment: Readonly<Record<string, string>>): Running;
}

/** A copy of a folder of test/clients in which its tools can write, with `schema.graphql` beside it. */
export function clientFolder(name: string): ClientFolder {
  const source = join(root, 'test/clients', name);
  const outer = temporaryFolder();
  const path = join(outer, 'service/client');
  cpSync(source, path, { recursive: true, filter: (from) => basename(from) !== 'node_modules' });
  cpSync(join(root, 'schema.graphql'), join(path, 'schema.graphql'));
  // npm puts some packages beside the client's, and the others beside those of the service.
  symlinkSync(join(root, 'node_modules'), join(outer, 'node_modules'));
  // The service itself, whose package has a client, too.
  mkdirSync(join(outer, 'service/node_modules'));
  symlinkSync(root, join(outer, 'service/node_modules/conversation-service'));
  if (existsSync(join(source, 'node_modules'))) symlinkSync(join(source, 'node_modules'), join(path, 'node_modules'));
  const programs = [join(path, 'node_modules/.bin'), join(outer, 'node_modules/.bin'), process.env['PATH']];
  const options = { cwd: path, env: { ...process.env, PATH: programs.join(delimiter) } };

  const typeCheck = () =>
    run('tsc', ['-p', '.', '--pretty', 'false'], options).then(
      ({ stdout }) => stdout,
      ({ stdout, stderr }: { stdout: string; stderr: string }) => stdout + stderr,
    );
  const startBundle: ClientFolder['startBundle'] = (program, environment) =>
    start([], { main: join(path, program), environment });
  return {
    path,
    tool: (tool, ...args) => run(tool, args, options),
    typeCheck,
    async mistaken(mistakes) {
      const made = Object.entries(mistakes).flatMap(([program, replacements]) => {
        const file = join(path, program);
        let text = readFileSync(file, 'utf8');
        const places = Object.entries(replacements).map(([right, wrong]) => {
          const [before = '', ...after] = text.split(right);
          if (after.length !== 1) throw new Error(`"${right}" is ${after.length} times in ${program}.`);
          text = before + wrong + after[0];
          return `${program}:${before.split('\n').length}`;
        });
        writeFileSync(file, text);
        return places;
      });
      const found = [...(await typeCheck()).matchAll(/^(\S+)\((\d+),/gm)].map(
        ([, program, line]) => `${program}:${line}`,
      );
      return { made: made.toSorted(), found: [...new Set(found)].toSorted() };
    },
    async start(program, environment) {
      const outfile = program.replace(/\.ts$/, '.mjs');
      const settings = {
        bundle: true,
        format: 'esm',
        platform: 'node',
        packages: 'external',
        logLevel: 'error',
      } as const;
      await build({ ...settings, absWorkingDir: path, entryPoints: [program], outfile });
      return startBundle(outfile, environment);
    },
    startBundle,
  };
}

/** What a program printed last, once it has ended well. */
export async function lastLine(program: Running): Promise<unknown> {
  const { code, stdout, stderr } = await program.ended;
  if (code !== 0 || stderr !== '') throw new Error(`It ended with ${code}: ${stderr}`);
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '');
}
