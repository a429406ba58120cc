/** Builds what the tests of the program run, before the first of them. */
export async function setup(): Promise<void> {
  await import('../../esbuild.config.ts');
}
