import { ServiceError } from '../../client/index.ts';
import type { Live } from '../live.ts';
import type { Session } from '../session.ts';

/** What the parts of the inbox share. */
export interface Context {
  readonly session: Pick<Session, 'client' | 'agent' | 'scopes'>;
  readonly live: Live;
  /** Draws anew. */
  readonly changed: () => void;
}

export async function ask<Data>(
  { session: { client } }: Context,
  document: string,
  variables: object,
  options: { readonly signal?: AbortSignal; readonly isRepeatable?: boolean } = {},
): Promise<Data> {
  return await client.graphql<Data>(document, variables, options);
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof ServiceError ? error.code : undefined;
}
