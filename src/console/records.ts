import type { EventOfSocket } from '../client/index.ts';

// What the documents of documents.ts select, as the service answers it.

export type Status = 'ACTIVE' | 'PENDING' | 'CLOSED';

export interface Person {
  readonly id: string | null;
  readonly name: string | null;
  readonly email?: string | null;
}

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
  readonly createdAt: string;
  readonly lastActivityAt: string;
  readonly lastMessage: { readonly preview: string; readonly sender: string } | null;
  /** Null if this agent has not read anything of it. */
  readonly unreadCount: number | null;
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

/** An event of the log, with what it tells of a conversation. */
export interface LoggedEvent extends EventOfSocket {
  readonly sequence: number;
  readonly erased: boolean;
  readonly conversationId?: string;
  readonly conversation?: { readonly conversationId: string; readonly current: Omit<Row, 'unreadCount'> | null } | null;
  readonly message?: Message | null;
  readonly readPosition?: { readonly reader: string; readonly sequence: number } | null;
  readonly lead?: { readonly id: string; readonly name: string | null; readonly email: string | null } | null;
}
