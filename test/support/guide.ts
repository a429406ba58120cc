import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const guide = readFileSync(fileURLToPath(new URL('../../GUIDE.md', import.meta.url)), 'utf8');

/** The code that the GUIDE shows under a heading, in one language. */
export function codeUnder(heading: string, language = 'js'): string {
  const [, section = ''] = guide.split(new RegExp(`^#+ ${heading}\n`, 'm'));
  const [ownText = ''] = section.split(/^#{1,3} /m);
  const blocks = [...ownText.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`\n`, 'gm'))].map(
    ([, code = '']) => code,
  );
  if (blocks.length === 0) throw new Error(`The GUIDE shows no code under "${heading}".`);
  return blocks.join('\n');
}

/**
 * Runs the code that the GUIDE shows under a heading, as a page would.
 * @param result what the code has defined, as an expression, such as `{ client, send }`
 * @param modules what it imports, by the name of the module
 * @param globals what else it finds in the page, such as `fetch`
 * @param edit changes what is only an example, such as the address of the service
 */
export async function runGuide<Result>(
  heading: string,
  result: string,
  modules: Readonly<Record<string, object>>,
  globals: Readonly<Record<string, unknown>> = {},
  edit: (code: string) => string = (code) => code,
): Promise<Result> {
  const code = edit(codeUnder(heading)).replace(
    /^import (\{[^}]*\}|\w+) from ('[^']*');$/gm,
    (_, names: string, module: string) =>
      `const ${names.startsWith('{') ? names.replaceAll(' as ', ': ') : `{ default: ${names} }`} = modules[${module}];`,
  );
  const run = new Function(
    'modules',
    ...Object.keys(globals),
    `return (async () => { ${code}\nreturn ${result}; })();`,
  );
  return await run(modules, ...Object.values(globals));
}
