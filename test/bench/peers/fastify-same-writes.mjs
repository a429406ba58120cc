// Fastify whose sends write the same as those of the service, and on the disk before the response.

process.env.BENCH_WRITES = 'all';
await import('./fastify.mjs');
