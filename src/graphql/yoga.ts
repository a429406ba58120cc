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
    graphiql: false, // its page is made once: see graphiql.ts
    healthCheckEndpoint: ' ', // it would be any URL that ends in it, and none ends in a space
    parserAndValidationCache: false, // `documents` keeps them, for those as well who don't come this way
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
