import type { GraphQLFieldResolver, GraphQLSchema } from 'graphql';
import type { GraphQLContext } from './builder.ts';

/**
 * Has each mutation of a document begin with nothing that was loaded for the one before it. They run one after the
 * other, so what the first has shown, the second may have changed.
 */
export function withFreshMutations(schema: GraphQLSchema): GraphQLSchema {
  for (const field of Object.values(schema.getMutationType()?.getFields() ?? {})) {
    const resolve = field.resolve as GraphQLFieldResolver<unknown, GraphQLContext> | undefined;
    if (resolve === undefined) throw new Error(`The mutation ${field.name} does nothing`);
    field.resolve = (source, args, context: GraphQLContext, info) => {
      context.loaders.forget();
      return resolve(source, args, context, info);
    };
  }
  return schema;
}
