import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

// The locations of files that are not imported. In the sources and in the build alike, this module is one folder below
// the root of the package.

const here = import.meta.url;

/** The migrations that drizzle-kit generates. A build includes them and does not read the folder. */
export const migrationsFolder = fileURLToPath(new URL('../drizzle', here));
export const postgresMigrationsFolder = fileURLToPath(new URL('../drizzle/postgres', here));

/** The scripts and styles of `/console`, `/docs` and the page at `/graphql`, which only a build has. */
export const assetsFolder = fileURLToPath(new URL('../dist/assets', here));

/** The chat widget, which only a build has. */
export const widgetScript = fileURLToPath(new URL('../dist/widget.js', here));

/**
 * The program of a thread.
 * @param path below `src`, without the extension; esbuild.config.ts must list it as an entry point
 */
export function threadModule(path: string): URL {
  return new URL(`${path}${extname(here)}`, here);
}
