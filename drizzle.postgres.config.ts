import { defineConfig } from 'drizzle-kit';

export default defineConfig({
  dialect: 'postgresql',
  schema: './src/storage/postgres/tables.ts',
  out: './drizzle/postgres',
});
