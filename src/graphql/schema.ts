import { operations } from '../domain/operations.ts';
import { builder } from './builder.ts';
import { withDeprecations } from './deprecation.ts';
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

/** The whole GraphQL schema. `schema.graphql` is printed from it. */
export const schema = withDeprecations(builder.toSchema(), Object.values(operations));
