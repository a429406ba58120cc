import type { FaceParts } from '../http/plugin.ts';
import type { Documents } from './documents.ts';
import type { NamedDocuments } from './named-documents.ts';

/** What GraphQL is made of, over HTTP and on sockets. */
export interface GraphQLParts extends FaceParts {
  readonly documents: Documents;
  readonly named: NamedDocuments;
}
