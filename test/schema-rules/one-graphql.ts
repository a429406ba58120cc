import { registerHooks } from 'node:module';

// The packages that GraphQL ESLint needs lie beside those of the service, where they would find its newer graphql and
// make schemas that GraphQL ESLint does not know as such. All of them get the one of this package.
registerHooks({
  resolve: (specifier, context, next) =>
    next(specifier, /^graphql(\/|$)/.test(specifier) ? { ...context, parentURL: import.meta.url } : context),
});
