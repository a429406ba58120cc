import type { GraphQLSchema } from 'graphql';
import { graphqlOnlyOperations, operations } from '../domain/operations.ts';
import { builder } from './builder.ts';
import { type Deprecable, type Shapes, withDeprecations } from './deprecation.ts';
import { withErrors } from './error-descriptions.ts';
import { withFreshMutations } from './fresh-mutations.ts';
import { shapes } from './shapes.ts';
import './scalars.ts';
import './node.ts';
import './conversations.ts';
import './messages.ts';
import './create-conversation.ts';
import './leads.ts';
import './events.ts';
import './webhooks.ts';
import './deliveries.ts';
import './analytics.ts';
import './account.ts';
import './api-keys.ts';
import './tokens.ts';

const all = Object.values({ ...operations, ...graphqlOnlyOperations });

/** Builds the schema. Tests pass operations and shapes of their own, to see what is deprecated. */
export function schemaOf(deprecable: readonly Deprecable[] = all, exposed: Shapes = shapes): GraphQLSchema {
  const built = withErrors(withFreshMutations(builder.toSchema()), all);
  return withDeprecations(built, deprecable, exposed);
}

/** The whole GraphQL schema. `schema.graphql` is printed from it. */
export const schema = schemaOf();
