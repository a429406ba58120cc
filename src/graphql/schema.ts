import type { GraphQLSchema } from 'graphql';
import { graphqlOnlyOperations, operations } from '../domain/operations.ts';
import { builder } from './builder.ts';
import { withFreshMutations } from './fresh-mutations.ts';
import { type Described, withDescriptions } from './operation-descriptions.ts';
import './scalars.ts';
import './error-code.ts';
import './node.ts';
import './conversations.ts';
import './messages.ts';
import './read-positions.ts';
import './create-conversation.ts';
import './search.ts';
import './leads.ts';
import './events.ts';
import './webhooks.ts';
import './deliveries.ts';
import './analytics.ts';
import './account.ts';
import './api-keys.ts';
import './tokens.ts';
import './trusted-documents.ts';

const all = Object.values({ ...operations, ...graphqlOnlyOperations });

/** Builds the schema. A test passes operations of its own, to see what is deprecated. */
export function schemaOf(described: readonly Described[] = all): GraphQLSchema {
  return withDescriptions(withFreshMutations(builder.toSchema()), described);
}

/** The whole GraphQL schema. `schema.graphql` is printed from it. */
export const schema = schemaOf();
