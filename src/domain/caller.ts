import type { Account } from './accounts.ts';
import type { Assignee } from './conversation-record.ts';
import { DomainError } from './errors.ts';
import type { Sender } from './message-record.ts';
import type { Metadata } from './metadata.ts';

export const scopes = [
  'conversations:read',
  'conversations:write',
  'leads:read',
  'leads:write',
  'events:read',
  'webhooks:manage',
  'analytics:read',
  'keys:manage',
] as const;
export type Scope = (typeof scopes)[number];

/** The caller of an operation, as established from its credential. */
export interface Caller {
  readonly account: Account;
  /** The API key that was sent, or that created the token that was sent. */
  readonly keyId: string;
  /** The operator of the machine calls without a credential, from the command line. */
  readonly credential: 'key' | 'token' | 'operator';
  readonly scopes: ReadonlySet<Scope>;
  /** When the credential expires, in epoch milliseconds, if it does. */
  readonly expiresAtMs?: number | undefined;
  /** The only conversation that the caller may see, if it is bound to one. */
  readonly conversationId?: string;
  /** How many requests in any 60 minutes its token asks for, of the conversation's share: see `shareOf`. */
  readonly requestsPerHour?: number;
  /** The only sender that the caller may send as, if it is bound to one. */
  readonly sender?: Sender;
  /** The trace of the request, as a `traceparent`: the webhooks that it causes propagate it. */
  readonly traceparent?: string | undefined;
}

/** The same for unknown, expired and revoked credentials, so that it does not reveal which of them exist. */
export function unauthenticated(): DomainError {
  return new DomainError('UNAUTHENTICATED', 'The credential is unknown, expired or revoked.');
}

/** @throws FORBIDDEN naming the missing scope */
export function requireScope(caller: Caller, scope: Scope): void {
  if (!caller.scopes.has(scope)) {
    throw new DomainError('FORBIDDEN', `This needs the scope \`${scope}\`, which the credential does not have.`);
  }
}

/**
 * A conversation or a message as the caller may see it. One who is bound to the conversation sees what its visitor may:
 * no metadata and no tags, and no id of the client's own system, of the assignee neither.
 */
export function shownTo<T extends Guarded>(caller: Caller | undefined, resource: T): T {
  if (caller?.conversationId === undefined) return resource;
  const { externalId, assignee, tags } = resource;
  return {
    ...resource,
    metadata: {},
    ...(externalId !== undefined && { externalId: null }),
    ...(assignee != null && { assignee: { ...assignee, id: null } }),
    ...(tags !== undefined && { tags: [] }),
  };
}

/** What only some may see. */
interface Guarded {
  readonly metadata: Metadata;
  readonly externalId?: string | null;
  readonly assignee?: Assignee | null;
  readonly tags?: readonly string[];
}

/** Whether the caller may see this conversation. One that it may not see must look as if it did not exist. */
export function maySee(caller: Caller, conversationId: string): boolean {
  return caller.conversationId === undefined || caller.conversationId === conversationId;
}
