import { randomFillSync } from 'node:crypto';
import { createYoga } from 'graphql-yoga';
import type { Logger } from 'pino';
import { Door } from './access/admit.ts';
import type { ServerContext } from './access/exchange.ts';
import { useExchange } from './access/plugin.ts';
import { RateLimiter } from './access/rate-limit.ts';
import { secrets } from './access/secrets.ts';
import { createIds } from './domain/ids.ts';
import type { Clock, Storage, World } from './domain/ports.ts';
import type { GraphQLContext } from './graphql/builder.ts';
import { useGraphQL } from './graphql/plugin.ts';
import { schema } from './graphql/schema.ts';
import { useRest } from './rest/plugin.ts';

export interface AppOptions {
  readonly storage: Storage;
  readonly clock: Clock;
  readonly log: Logger;
  readonly publicUrl?: string | undefined;
  readonly trustedProxies?: number;
}

export interface App {
  readonly world: World;
  /** The request listener for a Node HTTP server. */
  readonly yoga: ReturnType<typeof createYoga<ServerContext, GraphQLContext>>;
  /** Hands back what the limiter holds of minutes that have passed. To be called every minute or so. */
  tick(): Promise<void>;
  /** Hands back all that the limiter holds. The storage is its owner's to close. */
  close(): Promise<void>;
}

/** Brings everything together: one Yoga server with both faces. It never listens; `cli/serve.ts` does. */
export function buildApp({ storage, clock, log, publicUrl, trustedProxies = 0 }: AppOptions): App {
  const limiter = new RateLimiter({ storage, clock });
  const world: World = { storage, clock, ids: createIds((target) => randomFillSync(target)), secrets, limiter };
  const door = new Door(world, limiter, {
    publicUrl,
    trustedProxies,
    onError: (error) => log.warn({ err: error }, 'could not note the use of a key'),
  });
  const yoga = createYoga<ServerContext, GraphQLContext>({
    schema,
    plugins: [useExchange({ clock, log }), useRest(world, { door, log }), useGraphQL(world, { door, log })],
    graphiql: { title: 'Conversation service', defaultQuery: welcomeQuery },
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
  return {
    world,
    yoga,
    tick: () => limiter.handBack(),
    close: () => limiter.handBack({ all: true }),
  };
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
