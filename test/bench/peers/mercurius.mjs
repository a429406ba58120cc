import mercurius from 'mercurius';
import { app } from './fastify-app.mjs';
import { resolvers, typeDefs } from './schema.mjs';

const context = ({ accountId }) => ({ accountId });
await app.register(mercurius, { schema: typeDefs, resolvers, context, jit: 1 });
await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' });
