import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  BreakingChangeType,
  buildSchema,
  DangerousChangeType,
  findSchemaChanges,
  type GraphQLSchema,
  printSchema,
} from 'graphql';
import { schema } from '../../src/graphql/schema.ts';
import { openApiDocument } from '../../src/rest/openapi/document.ts';
import type { OpenApiDocument } from '../../src/rest/openapi/types.ts';
import { routes } from '../../src/rest/routes.ts';
import { type Change, openApiChanges } from './openapi-changes.ts';

// The last release, as its clients know it: its documents are kept in a folder named after it.

const releases = fileURLToPath(new URL('../release/', import.meta.url));

export interface Release {
  readonly version: string;
  readonly schema: GraphQLSchema;
  readonly openapi: OpenApiDocument;
}

/** The versions of which there are copies; there should be one. */
export const copied = (): string[] => readdirSync(releases);

export function lastRelease(): Release {
  const [version = ''] = copied();
  const read = (name: string) => readFileSync(join(releases, version, name), 'utf8');
  return { version, schema: buildSchema(read('schema.graphql')), openapi: JSON.parse(read('openapi.json')) };
}

/** Puts copies of today's documents in the place of those of the last release. */
export function copyRelease(version: string): void {
  for (const name of copied()) rmSync(join(releases, name), { recursive: true });
  mkdirSync(join(releases, version));
  const write = (name: string, text: string) => writeFileSync(join(releases, version, name), `${text}\n`);
  write('schema.graphql', printSchema(schema));
  write('openapi.json', JSON.stringify(openApiDocument(routes), null, 2));
}

/** What has changed since a release for clients of GraphQL and REST. */
export function changesSince(release: Release): Change[] {
  return [
    ...graphqlChanges(release.schema, schema),
    ...openApiChanges(release.openapi, JSON.parse(JSON.stringify(openApiDocument(routes)))),
  ];
}

/** What may not be released as this version: a change that breaks clients needs a new major version. */
export function refused(changes: readonly Change[], last: string, next: string): string[] {
  const isNewMajor = Number.parseInt(next, 10) > Number.parseInt(last, 10);
  return isNewMajor ? [] : textsOf(changes, 'breaking');
}

export function textsOf(changes: readonly Change[], weight: Change['weight']): string[] {
  return changes.filter((change) => change.weight === weight).map(({ text }) => text);
}

export const advice = (version: string): string =>
  `This breaks clients of release ${version}. Keep what they use, or release a new major version: see "Releases" in CONTRIBUTING.md.`;

/** The library counts as dangerous, too, that one more argument can be given; but who does not know it does not give it. */
const risky: readonly string[] = Object.values(DangerousChangeType).filter((type) => !type.startsWith('OPTIONAL_'));
const breaking: readonly string[] = Object.values(BreakingChangeType);

export function graphqlChanges(before: GraphQLSchema, after: GraphQLSchema): Change[] {
  return findSchemaChanges(before, after).flatMap(({ type, description }): Change[] => {
    const text = `GraphQL: ${description}`;
    if (breaking.includes(type)) return [{ weight: 'breaking', text }];
    return risky.includes(type) ? [{ weight: 'risky', text }] : [];
  });
}
