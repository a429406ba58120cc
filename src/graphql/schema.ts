import type { GraphQLSchema } from 'graphql';
import { operations } from '../domain/operations.ts';
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

/** Makes the schema. Other operations and shapes than the service's own are for tests. */
export function schemaOf(
  ofOperations: readonly Deprecable[] = Object.values(operations),
  ofTypes: Shapes = shapes,
): GraphQLSchema {
  const made = withErrors(withFreshMutations(builder.toSchema()), Object.values(operations));
  return withDeprecations(made, ofOperations, ofTypes);
}

/** The whole GraphQL schema. `schema.graphql` is printed from it. */
export const schema = schemaOf();
