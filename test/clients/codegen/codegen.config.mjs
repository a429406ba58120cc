export default {
  schema: './schema.graphql',
  documents: 'page.ts',
  generates: {
    './generated/': {
      preset: 'client',
      presetConfig: { persistedDocuments: true, fragmentMasking: false },
      config: {
        scalars: { DateTime: 'string', JSON: 'unknown', Metadata: 'Record<string, string | number | boolean>' },
      },
    },
  },
};
