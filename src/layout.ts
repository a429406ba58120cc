import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

// Where the files of the program are that it does not import. This file lies a folder below the package's own in the
// sources, and so does what it is built into.

const here = import.meta.url;

/** The migrations, as drizzle-kit has generated them. What is built has them in it, and needs no folder. */
export const migrationsFolder = fileURLToPath(new URL('../drizzle', here));

/**
 * A module that a thread runs.
 * @param path below `src`, without its ending; esbuild.config.ts has to know it, too
 */
export function threadModule(path: string): URL {
  return new URL(`${path}${extname(here)}`, here);
}
