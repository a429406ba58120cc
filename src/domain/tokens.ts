import { z } from 'zod';
import { requireScope, type Scope, scopes } from './caller.ts';
import { choices } from './choices.ts';
import { findConversation } from './conversation.ts';
import { currentEventCursor } from './event-cursor.ts';
import { idInput, idShape } from './ids.ts';
import { type Sender, senders } from './messages.ts';
import { operation } from './operation.ts';
import { timeShape, timestamp } from './time.ts';

/** No token is valid for longer. */
export const maxTokenSeconds = 3_600;
const defaultTokenSeconds = 900;

/** What a token says of its bearer: what it may do, for how long, and by whose leave. */
export interface TokenGrant {
  readonly accountId: string;
  /** The API key that it was made with, and dies with. */
  readonly keyId: string;
  readonly scopes: readonly Scope[];
  /** The one conversation that it may see, or null. */
  readonly conversationId: string | null;
  /** The one sender that it may speak as, or null. */
  readonly sender: Sender | null;
  /** Epoch seconds. */
  readonly issuedAtSeconds: number;
  /** Epoch seconds: from this moment on it is not valid. */
  readonly expiresAtSeconds: number;
}

export const newTokenShape = z
  .object({
    token: z
      .string()
      .describe('The token itself, a JWT (RFC 7519): what to send as the credential.')
      .meta({ examples: ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhY2N0In0.c2lnbmF0dXJl'] }),
    expiresAt: timeShape.describe('When it stops being valid.'),
    scopes: z.array(z.enum(scopes)).readonly().describe('What it may do.'),
    conversationId: idShape('conversation').nullable().describe('The one conversation that it may see, or null.'),
    sender: z.enum(senders).nullable().describe('The one sender that it may speak as, or null.'),
  })
  .meta({ id: 'NewToken', description: 'A token at the one moment at which it can be shown: it is not stored.' });

export type NewToken = Readonly<z.output<typeof newTokenShape>>;

const lifetimeFault = `must be between 60 and ${maxTokenSeconds}`;

export const createToken = operation({
  name: 'createToken',
  summary: 'Makes a short-lived token for a browser page, where an API key must never be.',
  scope: 'any',
  keysOnly: true,
  input: z.strictObject({
    scopes: choices(scopes).describe('What it may do: nothing that the calling API key may not.'),
    conversationId: idInput('conversation')
      .nullable()
      .default(null)
      .describe('Binds it to this conversation: it can read that one, write into it and follow its events, only.'),
    sender: z.enum(senders).nullable().default(null).describe('Lets it send messages as this sender only.'),
    expiresInSeconds: z
      .int({ error: 'must be an integer' })
      .min(60, { error: lifetimeFault })
      .max(maxTokenSeconds, { error: lifetimeFault })
      .nullish()
      .describe(
        `How long it is valid: 60 to ${maxTokenSeconds}, by default ${defaultTokenSeconds}. It ends with its API key in any case.`,
      ),
  }),
  errors: ['NOT_FOUND'],
  async run({ caller, storage, tokens, now }, input): Promise<{ token: NewToken; eventCursor: string }> {
    for (const scope of input.scopes) requireScope(caller, scope);
    if (input.conversationId !== null) await findConversation(storage.read, caller, input.conversationId);
    const accountId = caller.account.id;
    // A JWT's times are whole seconds: rounded down, so that no token is valid for longer than was asked for.
    const issuedAtSeconds = Math.floor(now / 1_000);
    const keyEndsSeconds = Math.floor((caller.expiresAtMs ?? Number.POSITIVE_INFINITY) / 1_000);
    const grant: TokenGrant = {
      accountId,
      keyId: caller.keyId,
      scopes: scopes.filter((scope) => input.scopes.includes(scope)),
      conversationId: input.conversationId,
      sender: input.sender,
      issuedAtSeconds,
      expiresAtSeconds: Math.min(issuedAtSeconds + (input.expiresInSeconds ?? defaultTokenSeconds), keyEndsSeconds),
    };
    return {
      token: {
        token: await tokens.sign(grant),
        expiresAt: timestamp(grant.expiresAtSeconds * 1_000),
        scopes: grant.scopes,
        conversationId: grant.conversationId,
        sender: grant.sender,
      },
      eventCursor: await currentEventCursor(storage.read, accountId),
    };
  },
});
