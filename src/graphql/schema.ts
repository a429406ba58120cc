import { type GraphQLSchema, isObjectType } from 'graphql';
import { deprecationReason, type Operation } from '../domain/operation.ts';
import { graphqlOnlyOperations, operations } from '../domain/operations.ts';
import { builder } from './builder.ts';
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

const opening = `Conversations, messages and events for client programs. Every request needs a credential: \`Authorization: Bearer …\`.

The \`extensions\` of an error contain its \`code\`, a value of \`ErrorCode\`, and the \`requestId\`; for \`VALIDATION_FAILED\` also the faults, at most 100, as \`errors\`, each with a \`pointer\` into the arguments of the field (\`/input/content\`, \`/first\`) and a \`detail\`; for \`CURSOR_EXPIRED\` the \`oldestCursor\` that can be used; and \`retryAfterSeconds\` if waiting helps; for \`RATE_LIMITED\` the \`limit\` that is reached, \`account\` or \`share\`; for \`UNAVAILABLE\` \`outcomeUnknown\`, which is \`true\`, if the change may have been made. A field lists the codes that are specific to it; the others can occur with any request.`;

/** What a field shows of its operation. */
type Described = Pick<Operation, 'name' | 'errors' | 'deprecated'>;

/**
 * Adds the error codes and the deprecation of its operation to each field, and what holds for all to the description of
 * the schema.
 */
function withDescriptions(schema: GraphQLSchema, operations: readonly Described[]): GraphQLSchema {
  const byName = new Map(operations.map((operation) => [operation.name, operation]));
  const types = Object.values(schema.getTypeMap()).filter(isObjectType);
  for (const field of types.flatMap((type) => Object.values(type.getFields()))) {
    const { errors = [], deprecated } = byName.get(field.extensions['operation'] as string) ?? {};
    if (deprecated !== undefined) field.deprecationReason = deprecationReason(deprecated);
    if (errors.length > 0) field.description += `\nErrors: ${errors.map((code) => `\`${code}\``).join(', ')}.`;
  }
  schema.description = opening;
  return schema;
}

const all = Object.values({ ...operations, ...graphqlOnlyOperations });

/** Builds the schema. A test passes operations of its own, to see what is deprecated. */
export function schemaOf(described: readonly Described[] = all): GraphQLSchema {
  return withDescriptions(builder.toSchema(), described);
}

/** The whole GraphQL schema. `schema.graphql` is printed from it. */
export const schema = schemaOf();
