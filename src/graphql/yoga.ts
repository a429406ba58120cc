import { createYoga } from 'graphql-yoga';
import type { World } from '../domain/ports.ts';
import type { GraphQLContext } from './builder.ts';
import { type GraphQLOptions, type ServerContext, useGraphQL } from './plugin.ts';
import { schema } from './schema.ts';

/** Yoga with our plugin: handles all requests to `/graphql` over HTTP that the fast path leaves. */
export function createGraphQLServer(world: World, options: GraphQLOptions) {
  return createYoga<ServerContext, GraphQLContext>({
    schema,
    plugins: [useGraphQL(world, options)],
    graphiql: false, // graphiql.ts serves the page
    healthCheckEndpoint: ' ', // Yoga answers any URL that ends in it, and none ends in a space
    parserAndValidationCache: false, // `documents` caches them, for the fast path and for sockets too
    batching: true,
    // The service does these itself, in the same way for REST and GraphQL.
    cors: false,
    logging: false,
    maskedErrors: false,
    landingPage: false,
    multipart: false,
    maxRequestBodySize: false,
  });
}
