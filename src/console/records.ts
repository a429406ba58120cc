import type { EventOfSocket } from '../client/index.ts';

// What the documents of documents.ts select, as the service answers it.

export type Status = 'ACTIVE' | 'PENDING' | 'CLOSED';

interface Person {
  readonly id: string | null;
  readonly name: string | null;
  readonly email?: string | null;
}

type Metadata = Readonly<Record<string, string | number | boolean>>;

/** A conversation as a row of the inbox. */
export interface Row {
  readonly id: string;
  readonly version: number;
  readonly status: Status;
  readonly subject: string | null;
  readonly visitor: Person | null;
  readonly assignee: Person | null;
  readonly tags: readonly string[];
  readonly messageCount: number;
  readonly lastActivityAt: string;
  readonly lastMessage: { readonly preview: string; readonly sender: string } | null;
  /** Null if this agent has no read position in it. */
  readonly unreadCount: number | null;
  /** Only where it may have changed, and where a conversation is opened. */
  readonly metadata?: Metadata;
}

export interface Message {
  readonly id: string;
  readonly sequence: number;
  readonly sender: 'VISITOR' | 'AGENT' | 'BOT';
  readonly author: Person | null;
  readonly content: string;
  readonly clientId: string | null;
  readonly createdAt: string;
}

/** An event of the log, with what it tells of a conversation, as far as the key may know it. */
export interface LoggedEvent extends EventOfSocket {
  readonly sequence: number;
  readonly erased: boolean;
  readonly conversationId?: string;
  readonly conversation?: { readonly conversationId: string; readonly current: Row | null } | null;
  readonly message?: Message | null;
  readonly readPosition?: { readonly reader: string; readonly sequence: number } | null;
  readonly lead?: { readonly id: string; readonly name: string | null; readonly email: string | null } | null;
}

/** A page of the inbox. */
export interface InboxPage {
  readonly conversations: {
    readonly nodes: readonly Row[];
    readonly pageInfo: { readonly endCursor: string | null; readonly hasNextPage: boolean };
  };
}

export interface ExcerptPart {
  readonly text: string;
  readonly match: boolean;
}

/** A page of what was searched for. */
export interface SearchPage {
  readonly search: {
    readonly nodes: readonly {
      readonly excerpt: readonly ExcerptPart[];
      readonly message: { readonly id: string } | null;
      readonly conversation: Row;
    }[];
    readonly pageInfo: { readonly endCursor: string | null; readonly hasNextPage: boolean };
  };
}

/** A conversation with a page of its messages. */
export interface ThreadPage {
  readonly conversation: Row & {
    readonly messages: {
      readonly nodes: readonly Message[];
      readonly pageInfo: { readonly startCursor: string | null; readonly hasPreviousPage: boolean };
    };
  };
}
