import type { Account } from './accounts.ts';
import type { Assignee, Conversation } from './conversation-record.ts';
import { DomainError, pointer } from './errors.ts';
import type { Author, Message, Sender } from './message-record.ts';

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
  /** The visitor whose conversations are the only ones that the caller may see, if it is bound to one. */
  readonly visitor?: BoundVisitor;
  /** How many requests in any 60 minutes its token asks for, of the share of what it is bound to: see `shareOf`. */
  readonly requestsPerHour?: number;
  /** The only sender that the caller may send as, if it is bound to one. */
  readonly sender?: Sender;
  /** Set if it may run registered GraphQL documents, and do nothing else. */
  readonly trustedDocumentsOnly?: true;
  /** The trace of the request, as a `traceparent`: the webhooks that it causes propagate it. */
  readonly traceparent?: string | undefined;
}

const scopeSets = new Map<string, ReadonlySet<Scope>>();

/**
 * One set for all callers that have the same scopes: ten thousand sockets hold a caller each.
 * @param granted in the order of `scopes`, so that there are 256 sets at most
 */
export function scopeSet(granted: readonly Scope[]): ReadonlySet<Scope> {
  const key = granted.join(' ');
  const known = scopeSets.get(key) ?? new Set(granted);
  scopeSets.set(key, known);
  return known;
}

/** Who operates the service, in the name of an account: with every scope. */
export function operatorOf(account: Account): Caller {
  return { account, keyId: 'operator', credential: 'operator', scopes: scopeSet(scopes) };
}

/** The visitor that a token is bound to, and who starts the conversations that it starts. */
export interface BoundVisitor {
  readonly id: string;
  readonly name: string | null;
  readonly email: string | null;
}

type Binding = Pick<Caller, 'conversationId' | 'visitor'>;

/** Whether the caller may see some conversations only, and of them what a visitor may. */
export function isBound({ conversationId, visitor }: Binding): boolean {
  return conversationId !== undefined || visitor !== undefined;
}

/** What the caller is bound to, the same for all its tokens; undefined for one who is bound to nothing. */
export function bindingOf({ conversationId, visitor }: Binding): string | undefined {
  return conversationId ?? (visitor && `visitor ${visitor.id}`);
}

/** What a caller is bound to, in words. */
export function bindingInWords({ visitor }: Binding): string {
  return visitor === undefined ? 'one conversation' : 'a visitor';
}

/** @throws FORBIDDEN for a caller that may run registered GraphQL documents, and do nothing else */
export function refuseTrustedOnly({ trustedDocumentsOnly }: Caller, detail: string): void {
  if (trustedDocumentsOnly === true) throw new DomainError('FORBIDDEN', detail);
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
 * A conversation, a message or a lead as the caller may see it. One who is bound sees what a visitor may: no metadata
 * and no tags, and no id of the client's own system, neither the assignee's nor those of who wrote.
 */
export function shownTo<T extends Guarded>(caller: Caller | undefined, resource: T): T {
  if (caller === undefined || !isBound(caller)) return resource;
  const { externalId, assignee, author, lastMessage, tags } = resource;
  return {
    ...resource,
    metadata: {},
    ...(externalId !== undefined && { externalId: null }),
    ...(assignee !== undefined && { assignee: withoutId(assignee) }),
    ...(author !== undefined && { author: withoutId(author) }),
    ...(lastMessage != null && { lastMessage: { ...lastMessage, author: withoutId(lastMessage.author) } }),
    ...(tags !== undefined && { tags: [] }),
  };
}

/** One of the client's agents, as a visitor may know it. */
export function withoutId<Agent extends Assignee | Author>(agent: Agent | null): (Agent & { id: null }) | null {
  return agent && { ...agent, id: null };
}

/** What only some may see. */
type Guarded = Pick<Message, 'metadata'> &
  Partial<Pick<Message, 'author'> & Pick<Conversation, 'externalId' | 'assignee' | 'lastMessage' | 'tags'>>;

/** Whether the caller may see this conversation. One that it may not see must look as if it did not exist. */
export function maySee(
  { conversationId, visitor }: Caller,
  conversation: Pick<Conversation, 'id' | 'visitor'>,
): boolean {
  return (
    (conversationId === undefined || conversationId === conversation.id) &&
    (visitor === undefined || visitor.id === conversation.visitor?.id)
  );
}

/**
 * Refuses what a caller that is bound to a visitor may not give.
 * @param allowed names of fields, those within another as `message/content`
 * @throws FORBIDDEN that names it
 */
export function refuseOtherFields({ visitor }: Caller, given: object, allowed: readonly string[]): void {
  const other = visitor && otherField(given, allowed);
  if (other === undefined) return;
  throw new DomainError('FORBIDDEN', `A token bound to a visitor may not give \`${pointer(other).slice(1)}\` here.`);
}

/** The path of the first field that is not allowed, if there is one. */
function otherField(given: object, allowed: readonly string[], within: readonly string[] = []): string[] | undefined {
  for (const [name, value] of Object.entries(given)) {
    const path = [...within, name];
    const joined = path.join('/');
    if (value == null || allowed.includes(joined)) continue;
    const isOpened = allowed.some((each) => each.startsWith(`${joined}/`));
    if (!isOpened) return path;
    const other = typeof value === 'object' ? otherField(value, allowed, path) : undefined;
    if (other !== undefined) return other;
  }
  return undefined;
}
