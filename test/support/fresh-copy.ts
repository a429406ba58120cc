import { execFileSync } from 'node:child_process';
import { cpSync, lstatSync, mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { variables } from '../../src/config.ts';

// The repository as somebody has it who has just cloned it.

const root = fileURLToPath(new URL('../..', import.meta.url));

/** The environment of a user’s shell, without the variables of this npm run, of vitest or of the service. */
export function userEnvironment(): Record<string, string> {
  const own = new Set(['INIT_CWD', 'NODE', 'NODE_ENV', 'NODE_OPTIONS', 'CI', 'TEST', 'DEV', 'PROD', 'MODE']);
  const kept = Object.entries(process.env).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined &&
      !own.has(entry[0]) &&
      !(entry[0] in variables.shape) &&
      !/^(VITEST|npm_(?!config_)|npm_config_(local_)?prefix$)/i.test(entry[0]),
  );
  const path = (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((folder) => !/[\\/](node_modules[\\/]\.bin|node-gyp-bin)[\\/]?$/.test(folder));
  return {
    ...Object.fromEntries(kept),
    PATH: path.join(delimiter),
    npm_config_prefer_offline: 'true',
    npm_config_audit: 'false',
    npm_config_fund: 'false',
  };
}

/** What a clone of the repository would hold, and no more. */
export function freshCopy(): string {
  const folder = mkdtempSync(join(tmpdir(), 'conversation-service-'));
  // Removing a whole node_modules is slow.
  onTestFinished(() => rm(folder, { recursive: true, force: true }), 60_000);
  const files = execFileSync('git', ['ls-files', '-z', '-co', '--exclude-standard'], { cwd: root, encoding: 'utf8' });
  for (const file of files.split('\0')) {
    // A symbolic link, such as a shared node_modules, would let `npm ci` empty the folder it points to.
    const isFile = file !== '' && lstatSync(join(root, file), { throwIfNoEntry: false })?.isFile() === true;
    if (isFile) cpSync(join(root, file), join(folder, file));
  }
  return folder;
}
