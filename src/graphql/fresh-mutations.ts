import type { GraphQLFieldResolver, GraphQLSchema } from 'graphql';
import type { GraphQLContext } from './builder.ts';

/**
 * Clears the loaders before each mutation of a document. Mutations run one after the other, so the second may change
 * what the first has loaded.
 */
export function withFreshMutations(schema: GraphQLSchema): GraphQLSchema {
  for (const field of Object.values(schema.getMutationType()?.getFields() ?? {})) {
    const resolve = field.resolve as GraphQLFieldResolver<unknown, GraphQLContext> | undefined;
    if (resolve === undefined) throw new Error(`The mutation ${field.name} has no resolver`);
    field.resolve = (source, args, context: GraphQLContext, info) => {
      context.loaders.forget();
      return resolve(source, args, context, info);
    };
  }
  return schema;
}
