// Bundles the page, with Relay's Babel plugin in front, which puts what the compiler has made in the documents' place.
import { transformFileAsync } from '@babel/core';
import { build } from 'esbuild';

const relay = {
  name: 'relay',
  setup({ onLoad }) {
    onLoad({ filter: /\/documents\.ts$/ }, async ({ path }) => {
      const settings = { configFile: false, parserOpts: { plugins: ['typescript'] } };
      const { code } = await transformFileAsync(path, { ...settings, plugins: [['relay', { eagerEsModules: true }]] });
      return { contents: code, loader: 'ts' };
    });
  },
};

await build({
  entryPoints: ['page.ts'],
  outfile: 'page.mjs',
  bundle: true,
  format: 'esm',
  platform: 'node',
  packages: 'external',
  plugins: [relay],
});
