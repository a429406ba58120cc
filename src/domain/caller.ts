import type { Account } from './accounts.ts';
import { DomainError } from './errors.ts';
import type { Sender } from './messages.ts';

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

/** Who is acting: what the credential of a request says, after it was checked. */
export interface Caller {
  readonly account: Account;
  /** The API key that was sent, or that the token sent was made with. */
  readonly keyId: string;
  readonly credential: 'key' | 'token';
  readonly scopes: ReadonlySet<Scope>;
  /** When the credential stops being valid, in epoch milliseconds, if it does. */
  readonly expiresAtMs?: number | undefined;
  /** The one conversation that the caller may see, if it is bound to one. */
  readonly conversationId?: string;
  /** The one sender that the caller may speak as, if it is bound to one. */
  readonly sender?: Sender;
  /** The trace that the request is part of, as a `traceparent`: webhooks that it causes carry it on. */
  readonly traceparent?: string | undefined;
}

/** @throws FORBIDDEN naming the scope that is missing */
export function requireScope(caller: Caller, scope: Scope): void {
  if (!caller.scopes.has(scope)) {
    throw new DomainError('FORBIDDEN', `This needs the scope \`${scope}\`, which the credential does not have.`);
  }
}

/** Whether the caller may see this conversation at all. Others are to look as if they did not exist. */
export function maySee(caller: Caller, conversationId: string): boolean {
  return caller.conversationId === undefined || caller.conversationId === conversationId;
}
