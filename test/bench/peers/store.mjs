// The database that the benchmark names.

const isPostgres = process.env.BENCH_DATABASE.startsWith('postgres:');
export const { accountOfKey, list, listBody, one, oneBody, send } = await import(
  isPostgres ? './store-postgres.mjs' : './store-sqlite.mjs'
);
