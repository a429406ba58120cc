export * from '../../src/layout.ts';

/** As in the program: threads begin several times as fast with what is built, and hundreds are started. */
export function threadModule(path: string): URL {
  return new URL(`../../dist/${path}.js`, import.meta.url);
}
