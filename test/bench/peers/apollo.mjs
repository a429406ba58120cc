import { ApolloServer } from '@apollo/server';
import { startStandaloneServer } from '@apollo/server/standalone';
import { GraphQLError } from 'graphql';
import { accountOf, limitHeaders, log, requestIdOf } from './duties.mjs';
import { resolvers, typeDefs } from './schema.mjs';

const logging = {
  async requestDidStart({ contextValue: { accountId, requestId, startedMs } }) {
    return {
      async willSendResponse() {
        log.info({ requestId, accountId, durationMs: performance.now() - startedMs }, 'request');
      },
    };
  },
};
const server = new ApolloServer({ typeDefs, resolvers, introspection: false, plugins: [logging] });
await startStandaloneServer(server, {
  listen: { port: Number(process.env.PORT), host: '127.0.0.1' },
  async context({ req, res }) {
    const startedMs = performance.now();
    const requestId = requestIdOf(req);
    res.setHeader('X-Request-Id', requestId);
    const accountId = accountOf(req.headers.authorization);
    if (accountId === undefined) throw new GraphQLError('Unauthorized', { extensions: { http: { status: 401 } } });
    for (const [name, value] of Object.entries(limitHeaders(accountId))) res.setHeader(name, value);
    return { accountId, requestId, startedMs };
  },
});
