import * as z from 'zod';
import { type Account, limitOf } from './accounts.ts';
import { refuseEnded } from './api-keys.ts';
import { type BoundVisitor, requireScope, type Scope, scopes } from './caller.ts';
import { choices } from './choices.ts';
import { findConversation, visitorShape } from './conversation-record.ts';
import { currentEventCursor } from './event-cursor.ts';
import { idInput, idShape } from './ids.ts';
import { type Sender, senders } from './message-record.ts';
import { evenWithOtherFaults, operation } from './operation.ts';
import { textShape } from './shapes.ts';
import { line } from './text.ts';
import { timeShape, timestamp } from './time.ts';

/** Maximum lifetime of a token. */
export const maxTokenSeconds = 3_600;
const defaultTokenSeconds = 900;

/**
 * How many requests in any 60 minutes the tokens bound to the same may send: as many as the token says or, by default, 60 or
 * a fiftieth of the account's limit, whichever is more; and never more than half of that limit.
 */
export function shareOf(account: Account, requestsPerHour: number | null | undefined): number {
  const limit = limitOf(account);
  return Math.min(requestsPerHour ?? Math.max(60, Math.floor(limit / 50)), Math.max(1, Math.floor(limit / 2)));
}

/** The claims of a token. */
export interface TokenGrant {
  readonly accountId: string;
  /** The API key that created it. The token ends with its key. */
  readonly keyId: string;
  readonly scopes: readonly Scope[];
  /** The only conversation it gives access to, or null. */
  readonly conversationId: string | null;
  /** The visitor to whose conversations alone it gives access, or null. */
  readonly visitor: BoundVisitor | null;
  /** The share of the account's requests that it asks for, if it is bound and asks for any. */
  readonly requestsPerHour: number | null;
  /** The only sender it can send messages as, or null. */
  readonly sender: Sender | null;
  /** Whether it can run registered GraphQL documents only. */
  readonly trustedDocumentsOnly: boolean;
  /** Epoch seconds. */
  readonly issuedAtSeconds: number;
  /** Epoch seconds, exclusive. */
  readonly expiresAtSeconds: number;
}

/**
 * The only sender that a token can send as. A bound token is for a page of a visitor, and no page that was not told to
 * may speak as an agent.
 */
function senderOf({ conversationId, visitor, sender }: Pick<TokenGrant, 'conversationId' | 'visitor' | 'sender'>) {
  if (visitor !== null) return 'visitor';
  return sender ?? (conversationId === null ? null : 'visitor');
}

export const newTokenShape = z
  .object({
    token: textShape(
      'The token, a JWT (RFC 7519), to be sent as `Authorization: Bearer …`.',
      'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhY2N0In0.c2lnbmF0dXJl',
    ),
    expiresAt: timeShape.describe('When it expires.'),
    scopes: z.array(z.enum(scopes)).readonly().describe('Its scopes.'),
    conversationId: idShape('conversation')
      .nullable()
      .describe('The only conversation it gives access to; null for all, or for all of its visitor.'),
    visitor: visitorShape
      .nullable()
      .describe('The visitor to whose conversations alone it gives access; null if it is not bound to one.'),
    sender: z.enum(senders).nullable().describe('The only sender it can send messages as; null for any.'),
    requestsPerHour: z
      .int()
      .min(1)
      .nullable()
      .describe(
        'How many requests it may send in any 60 minutes, together with other tokens that are bound to the same; null if it is bound to nothing.',
      )
      .meta({ examples: [60] }),
    trustedDocumentsOnly: z
      .boolean()
      .describe('Whether it can run registered GraphQL documents only, and call nothing else.'),
  })
  .meta({ id: 'NewToken', description: 'A new token. It is not stored and cannot be shown again.' });

export type NewToken = Readonly<z.output<typeof newTokenShape>>;

const lifetimeFault = `must be between 60 and ${maxTokenSeconds}`;

export const createToken = operation({
  name: 'createToken',
  summary: 'Creates a short-lived token for a browser page, where an API key must never be used.',
  scope: 'any',
  keysOnly: true,
  input: z
    .strictObject({
      scopes: choices(scopes).describe('Its scopes, each of which the calling API key must have.'),
      conversationId: idInput('conversation')
        .nullable()
        .default(null)
        .describe('Restricts the token to reading this conversation, sending messages to it and following its events.'),
      visitor: z
        .strictObject({
          id: line(128, 1)
            .describe('The visitor’s id in the client’s system.')
            .meta({ examples: ['customer-7'] }),
          name: line(200)
            .nullable()
            .default(null)
            .describe('The visitor’s name, in conversations that the token starts.')
            .meta({ examples: ['Ada'] }),
          email: line(320)
            .nullable()
            .default(null)
            .describe('The visitor’s email address, in conversations that the token starts.'),
        })
        .nullable()
        .default(null)
        .describe(
          'Restricts the token to the conversations of this visitor: to listing and reading them, following their events, starting new ones, sending messages and capturing leads in them, and moving the read position of `visitor`. Not together with `conversationId`.',
        ),
      sender: z
        .enum(senders)
        .nullable()
        .default(null)
        .describe(
          'Restricts the token to sending messages as this sender. A token bound to a conversation sends as `visitor` unless another is given, and one bound to a visitor always does.',
        ),
      requestsPerHour: z
        .int({ error: 'must be an integer' })
        .min(1, { error: 'must be at least 1' })
        .max(1_000_000_000, { error: 'must be at most 1000000000' })
        .nullish()
        .describe(
          'For a token bound to a conversation or a visitor: how many of the account’s requests it may spend in any 60 minutes, together with other tokens that are bound to the same. By default the larger of 60 and a fiftieth of the account’s limit, and never more than half of that.',
        )
        .meta({ examples: [60] }),
      trustedDocumentsOnly: z
        .boolean({ error: 'must be a boolean' })
        .nullish()
        .describe(
          'Restricts the token to running registered GraphQL documents, by their ids: it can send no other document, and cannot call REST.',
        ),
      expiresInSeconds: z
        .int({ error: 'must be an integer' })
        .min(60, { error: lifetimeFault })
        .max(maxTokenSeconds, { error: lifetimeFault })
        .nullish()
        .describe(
          `Lifetime in seconds: 60 to ${maxTokenSeconds}, by default ${defaultTokenSeconds}. The token ends with its API key in any case.`,
        ),
    })
    .refine(({ conversationId, visitor }) => conversationId == null || visitor == null, {
      path: ['visitor'],
      error: 'cannot be used together with `conversationId`',
      ...evenWithOtherFaults,
    })
    .refine(
      ({ conversationId, visitor, requestsPerHour }) => requestsPerHour == null || (conversationId ?? visitor) != null,
      {
        path: ['requestsPerHour'],
        error: 'is only for a token that is bound to a conversation or a visitor',
        ...evenWithOtherFaults,
      },
    )
    // All examples of its fields together would be refused.
    .meta({
      examples: [
        {
          scopes: ['conversations:read', 'conversations:write'],
          visitor: { id: 'customer-7', name: 'Ada' },
          requestsPerHour: 60,
        },
      ],
    }),
  errors: ['NOT_FOUND'],
  async run(context, input): Promise<{ token: NewToken; eventCursor: string }> {
    const { caller, storage, tokens, now } = context;
    for (const scope of input.scopes) requireScope(caller, scope);
    if (input.conversationId !== null) await findConversation(storage.read, caller, input.conversationId);
    const accountId = caller.account.id;
    // JWTs have times in whole seconds. Rounded down, so that no token outlives the requested time.
    const issuedAtSeconds = Math.floor(now / 1_000);
    const keyEndsSeconds = Math.floor((caller.expiresAtMs ?? Number.POSITIVE_INFINITY) / 1_000);
    const grant: TokenGrant = {
      accountId,
      keyId: caller.keyId,
      scopes: scopes.filter((scope) => input.scopes.includes(scope)),
      conversationId: input.conversationId,
      visitor: input.visitor,
      requestsPerHour: input.requestsPerHour ?? null,
      sender: senderOf(input),
      trustedDocumentsOnly: input.trustedDocumentsOnly ?? false,
      issuedAtSeconds,
      expiresAtSeconds: Math.min(issuedAtSeconds + (input.expiresInSeconds ?? defaultTokenSeconds), keyEndsSeconds),
    };
    const eventCursor = await currentEventCursor(storage.read, accountId);
    await refuseEnded(storage.read, context);
    return {
      token: {
        token: await tokens.sign(grant),
        expiresAt: timestamp(grant.expiresAtSeconds * 1_000),
        scopes: grant.scopes,
        conversationId: grant.conversationId,
        visitor: grant.visitor,
        sender: grant.sender,
        requestsPerHour:
          (grant.conversationId ?? grant.visitor) === null ? null : shareOf(caller.account, grant.requestsPerHour),
        trustedDocumentsOnly: grant.trustedDocumentsOnly,
      },
      eventCursor,
    };
  },
});
