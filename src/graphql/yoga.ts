import { createYoga } from 'graphql-yoga';
import type { World } from '../domain/ports.ts';
import type { GraphQLContext } from './builder.ts';
import { type GraphQLOptions, type ServerContext, useGraphQL } from './plugin.ts';
import { schema } from './schema.ts';

/** Yoga with our own plugin: all that is asked of `/graphql` over HTTP and has not gone the short way. */
export function createGraphQLServer(world: World, options: GraphQLOptions) {
  return createYoga<ServerContext, GraphQLContext>({
    schema,
    plugins: [useGraphQL(world, options)],
    // Yoga would take any URL that ends in its endpoint for GraphiQL's, and for the health check's.
    graphiql: (_request, context) =>
      /^\/graphql(\?|$)/.test(context?.req.url ?? '') && { title: 'Conversation service', defaultQuery: welcomeQuery },
    healthCheckEndpoint: ' ', // no URL ends in a space
    parserAndValidationCache: false, // `documents` keeps them, for those as well who don't come this way
    renderGraphiQL: async (options) => (await import('@graphql-yoga/render-graphiql')).renderGraphiQL(options),
    batching: true,
    // Each of these is done by our own plugins, on both faces alike.
    cors: false,
    logging: false,
    maskedErrors: false,
    landingPage: false,
    multipart: false,
    maxRequestBodySize: false,
  });
}

const welcomeQuery = `# Put your API key under "Headers" below: { "Authorization": "Bearer cs_…" }
{
  account { name plan rateLimit { remaining resetAt } }
  conversations(first: 5) {
    totalCount
    nodes { id status subject messages(last: 1) { nodes { sender content } } }
  }
}
`;
