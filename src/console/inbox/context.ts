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

/** @throws ServiceError, or an Error with what to tell the person */
export async function ask<Data>(
  { session: { client } }: Context,
  document: string,
  variables: object,
  options: { readonly signal?: AbortSignal; readonly isRepeatable?: boolean } = {},
): Promise<Data> {
  try {
    return await client.graphql<Data>(document, variables, options);
  } catch (error) {
    // What `fetch` says differs from browser to browser.
    if (error instanceof TypeError) throw new Error('The service cannot be reached.');
    throw error;
  }
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof ServiceError ? error.code : undefined;
}
