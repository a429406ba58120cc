import { ApolloServer } from '@apollo/server';
import { startStandaloneServer } from '@apollo/server/standalone';
import { resolvers, typeDefs } from './schema.mjs';

const server = new ApolloServer({ typeDefs, resolvers, introspection: false });
await startStandaloneServer(server, { listen: { port: Number(process.env.PORT), host: '127.0.0.1' } });
console.log('listening');
